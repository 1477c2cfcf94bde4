//! A scheduler with a large cluster in its cache.

use model::{Object, What};
use scheduler::{Scheduler, Settings};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::manifest::{self, PodTemplate, affine, anti, avoids, plain, prefers, spread};
use super::setup::START;
use crate::{Result, machine};

pub(super) const NODES: usize = 5_000;
pub(super) const PODS: usize = 150_000;
/// Pods per owner, which differ only in their names.
const REPLICAS: usize = 500;
/// The number of pods scheduled per template, so that the scheduler's caches are counted too.
const DECISIONS_PER_TEMPLATE: usize = 100;
const TEMPLATES: [PodTemplate; 6] = [plain, affine, anti, prefers, avoids, spread];

/// The memory of a filled scheduler.
#[derive(Serialize, Deserialize)]
pub(super) struct FilledMemory {
    /// Before the scheduler was created.
    pub(super) before: u64,
    /// After the decisions.
    pub(super) after: u64,
    pub(super) peak: u64,
}

/// Fills a scheduler; its objects are created one after the other and not kept.
pub(super) fn fill() -> Result<FilledMemory> {
    let memory = || machine::memory().ok_or("process memory is only known on Linux");
    let before = memory()?.now;
    let mut scheduler = Scheduler::new(Settings::default());
    for index in 0..NODES {
        let mut node = manifest::node(&format!("node-{index:05}"));
        node["metadata"]["labels"][manifest::ZONE] = json!(format!("moon-{}", index % 3));
        scheduler.apply(START, &What::Added(manifest::object(&node)));
    }
    for index in 0..PODS {
        let node = format!("node-{:05}", index % NODES);
        scheduler.apply(START, &What::Added(replica(index, Some(&node))));
    }
    for index in 0..DECISIONS_PER_TEMPLATE * TEMPLATES.len() {
        let pod = replica(PODS + index * REPLICAS, None);
        let name = pod.meta().name.into_owned();
        scheduler.apply(START, &What::Added(pod));
        scheduler.attempt(START, "sched-0", &name).ok_or("the scheduler does not know the pod")?;
    }
    let after = memory()?;
    Ok(FilledMemory { before, after: after.now, peak: after.peak })
}

/// One pod of an application, which determines its template.
fn replica(index: usize, node: Option<&str>) -> Object {
    let application = index / REPLICAS;
    let mut pod = manifest::pod("sched-0", &format!("app-{application}-{index}"));
    TEMPLATES[application % TEMPLATES.len()](&mut pod, index);
    pod["metadata"]["labels"]["app"] = json!(format!("app-{application}"));
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    manifest::object(&pod)
}

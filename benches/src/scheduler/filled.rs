//! A scheduler that knows a large cluster.

use model::{Object, What};
use scheduler::{Scheduler, Settings};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::manifest::{self, Template, affine, anti, avoids, plain, prefers, spread};
use super::stage::START;
use crate::{Result, machine};

pub(super) const NODES: usize = 5_000;
pub(super) const PODS: usize = 150_000;
/// Pods of one owner: they are alike but for their names.
const REPLICAS: usize = 500;
/// Pods of each kind that are decided about, so that what the scheduler remembers is counted too.
const DECIDED: usize = 100;
const KINDS: [Template; 6] = [plain, affine, anti, prefers, avoids, spread];

/// What a filled scheduler took of memory.
#[derive(Serialize, Deserialize)]
pub(super) struct Filled {
    /// Before there was one.
    pub(super) before: u64,
    /// When it had decided, and the most there ever was.
    pub(super) after: u64,
    pub(super) peak: u64,
}

/// Fills a scheduler; its objects are made one after the other and not kept.
pub(super) fn fill() -> Result<Filled> {
    let memory = || machine::memory().ok_or("only Linux tells a process's memory");
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
    for index in 0..DECIDED * KINDS.len() {
        let pod = replica(PODS + index * REPLICAS, None);
        let name = pod.meta().name.into_owned();
        scheduler.apply(START, &What::Added(pod));
        scheduler.attempt(START, "sched-0", &name).ok_or("a pod was lost")?;
    }
    let after = memory()?;
    Ok(Filled { before, after: after.now, peak: after.peak })
}

/// One pod of an application, which decides its kind.
fn replica(index: usize, node: Option<&str>) -> Object {
    let application = index / REPLICAS;
    let mut pod = manifest::pod("sched-0", &format!("app-{application}-{index}"));
    KINDS[application % KINDS.len()](&mut pod, index);
    pod["metadata"]["labels"]["app"] = json!(format!("app-{application}"));
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    manifest::object(&pod)
}

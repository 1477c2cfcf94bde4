//! Hypothetical pods: read from a manifest, and defaulted as by an API server's admission.

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;

use anyhow::bail;
use formats::{Input, manifests};
use history::Selection;
use kubernetes::admission::{admit, pod_from_template, pod_owner_of, remove_runtime_state};
use model::{Kind, Moment, Object};
use query::{AsOf, OpenHistory, ProgressListener};
use serde_json::Value;

use super::PodSnapshot;
use query::count_noun;

/// A pod, or a workload that creates pods.
#[derive(Clone, Debug)]
pub struct Manifest {
    object: Object,
    /// The number of other objects in the text.
    others: u64,
}

impl Manifest {
    /// Reads the first pod of a text, else the first workload that creates pods; `name` names the text in messages.
    pub fn read(name: &str, reader: Box<dyn Read + Send>) -> anyhow::Result<Manifest> {
        let (mut pod, mut workload): (Option<Object>, Option<Object>) = (None, None);
        let mut kinds: BTreeSet<String> = BTreeSet::new();
        let mut object_count: u64 = 0;
        manifests::for_each_new_object(Input::open(name, reader)?, |object| {
            let meta = object.meta();
            let is_pod = meta.api_version == "v1" && meta.kind == "Pod";
            kinds.insert(meta.kind.into_owned());
            object_count += 1;
            if is_pod {
                pod.get_or_insert(object);
            } else if workload.is_none()
                && object.value().is_ok_and(|value| pod_from_template(&value).is_some())
            {
                workload = Some(object);
            }
        })?;
        let Some(subject) = pod.or(workload) else {
            if kinds.contains("DaemonSet") {
                bail!(
                    "{name} has no pod to explain: the pods of a DaemonSet are each assigned to one node by its controller"
                );
            }
            let kinds: Vec<String> = kinds.into_iter().collect();
            let has = if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") };
            bail!("{name} has no pod and no workload with pods; found {has}")
        };
        Ok(Manifest { object: subject, others: object_count - 1 })
    }
}

/// Returns the pod of a manifest as if it were created at a moment.
pub(crate) fn manifest_snapshot(
    open_history: &OpenHistory,
    source: &Arc<str>,
    manifest: &Manifest,
    namespace: Option<&str>,
    at: Option<Moment>,
    listener: &mut dyn ProgressListener,
) -> anyhow::Result<PodSnapshot> {
    let moment = at.unwrap_or(open_history.times.end);
    let mut object = manifest.object.value()?;
    if manifest.others > 0 {
        let are = if manifest.others == 1 { "is" } else { "are" };
        listener.warn(&format!("{} {are} ignored", count_noun(manifest.others, "more object")));
    }
    let own_namespace =
        object["metadata"]["namespace"].as_str().filter(|own_namespace| !own_namespace.is_empty());
    let namespace = namespace.or(own_namespace).unwrap_or("default").to_owned();
    object["metadata"]["namespace"] = namespace.into();
    let mut pod = pod_from_template(&object).expect("nothing else is read");
    let owner = pod_owner_of(&object).map(|owner| Object::parse(&owner.to_string())).transpose()?;
    // The manifest may be that of a pod that has run.
    remove_runtime_state(&mut pod);
    let classes = Kind::new("scheduling.k8s.io", "PriorityClass");
    let classes =
        Selection { kinds: Some(vec![classes]), source: Some(source.clone()), ..Selection::default() };
    let classes = open_history.history.at(moment, &classes)?.into_objects();
    let classes: Vec<Value> = classes.iter().map(|class| class.object.value()).collect::<Result<_, _>>()?;
    admit(&mut pod, &classes);
    if let Some(class) = pod["spec"]["priorityClassName"].as_str()
        && pod["spec"]["priority"].is_null()
    {
        listener.warn(&format!("PriorityClass {class:?} not found at {moment}: priority 0 is assumed"));
    }
    let pod = Object::parse(&pod.to_string())?;
    let key = pod.key(source);
    let same_name = Selection {
        kinds: Some(vec![key.kind.clone()]),
        source: Some(source.clone()),
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
    };
    let mut why = "as if created then".to_owned();
    if !open_history.history.at(moment, &same_name)?.objects().is_empty() {
        why += ", replacing the pod of the same name";
    }
    Ok(PodSnapshot { as_of: AsOf::At(moment), why, pod: Some(pod), key, owner, lifetime: None })
}

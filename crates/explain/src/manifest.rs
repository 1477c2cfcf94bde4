//! A pod that never was: read from a manifest, and let in as an API server would have.

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;

use anyhow::bail;
use formats::{Input, manifests};
use history::Selection;
use kubernetes::admission::{admit, controller_of, pod_of, renew};
use model::{Kind, Moment, Object};
use query::{AsOf, Chosen, Listener};
use serde_json::Value;

use super::Case;
use query::counted;

/// A pod, or a workload that makes pods.
#[derive(Clone, Debug)]
pub struct Manifest {
    object: Object,
    /// How many objects stand beside it.
    others: u64,
}

impl Manifest {
    /// The first pod of a text, else the first workload that makes some; `name` is what messages call the text.
    pub fn read(name: &str, reader: Box<dyn Read + Send>) -> anyhow::Result<Manifest> {
        let (mut pod, mut workload): (Option<Object>, Option<Object>) = (None, None);
        let mut kinds: BTreeSet<String> = BTreeSet::new();
        let mut more: u64 = 0;
        manifests::each_to_be_made(Input::open(name, reader)?, |object| {
            let meta = object.meta();
            let is_pod = meta.api_version == "v1" && meta.kind == "Pod";
            kinds.insert(meta.kind.into_owned());
            more += 1;
            if is_pod {
                pod.get_or_insert(object);
            } else if workload.is_none() && object.value().is_ok_and(|value| pod_of(&value).is_some()) {
                workload = Some(object);
            }
        })?;
        let Some(found) = pod.or(workload) else {
            if kinds.contains("DaemonSet") {
                bail!(
                    "{name} has no pod: those of a DaemonSet are each made for one node, and go there or nowhere"
                );
            }
            let kinds: Vec<String> = kinds.into_iter().collect();
            let has = if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") };
            bail!("{name} has no pod and nothing that makes pods; it has {has}")
        };
        Ok(Manifest { object: found, others: more - 1 })
    }
}

/// The first pod of a manifest, or the pod of its first workload, as if it came at that moment.
pub(crate) fn case(
    chosen: &Chosen,
    source: &Arc<str>,
    manifest: &Manifest,
    namespace: Option<&str>,
    at: Option<Moment>,
    listener: &mut dyn Listener,
) -> anyhow::Result<Case> {
    let moment = at.unwrap_or(chosen.times.end);
    let mut object = manifest.object.value()?;
    if manifest.others > 0 {
        let are = if manifest.others == 1 { "is" } else { "are" };
        listener.warn(&format!("{} {are} not looked at", counted(manifest.others, "more object")));
    }
    let own = object["metadata"]["namespace"].as_str().filter(|own| !own.is_empty());
    let namespace = namespace.or(own).unwrap_or("default").to_owned();
    object["metadata"]["namespace"] = namespace.into();
    let mut pod = pod_of(&object).expect("nothing else is read");
    let owner = controller_of(&object).map(|owner| Object::parse(&owner.to_string())).transpose()?;
    // A manifest may be what somebody has of a pod that ran.
    renew(&mut pod);
    let classes = Kind::new("scheduling.k8s.io", "PriorityClass");
    let classes =
        Selection { kinds: Some(vec![classes]), source: Some(source.clone()), ..Selection::default() };
    let classes = chosen.history.at(moment, &classes)?.into_objects();
    let classes: Vec<Value> = classes.iter().map(|class| class.object.value()).collect::<Result<_, _>>()?;
    admit(&mut pod, &classes);
    if let Some(class) = pod["spec"]["priorityClassName"].as_str()
        && pod["spec"]["priority"].is_null()
    {
        listener.warn(&format!(
            "there was no PriorityClass {class:?} at {moment}: the pod counts as one of priority 0"
        ));
    }
    let pod = Object::parse(&pod.to_string())?;
    let key = pod.key(source);
    let one = Selection {
        kinds: Some(vec![key.kind.clone()]),
        source: Some(source.clone()),
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
    };
    let mut why = "if it had come then".to_owned();
    if !chosen.history.at(moment, &one)?.objects().is_empty() {
        why += ", in place of the pod of its name";
    }
    Ok(Case { as_of: AsOf::At(moment), why, pod: Some(pod), key, owner, life: None })
}

//! A pod that never was: read from a manifest, and let in as an API server would have.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use formats::{Input, manifests};
use history::Selection;
use kubernetes::admission::{admit, controller_of, pod_of, renew};
use model::{Kind, Moment, Object};
use query::{AsOf, Chosen};
use serde_json::Value;

use super::Case;
use crate::cli::output::{Out, counted};

/// The first pod of a manifest, or the pod of its first workload, as if it came at that moment.
pub(super) fn case(
    out: &mut Out,
    chosen: &Chosen,
    source: &Arc<str>,
    path: &Path,
    namespace: Option<&str>,
    at: Option<Moment>,
) -> anyhow::Result<Case> {
    let moment = at.unwrap_or(chosen.times.end);
    let mut object = read(out, path)?;
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
        out.complain(&format!(
            "warning: there was no PriorityClass {class:?} at {moment}: the pod counts as one of priority 0"
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

/// The first pod, else the first workload that makes some.
fn read(out: &mut Out, path: &Path) -> anyhow::Result<Value> {
    let (name, reader): (String, Box<dyn Read + Send>) = if path == Path::new("-") {
        ("standard input".to_owned(), Box::new(io::stdin()))
    } else {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        (path.display().to_string(), Box::new(file))
    };
    let (mut pod, mut workload): (Option<Object>, Option<Object>) = (None, None);
    let mut kinds: BTreeSet<String> = BTreeSet::new();
    let mut more: u64 = 0;
    manifests::each_to_be_made(Input::open(&name, reader)?, |object| {
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
    more -= 1;
    if more > 0 {
        let are = if more == 1 { "is" } else { "are" };
        out.complain(&format!("warning: {} {are} not looked at", counted(more, "more object")));
    }
    Ok(found.value()?)
}

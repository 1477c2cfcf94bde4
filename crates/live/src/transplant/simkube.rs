//! SimKube's way: workloads in namespaces of their own, for nodes that are not real, with pods that end when they did.
//!
//! What it writes on objects and pods is what SimKube's driver and webhook write, so that its Stages for KWOK do the rest.

use std::time::Duration;

use model::Kind;
use serde_json::{Map, Value, json};

use super::Address;
use super::templates::{Templates, map_in};

/// How SimKube would play a trace.
#[derive(Clone, Debug)]
pub struct Simkube {
    /// What the simulation is called.
    pub name: String,
    /// What namespaces begin with.
    pub prefix: String,
    /// How long pods take to come up.
    pub delays: Delays,
}

/// How long pods take to come up. Each is drawn by KWOK between the time and what stands beside it, if that is more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Until their images are there.
    pub image_pull: Duration,
    /// See there.
    pub image_pull_jitter: Duration,
    /// Until they run.
    pub startup: Duration,
    /// See there.
    pub startup_jitter: Duration,
}

/// The annotation that says which recorded object stands behind a pod: whose run times it has.
pub const OWNER: &str = "replay.kinescope.io/owner";
/// KWOK's stage lets a pod with this label end, at the time that stands in the annotation.
pub(crate) const COMPLETE: &str = "simkube.io/kwok-stage-complete";
/// See there.
pub(crate) const COMPLETE_TIME: &str = "simkube.io/kwok-stage-complete-time";
const SIMULATION: &str = "simkube.io/simulation";
const VIRTUAL: &str = "simkube.io/virtual";
const NAMESPACE: &str = "static.simkube.io/original-namespace";

/// What is given beside what describes pods: others need it.
const ALSO: [(&str, &str); 6] = [
    ("", "Namespace"),
    ("", "PersistentVolumeClaim"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("policy", "PodDisruptionBudget"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "StorageClass"),
];

// === impl Simkube ===

impl Simkube {
    /// Selects the pods that come of what was given, by their labels.
    pub fn selector(&self) -> String {
        format!("{SIMULATION}={}", self.name)
    }

    /// Whether objects of a kind are given: nodes and volumes are the target's own.
    pub(super) fn takes(templates: &Templates, kind: &Kind) -> bool {
        templates.are_in(kind) || ALSO.contains(&(&*kind.group, &*kind.kind))
    }

    /// Where an object is put.
    pub(super) fn place(&self, address: &Address) -> Address {
        let moved = |name: &str| format!("{}-{name}", self.prefix).into();
        match (&*address.kind.kind, &*address.namespace) {
            ("Namespace", _) => Address { name: moved(&address.name), ..address.clone() },
            (_, "") => address.clone(),
            (_, namespace) => Address { namespace: moved(namespace), ..address.clone() },
        }
    }

    /// What becomes of an object. `recorded` is where it was, `placed` where it is put.
    pub(super) fn shape(
        &self,
        templates: &Templates,
        recorded: &Address,
        placed: &Address,
        object: &mut Value,
    ) {
        let Some(fields) = object.as_object_mut() else { return };
        fields.remove("status");
        let metadata = map_in(fields, "metadata");
        metadata.insert("name".to_owned(), Value::from(&*placed.name));
        if !placed.namespace.is_empty() {
            metadata.insert("namespace".to_owned(), Value::from(&*placed.namespace));
        }
        let labels = map_in(metadata, "labels");
        labels.insert(SIMULATION.to_owned(), self.name.clone().into());
        labels.insert(VIRTUAL.to_owned(), "true".into());
        let owner = recorded.to_string();
        templates.each(&recorded.kind, object, &mut |template| self.template(template, recorded, &owner));
    }

    fn template(&self, template: &mut Map<String, Value>, recorded: &Address, owner: &str) {
        let metadata = map_in(template, "metadata");
        map_in(metadata, "labels").insert(SIMULATION.to_owned(), self.name.clone().into());
        let annotations = map_in(metadata, "annotations");
        let mut note = |name: &str, text: String| drop(annotations.insert(name.to_owned(), text.into()));
        note(NAMESPACE, recorded.namespace.to_string());
        note(OWNER, owner.to_owned());
        let Delays { image_pull, image_pull_jitter, startup, startup_jitter } = self.delays;
        for (stage, delay, jitter) in
            [("create", image_pull, image_pull_jitter), ("ready", startup, startup_jitter)]
        {
            if !delay.max(jitter).is_zero() {
                note(&format!("simkube.io/kwok-stage-{stage}-delay"), millis(delay));
                note(&format!("simkube.io/kwok-stage-{stage}-delay-jitter"), millis(jitter));
            }
        }
        let spec = map_in(template, "spec");
        map_in(spec, "nodeSelector").insert("type".to_owned(), "virtual".into());
        let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
        let ours = json!({"key": "kwok-provider", "operator": "Exists", "effect": "NoSchedule"});
        match tolerations {
            Value::Array(tolerations) if !tolerations.contains(&ours) => tolerations.push(ours),
            Value::Array(_) => {}
            other => *other = json!([ours]),
        }
        for container in spec.get_mut("containers").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                container.remove("ports");
            }
        }
    }
}

fn millis(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

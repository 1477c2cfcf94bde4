//! SimKube's mode: workloads in virtual namespaces, on KWOK nodes, with pods that complete after their recorded run
//! time.
//!
//! It writes the same labels and annotations as SimKube's driver and webhook, so that SimKube's KWOK stages work.

use std::time::Duration;

use model::{Kind, ObjectRef};
use serde_json::{Map, Value, json};

use super::templates::{PodTemplatePaths, map_entry};

/// Options of SimKube's mode.
#[derive(Clone, Debug)]
pub struct SimkubeMode {
    /// The name of the simulation.
    pub name: String,
    /// The prefix of virtual namespaces.
    pub prefix: String,
    /// The startup delays of pods.
    pub delays: StartupDelays,
}

/// Startup delays of pods. KWOK draws each delay between the base value and the jitter value, if that is larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartupDelays {
    /// Image pull.
    pub image_pull: Duration,
    /// The jitter of the image pull.
    pub image_pull_jitter: Duration,
    /// Startup after the image pull.
    pub startup: Duration,
    /// The jitter of the startup.
    pub startup_jitter: Duration,
}

/// The annotation of a pod that names the recorded object whose run times it uses.
pub const OWNER_ANNOTATION: &str = "replay.kinescope.io/owner";
/// The label by which KWOK's stage completes a pod, at the time in [`COMPLETE_TIME_ANNOTATION`].
pub(crate) const COMPLETE_LABEL: &str = "simkube.io/kwok-stage-complete";
/// The annotation with the completion time of a pod.
pub(crate) const COMPLETE_TIME_ANNOTATION: &str = "simkube.io/kwok-stage-complete-time";
const SIMULATION_LABEL: &str = "simkube.io/simulation";
const VIRTUAL_LABEL: &str = "simkube.io/virtual";
const ORIGINAL_NAMESPACE_ANNOTATION: &str = "static.simkube.io/original-namespace";

/// Kinds without pod templates that are applied because others need them.
const SUPPORTING_KINDS: [(&str, &str); 6] = [
    ("", "Namespace"),
    ("", "PersistentVolumeClaim"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("policy", "PodDisruptionBudget"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "StorageClass"),
];

// === impl SimkubeMode ===

impl SimkubeMode {
    /// A label selector for the pods of the simulation.
    pub fn selector(&self) -> String {
        format!("{SIMULATION_LABEL}={}", self.name)
    }

    /// Whether objects of a kind are applied: nodes and volumes are the target's own.
    pub(super) fn includes_kind(templates: &PodTemplatePaths, kind: &Kind) -> bool {
        templates.has_kind(kind) || SUPPORTING_KINDS.contains(&(&*kind.group, &*kind.kind))
    }

    /// The reference to an object in the target.
    pub(super) fn target_ref(&self, object_ref: &ObjectRef) -> ObjectRef {
        let prefixed = |name: &str| format!("{}-{name}", self.prefix).into();
        match (&*object_ref.kind.kind, &*object_ref.namespace) {
            ("Namespace", _) => ObjectRef { name: prefixed(&object_ref.name), ..object_ref.clone() },
            (_, "") => object_ref.clone(),
            (_, namespace) => ObjectRef { namespace: prefixed(namespace), ..object_ref.clone() },
        }
    }

    /// Changes an object as SimKube does. `recorded` refers to it in the recording, `object_ref` in the target.
    pub(super) fn transform(
        &self,
        templates: &PodTemplatePaths,
        recorded: &ObjectRef,
        object_ref: &ObjectRef,
        object: &mut Value,
    ) {
        let Some(fields) = object.as_object_mut() else { return };
        fields.remove("status");
        let metadata = map_entry(fields, "metadata");
        metadata.insert("name".to_owned(), Value::from(&*object_ref.name));
        if !object_ref.namespace.is_empty() {
            metadata.insert("namespace".to_owned(), Value::from(&*object_ref.namespace));
        }
        let labels = map_entry(metadata, "labels");
        labels.insert(SIMULATION_LABEL.to_owned(), self.name.clone().into());
        labels.insert(VIRTUAL_LABEL.to_owned(), "true".into());
        let owner = recorded.to_string();
        templates.for_each(&recorded.kind, object, &mut |template| {
            self.transform_template(template, recorded, &owner)
        });
    }

    fn transform_template(&self, template: &mut Map<String, Value>, recorded: &ObjectRef, owner: &str) {
        let metadata = map_entry(template, "metadata");
        map_entry(metadata, "labels").insert(SIMULATION_LABEL.to_owned(), self.name.clone().into());
        let annotations = map_entry(metadata, "annotations");
        let mut annotate = |name: &str, text: String| drop(annotations.insert(name.to_owned(), text.into()));
        annotate(ORIGINAL_NAMESPACE_ANNOTATION, recorded.namespace.to_string());
        annotate(OWNER_ANNOTATION, owner.to_owned());
        let StartupDelays { image_pull, image_pull_jitter, startup, startup_jitter } = self.delays;
        for (stage, delay, jitter) in
            [("create", image_pull, image_pull_jitter), ("ready", startup, startup_jitter)]
        {
            if !delay.max(jitter).is_zero() {
                annotate(&format!("simkube.io/kwok-stage-{stage}-delay"), millis(delay));
                annotate(&format!("simkube.io/kwok-stage-{stage}-delay-jitter"), millis(jitter));
            }
        }
        let spec = map_entry(template, "spec");
        map_entry(spec, "nodeSelector").insert("type".to_owned(), "virtual".into());
        let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
        let kwok_toleration = json!({"key": "kwok-provider", "operator": "Exists", "effect": "NoSchedule"});
        match tolerations {
            Value::Array(tolerations) if !tolerations.contains(&kwok_toleration) => {
                tolerations.push(kwok_toleration)
            }
            Value::Array(_) => {}
            other => *other = json!([kwok_toleration]),
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

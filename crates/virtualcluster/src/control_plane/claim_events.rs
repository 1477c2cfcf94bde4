//! The Events about PersistentVolumeClaims that have no volume, in the words of kube-controller-manager.

use std::sync::Arc;

use kubernetes::well_known;
use serde_json::Value;

use super::core_event_recorder::EventText;

/// The Event about a claim that no volume fits.
pub(super) enum UnboundEvent {
    /// No volume is created for it.
    Failed(EventText),
    /// One is.
    Provisioning(EventText),
}

/// The component that the Events are from.
pub(super) const EVENT_SOURCE: &str = "persistentvolume-controller";

/// The Event about a claim that waits for the first pod that uses it; `pods` are those that have no node yet.
pub(super) fn waiting_event(pods: &[Arc<str>]) -> EventText {
    match pods {
        [] => {
            normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding".into())
        }
        [pod] => normal("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
        pods => normal("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(","))),
    }
}

/// The Event about a claim that names a volume of another one.
pub(super) fn taken_event(volume: &str) -> EventText {
    warning("FailedBinding", format!("volume {volume:?} already bound to a different claim."))
}

/// The Event about a claim that no volume fits. `class` is the StorageClass that it names, if that exists.
pub(super) fn unbound_event(class_name: &str, class: Option<&Value>) -> UnboundEvent {
    if class_name.is_empty() {
        let message = "no persistent volumes available for this claim and no storage class is set";
        return UnboundEvent::Failed(normal("FailedBinding", message.to_owned()));
    }
    let Some(class) = class else {
        return provisioning_failed(format!("storageclass.storage.k8s.io {class_name:?} not found"));
    };
    let provisioner = class["provisioner"].as_str().unwrap_or_default();
    if provisioner == well_known::NO_PROVISIONER {
        return provisioning_failed(format!("no volume plugin matched name: {provisioner}"));
    }
    UnboundEvent::Provisioning(normal(
        "ExternalProvisioning",
        format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
             system administrator. If volume creation is delayed, please verify that the provisioner is running and \
             correctly registered."
        ),
    ))
}

fn normal(reason: &str, message: String) -> EventText {
    EventText { event_type: "Normal".to_owned(), reason: reason.to_owned(), message }
}

fn warning(reason: &str, message: String) -> EventText {
    EventText { event_type: "Warning".to_owned(), reason: reason.to_owned(), message }
}

fn provisioning_failed(message: String) -> UnboundEvent {
    UnboundEvent::Failed(warning("ProvisioningFailed", message))
}

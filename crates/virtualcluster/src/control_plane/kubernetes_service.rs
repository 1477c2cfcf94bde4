//! The Service of the API server, which an API server creates again when it is deleted.

use apiserver::StoreEvent;

use super::ComponentContext;
use crate::bootstrap::kubernetes_service;

/// Whether the Service `kubernetes` was deleted.
#[derive(Default)]
pub(super) struct KubernetesService {
    is_missing: bool,
}

impl KubernetesService {
    pub(super) fn observe(&mut self, event: &StoreEvent) {
        if event.kind.is("", "Service") {
            let meta = event.new.meta();
            if meta.namespace == "default" && meta.name == "kubernetes" {
                self.is_missing = event.is_deletion;
            }
        }
    }

    /// Creates it again. Returns whether it was missing.
    pub(super) fn work(&mut self, context: &mut ComponentContext<'_>) -> bool {
        if !std::mem::take(&mut self.is_missing) {
            return false;
        }
        // Somebody else may have created it meanwhile.
        let _ = context.registry.create_object(kubernetes_service());
        true
    }
}

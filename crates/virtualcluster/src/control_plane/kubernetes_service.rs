//! The Service of the API server with its endpoints, which an API server creates again when they are deleted.

use apiserver::StoreEvent;

use super::ComponentContext;
use crate::bootstrap::create_kubernetes_service;

/// Whether the Service `kubernetes`, its Endpoints or its EndpointSlice was deleted.
#[derive(Default)]
pub(super) struct KubernetesService {
    is_incomplete: bool,
}

impl KubernetesService {
    pub(super) fn observe(&mut self, event: &StoreEvent) {
        let is_part = event.kind.is("", "Service")
            || event.kind.is("", "Endpoints")
            || event.kind.is("discovery.k8s.io", "EndpointSlice");
        if is_part && event.is_deletion {
            let meta = event.new.meta();
            self.is_incomplete |= meta.namespace == "default" && meta.name == "kubernetes";
        }
    }

    /// Creates again what is missing. Returns whether anything was.
    pub(super) fn work(&mut self, context: &mut ComponentContext<'_>) -> bool {
        if !std::mem::take(&mut self.is_incomplete) {
            return false;
        }
        // Somebody else may have created it meanwhile.
        let _ = create_kubernetes_service(context.registry);
        true
    }
}

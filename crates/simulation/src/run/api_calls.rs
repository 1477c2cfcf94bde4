//! Execution of the controllers' API calls: objects and pods that they create, update and delete.

use std::sync::Arc;

use controllers::ApiCall;
use model::{Kind, NamespacedName, ObjectRef};

use super::Run;
use crate::observer::Observer;
use crate::store::kind_of;
use crate::timeline::RunTask;

/// The most rounds of controllers' work at one moment; the rest waits a little.
const MAX_SYNC_ROUNDS: usize = 100_000;

impl<O: Observer> Run<'_, O> {
    /// Runs the controllers until they have nothing to do.
    pub(super) fn sync_controllers(&mut self) {
        let now = self.now();
        for _ in 0..MAX_SYNC_ROUNDS {
            let Some(controllers) = &mut self.receivers.controllers else { return };
            let api_calls = controllers.work(now);
            if api_calls.is_empty() {
                return;
            }
            for api_call in api_calls {
                self.execute_call(api_call);
            }
        }
        if let Some(controllers) = &mut self.receivers.controllers {
            self.timeline.put(controllers.pause(now), RunTask::SyncControllers);
        }
    }

    fn execute_call(&mut self, api_call: ApiCall) {
        let is_pod = |object| kind_of(object).is("", "Pod");
        match api_call {
            ApiCall::Create(object) if is_pod(&object) => self.create_for_controller(object),
            ApiCall::Create(object) => {
                let created = self.objects.set(object);
                self.notify_object(Some(created));
            }
            ApiCall::RemovePodFinalizer { pod, uid, .. } => self.remove_finalizers(&pod, &uid),
            ApiCall::Update(object) => {
                let updated = self.objects.update(object);
                self.notify_object(updated);
            }
            ApiCall::Delete { object, uid } => self.delete_for_controller(object, &uid),
        }
    }

    fn delete_for_controller(&mut self, object: ObjectRef, uid: &Arc<str>) {
        let name = NamespacedName::new(object.namespace, object.name);
        if !object.kind.is("", "Pod") {
            let deleted = self.objects.delete(self.timeline.now(), &object.kind, &name, uid);
            self.notify_object(deleted);
            return;
        }
        let id = self.pods.id_of(&name);
        if let Some(id) = id.filter(|id| self.pods.get(*id).is_some_and(|pod| pod.uid == *uid)) {
            self.withdraw(id.demand);
        }
    }

    /// Whether controllers write objects of this kind. Of inputs of that kind everything but the status applies.
    pub(super) fn is_controlled(&self, kind: &Kind) -> bool {
        self.receivers.controllers.as_ref().is_some_and(|controllers| controllers.writes_kind(kind))
    }
}

//! The controllers of workloads: their API calls are carried out as those of any client.

use apiserver::{ApiError, DeleteOptions, Preconditions, PropagationPolicy, UpdatedPart};
use controllers::{ApiCall, Controller, Controllers};
use kubernetes::objects::{NodeEvent, PodEvent};
use kubernetes::time::after;
use model::{Kind, Moment, NamespacedName, What};
use std::time::Duration;

use super::ComponentContext;
use super::tasks::ClusterTask;

/// The controllers of a cluster.
pub(super) struct Workloads {
    controllers: Controllers,
    /// Whether there may be something to do.
    is_awake: bool,
}

/// When a call that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Workloads {
    pub(super) fn new(seed: u64) -> Workloads {
        // The garbage collector is a component of its own.
        let is_workload = |controller: &Controller| *controller != Controller::GarbageCollection;
        let controllers: Vec<Controller> = Controller::ALL.into_iter().filter(is_workload).collect();
        Workloads { controllers: Controllers::new(&controllers, seed), is_awake: true }
    }

    pub(super) fn observe_pod(&mut self, context: &mut ComponentContext<'_>, event: &PodEvent) {
        self.controllers.apply_pod(context.now, event);
        self.is_awake = true;
    }

    pub(super) fn observe_node(&mut self, event: &NodeEvent) {
        self.controllers.apply_node(event);
        self.is_awake = true;
    }

    pub(super) fn observe(&mut self, context: &mut ComponentContext<'_>, what: &What) {
        if &*what.object().meta().kind != "Event" {
            self.controllers.apply(context.now, what);
            self.is_awake = true;
        }
    }

    pub(super) fn wake(&mut self) {
        self.is_awake = true;
    }

    /// When a timer fires.
    pub(super) fn next(&self) -> Option<Moment> {
        self.controllers.next_wake()
    }

    /// One sync of the controllers. Returns whether one was due.
    pub(super) fn work(&mut self, context: &mut ComponentContext<'_>) -> bool {
        let is_due = self.controllers.next_wake().is_some_and(|wake| wake <= context.now);
        if !self.is_awake && !is_due {
            return false;
        }
        let calls = self.controllers.process_next_item(context.now);
        if calls.is_empty() {
            self.is_awake = false;
            return false;
        }
        for call in calls {
            if let Err(error) = execute(context, call)
                && !is_expected(&error)
            {
                // The object is synced again when something changes, or then.
                context.agenda.put(after(context.now, RETRY_DELAY), ClusterTask::SyncWorkloads);
            }
        }
        true
    }
}

/// Conflicts and objects that have gone: an event that says so is on its way.
fn is_expected(error: &ApiError) -> bool {
    error.is_conflict() || error.is_not_found()
}

fn execute(context: &mut ComponentContext<'_>, call: ApiCall) -> Result<(), ApiError> {
    let registry = context.registry;
    match call {
        ApiCall::Create(object) => {
            let value = object.value().map_err(|error| ApiError::bad_request(error.to_string()))?;
            registry.create_with_uid(value)?;
        }
        ApiCall::Update(object) => {
            let meta = object.meta();
            let kind = Kind::of(&meta.api_version, &meta.kind);
            let name = NamespacedName::new(&*meta.namespace, &*meta.name);
            let value = object.value().map_err(|error| ApiError::bad_request(error.to_string()))?;
            // With the resourceVersion that the controller has seen: if there is a newer one, it syncs again.
            registry.update_object(&kind, &name, UpdatedPart::Everything, |current| {
                *current = value.clone();
                true
            })?;
        }
        ApiCall::RemovePodFinalizer { pod, uid, finalizer } => {
            registry.update_object(&Kind::new("", "Pod"), &pod, UpdatedPart::Everything, |object| {
                if object["metadata"]["uid"] != *uid {
                    return false;
                }
                let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() else { return false };
                let count = finalizers.len();
                finalizers.retain(|own| own != finalizer);
                finalizers.len() < count
            })?;
        }
        ApiCall::Delete { object, uid } => {
            let preconditions = Some(Preconditions { uid: Some(uid.to_string()), resource_version: None });
            let options = DeleteOptions {
                preconditions,
                propagation_policy: Some(PropagationPolicy::Background),
                ..DeleteOptions::default()
            };
            let name = NamespacedName::new(object.namespace, object.name);
            registry.delete_object(&object.kind, &name, &options)?;
        }
    }
    Ok(())
}

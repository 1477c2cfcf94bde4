//! The controllers of workloads and of the endpoints of Services: their API calls are carried out as those of any
//! client, and their Events say how that went.

use apiserver::{ApiError, DeleteOptions, Preconditions, PropagationPolicy, UpdatedPart};
use controllers::{ApiCall, Controller, ControllerEvent, Controllers, EndpointControllers, EventSubject};
use kubernetes::objects::{NodeEvent, PodEvent};
use model::{Kind, Moment, NamespacedName, Object, What};

use super::ComponentContext;
use super::core_event_recorder::{EventText, InvolvedObject};
use super::correlated_event_recorder::CorrelatedEventRecorder;

/// The controllers of a cluster.
pub(super) struct Workloads {
    controllers: Controllers,
    endpoints: EndpointControllers,
    events: CorrelatedEventRecorder,
    /// Whether the workload controllers may have something to do.
    is_awake: bool,
}

/// What became of an API call.
enum CallOutcome {
    Done,
    Failed(ApiError),
    /// It was not tried: a similar one had failed.
    Skipped,
}

impl Workloads {
    pub(super) fn new(seed: u64) -> Workloads {
        // The garbage collector is a component of its own.
        let is_workload = |controller: &Controller| *controller != Controller::GarbageCollection;
        let controllers: Vec<Controller> = Controller::ALL.into_iter().filter(is_workload).collect();
        Workloads {
            controllers: Controllers::new(&controllers, seed).with_events().with_original_hashes(),
            endpoints: EndpointControllers::default(),
            events: CorrelatedEventRecorder::default(),
            is_awake: true,
        }
    }

    pub(super) fn observe_pod(&mut self, context: &mut ComponentContext<'_>, event: &PodEvent, what: &What) {
        self.controllers.apply_pod(context.now, event);
        self.endpoints.apply(what);
        self.is_awake = true;
    }

    pub(super) fn observe_node(&mut self, event: &NodeEvent, what: &What) {
        self.controllers.apply_node(event);
        self.endpoints.apply(what);
        self.is_awake = true;
    }

    pub(super) fn observe(&mut self, context: &mut ComponentContext<'_>, what: &What) {
        if &*what.object().meta().kind != "Event" {
            self.controllers.apply(context.now, what);
            self.endpoints.apply(what);
            self.is_awake = true;
        }
    }

    /// When a timer fires.
    pub(super) fn next(&self) -> Option<Moment> {
        self.controllers.next_wake()
    }

    /// One sync of the controllers. Returns whether one was due.
    pub(super) fn work(&mut self, context: &mut ComponentContext<'_>) -> bool {
        let has_synced = self.sync_endpoints(context);
        let is_due = self.controllers.next_wake().is_some_and(|wake| wake <= context.now);
        if !self.is_awake && !is_due {
            return has_synced;
        }
        let calls = self.controllers.process_next_item(context.now);
        self.is_awake = !calls.is_empty();
        let outcomes = execute_all(context, calls);
        // A conflict, or an object that has gone, is in an event that is on its way. Everything else is tried again.
        let is_failure = |outcome: &CallOutcome| matches!(outcome, CallOutcome::Failed(error) if !is_expected(error) && !is_of_terminating_namespace(error));
        if self.is_awake {
            self.controllers.finish_item(context.now, outcomes.iter().any(is_failure));
        }
        for event in self.controllers.take_events() {
            self.record(context, event, &outcomes);
        }
        self.is_awake || has_synced
    }

    /// One sync of the endpoints of a Service. Returns whether one was due.
    fn sync_endpoints(&mut self, context: &mut ComponentContext<'_>) -> bool {
        if !self.endpoints.has_work() {
            return false;
        }
        for call in self.endpoints.process_next_item() {
            // What cannot be written is tried again when something changes.
            if let Ok(Some(written)) = execute(context, call) {
                // Generated names are known at once, so that the next sync does not create the object again.
                self.endpoints.apply(&What::Modified(written));
            }
        }
        true
    }

    fn record(
        &mut self,
        context: &mut ComponentContext<'_>,
        event: ControllerEvent,
        outcomes: &[CallOutcome],
    ) {
        let ControllerEvent { source, regarding, call, text, failure } = event;
        let text = match call.and_then(|call| outcomes.get(call)) {
            None | Some(CallOutcome::Done) => text,
            Some(CallOutcome::Skipped) => return,
            Some(CallOutcome::Failed(error)) => match failure {
                Some(failure) if !is_expected(error) && !is_of_terminating_namespace(error) => {
                    controllers::EventText { message: format!("{}{error}", failure.message), ..failure }
                }
                Some(_) | None => return,
            },
        };
        let EventSubject { api_version, kind, name, uid, resource_version } = regarding;
        let involved =
            InvolvedObject { api_version: api_version.to_owned(), kind: kind.to_owned(), name, uid };
        let text = EventText {
            event_type: if text.is_warning { "Warning" } else { "Normal" }.to_owned(),
            reason: text.reason.into_owned(),
            message: text.message,
        };
        self.events.record(context.registry, context.now, source, &involved, &resource_version, text);
    }
}

/// Conflicts and objects that have gone: an event that says so is on its way.
fn is_expected(error: &ApiError) -> bool {
    error.is_conflict() || error.is_not_found()
}

/// Nothing can be created in a namespace that is being deleted, and controllers say nothing about it.
fn is_of_terminating_namespace(error: &ApiError) -> bool {
    error.has_cause("NamespaceTerminating")
}

/// Carries out the calls of a sync. When a pod cannot be created, the others of the sync are not tried, as pods are
/// created in batches that begin with one.
fn execute_all(context: &mut ComponentContext<'_>, calls: Vec<ApiCall>) -> Vec<CallOutcome> {
    let mut is_refused = false;
    let mut outcomes = Vec::with_capacity(calls.len());
    for call in calls {
        let creates_pod = matches!(&call, ApiCall::Create(object) if object.meta().kind == "Pod");
        if creates_pod && is_refused {
            outcomes.push(CallOutcome::Skipped);
            continue;
        }
        outcomes.push(match execute(context, call) {
            Ok(_) => CallOutcome::Done,
            Err(error) => {
                is_refused |= creates_pod;
                CallOutcome::Failed(error)
            }
        });
    }
    outcomes
}

/// Carries out a call. Returns the object that was created or updated.
fn execute(context: &mut ComponentContext<'_>, call: ApiCall) -> Result<Option<Object>, ApiError> {
    let registry = context.registry;
    match call {
        ApiCall::Create(object) => {
            let value = object.value().map_err(|error| ApiError::bad_request(error.to_string()))?;
            registry.create_with_uid(value).map(Some)
        }
        ApiCall::Update(object) => {
            let meta = object.meta();
            let kind = Kind::of(&meta.api_version, &meta.kind);
            let name = NamespacedName::new(&*meta.namespace, &*meta.name);
            let value = object.value().map_err(|error| ApiError::bad_request(error.to_string()))?;
            // With the resourceVersion that the controller has seen: if there is a newer one, it syncs again.
            let updated = registry.update_object(&kind, &name, UpdatedPart::Everything, |current| {
                *current = value.clone();
                true
            });
            updated.map(Some)
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
            Ok(None)
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
            Ok(None)
        }
    }
}

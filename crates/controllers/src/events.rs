//! The Events that controllers write about the objects that they sync, with the sources, reasons and messages of
//! kube-controller-manager.

use std::borrow::Cow;

use model::NamespacedName;

use super::object_table::{CachedObject, ObjectSpec};
use super::{ApiCall, SyncContext};

/// An Event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerEvent {
    /// The controller: the component of its source.
    pub source: &'static str,
    /// The object.
    pub regarding: EventSubject,
    /// The API call whose outcome it reports, by its index among those of the sync; `None` if it reports no call.
    pub call: Option<usize>,
    /// What is reported; of a call if that succeeds.
    pub text: EventText,
    /// What is reported if the call fails: the message ends with the error. `None` if nothing is.
    pub failure: Option<EventText>,
}

/// The object that an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventSubject {
    /// `apps/v1`.
    pub api_version: &'static str,
    /// `Deployment`.
    pub kind: &'static str,
    /// Its name.
    pub name: NamespacedName,
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion at the time of the sync.
    pub resource_version: String,
}

/// The text of an Event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventText {
    /// Whether it is a `Warning`, and not `Normal`.
    pub is_warning: bool,
    /// Its reason.
    pub reason: Cow<'static, str>,
    /// Its message.
    pub message: String,
}

// === impl EventText ===

impl EventText {
    pub(super) fn normal(reason: &'static str, message: impl Into<String>) -> EventText {
        EventText { is_warning: false, reason: reason.into(), message: message.into() }
    }

    pub(super) fn warning(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> EventText {
        EventText { is_warning: true, reason: reason.into(), message: message.into() }
    }
}

// === impl SyncContext ===

impl SyncContext<'_> {
    /// Reports something that was found in the sync of an object.
    pub(super) fn report<S: ObjectSpec>(&mut self, object: &CachedObject<S>, text: EventText) {
        self.push_event(object, None, text, None);
    }

    /// Reports the outcome of the API call that was made last.
    pub(super) fn report_call<S: ObjectSpec>(
        &mut self,
        object: &CachedObject<S>,
        text: EventText,
        failure: Option<EventText>,
    ) {
        let last = self.api_calls.len().checked_sub(1);
        self.push_event(object, last, text, failure);
    }

    /// The name of the object that was created last, if somebody takes the Events.
    pub(super) fn reported_name(&self) -> Option<String> {
        match self.api_calls.last().filter(|_| self.events.is_some())? {
            ApiCall::Create(object) => Some(object.meta().name.into_owned()),
            ApiCall::Update(_) | ApiCall::Delete { .. } | ApiCall::RemovePodFinalizer { .. } => None,
        }
    }

    fn push_event<S: ObjectSpec>(
        &mut self,
        object: &CachedObject<S>,
        call: Option<usize>,
        text: EventText,
        failure: Option<EventText>,
    ) {
        let Some(events) = &mut self.events else { return };
        let meta = object.object().meta();
        events.push(ControllerEvent {
            source: S::EVENT_SOURCE,
            regarding: EventSubject {
                api_version: S::API_VERSION,
                kind: S::KIND,
                name: object.name.clone(),
                uid: object.uid.to_string(),
                resource_version: meta.resource_version.as_deref().unwrap_or_default().to_owned(),
            },
            call,
            text,
            failure,
        });
    }
}

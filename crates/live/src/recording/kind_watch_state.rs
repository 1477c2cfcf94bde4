//! The state of the watches of one kind: the position and status of each, joined into those of the kind.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use model::{Kind, Moment};
use tokio::sync::{Mutex, Notify};

use super::scope::ScopeFilter;
use crate::kinds::{ServedKind, field_selector};
use crate::recording_event::{KindStatus, WatchState};
use crate::url::percent_encode;

/// Shared by a kind's watch tasks: served version, positions, status. There is one watch, or one per
/// namespace in scope.
pub(super) struct KindWatchState {
    pub(super) kind: Kind,
    /// The kind as currently served: the version of a custom resource may change.
    served: RwLock<ServedKind>,
    /// Discovery has found the kind.
    pub(super) discovered: Notify,
    filter: ScopeFilter,
    /// The watches that ended when the scope became narrower, as they are appended to the text of the position.
    dropped: String,
    /// By namespace, empty for a watch of all. Locked while a batch is sent, so that positions stay in order.
    pub(super) by_namespace: Mutex<BTreeMap<String, WatchProgress>>,
}

/// The position and status of one watch.
#[derive(Default)]
pub(super) struct WatchProgress {
    pub(super) position: Option<String>,
    pub(super) state: Option<WatchState>,
    pub(super) objects: usize,
    pub(super) last_heard: Option<Moment>,
}

// === impl KindWatchState ===

impl KindWatchState {
    pub(super) fn new(served: ServedKind, filter: ScopeFilter, dropped: String) -> KindWatchState {
        let kind = served.kind.clone();
        let served = RwLock::new(served);
        KindWatchState {
            kind,
            served,
            discovered: Notify::new(),
            filter,
            dropped,
            by_namespace: Mutex::default(),
        }
    }

    /// Updates the kind after discovery.
    pub(super) fn set_served(&self, served: ServedKind) {
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = served;
        self.discovered.notify_waiters();
    }

    /// The path and query prefix of requests, and their API version.
    pub(super) fn request_prefix(&self, namespace: &str) -> (String, String) {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        let namespace = Some(namespace).filter(|name| !name.is_empty());
        let fields = if namespace.is_none() { field_selector(&self.kind) } else { None };
        let selectors = [("labelSelector", self.filter.labels.as_deref()), ("fieldSelector", fields)];
        let selectors = selectors.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let selectors: String =
            selectors.map(|(name, value)| format!("{name}={}&", percent_encode(value))).collect();
        (format!("{}?{selectors}", served.path(namespace)), served.api_version())
    }

    /// Sets the position of a namespace until its watch reports a newer one.
    pub(super) fn set_position(&mut self, namespace: &str, position: &str) {
        let watch = WatchProgress { position: Some(position.to_owned()), ..WatchProgress::default() };
        self.by_namespace.get_mut().insert(namespace.to_owned(), watch);
    }

    /// The joint position, in the format of [`KindPositions`](super::scope::KindPositions). Watches without a position
    /// start with a list.
    pub(super) fn joint_position(&self, by_namespace: &BTreeMap<String, WatchProgress>) -> String {
        let part = |(namespace, watch): (&String, &WatchProgress)| {
            let position = watch.position.as_ref()?;
            Some(if namespace.is_empty() { position.clone() } else { format!("{namespace}={position}") })
        };
        let parts: Vec<String> = by_namespace.iter().filter_map(part).collect();
        self.filter.position_prefix(&self.kind) + &parts.join(",") + &self.dropped
    }

    /// The joint status: that of a watch which is not open, if there is one.
    pub(super) fn status(&self, by_namespace: &BTreeMap<String, WatchProgress>) -> KindStatus {
        let states = || by_namespace.values().filter_map(|watch| watch.state.as_ref());
        let state = states().find(|state| **state != WatchState::Watching).or_else(|| states().next());
        KindStatus {
            kind: self.kind.clone(),
            state: state.cloned().unwrap_or(WatchState::Listing),
            objects: by_namespace.values().map(|watch| watch.objects).sum(),
            last_heard: by_namespace.values().filter_map(|watch| watch.last_heard).max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state_with_labels(labels: Option<&str>) -> KindWatchState {
        let filter = ScopeFilter { labels: labels.map(str::to_owned), ..ScopeFilter::default() };
        KindWatchState::new(ServedKind::guessed(Kind::new("", "Pod"), true), filter, ";-blog=5".to_owned())
    }

    #[test]
    fn the_joint_position_contains_all_watches() {
        let mut kind_state = state_with_labels(Some("a,b=c"));
        kind_state.set_position("shop", "9");
        kind_state.set_position("web", "7");
        let text = kind_state.joint_position(kind_state.by_namespace.try_lock().as_deref().unwrap());
        assert_eq!(text, "a,b=c|shop=9,web=7;-blog=5");
    }

    #[test]
    fn requests_use_the_served_version() {
        let kind_state = state_with_labels(Some("app in (a)"));
        let labels = "?labelSelector=app%20in%20%28a%29&";
        assert_eq!(
            kind_state.request_prefix("web"),
            (format!("/api/v1/namespaces/web/pods{labels}"), "v1".to_owned())
        );
        let version = "v2".to_owned();
        kind_state
            .set_served(ServedKind { version, ..ServedKind::guessed(Kind::new("example.com", "Pod"), true) });
        assert_eq!(
            kind_state.request_prefix(""),
            (format!("/apis/example.com/v2/pods{labels}"), "example.com/v2".to_owned())
        );
    }
}

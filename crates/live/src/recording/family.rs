//! The watches of one kind: one, or one for each namespace that is wanted. They have one position and one state.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use model::{Kind, Moment};
use tokio::sync::{Mutex, Notify};

use super::scope::Filter;
use crate::kinds::{Served, field_selector};
use crate::news::{KindStatus, State};
use crate::url::encoded;

/// The watches of one kind.
pub(super) struct Family {
    pub(super) kind: Kind,
    /// Where the server has it now: the version of a custom kind comes and goes.
    served: RwLock<Served>,
    /// The server was found to have it.
    pub(super) found: Notify,
    filter: Filter,
    /// The watches that ended when the scope became narrower, as they follow in the text of the position.
    dropped: String,
    /// By namespace, which is empty for a watch of all. Held while news are sent, so that positions stay in order.
    pub(super) members: Mutex<BTreeMap<String, Member>>,
}

/// How one of the watches is getting on.
#[derive(Default)]
pub(super) struct Member {
    pub(super) position: Option<String>,
    pub(super) state: Option<State>,
    pub(super) objects: usize,
    pub(super) heard: Option<Moment>,
}

// === impl Family ===

impl Family {
    pub(super) fn new(served: Served, filter: Filter, dropped: String) -> Family {
        let kind = served.kind.clone();
        let served = RwLock::new(served);
        Family { kind, served, found: Notify::new(), filter, dropped, members: Mutex::default() }
    }

    /// From now on the server has it like this.
    pub(super) fn serve(&self, served: Served) {
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = served;
        self.found.notify_waiters();
    }

    /// What begins every question, and the version of the API that it is asked in.
    pub(super) fn address(&self, namespace: &str) -> (String, String) {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        let namespace = Some(namespace).filter(|name| !name.is_empty());
        let fields = if namespace.is_none() { field_selector(&self.kind) } else { None };
        let selectors = [("labelSelector", self.filter.labels.as_deref()), ("fieldSelector", fields)];
        let selectors = selectors.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let selectors: String =
            selectors.map(|(name, value)| format!("{name}={}&", encoded(value))).collect();
        (format!("{}?{selectors}", served.path(namespace)), served.api_version())
    }

    /// Where a namespace goes on, until it says something newer.
    pub(super) fn resume(&mut self, namespace: &str, position: &str) {
        let member = Member { position: Some(position.to_owned()), ..Member::default() };
        self.members.get_mut().insert(namespace.to_owned(), member);
    }

    /// The position of all, as [`KindPositions`](super::scope::KindPositions) has it. What has none yet will be listed.
    pub(super) fn joined(&self, members: &BTreeMap<String, Member>) -> String {
        let part = |(namespace, member): (&String, &Member)| {
            let position = member.position.as_ref()?;
            Some(if namespace.is_empty() { position.clone() } else { format!("{namespace}={position}") })
        };
        let parts: Vec<String> = members.iter().filter_map(part).collect();
        self.filter.text(&self.kind) + &parts.join(",") + &self.dropped
    }

    /// The state of all: of one that does not watch, if there is one.
    pub(super) fn status(&self, members: &BTreeMap<String, Member>) -> KindStatus {
        let states = || members.values().filter_map(|member| member.state.as_ref());
        let state = states().find(|state| **state != State::Watching).or_else(|| states().next());
        KindStatus {
            kind: self.kind.clone(),
            state: state.cloned().unwrap_or(State::Listing),
            objects: members.values().map(|member| member.objects).sum(),
            last_heard: members.values().filter_map(|member| member.heard).max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(labels: Option<&str>) -> Family {
        let filter = Filter { labels: labels.map(str::to_owned), ..Filter::default() };
        Family::new(Served::guessed(Kind::new("", "Pod"), true), filter, ";-blog=5".to_owned())
    }

    #[test]
    fn what_is_joined_tells_of_all_watches() {
        let mut family = family(Some("a,b=c"));
        family.resume("shop", "9");
        family.resume("web", "7");
        let text = family.joined(family.members.try_lock().as_deref().unwrap());
        assert_eq!(text, "a,b=c|shop=9,web=7;-blog=5");
    }

    #[test]
    fn it_is_asked_for_where_the_server_has_it() {
        let family = family(Some("app in (a)"));
        let labels = "?labelSelector=app%20in%20%28a%29&";
        assert_eq!(family.address("web"), (format!("/api/v1/namespaces/web/pods{labels}"), "v1".to_owned()));
        let version = "v2".to_owned();
        family.serve(Served { version, ..Served::guessed(Kind::new("example.com", "Pod"), true) });
        assert_eq!(
            family.address(""),
            (format!("/apis/example.com/v2/pods{labels}"), "example.com/v2".to_owned())
        );
    }
}

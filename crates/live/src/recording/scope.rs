//! The scope of a kind's recording, the positions of an earlier run, and the gaps that follow where the two differ.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use model::{Kind, Moment};

use crate::event_filter::{EventChoice, is_event};

/// The objects of a kind that are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KindScope {
    pub(super) filter: ScopeFilter,
    /// Only objects in these namespaces; all if it is empty.
    pub(super) namespaces: Vec<String>,
}

/// Conditions on an object other than its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScopeFilter {
    /// A label selector in kubectl's syntax.
    pub(super) labels: Option<String>,
    /// For Events; [`EventChoice::All`] for all other kinds.
    pub(super) events: EventChoice,
}

/// The positions of all watches that a kind ever had: those that are resumed, and those that ended when the scope
/// became narrower.
///
/// The text format is `7@T`, or `shop=9@T,web=7@T` for chosen namespaces, prefixed by `app=web|` for a label selector;
/// for Events of any reporter by `*|` or `*app=web|`. Ended watches are appended, as in `web=7@T;-shop=9@T`; their `T`
/// is the beginning of the open gap that covers them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KindPositions {
    watched: Option<PositionSection>,
    dropped: Vec<PositionSection>,
}

/// Watches with one filter: the position per namespace; the empty name stands for all namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PositionSection {
    filter: ScopeFilter,
    positions: BTreeMap<String, String>,
}

/// The positions to resume from, and the gaps that a scope change requires.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resumption {
    /// The position per namespace in scope, or of the one watch of all. `None`: start with a list, without a gap.
    pub(super) positions: Vec<Option<String>>,
    /// The ended watches, as they are appended to the text of the positions: `;-shop=9@T`.
    pub(super) dropped: String,
    /// The gaps to write first, if the scope has changed.
    pub(super) change: Option<ScopeChange>,
}

/// The effect of a scope change on the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScopeChange {
    /// The previously open gap.
    pub(super) closed: Option<ScopeGap>,
    /// A gap for the part that was never recorded, and an open gap, which ends at [`Moment::MAX`].
    pub(super) gaps: Vec<ScopeGap>,
    /// Why the objects that are now listed were not recorded before.
    pub(super) gap_reason: Option<String>,
}

/// A period in which a part of a kind was not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScopeGap {
    pub(super) from: Moment,
    pub(super) to: Moment,
    pub(super) why: String,
}

/// The period of the existing recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedSpan {
    pub(super) from: Moment,
    pub(super) to: Moment,
}

/// The maximum number of namespaces named in a reason.
const MAX_NAMES_IN_REASON: usize = 10;

/// Resumes a kind from its positions in a new scope. `new_scope` is `None` if the kind is no longer recorded.
///
/// The part that was recorded and is now out of scope becomes an open gap from where its watch stopped. The part in
/// scope that was not recorded becomes a gap from the beginning of the recording, or of the open gap, until it has been
/// listed. `previous` is `None` for a kind that was never recorded.
pub(super) fn resume(
    kind: &Kind,
    previous: Option<&KindPositions>,
    new_scope: Option<&KindScope>,
    span: Option<RecordedSpan>,
    now: Moment,
) -> Resumption {
    let Some(span) = span else {
        let watches = new_scope.map_or(0, |scope| scope.watched_namespaces().count());
        return Resumption { positions: vec![None; watches], ..Resumption::default() };
    };
    let empty = KindPositions::default();
    let previous = previous.unwrap_or(&empty);
    let mut positions: Vec<Option<String>> = new_scope.map_or(Vec::new(), |scope| {
        scope.watched_namespaces().map(|name| previous.position(scope, name)).collect()
    });
    let is_wanted =
        |filter: &ScopeFilter, name: &str| new_scope.is_some_and(|scope| scope.covers(filter, name));
    let out_of_scope = |sections: &[PositionSection]| -> Vec<PositionSection> {
        let rest = sections.iter().map(|section| section.without_watches(is_wanted));
        rest.filter(|section| !section.positions.is_empty()).collect()
    };
    let ended_sections = out_of_scope(previous.watched.as_slice());
    if ended_sections.is_empty() && positions.iter().all(Option::is_some) {
        return Resumption { positions, dropped: dropped_text(&previous.dropped, kind), change: None };
    }

    let mut change = ScopeChange::default();
    if let Some(since) = previous.dropped.iter().flat_map(PositionSection::moments).next() {
        let why =
            gap_reason(previous.watched.as_ref().map(PositionSection::scope).as_ref(), &previous.dropped);
        change.closed = Some(ScopeGap { from: since, to: now.max(since), why });
    }
    if let Some(why) = new_scope.and_then(|scope| previous.never_recorded_reason(scope)) {
        change.gaps.push(ScopeGap { from: span.from.min(now), to: now, why });
    }
    change.gap_reason = change.gaps.last().or(change.closed.as_ref()).map(|gap| gap.why.clone());
    let stopped_at = ended_sections.iter().flat_map(|section| section.positions.values());
    let stopped_at = stopped_at.map(|position| position_moment(position).unwrap_or(span.to)).min();
    let since = stopped_at.unwrap_or(now).min(now);
    let dropped = merge_sections(ended_sections.into_iter().chain(out_of_scope(&previous.dropped)), since);
    if !dropped.is_empty() {
        change.gaps.push(ScopeGap { from: since, to: Moment::MAX, why: gap_reason(new_scope, &dropped) });
    }
    for position in positions.iter_mut().filter(|position| position.is_none()) {
        *position = Some(format!("@{now}"));
    }
    Resumption { positions, dropped: dropped_text(&dropped, kind), change: Some(change) }
}

/// Merges ended watches by filter, all with the moment at which their open gap begins.
fn merge_sections(sections: impl Iterator<Item = PositionSection>, since: Moment) -> Vec<PositionSection> {
    let mut merged: Vec<PositionSection> = Vec::new();
    for PositionSection { filter, mut positions } in sections {
        for position in positions.values_mut() {
            *position = format!("{}@{since}", position_version(position));
        }
        match merged.iter_mut().find(|other| other.filter == filter) {
            Some(other) => other.positions.extend(positions),
            None => merged.push(PositionSection { filter, positions }),
        }
    }
    merged
}

fn dropped_text(dropped: &[PositionSection], kind: &Kind) -> String {
    dropped.iter().map(|section| format!(";-{}", section.text(kind))).collect()
}

/// The reason of a gap, given the recorded scope and the ended watches.
fn gap_reason(recorded: Option<&KindScope>, dropped: &[PositionSection]) -> String {
    let Some(scope) = recorded else { return "not recorded".to_owned() };
    let is_named =
        |section: &PositionSection| section.filter == scope.filter && !section.positions.contains_key("");
    match dropped.iter().all(is_named) {
        true => {
            let names = dropped.iter().flat_map(|section| section.positions.keys()).map(String::as_str);
            format!("{} not recorded", describe_namespaces(names))
        }
        false => format!("only {} recorded", scope.describe()),
    }
}

/// `namespace web`, `namespaces shop, web`
fn describe_namespaces<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(MAX_NAMES_IN_REASON);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let noun = if names.len() == 1 { "namespace" } else { "namespaces" };
    names.truncate(MAX_NAMES_IN_REASON);
    format!("{noun} {}{more}", names.join(", "))
}

/// The resourceVersion of a position: `7` of `7@T`.
fn position_version(position: &str) -> &str {
    position.split_once('@').map_or(position, |(version, _)| version)
}

/// The moment up to which everything was reported.
fn position_moment(position: &str) -> Option<Moment> {
    position.split_once('@')?.1.parse().ok()
}

// === impl KindScope ===

impl KindScope {
    /// The namespace of each watch; empty for a watch of all.
    pub(super) fn watched_namespaces(&self) -> impl Iterator<Item = &str> {
        let all = self.namespaces.is_empty().then_some("");
        all.into_iter().chain(self.namespaces.iter().map(String::as_str))
    }

    /// Whether a namespace is recorded; the empty name stands for all.
    pub(super) fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|namespace| namespace == name)
    }

    fn covers(&self, filter: &ScopeFilter, name: &str) -> bool {
        self.filter.covers(filter) && self.has_namespace(name)
    }

    /// `labels app=web in namespaces shop, web`
    fn describe(&self) -> String {
        let events = match self.filter.events {
            EventChoice::All => None,
            EventChoice::Scheduling => Some("events of schedulers and autoscalers".to_owned()),
            EventChoice::None => Some("no events".to_owned()),
        };
        let labels = self.filter.labels.as_ref().map(|labels| format!("labels {labels}"));
        let names = self.namespaces.iter().map(String::as_str);
        let names = (!self.namespaces.is_empty()).then(|| describe_namespaces(names));
        let parts: Vec<String> = [events, labels, names].into_iter().flatten().collect();
        parts.join(" in ")
    }
}

// === impl ScopeFilter ===

impl ScopeFilter {
    /// Whether every object that passes the other filter passes this one.
    fn covers(&self, other: &ScopeFilter) -> bool {
        (self.labels.is_none() || self.labels == other.labels)
            && (self.events == EventChoice::All || self.events == other.events)
    }

    /// The prefix of a position.
    pub(super) fn position_prefix(&self, kind: &Kind) -> String {
        let events_marker = if is_event(kind) && self.events == EventChoice::All { "*" } else { "" };
        let labels = self.labels.as_deref().unwrap_or_default();
        if events_marker.is_empty() && labels.is_empty() {
            String::new()
        } else {
            format!("{events_marker}{labels}|")
        }
    }

    fn parse(text: Option<&str>, kind: &Kind) -> ScopeFilter {
        let text = text.unwrap_or_default();
        let (labels, events) = match text.strip_prefix('*') {
            Some(labels) => (labels, EventChoice::All),
            // Older recordings have no marker and hold the Events of schedulers and autoscalers.
            None if is_event(kind) => (text, EventChoice::Scheduling),
            None => (text, EventChoice::All),
        };
        ScopeFilter { labels: Some(labels.to_owned()).filter(|labels| !labels.is_empty()), events }
    }
}

// === impl KindPositions ===

impl KindPositions {
    pub(super) fn parse(text: &str, kind: &Kind) -> KindPositions {
        let mut parsed = KindPositions::default();
        for section in text.split(';').filter(|section| !section.is_empty()) {
            match section.strip_prefix('-') {
                Some(section) => parsed.dropped.push(PositionSection::parse(section, kind)),
                None => parsed.watched = Some(PositionSection::parse(section, kind)),
            }
        }
        parsed
    }

    /// All namespaces that were ever in scope.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        let sections = self.watched.iter().chain(&self.dropped);
        let names = sections.flat_map(|section| section.positions.keys()).map(String::as_str);
        names.filter(|name| !name.is_empty())
    }

    /// The position of the watch of a namespace; the empty name stands for all.
    fn position(&self, scope: &KindScope, name: &str) -> Option<String> {
        let section = self.watched.as_ref().filter(|section| section.filter == scope.filter)?;
        section.positions.get("").or_else(|| section.positions.get(name)).cloned()
    }

    /// The reason for the part of the scope that was never recorded; `None` if there is none.
    fn never_recorded_reason(&self, scope: &KindScope) -> Option<String> {
        let sections = || self.watched.iter().chain(&self.dropped);
        let is_new = |name: &&str| !sections().any(|section| section.covers(&scope.filter, name));
        let names: Vec<&str> = scope.watched_namespaces().filter(is_new).collect();
        if names.is_empty() {
            return None;
        }
        if sections().next().is_none() {
            return Some("not recorded".to_owned());
        }
        let is_named =
            names.iter().all(|name| !name.is_empty()) && sections().all(|one| one.filter == scope.filter);
        Some(match is_named {
            true => format!("{} not recorded", describe_namespaces(names.into_iter())),
            false => {
                let scopes: Vec<String> = sections().map(|section| section.scope().describe()).collect();
                format!("only {} recorded", scopes.join(" and "))
            }
        })
    }
}

// === impl PositionSection ===

impl PositionSection {
    fn parse(text: &str, kind: &Kind) -> PositionSection {
        let (filter, text) =
            text.rsplit_once('|').map_or((None, text), |(filter, rest)| (Some(filter), rest));
        let part = |part: &str| {
            let (name, position) = part.split_once('=').unwrap_or(("", part));
            (name.to_owned(), position.to_owned())
        };
        let parts = text.split(',').filter(|part| !part.is_empty());
        PositionSection { filter: ScopeFilter::parse(filter, kind), positions: parts.map(part).collect() }
    }

    fn text(&self, kind: &Kind) -> String {
        let part = |(name, position): (&String, &String)| match name.is_empty() {
            true => position.clone(),
            false => format!("{name}={position}"),
        };
        let parts: Vec<String> = self.positions.iter().map(part).collect();
        self.filter.position_prefix(kind) + &parts.join(",")
    }

    fn scope(&self) -> KindScope {
        let names = self.positions.keys().filter(|name| !name.is_empty());
        let is_all = self.positions.contains_key("");
        let namespaces = if is_all { Vec::new() } else { names.cloned().collect() };
        KindScope { filter: self.filter.clone(), namespaces }
    }

    /// Whether all of a namespace was recorded; the empty name stands for all namespaces.
    fn covers(&self, filter: &ScopeFilter, name: &str) -> bool {
        let has_watch = self.positions.contains_key("") || self.positions.contains_key(name);
        self.filter.covers(filter) && has_watch
    }

    /// The section without the watches that are in scope.
    fn without_watches(&self, is_wanted: impl Fn(&ScopeFilter, &str) -> bool) -> PositionSection {
        let mut rest = self.clone();
        rest.positions.retain(|name, _| !is_wanted(&self.filter, name));
        rest
    }

    fn moments(&self) -> impl Iterator<Item = Moment> {
        self.positions.values().filter_map(|position| position_moment(position))
    }
}

//! Which objects of a kind are recorded, where the watches of an earlier run stopped, and the gaps that follow where the
//! two differ.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use model::{Kind, Moment};

use crate::event_filter::{EventChoice, is_event};

/// Which objects of a kind are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) filter: Filter,
    /// Only objects in these; all if it is empty.
    pub(super) namespaces: Vec<String>,
}

/// What an object must be like to be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    /// A selector in kubectl's words.
    pub(super) labels: Option<String>,
    /// Of Events; [`EventChoice::All`] for all other kinds.
    pub(super) events: EventChoice,
}

/// The positions of all watches that a kind ever had: those that go on, and those that ended when the scope became
/// narrower.
///
/// As text it is `7@T`, or `shop=9@T,web=7@T` where namespaces are chosen, behind `app=web|` where labels are; for Events
/// of any reporter behind `*|` or `*app=web|`. The watches that ended follow, as in `web=7@T;-shop=9@T`; `T` is then the
/// beginning of the open gap that tells of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KindPositions {
    watched: Option<Section>,
    dropped: Vec<Section>,
}

/// Watches with one filter: the position of each namespace, or of all of them under the empty name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Section {
    filter: Filter,
    positions: BTreeMap<String, String>,
}

/// How the recording of a kind goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resumption {
    /// For each namespace that is wanted, or for the one watch of all, where to go on. `None`: with a list, after which
    /// nothing was missed.
    pub(super) positions: Vec<Option<String>>,
    /// The watches that ended, as they follow in the text of the positions: `;-shop=9@T`.
    pub(super) dropped: String,
    /// What is to be written before anything else is, if the scope is another than before.
    pub(super) change: Option<ScopeChange>,
}

/// What another scope means to those who read the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScopeChange {
    /// The gap that was open until now.
    pub(super) closed: Option<ScopeGap>,
    /// A part that was never recorded, and a gap that is open from now on: that one ends at [`Moment::MAX`].
    pub(super) gaps: Vec<ScopeGap>,
    /// Why that which is now listed was not recorded before.
    pub(super) why: Option<String>,
}

/// A time in which a part of a kind was not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScopeGap {
    pub(super) from: Moment,
    pub(super) to: Moment,
    pub(super) why: String,
}

/// From when to when there is a recording already.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedSpan {
    pub(super) from: Moment,
    pub(super) to: Moment,
}

/// Namespaces that a reason names.
const NAMES_SHOWN: usize = 10;

/// How a kind goes on that has these positions and is now wanted in this scope; `None`: it is not wanted any more.
///
/// What was recorded and is not wanted is an open gap from where its watch stopped. What is wanted and was not recorded
/// is a gap from the beginning of the recording, or from where the open one began, until it has been listed. `before` is
/// `None` for a kind of which nothing was ever recorded.
pub(super) fn resume(
    kind: &Kind,
    before: Option<&KindPositions>,
    wanted: Option<&Scope>,
    recorded: Option<RecordedSpan>,
    now: Moment,
) -> Resumption {
    let Some(recorded) = recorded else {
        let watches = wanted.map_or(0, |scope| scope.watches().count());
        return Resumption { positions: vec![None; watches], ..Resumption::default() };
    };
    let nothing = KindPositions::default();
    let before = before.unwrap_or(&nothing);
    let mut positions: Vec<Option<String>> =
        wanted.map_or(Vec::new(), |scope| scope.watches().map(|name| before.position(scope, name)).collect());
    let is_wanted = |filter: &Filter, name: &str| wanted.is_some_and(|scope| scope.covers(filter, name));
    let unwanted = |sections: &[Section]| -> Vec<Section> {
        let rest = sections.iter().map(|section| section.without(is_wanted));
        rest.filter(|section| !section.positions.is_empty()).collect()
    };
    let ended = unwanted(before.watched.as_slice());
    if ended.is_empty() && positions.iter().all(Option::is_some) {
        return Resumption { positions, dropped: dropped_text(&before.dropped, kind), change: None };
    }

    let mut change = ScopeChange::default();
    if let Some(since) = before.dropped.iter().flat_map(Section::moments).next() {
        let why = missing(before.watched.as_ref().map(Section::scope).as_ref(), &before.dropped);
        change.closed = Some(ScopeGap { from: since, to: now.max(since), why });
    }
    if let Some(why) = wanted.and_then(|scope| before.never_recorded(scope)) {
        change.gaps.push(ScopeGap { from: recorded.from.min(now), to: now, why });
    }
    change.why = change.gaps.last().or(change.closed.as_ref()).map(|gap| gap.why.clone());
    let stopped = ended.iter().flat_map(|section| section.positions.values());
    let stopped = stopped.map(|position| moment(position).unwrap_or(recorded.to)).min();
    let since = stopped.unwrap_or(now).min(now);
    let dropped = together(ended.into_iter().chain(unwanted(&before.dropped)), since);
    if !dropped.is_empty() {
        change.gaps.push(ScopeGap { from: since, to: Moment::MAX, why: missing(wanted, &dropped) });
    }
    for position in positions.iter_mut().filter(|position| position.is_none()) {
        *position = Some(format!("@{now}"));
    }
    Resumption { positions, dropped: dropped_text(&dropped, kind), change: Some(change) }
}

/// Watches that ended, of which one open gap tells from this moment on.
fn together(sections: impl Iterator<Item = Section>, since: Moment) -> Vec<Section> {
    let mut all: Vec<Section> = Vec::new();
    for Section { filter, mut positions } in sections {
        for position in positions.values_mut() {
            *position = format!("{}@{since}", version(position));
        }
        match all.iter_mut().find(|other| other.filter == filter) {
            Some(other) => other.positions.extend(positions),
            None => all.push(Section { filter, positions }),
        }
    }
    all
}

fn dropped_text(dropped: &[Section], kind: &Kind) -> String {
    dropped.iter().map(|section| format!(";-{}", section.text(kind))).collect()
}

/// Why something is missing where this scope is recorded and these watches ended.
fn missing(recorded: Option<&Scope>, dropped: &[Section]) -> String {
    let Some(scope) = recorded else { return "not recorded".to_owned() };
    let is_named = |section: &Section| section.filter == scope.filter && !section.positions.contains_key("");
    match dropped.iter().all(is_named) {
        true => {
            let names = dropped.iter().flat_map(|section| section.positions.keys()).map(String::as_str);
            format!("{} not recorded", in_namespaces(names))
        }
        false => format!("only {} recorded", scope.words()),
    }
}

/// `namespace web`, `namespaces shop, web`
fn in_namespaces<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(NAMES_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let word = if names.len() == 1 { "namespace" } else { "namespaces" };
    names.truncate(NAMES_SHOWN);
    format!("{word} {}{more}", names.join(", "))
}

/// The server's part of a position: `7` of `7@T`.
fn version(position: &str) -> &str {
    position.split_once('@').map_or(position, |(version, _)| version)
}

/// Up to when all was told.
fn moment(position: &str) -> Option<Moment> {
    position.split_once('@')?.1.parse().ok()
}

// === impl Scope ===

impl Scope {
    /// The namespace of each watch; empty for the one watch of all.
    pub(super) fn watches(&self) -> impl Iterator<Item = &str> {
        let all = self.namespaces.is_empty().then_some("");
        all.into_iter().chain(self.namespaces.iter().map(String::as_str))
    }

    /// Whether a namespace, or with the empty name all of them, is recorded.
    pub(super) fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|one| one == name)
    }

    fn covers(&self, filter: &Filter, name: &str) -> bool {
        self.filter.covers(filter) && self.has_namespace(name)
    }

    /// `labels app=web in namespaces shop, web`
    fn words(&self) -> String {
        let events = match self.filter.events {
            EventChoice::All => None,
            EventChoice::Scheduling => Some("events of schedulers and autoscalers".to_owned()),
            EventChoice::None => Some("no events".to_owned()),
        };
        let labels = self.filter.labels.as_ref().map(|labels| format!("labels {labels}"));
        let names = self.namespaces.iter().map(String::as_str);
        let names = (!self.namespaces.is_empty()).then(|| in_namespaces(names));
        let words: Vec<String> = [events, labels, names].into_iter().flatten().collect();
        words.join(" in ")
    }
}

// === impl Filter ===

impl Filter {
    /// Whether all that passes another passes this.
    fn covers(&self, other: &Filter) -> bool {
        (self.labels.is_none() || self.labels == other.labels)
            && (self.events == EventChoice::All || self.events == other.events)
    }

    /// As it stands before positions of a kind.
    pub(super) fn text(&self, kind: &Kind) -> String {
        let mark = if is_event(kind) && self.events == EventChoice::All { "*" } else { "" };
        let labels = self.labels.as_deref().unwrap_or_default();
        if mark.is_empty() && labels.is_empty() { String::new() } else { format!("{mark}{labels}|") }
    }

    fn parse(text: Option<&str>, kind: &Kind) -> Filter {
        let text = text.unwrap_or_default();
        let (labels, events) = match text.strip_prefix('*') {
            Some(labels) => (labels, EventChoice::All),
            // Before there was a choice, those of schedulers and autoscalers were recorded.
            None if is_event(kind) => (text, EventChoice::Scheduling),
            None => (text, EventChoice::All),
        };
        Filter { labels: Some(labels.to_owned()).filter(|labels| !labels.is_empty()), events }
    }
}

// === impl KindPositions ===

impl KindPositions {
    pub(super) fn parse(text: &str, kind: &Kind) -> KindPositions {
        let mut all = KindPositions::default();
        for section in text.split(';').filter(|section| !section.is_empty()) {
            match section.strip_prefix('-') {
                Some(section) => all.dropped.push(Section::parse(section, kind)),
                None => all.watched = Some(Section::parse(section, kind)),
            }
        }
        all
    }

    /// The namespaces that were chosen at any time.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        let sections = self.watched.iter().chain(&self.dropped);
        let names = sections.flat_map(|section| section.positions.keys()).map(String::as_str);
        names.filter(|name| !name.is_empty())
    }

    /// Where the watch of a namespace goes on, or that of all under the empty name.
    fn position(&self, scope: &Scope, name: &str) -> Option<String> {
        let section = self.watched.as_ref().filter(|section| section.filter == scope.filter)?;
        section.positions.get("").or_else(|| section.positions.get(name)).cloned()
    }

    /// Why something is missing that is wanted now and was never recorded; `None` if there is no such thing.
    fn never_recorded(&self, wanted: &Scope) -> Option<String> {
        let sections = || self.watched.iter().chain(&self.dropped);
        let is_new = |name: &&str| !sections().any(|section| section.covers(&wanted.filter, name));
        let names: Vec<&str> = wanted.watches().filter(is_new).collect();
        if names.is_empty() {
            return None;
        }
        if sections().next().is_none() {
            return Some("not recorded".to_owned());
        }
        let is_named =
            names.iter().all(|name| !name.is_empty()) && sections().all(|one| one.filter == wanted.filter);
        Some(match is_named {
            true => format!("{} not recorded", in_namespaces(names.into_iter())),
            false => {
                let scopes: Vec<String> = sections().map(|section| section.scope().words()).collect();
                format!("only {} recorded", scopes.join(" and "))
            }
        })
    }
}

// === impl Section ===

impl Section {
    fn parse(text: &str, kind: &Kind) -> Section {
        let (filter, text) =
            text.rsplit_once('|').map_or((None, text), |(filter, rest)| (Some(filter), rest));
        let part = |part: &str| {
            let (name, position) = part.split_once('=').unwrap_or(("", part));
            (name.to_owned(), position.to_owned())
        };
        let parts = text.split(',').filter(|part| !part.is_empty());
        Section { filter: Filter::parse(filter, kind), positions: parts.map(part).collect() }
    }

    fn text(&self, kind: &Kind) -> String {
        let part = |(name, position): (&String, &String)| match name.is_empty() {
            true => position.clone(),
            false => format!("{name}={position}"),
        };
        let parts: Vec<String> = self.positions.iter().map(part).collect();
        self.filter.text(kind) + &parts.join(",")
    }

    fn scope(&self) -> Scope {
        let names = self.positions.keys().filter(|name| !name.is_empty());
        let is_all = self.positions.contains_key("");
        let namespaces = if is_all { Vec::new() } else { names.cloned().collect() };
        Scope { filter: self.filter.clone(), namespaces }
    }

    /// Whether all of a namespace, or with the empty name of all of them, was recorded.
    fn covers(&self, filter: &Filter, name: &str) -> bool {
        let has_it = self.positions.contains_key("") || self.positions.contains_key(name);
        self.filter.covers(filter) && has_it
    }

    /// The watches but those that are wanted.
    fn without(&self, is_wanted: impl Fn(&Filter, &str) -> bool) -> Section {
        let mut rest = self.clone();
        rest.positions.retain(|name, _| !is_wanted(&self.filter, name));
        rest
    }

    fn moments(&self) -> impl Iterator<Item = Moment> {
        self.positions.values().filter_map(|position| moment(position))
    }
}

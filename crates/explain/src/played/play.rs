//! A history played into an autoscaler: what it remembers at a moment depends on what it saw before.
//!
//! Recorded changes are applied as they happened, and what the autoscaler decides has no effect: it only watches, and is
//! told what others did. Loops run when the recorded autoscaler's did, as far as its status tells, or else when they are
//! due.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use autoscaler::{Autoscaler, KINDS, Loop, ObservedCloud, loop_of};
use history::Selection;
use model::{Kind, Moment, Object, What, Window};
use query::autoscaler_setup::Setup;
use query::{AsOf, Chosen, Listener};
use serde::Deserialize;

use super::others::Others;

/// What was played.
pub struct Played {
    /// From when.
    pub from: Moment,
    /// When the first loop ran.
    pub first: Moment,
    /// How many loops ran.
    pub loops: u64,
    /// Whether they ran when those of the recorded autoscaler did.
    pub as_recorded: bool,
}

/// An autoscaler at work.
struct Player {
    autoscaler: Autoscaler,
    cloud: ObservedCloud,
    others: Others,
    status: StatusMap,
    /// Whether the targets that the status tells are to be believed.
    has_targets: bool,
    /// When recorded loops began that are still to run; `None` if loops run when they are due.
    recorded: Option<VecDeque<Moment>>,
    last: Moment,
    /// The moment that is played to.
    end: Moment,
    played: Played,
}

/// The ConfigMap that an autoscaler writes its status to.
struct StatusMap {
    namespace: Arc<str>,
    name: Arc<str>,
}

/// What of a ConfigMap tells of loops.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ConfigMap {
    data: BTreeMap<String, String>,
}

const SECOND: i64 = 1_000_000_000;
/// So much is played before the moment at least, and at most.
const BEFORE: i64 = 30 * 60 * SECOND;
const MOST_BEFORE: i64 = 24 * 3600 * SECOND;
/// So many loops just before the moment are played when they ran; of what is older, as many at most.
const LAST_LOOPS: usize = 200;
/// Loops that are due at once run so long after each other.
const LEAST: i64 = BEFORE / 400;
/// A loop writes its status when it ends.
const LONGEST_LOOP: i64 = 60 * SECOND;

/// Plays the time before a moment, and hands out every loop. The last one is at the moment itself; `put` is seen just
/// before it.
pub(crate) fn play(
    listener: &mut dyn Listener,
    chosen: &Chosen,
    source: &Arc<str>,
    setup: &Setup,
    as_of: AsOf,
    put: &[Object],
    mut each: impl FnMut(Loop, &mut Autoscaler, &ObservedCloud),
) -> anyhow::Result<Played> {
    let moment = as_of.moment();
    let start = chosen.history.span()?.map_or(moment, |(start, _)| start);
    let from = moment.plus_nanos(-before(setup)).max(start).min(moment);
    let mut player = Player::new(chosen, source, setup, from, moment)?;
    let kinds: std::collections::BTreeSet<Kind> =
        scheduler::KINDS.iter().chain(KINDS).map(|(group, kind)| Kind::new(group, kind)).collect();
    let selection = Selection {
        kinds: Some(kinds.into_iter().collect()),
        source: Some(source.clone()),
        ..Selection::default()
    };
    let mut objects = BTreeMap::new();
    chosen.history.each_at(from, &selection, |version| {
        objects.insert(version.key, version.object);
    })?;
    for object in objects.into_values() {
        player.begin(&What::Added(object));
    }
    let total = seconds(moment.nanos_since(from));
    let window = Window { from: from.plus_nanos(1), to: moment.plus_nanos(1) };
    for change in chosen.history.between(window, &selection)? {
        let change = change?;
        if let AsOf::Before(at, seq) = as_of
            && change.at == at
            && change.seq >= seq
        {
            break;
        }
        player.run_until(change.at.min(moment), &mut each);
        listener.progress(seconds(change.at.nanos_since(from)), total)?;
        player.see(change.at, &change.what);
    }
    player.run_until(moment, &mut each);
    listener.progress(total, total)?;
    for object in put {
        player.begin(&What::Added(object.clone()));
    }
    player.run(moment, &mut each);
    Ok(player.played)
}

// === impl Player ===

impl Player {
    fn new(
        chosen: &Chosen,
        source: &Arc<str>,
        setup: &Setup,
        from: Moment,
        moment: Moment,
    ) -> anyhow::Result<Player> {
        let status = StatusMap {
            namespace: setup.settings.namespace.clone(),
            name: setup.settings.status_config_map_name.clone(),
        };
        let recorded = recorded(chosen, source, &status, Window { from, to: moment })?;
        let as_recorded = !recorded.is_empty();
        Ok(Player {
            autoscaler: Autoscaler::new(setup.settings.clone(), from),
            cloud: ObservedCloud::new(setup.groups_to_watch(), setup.pricing, setup.gpu_label.clone()),
            others: Others::default(),
            status,
            has_targets: !setup.has_as_many_as_wanted(),
            recorded: as_recorded.then(|| recorded.into()),
            last: from,
            end: moment,
            played: Played { from, first: moment, loops: 0, as_recorded },
        })
    }

    /// This is how it is when the play begins, or so it is taken to be.
    fn begin(&mut self, what: &What) {
        self.apply(None, what);
        self.others.begin(what.object());
    }

    /// So it went on.
    fn see(&mut self, at: Moment, what: &What) {
        self.apply(Some(at), what);
        self.others.see(self.played.from, at, what, &mut self.autoscaler, &self.cloud);
    }

    fn apply(&mut self, at: Option<Moment>, what: &What) {
        self.cloud.see(what);
        self.autoscaler.apply(what);
        let status = what.state().filter(|_| self.has_targets).and_then(|object| self.status.read(object));
        for (group, target) in status.as_deref().map(targets).unwrap_or_default() {
            self.cloud.set_target(&group, target);
            self.others.see_target(at, &group, target, &mut self.autoscaler, &self.cloud);
        }
    }

    /// Runs the loops that begin before a moment.
    fn run_until(&mut self, moment: Moment, each: &mut impl FnMut(Loop, &mut Autoscaler, &ObservedCloud)) {
        loop {
            let due = match &self.recorded {
                Some(recorded) => recorded.front().copied().unwrap_or(Moment::MAX),
                None => self.autoscaler.next_loop().max(self.last.plus_nanos(self.least())),
            };
            if due >= moment {
                return;
            }
            if let Some(recorded) = &mut self.recorded {
                recorded.pop_front();
            }
            self.run(due, each);
        }
    }

    fn run(&mut self, now: Moment, each: &mut impl FnMut(Loop, &mut Autoscaler, &ObservedCloud)) {
        if self.played.loops == 0 {
            self.played.first = now;
        }
        self.played.loops += 1;
        self.last = now;
        self.cloud.begin();
        self.autoscaler.background(now, &mut self.cloud);
        let done = self.autoscaler.watch_once(now, &mut self.cloud);
        each(done, &mut self.autoscaler, &self.cloud);
    }

    /// How far the next loop is from the last one at least: what is long ago is played in fewer steps.
    fn least(&self) -> i64 {
        let older = self.end.nanos_since(self.played.from) - BEFORE;
        let is_old = self.played.loops > 0 && self.end.nanos_since(self.last) > BEFORE;
        if is_old { LEAST.max(older / LAST_LOOPS as i64) } else { LEAST }
    }
}

// === impl StatusMap ===

impl StatusMap {
    /// The status, if this is the ConfigMap that holds it.
    fn read(&self, object: &Object) -> Option<String> {
        let meta = object.meta();
        if meta.kind != "ConfigMap" || meta.name != *self.name || meta.namespace != *self.namespace {
            return None;
        }
        object.view::<ConfigMap>().ok()?.data.remove("status")
    }
}

/// How much is played: a node that could go must have been seen for long enough, and what keeps it too.
fn before(setup: &Setup) -> i64 {
    let settings = &setup.settings;
    let of_groups = setup.groups.iter().map(|group| settings.of_group(group.options.as_ref()));
    let waits = of_groups
        .chain([settings.of_group(None)])
        .flat_map(|options| [options.scale_down_unneeded_time, options.scale_down_unready_time]);
    let delays = [settings.scale_down_delay_after_add, settings.scale_down_delay_after_delete];
    let longest = waits.chain(delays).max().unwrap_or_default();
    let longest = longest.saturating_add(settings.scan_interval.saturating_mul(2));
    i64::try_from(longest.as_nanos()).unwrap_or(MOST_BEFORE).clamp(BEFORE, MOST_BEFORE)
}

/// When the recorded autoscaler's loops began, as its status tells.
fn recorded(
    chosen: &Chosen,
    source: &Arc<str>,
    map: &StatusMap,
    window: Window,
) -> anyhow::Result<Vec<Moment>> {
    let selection = Selection {
        kinds: Some(vec![Kind::new("", "ConfigMap")]),
        source: Some(source.clone()),
        namespace: Some(map.namespace.to_string()),
        name: Some(map.name.to_string()),
    };
    let written = Window { from: window.from, to: window.to.plus_nanos(LONGEST_LOOP) };
    let mut began = Vec::new();
    for change in chosen.history.between(written, &selection)? {
        let change = change?;
        let status = change.what.state().and_then(|object| map.read(object));
        let moment = status.as_deref().and_then(loop_of);
        began.extend(moment.filter(|moment| window.from < *moment && *moment < window.to));
    }
    began.sort_unstable();
    began.dedup();
    let first = began.first().copied();
    let apart = window.to.nanos_since(window.from) / LAST_LOOPS as i64;
    let mut kept: Vec<Moment> = Vec::new();
    for moment in began.into_iter().rev() {
        let is_apart = |later: &Moment| later.nanos_since(moment) >= apart;
        if kept.len() < LAST_LOOPS || kept.last().is_none_or(is_apart) {
            kept.push(moment);
        }
    }
    // What is known longest counts from there.
    kept.extend(first.filter(|first| kept.last() != Some(first)));
    kept.reverse();
    Ok(kept)
}

/// How many nodes each group was to have.
fn targets(status: &str) -> Vec<(String, i64)> {
    let Ok(status) = formats::manifests::of_yaml("status", status) else { return Vec::new() };
    let groups = status["nodeGroups"].as_array().into_iter().flatten();
    let target = |group: &serde_json::Value| {
        let name = group["name"].as_str()?.to_owned();
        let target = group["health"]["cloudProviderTarget"].as_i64()?;
        (target >= 0).then_some((name, target))
    };
    groups.filter_map(target).collect()
}

fn seconds(nanos: i64) -> u64 {
    u64::try_from(nanos / SECOND).unwrap_or(0)
}

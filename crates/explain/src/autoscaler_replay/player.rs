//! The replay of a history into an autoscaler, whose state at a moment depends on earlier loops.
//!
//! Recorded changes are applied in order. The autoscaler's decisions have no effect; recorded scale-ups and removals
//! are reported to it instead. Loops run when the recorded autoscaler's did, as far as its status shows them, or else
//! when they are due.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use autoscaler::{Autoscaler, KINDS, LoopResult, ObservedCloud, loop_start_from_status};
use history::Selection;
use model::{Kind, Moment, Object, What, Window};
use query::autoscaler_choice::AutoscalerChoice;
use query::{AsOf, OpenHistory, ProgressListener};
use serde::Deserialize;

use super::external_scaling::ExternalScaling;

/// A completed replay into an autoscaler.
pub struct AutoscalerReplay {
    /// When the replay began.
    pub from: Moment,
    /// When the first loop ran.
    pub first_loop: Moment,
    /// The number of loops.
    pub loops: u64,
    /// Whether the loops ran at the times of the recorded autoscaler's.
    pub as_recorded: bool,
}

/// An autoscaler with the state of its replay.
struct AutoscalerPlayer {
    autoscaler: Autoscaler,
    cloud: ObservedCloud,
    external: ExternalScaling,
    status: StatusConfigMap,
    /// Whether target sizes are read from the status.
    reads_targets: bool,
    /// The start times of recorded loops that are still to run; `None` if loops run when they are due.
    recorded_loops: Option<VecDeque<Moment>>,
    last_loop: Moment,
    /// The moment at which the replay ends.
    end: Moment,
    replay: AutoscalerReplay,
}

/// The name of the autoscaler's status ConfigMap.
struct StatusConfigMap {
    namespace: Arc<str>,
    name: Arc<str>,
}

/// The fields of a ConfigMap that show loops.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ConfigMap {
    data: BTreeMap<String, String>,
}

const SECOND: i64 = 1_000_000_000;
/// The minimum and maximum time to replay before the moment.
const MIN_REPLAYED: i64 = 30 * 60 * SECOND;
const MAX_REPLAYED: i64 = 24 * 3600 * SECOND;
/// The number of loops just before the moment that are run at their own times; older ones are thinned to this number.
const LAST_LOOPS: usize = 200;
/// The minimum interval between loops.
const MIN_LOOP_INTERVAL: i64 = MIN_REPLAYED / 400;
/// A loop writes its status when it ends, this long after its start at most.
const MAX_LOOP_DURATION: i64 = 60 * SECOND;

/// Replays the time before a moment, and calls `each` for every loop. The last loop is at the moment itself;
/// `extra_objects` is applied just before it.
pub(crate) fn replay_autoscaler(
    listener: &mut dyn ProgressListener,
    open_history: &OpenHistory,
    source: &Arc<str>,
    choice: &AutoscalerChoice,
    as_of: AsOf,
    extra_objects: &[Object],
    mut each: impl FnMut(LoopResult, &mut Autoscaler, &ObservedCloud),
) -> anyhow::Result<AutoscalerReplay> {
    let moment = as_of.moment();
    let start = open_history.history.span()?.map_or(moment, |(start, _)| start);
    let from = moment.plus_nanos(-replayed_nanos(choice)).max(start).min(moment);
    let mut player = AutoscalerPlayer::new(open_history, source, choice, from, moment)?;
    let kinds: std::collections::BTreeSet<Kind> =
        scheduler::KINDS.iter().chain(KINDS).map(|(group, kind)| Kind::new(group, kind)).collect();
    let selection = Selection {
        kinds: Some(kinds.into_iter().collect()),
        source: Some(source.clone()),
        ..Selection::default()
    };
    let mut objects = BTreeMap::new();
    open_history.history.for_each_at(from, &selection, |version| {
        objects.insert(version.key, version.object);
    })?;
    for object in objects.into_values() {
        player.apply_initial(&What::Added(object));
    }
    let total = seconds(moment.nanos_since(from));
    let window = Window { from: from.plus_nanos(1), to: moment.plus_nanos(1) };
    for change in open_history.history.between(window, &selection)? {
        let change = change?;
        if let AsOf::Before(at, seq) = as_of
            && change.at == at
            && change.seq >= seq
        {
            break;
        }
        player.run_until(change.at.min(moment), &mut each);
        listener.progress(seconds(change.at.nanos_since(from)), total)?;
        player.apply_change(change.at, &change.what);
    }
    player.run_until(moment, &mut each);
    listener.progress(total, total)?;
    for object in extra_objects {
        player.apply_initial(&What::Added(object.clone()));
    }
    player.run(moment, &mut each);
    Ok(player.replay)
}

// === impl AutoscalerPlayer ===

impl AutoscalerPlayer {
    fn new(
        open_history: &OpenHistory,
        source: &Arc<str>,
        choice: &AutoscalerChoice,
        from: Moment,
        moment: Moment,
    ) -> anyhow::Result<AutoscalerPlayer> {
        let status = StatusConfigMap {
            namespace: choice.settings.namespace.clone(),
            name: choice.settings.status_config_map_name.clone(),
        };
        let recorded = recorded_loops(open_history, source, &status, Window { from, to: moment })?;
        let as_recorded = !recorded.is_empty();
        Ok(AutoscalerPlayer {
            autoscaler: Autoscaler::new(choice.settings.clone(), from),
            cloud: ObservedCloud::new(
                choice.groups_without_targets(),
                choice.pricing,
                choice.gpu_label.clone(),
            ),
            external: ExternalScaling::default(),
            status,
            reads_targets: !choice.has_targets_equal_to_nodes(),
            recorded_loops: as_recorded.then(|| recorded.into()),
            last_loop: from,
            end: moment,
            replay: AutoscalerReplay { from, first_loop: moment, loops: 0, as_recorded },
        })
    }

    /// Applies an initial or hypothetical object.
    fn apply_initial(&mut self, what: &What) {
        self.apply(None, what);
        self.external.observe_initial(what.object());
    }

    /// Applies a recorded change.
    fn apply_change(&mut self, at: Moment, what: &What) {
        self.apply(Some(at), what);
        self.external.observe(self.replay.from, at, what, &mut self.autoscaler, &self.cloud);
    }

    fn apply(&mut self, at: Option<Moment>, what: &What) {
        self.cloud.apply(what);
        self.autoscaler.apply(what);
        let status = what.state().filter(|_| self.reads_targets).and_then(|object| self.status.read(object));
        for (group, target) in status.as_deref().map(targets).unwrap_or_default() {
            self.cloud.set_target(&group, target);
            self.external.observe_target(at, &group, target, &mut self.autoscaler, &self.cloud);
        }
    }

    /// Runs the loops that are due before a moment.
    fn run_until(
        &mut self,
        moment: Moment,
        each: &mut impl FnMut(LoopResult, &mut Autoscaler, &ObservedCloud),
    ) {
        loop {
            let loop_at = match &self.recorded_loops {
                Some(recorded) => recorded.front().copied().unwrap_or(Moment::MAX),
                None => self.autoscaler.next_loop().max(self.last_loop.plus_nanos(self.min_interval())),
            };
            if loop_at >= moment {
                return;
            }
            if let Some(recorded) = &mut self.recorded_loops {
                recorded.pop_front();
            }
            self.run(loop_at, each);
        }
    }

    fn run(&mut self, now: Moment, each: &mut impl FnMut(LoopResult, &mut Autoscaler, &ObservedCloud)) {
        if self.replay.loops == 0 {
            self.replay.first_loop = now;
        }
        self.replay.loops += 1;
        self.last_loop = now;
        self.cloud.begin_loop();
        self.autoscaler.background(now, &mut self.cloud);
        let loop_result = self.autoscaler.dry_run_once(now, &mut self.cloud);
        each(loop_result, &mut self.autoscaler, &self.cloud);
    }

    /// The minimum interval to the next loop: long ago, loops are run less often.
    fn min_interval(&self) -> i64 {
        let older = self.end.nanos_since(self.replay.from) - MIN_REPLAYED;
        let is_old = self.replay.loops > 0 && self.end.nanos_since(self.last_loop) > MIN_REPLAYED;
        if is_old { MIN_LOOP_INTERVAL.max(older / LAST_LOOPS as i64) } else { MIN_LOOP_INTERVAL }
    }
}

// === impl StatusConfigMap ===

impl StatusConfigMap {
    /// Returns the status, if this is the status ConfigMap.
    fn read(&self, object: &Object) -> Option<String> {
        let meta = object.meta();
        if meta.kind != "ConfigMap" || meta.name != *self.name || meta.namespace != *self.namespace {
            return None;
        }
        object.view::<ConfigMap>().ok()?.data.remove("status")
    }
}

/// Returns how long to replay: long enough for unneeded times and cooldowns to elapse.
fn replayed_nanos(choice: &AutoscalerChoice) -> i64 {
    let settings = &choice.settings;
    let of_groups = choice.groups.iter().map(|group| settings.group_options(group.options.as_ref()));
    let unneeded_times = of_groups
        .chain([settings.group_options(None)])
        .flat_map(|options| [options.scale_down_unneeded_time, options.scale_down_unready_time]);
    let delays = [settings.scale_down_delay_after_add, settings.scale_down_delay_after_delete];
    let longest = unneeded_times.chain(delays).max().unwrap_or_default();
    let longest = longest.saturating_add(settings.scan_interval.saturating_mul(2));
    i64::try_from(longest.as_nanos()).unwrap_or(MAX_REPLAYED).clamp(MIN_REPLAYED, MAX_REPLAYED)
}

/// Returns the start times of the recorded autoscaler's loops, according to its status.
fn recorded_loops(
    open_history: &OpenHistory,
    source: &Arc<str>,
    status_map: &StatusConfigMap,
    window: Window,
) -> anyhow::Result<Vec<Moment>> {
    let selection = Selection {
        kinds: Some(vec![Kind::new("", "ConfigMap")]),
        source: Some(source.clone()),
        namespace: Some(status_map.namespace.to_string()),
        name: Some(status_map.name.to_string()),
    };
    let write_window = Window { from: window.from, to: window.to.plus_nanos(MAX_LOOP_DURATION) };
    let mut loop_starts = Vec::new();
    for change in open_history.history.between(write_window, &selection)? {
        let change = change?;
        let status = change.what.state().and_then(|object| status_map.read(object));
        let moment = status.as_deref().and_then(loop_start_from_status);
        loop_starts.extend(moment.filter(|moment| window.from < *moment && *moment < window.to));
    }
    loop_starts.sort_unstable();
    loop_starts.dedup();
    let first = loop_starts.first().copied();
    let min_distance = window.to.nanos_since(window.from) / LAST_LOOPS as i64;
    let mut selected: Vec<Moment> = Vec::new();
    for moment in loop_starts.into_iter().rev() {
        let is_far_enough = |later: &Moment| later.nanos_since(moment) >= min_distance;
        if selected.len() < LAST_LOOPS || selected.last().is_none_or(is_far_enough) {
            selected.push(moment);
        }
    }
    // Unneeded times count from the first loop.
    selected.extend(first.filter(|first| selected.last() != Some(first)));
    selected.reverse();
    Ok(selected)
}

/// Returns the target size of each group.
fn targets(status: &str) -> Vec<(String, i64)> {
    let Ok(status) = formats::manifests::parse_yaml("status", status) else { return Vec::new() };
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

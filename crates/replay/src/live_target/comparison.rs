//! The comparison of a recorded target with the recording that was replayed into it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use history::{BulkWriter, History, Selection};
use kubernetes::objects::NodeView;
use live::apply::{OWNER_ANNOTATION, RUN_LABEL, ReplaySpeed, UID_ANNOTATION};
use model::{Change, IncomingChange, Moment, Window};

use super::plan::LivePlan;
use super::summary::RunSummary;
use super::target_recording::{SOURCE, TargetRecording};
use crate::compare_histories::{CounterpartAnnotations, PodMatcher};
use crate::demands::extract_demands;
use crate::history_part::HistoryPart;
use crate::plan::{RecordingAnalysis, ReplayListener, ReplayPlan};
use crate::recording_metrics::RecordingMeter;
use crate::report::{Caveat, CaveatTopic, Report, ScalingComparison, TimeSpan};

/// A recorded target and the recording that was replayed into it. First call
/// [`write_history`](LiveComparison::write_history), then [`report`](LiveComparison::report).
pub struct LiveComparison<'a> {
    live: &'a LivePlan<'a>,
    summary: &'a RunSummary,
    recording: TargetRecording,
    plan: ReplayPlan,
    /// When the replay of changes began.
    began: Moment,
    /// The recorded moment that it began with.
    from: Moment,
    was_paused: bool,
}

// === impl LiveComparison ===

impl<'a> LiveComparison<'a> {
    /// The replay of changes began at `began`, with those recorded at `from`.
    pub(super) fn new(
        live: &'a LivePlan<'a>,
        summary: &'a RunSummary,
        recording: TargetRecording,
        (began, from): (Moment, Moment),
        was_paused: bool,
    ) -> anyhow::Result<LiveComparison<'a>> {
        let plan = ReplayPlan::make(&live.options.replay, live.part.open_history)?;
        Ok(LiveComparison { live, summary, recording, plan, began, from, was_paused })
    }

    /// The settings of the recorded cluster.
    pub fn plan(&self) -> &ReplayPlan {
        &self.plan
    }

    /// Writes the recording of the target as a history in recorded time.
    pub fn write_history(&self, path: &Path) -> anyhow::Result<()> {
        let speed = match self.live.speed(self.from) {
            ReplaySpeed::Max => 1.0,
            ReplaySpeed::Scaled { speed, .. } => speed,
        };
        let recorded_time =
            |at: Moment| self.from.plus_nanos((at.nanos_since(self.began) as f64 * speed) as i64);
        rewrite(&self.recording, path, &self.plan.resolved.part.source, recorded_time)
    }

    /// Compares the history that [`write_history`](LiveComparison::write_history) wrote with the recording.
    pub fn report(self, path: &Path, mut listener: impl ReplayListener) -> anyhow::Result<Report> {
        let LiveComparison { live, summary, mut plan, from, was_paused, .. } = self;
        let open_history = live.part.open_history;
        let replayed = History::open(path)?;
        let RecordingAnalysis { demands, metrics, node_counts } =
            plan.analyze_recording(open_history, &mut listener)?;
        drop(listener);
        let source = plan.resolved.part.source.clone();
        let window = Window { from, ..plan.resolved.part.window };
        let part = HistoryPart { source: source.clone(), window };
        let mut pod_matcher =
            PodMatcher::new(CounterpartAnnotations { uid: UID_ANNOTATION, owner: OWNER_ANNOTATION });
        live.part.for_each_change(|change| pod_matcher.add_recorded(change))?;
        let mut own_nodes = OwnNodes { run: &live.run_name, names: BTreeSet::new() };
        let everything = Selection { source: Some(source), ..Selection::default() };
        for change in replayed.between(Window { to: window.to, ..Window::ALL }, &everything)? {
            let change = change?;
            pod_matcher.add_replayed(&change);
            own_nodes.add(&change);
        }
        let initial_pods = pod_matcher.initial_pods(from, &demands)?;
        let class_of = |node: &NodeView| Some(plan.resolved.classes.class_of(node));
        let mut meter = RecordingMeter::new(from).without_initial_pods(initial_pods.clone());
        let replayed_demands =
            // The drains of the target's autoscaler, if it has one, are decisions of the target.
            extract_demands(&replayed, &part, true, &[], &class_of, Some(&mut meter), |_, _| Ok(()))?;
        for (kind, count) in replayed_demands.totals.evictions.iter().filter(|(kind, _)| !kind.is_input()) {
            meter.pods_evicted(kind.as_str(), *count);
        }
        let (replayed_metrics, replayed_curve) = meter.finish(plan.resolved.end);
        let fidelity = pod_matcher.compare(
            from,
            &initial_pods,
            (&demands, &metrics),
            (&replayed_demands, &replayed_metrics),
        )?;
        let mut caveats = plan.caveats(open_history)?;
        caveats.extend(Caveat::of_demands(&demands));
        caveats.push(Caveat::new(
            CaveatTopic::Target,
            "the target's components decided with their own settings; the settings above are the recorded ones",
        ));
        caveats.extend(own_nodes.caveat());
        if !initial_pods.is_empty() {
            let text = format!(
                "{} pods were bound when the recording began: the target binds them anew, which counts neither as \
                 bindings nor as pending time",
                initial_pods.len()
            );
            caveats.push(Caveat::new(CaveatTopic::Target, text));
        }
        if live.speed(from) == ReplaySpeed::Max {
            let text = "replayed at maximum speed: times to bind are not comparable";
            caveats.push(Caveat::new(CaveatTopic::Target, text));
        }
        if was_paused {
            let text = "the run was paused: all later changes of the target are delayed";
            caveats.push(Caveat::new(CaveatTopic::Target, text));
        }
        if summary.is_stopped {
            let text = format!(
                "the run was stopped at {}: later changes were not applied",
                summary.position.unwrap_or(from)
            );
            caveats.push(Caveat::new(CaveatTopic::Target, text));
        }
        let groups = plan.resolved.groups.iter().map(|group| &group.name);
        Ok(Report {
            history: open_history
                .history
                .path()
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            source: plan.resolved.part.source.to_string(),
            target: Some(summary.target.display().to_string()),
            window: TimeSpan::new(window.from, plan.resolved.end),
            level: plan.resolved.level,
            seed: plan.resolved.seed,
            settings: plan.reported_settings(),
            recorded: metrics,
            replayed: replayed_metrics,
            fidelity,
            scaling: ScalingComparison::of(groups, &node_counts, &replayed_curve, window),
            caveats,
        })
    }
}

/// Nodes of the target that the run did not create.
struct OwnNodes<'a> {
    run: &'a str,
    names: BTreeSet<String>,
}

/// The most nodes that a caveat names.
const MAX_NAMED_NODES: usize = 3;

// === impl OwnNodes ===

impl OwnNodes<'_> {
    fn add(&mut self, change: &Change) {
        let name = &*change.key.name;
        if !change.key.kind.is("", "Node") || self.names.contains(name) {
            return;
        }
        let node = change.what.object().value().unwrap_or_default();
        if node["metadata"]["labels"][RUN_LABEL] != self.run {
            self.names.insert(name.to_owned());
        }
    }

    fn caveat(&self) -> Option<Caveat> {
        let (count, named) = (self.names.len(), self.names.iter().take(MAX_NAMED_NODES));
        let mut named: Vec<&str> = named.map(String::as_str).collect();
        if count > named.len() {
            named.push("…");
        }
        let nodes = if count == 1 { "node of the target is" } else { "nodes of the target are" };
        let text = format!(
            "{count} {nodes} not of this run ({}): pods may be bound there, and metrics of nodes and utilization include \
             them",
            named.join(", ")
        );
        (count > 0).then(|| Caveat::new(CaveatTopic::Target, text))
    }
}

/// Rewrites a recording under another source name, with another time for each change.
fn rewrite(
    recording: &TargetRecording,
    path: &Path,
    source: &Arc<str>,
    time: impl Fn(Moment) -> Moment,
) -> anyhow::Result<()> {
    let recorded = History::open(&recording.path)?;
    let everything = Selection { source: Some(SOURCE.into()), ..Selection::default() };
    let mut bulk = BulkWriter::open(path)?;
    for change in recorded.between(Window::ALL, &everything)? {
        let change = change?;
        let incoming = IncomingChange {
            inferred: change.inferred,
            ..IncomingChange::received(time(change.at), source, change.what)
        };
        bulk.push(&incoming)?;
    }
    bulk.finish()?;
    Ok(())
}

//! The analysis of a recording before its replay: demands, metrics, and measured latencies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use autoscaler::{Delay, Provisioning};
use calibration::observed::ObservedChange;
use calibration::{LatencyMeter, ProvisioningMeter};
use history::History;
use kubernetes::objects::NodeView;
use model::{Moment, Object, What};
use serde::Deserialize;
use simulation::latency::Latencies;

use super::node_scaling::NodeScaling;
use super::recording_analysis::RecordingAnalysis;
use super::resolved_replay::ResolvedReplay;
use crate::demands::extract_demands;
use crate::error::Error;
use crate::recording_metrics::RecordingMeter;

/// Latencies, node names and loop times measured from a recording.
struct RecordingMeasurements {
    latencies: Latencies,
    /// Provisioning times of new nodes, by group.
    provisioning: Vec<Option<Provisioning>>,
    /// The names of added nodes, by group, in order.
    node_names: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// When the autoscaler's first loop of the window began, according to its status.
    first_loop: Option<Moment>,
}

/// Collects measurements, change by change.
struct MeasurementCollector<'a> {
    replay: &'a ResolvedReplay,
    latencies: LatencyMeter,
    provisioning: ProvisioningMeter<'a>,
    node_names: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// All names in `node_names`.
    seen_names: BTreeSet<Arc<str>>,
    first_loop: Option<Moment>,
}

/// The fields of a ConfigMap that hold the autoscaler's status.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ConfigMap {
    data: BTreeMap<String, String>,
}

impl ResolvedReplay {
    /// Extracts the demands of the recording, and takes from it the settings that are to be as recorded.
    /// `should_continue` is called with the recorded time reached, and returns false to cancel. Also returns
    /// true if provisioning times are to be measured, but no new node was recorded.
    pub fn analyze_recording(
        &mut self,
        history: &History,
        should_continue: impl FnMut(Moment) -> bool,
    ) -> Result<(RecordingAnalysis, bool), Error> {
        let (analysis, measured) = analyze(self, history, should_continue)?;
        let RecordingMeasurements { latencies, provisioning, node_names, first_loop } = measured;
        if self.measured.node_names {
            self.node_names = node_names;
        }
        if self.measured.latencies {
            self.latencies = latencies;
            let interval = i64::try_from(self.autoscaler.scan_interval.as_nanos()).unwrap_or(i64::MAX);
            self.autoscaler_start =
                first_loop.map_or(self.autoscaler_start, |first| first.plus_nanos(interval.saturating_neg()));
        }
        let unmeasured = self.measured.provisioning && !self.set_provisioning(provisioning);
        Ok((analysis, unmeasured))
    }

    /// Sets the provisioning times of groups to the recorded ones; groups without new nodes get those of all others.
    /// Returns false if no new node was recorded.
    fn set_provisioning(&mut self, measured: Vec<Option<Provisioning>>) -> bool {
        if measured.iter().all(Option::is_none) {
            return false;
        }
        let all = |delay: fn(&Provisioning) -> &Delay| {
            let spans = measured.iter().flatten().flat_map(|provisioning| match delay(provisioning) {
                Delay::Constant(span) => vec![*span],
                Delay::PerItem(work) => vec![work.base],
                Delay::Samples(spans) => spans.clone(),
                Delay::SamplesByTime(spans) => spans.iter().map(|(_, span)| *span).collect(),
            });
            let mut spans: Vec<_> = spans.collect();
            spans.sort_unstable();
            Delay::Samples(spans)
        };
        let default_provisioning = Provisioning {
            registers_after: all(|provisioning| &provisioning.registers_after),
            ready_after: all(|provisioning| &provisioning.ready_after),
        };
        for (group, measured) in self.groups.iter_mut().zip(measured) {
            group.provisioning = measured.unwrap_or_else(|| default_provisioning.clone());
        }
        true
    }
}

/// Reads a recording for its demands, metrics and measurements.
fn analyze(
    replay: &ResolvedReplay,
    history: &History,
    mut should_continue: impl FnMut(Moment) -> bool,
) -> Result<(RecordingAnalysis, RecordingMeasurements), Error> {
    let class_of = |node: &NodeView| Some(replay.classes.class_of(node));
    let mut recording_meter = RecordingMeter::new(replay.part.window.from);
    let mut collector = MeasurementCollector::new(replay);
    let replay_has_autoscaler = replay.node_scaling == NodeScaling::Autoscaled;
    let controllers = crate::level::controllers(replay.level, replay_has_autoscaler);
    let meter = Some(&mut recording_meter);
    let demands = extract_demands(
        history,
        &replay.part,
        replay_has_autoscaler,
        controllers,
        &class_of,
        meter,
        |at, change| {
            collector.observe(at, change);
            if should_continue(at) { Ok(()) } else { Err(Error::Stopped) }
        },
    )?;
    for (kind, count) in demands.totals.evictions.iter().filter(|(kind, _)| !kind.is_input()) {
        recording_meter.pods_evicted(kind.as_str(), *count);
    }
    let (metrics, node_counts) = recording_meter.finish(replay.end);
    Ok((RecordingAnalysis { demands, metrics, node_counts }, collector.finish()))
}

// === impl MeasurementCollector ===

impl<'a> MeasurementCollector<'a> {
    fn new(replay: &'a ResolvedReplay) -> MeasurementCollector<'a> {
        MeasurementCollector {
            replay,
            latencies: LatencyMeter::new(replay.seed),
            provisioning: ProvisioningMeter::new(&replay.groups),
            node_names: BTreeMap::new(),
            seen_names: BTreeSet::new(),
            first_loop: None,
        }
    }

    fn observe(&mut self, at: Moment, change: &ObservedChange) {
        self.latencies.observe(at, change);
        self.provisioning.observe(at, change);
        match (&*change.key.kind.kind, &change.what) {
            ("Node", What::Added(_)) if at > self.replay.part.window.from => {
                change.node.iter().for_each(|node| self.observe_node(node));
            }
            ("ConfigMap", What::Added(map) | What::Modified(map)) if self.first_loop.is_none() => {
                self.first_loop = self.loop_start(map);
            }
            _ => {}
        }
    }

    fn observe_node(&mut self, node: &NodeView) {
        let Some(group) = self.replay.classes.group_of(node) else { return };
        if self.seen_names.insert(node.name.clone()) {
            self.node_names.entry(group.clone()).or_default().push(node.name.clone());
        }
    }

    fn loop_start(&self, map: &Object) -> Option<Moment> {
        let settings = &self.replay.autoscaler;
        let meta = map.meta();
        let is_status_map =
            meta.name == *settings.status_config_map_name && meta.namespace == *settings.namespace;
        let status = map.view::<ConfigMap>().ok().filter(|_| is_status_map)?.data.remove("status")?;
        autoscaler::loop_start_from_status(&status).filter(|began| *began >= self.replay.part.window.from)
    }

    fn finish(self) -> RecordingMeasurements {
        RecordingMeasurements {
            latencies: self.latencies.finish(),
            provisioning: self.provisioning.finish(),
            node_names: self.node_names,
            first_loop: self.first_loop,
        }
    }
}

//! A recording read for the first time: what stands behind it, and what it came to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use autoscaler::{Delay, Provisioning};
use calibration::seen::Seen;
use calibration::{Measure, MeasurePace};
use history::History;
use model::{Moment, Object, What};
use serde::Deserialize;
use simulation::pace::Pace;

use super::nodes::Nodes;
use super::run::RunPlan;
use super::survey_result::SurveyResult;
use crate::causes::Lost;
use crate::error::Error;
use crate::play::survey;
use crate::recorded::Recorded;

/// What a recording tells of how long things took, and when.
struct Measured {
    pace: Pace,
    /// How long new nodes took, group by group.
    provisioning: Vec<Option<Provisioning>>,
    /// The nodes that came, group by group in their order.
    names: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// When the autoscaler's first loop of the window began, as its status tells.
    first_loop: Option<Moment>,
}

/// What is measured, while it is.
struct Measuring<'a> {
    plan: &'a RunPlan,
    pace: MeasurePace,
    provisioning: Measure<'a>,
    names: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// All of those.
    named: BTreeSet<Arc<str>>,
    first_loop: Option<Moment>,
}

/// What of a ConfigMap tells of loops.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ConfigMap {
    data: BTreeMap<String, String>,
}

impl RunPlan {
    /// Reads the recording for the first time, and takes from it what is to be as recorded. `goes_on` is told how late it is
    /// in the recording, and may end the survey. Says whether how long new nodes take was to be measured and could not.
    pub fn survey(
        &mut self,
        history: &History,
        goes_on: impl FnMut(Moment) -> bool,
    ) -> Result<(SurveyResult, bool), Error> {
        let (known, measured) = read(self, history, goes_on)?;
        let Measured { pace, provisioning, names, first_loop } = measured;
        if self.measured.names {
            self.names = names;
        }
        if self.measured.pace {
            self.pace = pace;
            let interval = i64::try_from(self.autoscaler.scan_interval.as_nanos()).unwrap_or(i64::MAX);
            self.start = first_loop.map_or(self.start, |first| first.plus_nanos(interval.saturating_neg()));
        }
        let unmeasured = self.measured.provisioning && !self.take_provisioning(provisioning);
        Ok((known, unmeasured))
    }

    /// New nodes of a group take as long as recorded ones; those of a group that got none as long as all others. False if
    /// no new node was recorded.
    fn take_provisioning(&mut self, measured: Vec<Option<Provisioning>>) -> bool {
        if measured.iter().all(Option::is_none) {
            return false;
        }
        let all = |delay: fn(&Provisioning) -> &Delay| {
            let spans = measured.iter().flatten().flat_map(|it| match delay(it) {
                Delay::Constant(span) => vec![*span],
                Delay::ByWork(work) => vec![work.least],
                Delay::Measured(spans) => spans.clone(),
                Delay::ByTime(spans) => spans.iter().map(|(_, span)| *span).collect(),
            });
            let mut spans: Vec<_> = spans.collect();
            spans.sort_unstable();
            Delay::Measured(spans)
        };
        let usual = Provisioning {
            registers_after: all(|it| &it.registers_after),
            ready_after: all(|it| &it.ready_after),
        };
        for (group, measured) in self.groups.iter_mut().zip(measured) {
            group.provisioning = measured.unwrap_or_else(|| usual.clone());
        }
        true
    }
}

/// Reads a recording: what stands behind it, what it came to, and how long things took.
fn read(
    plan: &RunPlan,
    history: &History,
    mut goes_on: impl FnMut(Moment) -> bool,
) -> Result<(SurveyResult, Measured), Error> {
    let class_of = |node: &Object| Some(plan.classes.class_of(node));
    let mut recorded = Recorded::new(plan.part.window.from);
    let mut measuring = Measuring::new(plan);
    let scales = plan.nodes == Nodes::Autoscaled;
    let controllers = crate::level::controllers(plan.level, scales);
    let counted = Some(&mut recorded);
    let causes = survey(history, &plan.part, scales, controllers, &class_of, counted, |at, seen| {
        measuring.see(at, seen);
        if goes_on(at) { Ok(()) } else { Err(Error::Stopped) }
    })?;
    for (why, count) in causes.totals.lost.iter().filter(|(lost, _)| **lost != Lost::People) {
        recorded.lost(why.word(), *count);
    }
    let (figures, curve) = recorded.finish(plan.end);
    Ok((SurveyResult { causes, figures, curve }, measuring.finish()))
}

// === impl Measuring ===

impl<'a> Measuring<'a> {
    fn new(plan: &'a RunPlan) -> Measuring<'a> {
        Measuring {
            plan,
            pace: MeasurePace::new(plan.seed),
            provisioning: Measure::new(&plan.groups),
            names: BTreeMap::new(),
            named: BTreeSet::new(),
            first_loop: None,
        }
    }

    fn see(&mut self, at: Moment, seen: &Seen) {
        self.pace.see(at, seen);
        self.provisioning.see(at, seen);
        match (&*seen.key.kind.kind, &seen.what) {
            ("Node", What::Added(node)) if at > self.plan.part.window.from => self.node(node),
            ("ConfigMap", What::Added(map) | What::Modified(map)) if self.first_loop.is_none() => {
                self.first_loop = self.loop_of(map);
            }
            _ => {}
        }
    }

    fn node(&mut self, node: &Object) {
        let Some(group) = self.plan.classes.group_of(node) else { return };
        let name: Arc<str> = (*node.meta().name).into();
        if self.named.insert(name.clone()) {
            self.names.entry(group.clone()).or_default().push(name);
        }
    }

    fn loop_of(&self, map: &Object) -> Option<Moment> {
        let settings = &self.plan.autoscaler;
        let meta = map.meta();
        let is_it = meta.name == *settings.status_config_map_name && meta.namespace == *settings.namespace;
        let status = map.view::<ConfigMap>().ok().filter(|_| is_it)?.data.remove("status")?;
        autoscaler::loop_of(&status).filter(|began| *began >= self.plan.part.window.from)
    }

    fn finish(self) -> Measured {
        Measured {
            pace: self.pace.finish(),
            provisioning: self.provisioning.finish(),
            names: self.names,
            first_loop: self.first_loop,
        }
    }
}

//! A recording read for the first time: what stands behind it, and what it came to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::bail;
use autoscaler::Provisioning;
use calibration::seen::Seen;
use calibration::{Measure, MeasurePace};
use model::{Moment, Object, What};
use query::Chosen;
use replay::causes::{Causes, Lost};
use replay::figures::Figures;
use replay::play::survey;
use replay::recorded::{Curve, Recorded};
use serde::Deserialize;
use simulation::pace::Pace;

use super::plan::{Nodes, Plan};
use super::seconds;
use crate::cli::output::Out;
use crate::cli::progress::Progress;
use crate::cli::signals;

/// What a recording tells.
pub(super) struct Surveyed {
    pub(super) known: Known,
    pub(super) measured: Measured,
}

/// What stands behind it, and what it came to.
pub(super) struct Known {
    pub(super) causes: Causes,
    /// What happened.
    pub(super) figures: Figures,
    /// How many nodes there were.
    pub(super) curve: Curve,
}

/// What a recording tells of how long things took, and when.
pub(super) struct Measured {
    pub(super) pace: Pace,
    /// How long new nodes took, group by group.
    pub(super) provisioning: Vec<Option<Provisioning>>,
    /// The nodes that came, group by group in their order.
    pub(super) names: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// When the autoscaler's first loop of the window began, as its status tells.
    pub(super) first_loop: Option<Moment>,
}

/// What is measured, while it is.
struct Measuring<'a> {
    plan: &'a Plan,
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

impl Surveyed {
    /// Reads it. One without pods or nodes is refused.
    pub(super) fn read(out: &Out, chosen: &Chosen, plan: &Plan) -> anyhow::Result<Surveyed> {
        let from = plan.part.window.from;
        let progress = Progress::reading(out, seconds(plan.end.nanos_since(from)));
        let class_of = |node: &Object| Some(plan.classes.class_of(node));
        let mut recorded = Recorded::new(from);
        let mut measuring = Measuring::new(plan);
        let scales = plan.nodes == Nodes::Autoscaled;
        let controllers = replay::level::controllers(plan.level, scales);
        let (history, part, counted) = (&chosen.history, &plan.part, Some(&mut recorded));
        let causes = survey(history, part, scales, controllers, &class_of, counted, |at, seen| {
            measuring.see(at, seen);
            progress.at(seconds(at.nanos_since(from)));
        })?;
        signals::check()?;
        if causes.totals.demands == 0 && causes.made.controllers().is_empty() {
            bail!("there is no pod from {from} to {}: there is nothing to replay", plan.end);
        }
        if recorded.curve.0.is_empty() && !scales {
            bail!("there is no node from {from} to {}: nothing can be said of where pods go", plan.end);
        }
        for (why, count) in causes.totals.lost.iter().filter(|(lost, _)| **lost != Lost::People) {
            recorded.lost(why.word(), *count);
        }
        let (figures, curve) = recorded.finish(plan.end);
        let known = Known { causes, figures, curve };
        Ok(Surveyed { known, measured: measuring.finish() })
    }
}

// === impl Measuring ===

impl<'a> Measuring<'a> {
    fn new(plan: &'a Plan) -> Measuring<'a> {
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
        let settings = &self.plan.autoscaler.settings;
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

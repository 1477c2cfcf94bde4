//! A recording read for the first time: what stands behind it, and what it came to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::bail;
use autoscaler::Provisioning;
use calibration::seen::Seen;
use calibration::{Measure, MeasurePace};
use model::{Moment, Object, What};
use query::Chosen;
use serde::Deserialize;
use simulation::pace::Pace;

use super::{Nodes, Plan, Watcher};
use crate::causes::{Causes, Lost};
use crate::figures::Figures;
use crate::play::survey;
use crate::recorded::{Curve, Recorded};

/// What stands behind it, and what it came to.
pub struct Known {
    /// What was given.
    pub causes: Causes,
    /// What happened.
    pub figures: Figures,
    /// How many nodes there were.
    pub curve: Curve,
}

/// What a recording tells of how long things took, and when.
pub(crate) struct Measured {
    pub pace: Pace,
    /// How long new nodes took, group by group.
    pub provisioning: Vec<Option<Provisioning>>,
    /// The nodes that came, group by group in their order.
    pub names: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// When the autoscaler's first loop of the window began, as its status tells.
    pub first_loop: Option<Moment>,
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

impl Plan {
    /// Reads the recording for the first time, and takes from it how long things took. One without pods or nodes is
    /// refused.
    pub fn survey(&mut self, chosen: &Chosen, watcher: &mut dyn Watcher) -> anyhow::Result<Known> {
        let (known, measured) = self.read(chosen, watcher)?;
        self.take_measured(measured);
        Ok(known)
    }

    fn read(&self, chosen: &Chosen, watcher: &mut dyn Watcher) -> anyhow::Result<(Known, Measured)> {
        let plan = self;
        let from = plan.part.window.from;
        let class_of = |node: &Object| Some(plan.classes.class_of(node));
        let mut recorded = Recorded::new(from);
        let mut measuring = Measuring::new(plan);
        let scales = plan.nodes == Nodes::Autoscaled;
        let controllers = crate::level::controllers(plan.level, scales);
        let (history, part, counted) = (&chosen.history, &plan.part, Some(&mut recorded));
        let causes = survey(history, part, scales, controllers, &class_of, counted, |at, seen| {
            measuring.see(at, seen);
            watcher.reached(at);
        })?;
        watcher.check()?;
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
        Ok((Known { causes, figures, curve }, measuring.finish()))
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

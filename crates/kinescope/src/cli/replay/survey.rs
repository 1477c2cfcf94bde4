//! A recording read for the first time: what stands behind it, and what it came to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::bail;
use model::{Moment, Object, What};
use replay::causes::{Causes, Lost};
use replay::figures::Figures;
use replay::play::survey;
use replay::recorded::{Curve, Recorded};
use serde::Deserialize;
use sim::autoscaler::{Measure, Provisioning};
use sim::pace::{MeasurePace, Pace};

use super::plan::{Nodes, Plan};
use super::seconds;
use crate::cli::output::Out;
use crate::cli::progress::Progress;
use crate::cli::signals;
use crate::look::Chosen;

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
    /// What each node was like.
    pub(super) classes: BTreeMap<Arc<str>, Arc<str>>,
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
        let mut classes = BTreeMap::new();
        let mut measuring = Measuring::new(plan);
        let causes = survey(&chosen.history, &plan.part, plan.nodes == Nodes::Autoscaled, |at, what| {
            if what.object().meta().kind == "Node"
                && let Some(node) = what.state()
            {
                classes.insert((*node.meta().name).into(), plan.classes.class_of(node));
            }
            measuring.see(at, what);
            recorded.see(at, what, &class_of);
            progress.at(seconds(at.nanos_since(from)));
        })?;
        signals::check()?;
        if causes.demands.is_empty() {
            bail!("there is no pod from {from} to {}: there is nothing to replay", plan.end);
        }
        if classes.is_empty() && plan.nodes != Nodes::Autoscaled {
            bail!("there is no node from {from} to {}: nothing can be said of where pods go", plan.end);
        }
        let lost = causes.lives.iter().filter_map(|life| life.lost);
        for why in lost.filter(|lost| *lost != Lost::People) {
            recorded.lost(why.word());
        }
        let (figures, curve) = recorded.finish(plan.end);
        let known = Known { causes, figures, curve, classes };
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

    fn see(&mut self, at: Moment, what: &What) {
        self.pace.see(at, what);
        self.provisioning.see(at, what);
        match (&*what.object().meta().kind, what) {
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
        sim::autoscaler::loop_of(&status).filter(|began| *began >= self.plan.part.window.from)
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

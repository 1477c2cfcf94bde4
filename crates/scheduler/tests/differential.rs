//! Differential tests: the scheduler against a reference scheduler without caches, on random clusters and events. They
//! must agree on every node's verdict and scores, and on every decision.

mod reference;

use std::collections::BTreeSet;

use model::Moment;
use scheduler::{Decision, Explanation, NodeVerdict, Scheduler, Settings};
use testobjects::random_cluster::RandomCluster;

use reference::{ReferenceDecision, ReferenceExplanation, ReferenceScheduler, sorted};

const NOW: Moment = Moment::from_nanos(0);

/// Schedulers that receive the same events.
struct DifferentialTest {
    cluster: RandomCluster,
    cached: Scheduler,
    uncached: Scheduler,
    reference: ReferenceScheduler,
    seed: u64,
    step: usize,
}

#[test]
fn small_clusters() {
    for_seeds(120, |seed| DifferentialTest::new(seed, 6).run(120));
}

#[test]
fn clusters_large_enough_for_sampling() {
    for_seeds(5, |seed| DifferentialTest::new(seed, 130).run(40));
}

/// Runs `count` seeds from `KINESCOPE_TEST_SEED` on, times `KINESCOPE_TEST_SCALE`.
#[expect(clippy::disallowed_methods, reason = "the environment configures the test")]
fn for_seeds(count: u64, run: impl Fn(u64)) {
    let number = |name, default| {
        std::env::var(name).map_or(default, |text| text.parse().expect("the variable is a number"))
    };
    let first: u64 = number("KINESCOPE_TEST_SEED", 1);
    let scale: u64 = number("KINESCOPE_TEST_SCALE", 1);
    (first..first + count * scale).for_each(run);
}

// === impl DifferentialTest ===

impl DifferentialTest {
    fn new(seed: u64, nodes: usize) -> DifferentialTest {
        let mut uncached = Scheduler::new(Settings::default());
        uncached.disable_caches();
        let mut test = DifferentialTest {
            cluster: RandomCluster::new(seed),
            cached: Scheduler::new(Settings::default()),
            uncached,
            reference: ReferenceScheduler::default(),
            seed,
            step: 0,
        };
        let initial_changes = test.cluster.initial_changes(nodes);
        initial_changes.iter().for_each(|change| test.apply(change));
        test
    }

    fn run(&mut self, steps: usize) {
        for step in 0..steps {
            self.step = step;
            let change = self.cluster.next_change();
            self.apply(&change);
            while self.cluster.rng.chance(50) {
                let Some((namespace, name)) = self.cluster.pick_pending_pod() else { break };
                if self.cluster.rng.chance(60) {
                    self.explain(&namespace, &name);
                } else {
                    self.attempt(&namespace, &name);
                }
            }
        }
    }

    fn apply(&mut self, change: &model::What) {
        self.cached.apply(NOW, change);
        self.uncached.apply(NOW, change);
        self.reference.apply(change);
    }

    fn explain(&mut self, namespace: &str, name: &str) {
        let found = self.cached.explain(NOW, namespace, name).expect("the pod is pending");
        let without_cache = self.uncached.explain(NOW, namespace, name).expect("the pod is pending");
        assert_eq!(found, without_cache, "{} {namespace}/{name}: the cached result differs", self.location());
        let reference = self.reference.explain(namespace, name);
        for ((node, right), answer) in reference.nodes.iter().zip(&comparable(&found).nodes) {
            assert_eq!((node, right), (&answer.0, &answer.1), "{} {namespace}/{name}", self.location());
        }
        assert_eq!(comparable(&found), reference, "{} {namespace}/{name}", self.location());
    }

    fn attempt(&mut self, namespace: &str, name: &str) {
        let found = self.cached.attempt(NOW, namespace, name).expect("the pod is pending");
        let without_cache = self.uncached.attempt(NOW, namespace, name).expect("the pod is pending");
        assert_eq!(found, without_cache, "{} {namespace}/{name}: the cached result differs", self.location());
        let reference = self.reference.attempt(namespace, name);
        assert_eq!(comparable_decision(&found), reference, "{} {namespace}/{name}", self.location());
        match reference {
            ReferenceDecision::Scheduled { node, .. } => self.cluster.mark_placed(namespace, name, &node),
            ReferenceDecision::Unschedulable { .. } => {
                if let Some(change) = self.cluster.mark_unschedulable(namespace, name) {
                    self.apply(&change);
                }
            }
        }
    }

    fn location(&self) -> String {
        format!("seed {} (KINESCOPE_TEST_SEED), step {}:", self.seed, self.step)
    }
}

fn comparable(explanation: &Explanation) -> ReferenceExplanation {
    let verdict = |verdict: &NodeVerdict| match verdict {
        NodeVerdict::Rejected(status) => NodeVerdict::Rejected(sorted(status.clone())),
        fits => fits.clone(),
    };
    let nodes =
        explanation.nodes.iter().map(|evaluated| (evaluated.node.to_string(), verdict(&evaluated.verdict)));
    ReferenceExplanation {
        pre_filter: explanation.pre_filter_status.clone(),
        nodes: nodes.collect(),
        decision: comparable_decision(&explanation.decision),
    }
}

fn comparable_decision(decision: &Decision) -> ReferenceDecision {
    match decision {
        Decision::Scheduled(placement) => ReferenceDecision::Scheduled {
            node: placement.node.to_string(),
            evaluated_nodes: placement.evaluated_nodes,
            feasible_nodes: placement.feasible_nodes,
        },
        Decision::Unschedulable(rejection) => ReferenceDecision::Unschedulable {
            message: rejection.message.clone(),
            plugins: rejection.unschedulable_plugins.iter().map(ToString::to_string).collect::<BTreeSet<_>>(),
        },
        other => panic!("the pod should be attempted: {other:?}"),
    }
}

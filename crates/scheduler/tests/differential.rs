//! The scheduler against a plain one that follows the rules word by word and remembers nothing, on made-up clusters in
//! which much happens: they must agree on every node's verdict and scores, and on every decision.

mod plain;

use std::collections::BTreeSet;

use model::Moment;
use scheduler::{Decision, Explanation, NodeVerdict, Scheduler, Settings};
use testobjects::town::Town;

use plain::{Answer, Choice, Plain, sorted};

const NOW: Moment = Moment::from_nanos(0);

/// Scheduler after scheduler that is told the same.
struct Trial {
    town: Town,
    fast: Scheduler,
    forgetful: Scheduler,
    plain: Plain,
    seed: u64,
    step: usize,
}

#[test]
fn small_clusters() {
    for_seeds(120, |seed| Trial::new(seed, 6).run(120));
}

#[test]
fn clusters_of_which_only_a_part_is_looked_at() {
    for_seeds(5, |seed| Trial::new(seed, 130).run(40));
}

/// Runs some seeds from `KINESCOPE_TEST_SEED` on, `KINESCOPE_TEST_SCALE` times as many as said.
#[expect(clippy::disallowed_methods, reason = "a test takes its settings from whoever runs it")]
fn for_seeds(count: u64, run: impl Fn(u64)) {
    let number = |name, default| {
        std::env::var(name).map_or(default, |text| text.parse().expect("the variable is a number"))
    };
    let first: u64 = number("KINESCOPE_TEST_SEED", 1);
    let scale: u64 = number("KINESCOPE_TEST_SCALE", 1);
    (first..first + count * scale).for_each(run);
}

// === impl Trial ===

impl Trial {
    fn new(seed: u64, nodes: usize) -> Trial {
        let mut forgetful = Scheduler::new(Settings::default());
        forgetful.remember_nothing();
        let mut trial = Trial {
            town: Town::new(seed),
            fast: Scheduler::new(Settings::default()),
            forgetful,
            plain: Plain::default(),
            seed,
            step: 0,
        };
        let opening = trial.town.opening(nodes);
        opening.iter().for_each(|what| trial.tell(what));
        trial
    }

    fn run(&mut self, steps: usize) {
        for step in 0..steps {
            self.step = step;
            let what = self.town.event();
            self.tell(&what);
            while self.town.dice.chance(50) {
                let Some((namespace, name)) = self.town.waiting() else { break };
                if self.town.dice.chance(60) {
                    self.explain(&namespace, &name);
                } else {
                    self.attempt(&namespace, &name);
                }
            }
        }
    }

    fn tell(&mut self, what: &model::What) {
        self.fast.apply(NOW, what);
        self.forgetful.apply(NOW, what);
        self.plain.apply(what);
    }

    fn explain(&mut self, namespace: &str, name: &str) {
        let found = self.fast.explain(NOW, namespace, name).expect("it waits");
        let anew = self.forgetful.explain(NOW, namespace, name).expect("it waits");
        assert_eq!(found, anew, "{} {namespace}/{name}: what is remembered is wrong", self.place());
        let plain = self.plain.explain(namespace, name);
        for ((node, right), answer) in plain.nodes.iter().zip(&answer(&found).nodes) {
            assert_eq!((node, right), (&answer.0, &answer.1), "{} {namespace}/{name}", self.place());
        }
        assert_eq!(answer(&found), plain, "{} {namespace}/{name}", self.place());
    }

    fn attempt(&mut self, namespace: &str, name: &str) {
        let found = self.fast.attempt(NOW, namespace, name).expect("it waits");
        let anew = self.forgetful.attempt(NOW, namespace, name).expect("it waits");
        assert_eq!(found, anew, "{} {namespace}/{name}: what is remembered is wrong", self.place());
        let plain = self.plain.attempt(namespace, name);
        assert_eq!(choice(&found), plain, "{} {namespace}/{name}", self.place());
        match plain {
            Choice::Placed { node, .. } => self.town.placed(namespace, name, &node),
            Choice::Refused { .. } => {
                if let Some(what) = self.town.refused(namespace, name) {
                    self.tell(&what);
                }
            }
        }
    }

    fn place(&self) -> String {
        format!("seed {} (KINESCOPE_TEST_SEED), step {}:", self.seed, self.step)
    }
}

fn answer(explanation: &Explanation) -> Answer {
    let verdict = |verdict: &NodeVerdict| match verdict {
        NodeVerdict::Refused(refusal) => NodeVerdict::Refused(sorted(refusal.clone())),
        fits => fits.clone(),
    };
    let nodes = explanation.nodes.iter().map(|one| (one.node.to_string(), verdict(&one.verdict)));
    Answer {
        pre_filter: explanation.pre_filter.clone(),
        nodes: nodes.collect(),
        choice: choice(&explanation.decision),
    }
}

fn choice(decision: &Decision) -> Choice {
    match decision {
        Decision::Placed(placement) => Choice::Placed {
            node: placement.node.to_string(),
            looked_at: placement.looked_at,
            fitting: placement.fitting,
        },
        Decision::Refused(rejection) => Choice::Refused {
            message: rejection.message.clone(),
            plugins: rejection.plugins.iter().map(ToString::to_string).collect::<BTreeSet<_>>(),
        },
        other => panic!("the pod was to be tried: {other:?}"),
    }
}

//! What a decision costs as the cluster grows: not more with more pods, at most in proportion with more nodes.

use super::manifest::{Template, affine, plain, prefers, spread};
use super::play::play;
use super::stage::Stage;
use crate::Result;
use crate::figure::{Figure, Figures, Unit, with_commas};
use crate::samples::Samples;
use crate::studio::Studio;

/// The sizes compared: nodes, and pods on them.
const SMALL: Size = Size { nodes: 1_000, pods: 5_000 };
const USUAL: Size = Size { nodes: 5_000, pods: 5_000 };
const FULL: Size = Size { nodes: 5_000, pods: 50_000 };
const LARGE: Size = Size { nodes: 15_000, pods: 5_000 };
/// Pods decided about each time.
const MEASURED: usize = 2_000;
/// How often each is measured, by turns: what else the machine does falls on all alike.
const ROUNDS: usize = 5;
/// No growth, but for noise and for what the processor's caches no longer hold.
const NO_GROWTH: f64 = 1.25;
/// Pods of these kinds, placed and measured.
const KINDS: [(&str, Template); 4] = [
    ("plain pods", plain),
    ("required affinity", affine),
    ("preferred affinity", prefers),
    ("hard spreading", spread),
];

#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    pods: usize,
}

pub(super) fn run(studio: &Studio, figures: &mut Figures) -> Result<()> {
    for (kind, template) in KINDS {
        if !studio.is_wanted(kind) {
            continue;
        }
        let [small, usual, full, large] = costs([SMALL, USUAL, FULL, LARGE], template)?;
        let mut compare = |what: &str, less: f64, more: f64, budget: f64| {
            figures.add(
                Figure::new(format!("growth of a decision's cost, {kind}: {what}"), more / less, Unit::Times)
                    .budget(budget)
                    .also("from", less, Unit::Seconds)
                    .also("to", more, Unit::Seconds),
            );
        };
        compare(&from_to(USUAL.pods, FULL.pods, "pods"), usual, full, NO_GROWTH);
        for (less, more, costs) in [(SMALL, USUAL, (small, usual)), (USUAL, LARGE, (usual, large))] {
            let linear = more.nodes as f64 / less.nodes as f64;
            compare(&from_to(less.nodes, more.nodes, "nodes"), costs.0, costs.1, linear);
        }
    }
    Ok(())
}

/// Seconds a decision at each size.
fn costs<const N: usize>(sizes: [Size; N], template: Template) -> Result<[f64; N]> {
    let stages = sizes.map(|size| {
        let mut stage = Stage::new(1_000.0);
        stage.nodes_in(size.nodes, &["moon-1", "moon-2", "moon-3"]);
        stage.placed(size.pods, "sched-0", template);
        stage.measured(MEASURED, "sched-0", template);
        stage
    });
    let mut costs = [const { Vec::new() }; N];
    for _ in 0..ROUNDS {
        for (stage, costs) in stages.iter().zip(&mut costs) {
            costs.push(play(stage, &[])?.seconds / MEASURED as f64);
        }
    }
    Ok(costs.map(|costs| Samples::new(costs).median()))
}

fn from_to(less: usize, more: usize, of: &str) -> String {
    format!("from {} to {} {of}", with_commas(less as f64), with_commas(more as f64))
}

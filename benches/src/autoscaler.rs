//! The figures of the autoscaler: what one loop costs on a large cluster.

mod stage;

use std::time::Instant;

use autoscaler::ScaleUpResult;

use crate::figure::{Figure, Figures, Unit};
use crate::samples::Samples;
use crate::studio::Studio;
use crate::{Bench, Result};
use stage::{Stage, burst, calm};

/// What is measured of the autoscaler.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        name: "autoscaler.up",
        about: "a loop over 1,000 nodes, 30,000 pending pods of 50 controllers, 50 groups",
        run: up,
    },
    Bench {
        name: "autoscaler.down",
        about: "a loop over 5,000 nodes with 150,000 pods, of which few changed",
        run: down,
    },
];

/// How many loops are measured, after the first one.
const LOOPS: usize = 9;
/// What a loop that looks for new nodes may take.
const UP_BUDGET: f64 = 0.100;
/// What a loop that only keeps its books may take.
const DOWN_BUDGET: f64 = 0.050;
/// What the real one is meant to stay under in the first case, as its authors say.
const REAL_TARGET: f64 = 10.0;
/// Loops before the measured ones of a calm cluster: it takes some until all nodes that could go are known.
const WARM_UP: usize = 40;

fn up(_: &Studio, figures: &mut Figures) -> Result<()> {
    let mut stage = burst();
    let (first, rest) = measure(
        &mut stage,
        0,
        |_| {},
        |stage| {
            let done = stage.run();
            match done.scale_ups.first().map(|one| one.result) {
                Some(ScaleUpResult::Successful) => Ok(()),
                other => Err(format!("the loop came to {other:?}").into()),
            }
        },
    )?;
    figures.add(
        Figure::new("a loop with 30,000 pending pods, 1,000 nodes, 50 groups", rest.median(), Unit::Seconds)
            .budget(UP_BUDGET)
            .also("first", first, Unit::Seconds)
            .also("slowest", rest.most(), Unit::Seconds)
            .also("the real one is to stay under", REAL_TARGET, Unit::Seconds),
    );
    Ok(())
}

fn down(_: &Studio, figures: &mut Figures) -> Result<()> {
    let mut stage = calm();
    let mut unneeded = 0;
    let (first, rest) = measure(&mut stage, WARM_UP, Stage::change_some, |stage| {
        unneeded = stage.run().scale_down.unneeded.len();
        if unneeded == 0 { Err("no node could go".into()) } else { Ok(()) }
    })?;
    figures.add(
        Figure::new("a loop over 5,000 nodes and 150,000 pods, few changed", rest.median(), Unit::Seconds)
            .budget(DOWN_BUDGET)
            .also("first", first, Unit::Seconds)
            .also("slowest", rest.most(), Unit::Seconds)
            .also("nodes that could go", unneeded as f64, Unit::Count),
    );
    Ok(())
}

/// Seconds of the first loop, and of the measured ones after so many others. What happens between loops is not counted.
fn measure(
    stage: &mut Stage,
    others: usize,
    happens: impl Fn(&mut Stage),
    mut run: impl FnMut(&mut Stage) -> Result<()>,
) -> Result<(f64, Samples)> {
    let mut seconds = Vec::new();
    for _ in 0..1 + others + LOOPS {
        happens(stage);
        let began = Instant::now();
        run(stage)?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    let first = seconds[0];
    Ok((first, Samples::new(seconds.split_off(1 + others))))
}

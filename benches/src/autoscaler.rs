//! Benchmarks of the autoscaler: the duration of one loop on a large cluster.

mod cluster;

use std::time::Instant;

use autoscaler::ScaleUpResult;

use crate::bench_env::BenchEnv;
use crate::results::{BenchResults, Measurement, Unit};
use crate::samples::Samples;
use crate::{Bench, Result};
use cluster::{AutoscalerBench, calm_cluster, pending_burst};

/// The benchmarks of the autoscaler.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        name: "autoscaler.up",
        about: "a loop over 1,000 nodes, 30,000 pending pods of 50 controllers, 50 groups",
        run: measure_scale_up,
    },
    Bench {
        name: "autoscaler.down",
        about: "a loop over 5,000 nodes with 150,000 pods, of which few changed",
        run: measure_scale_down,
    },
];

/// How many loops are measured, after the first one.
const LOOPS: usize = 9;
/// The budget of a loop with a scale-up, in seconds.
const UP_BUDGET: f64 = 0.100;
/// The budget of a loop that scales nothing, in seconds.
const DOWN_BUDGET: f64 = 0.030;
/// The real autoscaler's own target for the first case, in seconds.
const REAL_TARGET: f64 = 10.0;
/// Loops before the measured ones of a calm cluster: it takes some until all unneeded nodes are found.
const WARM_UP: usize = 40;

fn measure_scale_up(_: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let mut bench = pending_burst();
    let (first, rest) = measure(
        &mut bench,
        0,
        |_| {},
        |bench| {
            let result = bench.run_loop();
            match result.scale_ups.first().map(|one| one.result) {
                Some(ScaleUpResult::Successful) => Ok(()),
                other => Err(format!("the result of the scale-up is {other:?}").into()),
            }
        },
    )?;
    results.add(
        Measurement::new(
            "a loop with 30,000 pending pods, 1,000 nodes, 50 groups",
            rest.median(),
            Unit::Seconds,
        )
        .budget(UP_BUDGET)
        .detail("first", first, Unit::Seconds)
        .detail("slowest", rest.max(), Unit::Seconds)
        .detail("the real one is to stay under", REAL_TARGET, Unit::Seconds),
    );
    Ok(())
}

fn measure_scale_down(_: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let mut bench = calm_cluster();
    let mut unneeded = 0;
    let mut run = |bench: &mut AutoscalerBench| {
        unneeded = bench.run_loop().scale_down.unneeded.len();
        if unneeded == 0 { Err("no node is unneeded".into()) } else { Ok(()) }
    };
    let (first, rest) = measure(&mut bench, WARM_UP, AutoscalerBench::update_some_pods, &mut run)?;
    let (_, replaced) = measure(&mut bench, 0, AutoscalerBench::replace_some_pods, &mut run)?;
    results.add(
        Measurement::new(
            "a loop over 5,000 nodes and 150,000 pods, few changed",
            rest.median(),
            Unit::Seconds,
        )
        .budget(DOWN_BUDGET)
        .detail("first", first, Unit::Seconds)
        .detail("slowest", rest.max(), Unit::Seconds)
        .detail("nodes that could go", unneeded as f64, Unit::Count),
    );
    results.add(
        Measurement::new(
            "a loop over 5,000 nodes and 150,000 pods, 100 replaced",
            replaced.median(),
            Unit::Seconds,
        )
        .budget(DOWN_BUDGET)
        .detail("slowest", replaced.max(), Unit::Seconds),
    );
    Ok(())
}

/// Measures the first loop, and `LOOPS` more after `warm_up` unmeasured ones, in seconds. The time of `change_cluster`,
/// which is called before each loop, is not counted.
fn measure(
    bench: &mut AutoscalerBench,
    warm_up: usize,
    change_cluster: impl Fn(&mut AutoscalerBench),
    mut run: impl FnMut(&mut AutoscalerBench) -> Result<()>,
) -> Result<(f64, Samples)> {
    let mut seconds = Vec::new();
    for _ in 0..1 + warm_up + LOOPS {
        change_cluster(bench);
        let began = Instant::now();
        run(bench)?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    let first = seconds[0];
    Ok((first, Samples::new(seconds.split_off(1 + warm_up))))
}

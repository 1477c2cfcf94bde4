//! Benchmarks of the scheduler: scheduler_perf's workloads, decided without an API server.
//!
//! To profile one workload, run `benches --child scheduler-workload NAME SECONDS`, which repeats it for that long. All
//! measured work is in `decide_all`:
//! `valgrind --tool=callgrind --toggle-collect='*decide_all*' …`, or `perf record -g …`.

pub(crate) mod child;
mod filled_scheduler;
mod go_scheduler;
mod growth;
mod manifest;
mod memory;
mod runner;
mod setup;
mod throughput;
mod workloads;

use crate::Bench;

/// The benchmarks of the scheduler.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        name: "scheduler.workloads",
        about: "decisions per second on scheduler_perf's workloads (--only NAME for some of them)",
        run: throughput::run,
    },
    Bench {
        name: "scheduler.growth",
        about: "the cost of a decision as the numbers of pods and nodes grow",
        run: growth::run,
    },
    Bench { name: "scheduler.memory", about: "memory at 5,000 nodes and 150,000 pods", run: memory::run },
];

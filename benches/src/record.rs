//! Benchmarks of recording: the program itself, with a scripted API server.

mod clusters;
mod lag;
mod memory;
mod rate;
mod recorder;
mod script;
mod server;

use crate::Bench;

/// The benchmarks of recording.
pub(crate) const BENCHES: &[Bench] = &[
    Bench { name: "record.rate", about: "the rate at which watch events are recorded", run: rate::run },
    Bench {
        name: "record.memory",
        about: "memory at 100,000 pods, and the duration of a restart",
        run: memory::run,
    },
    Bench { name: "record.lag", about: "the time from an event until it is readable", run: lag::run },
    Bench { name: "record.clusters", about: "memory per additional small cluster", run: clusters::run },
];

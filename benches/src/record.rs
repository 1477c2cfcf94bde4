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
    Bench { name: "record.rate", about: "how fast a watch's bytes become a history", run: rate::run },
    Bench {
        name: "record.memory",
        about: "memory at 100,000 pods, and what a restart takes",
        run: memory::run,
    },
    Bench { name: "record.lag", about: "from an event to its being readable", run: lag::run },
    Bench { name: "record.clusters", about: "memory of each further small cluster", run: clusters::run },
];

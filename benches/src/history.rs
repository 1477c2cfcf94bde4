//! Benchmarks of the history file.

mod append;
mod baselines;
pub(crate) mod child;
mod forget;
mod open;
pub(crate) mod recordings;
mod size;
mod state;

use crate::Bench;

/// The benchmarks of the history file.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        name: "history.append",
        about: "the rate at which changes are appended, live and in bulk",
        run: append::run,
    },
    Bench {
        name: "history.size",
        about: "bytes per change, of generated and of recorded clusters",
        run: size::run,
    },
    Bench {
        name: "history.state",
        about: "reading the cluster, and one object, at random moments",
        run: state::run,
    },
    Bench {
        name: "history.open",
        about: "opening a history, also after its writer was killed",
        run: open::run,
    },
    Bench { name: "history.forget", about: "removing old changes, as recorders do", run: forget::run },
];

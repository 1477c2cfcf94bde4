//! The figures of the history file.

mod append;
pub(crate) mod child;
pub(crate) mod films;
mod forget;
mod open;
mod peers;
mod size;
mod state;

use crate::Bench;

/// What is measured of the history file.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        name: "history.append",
        about: "how fast changes go in, as they happen and in bulk",
        run: append::run,
    },
    Bench {
        name: "history.size",
        about: "bytes a change takes, of made-up and of filmed clusters",
        run: size::run,
    },
    Bench { name: "history.state", about: "the cluster, and one object, at random moments", run: state::run },
    Bench {
        name: "history.open",
        about: "opening a history, also after its writer was killed",
        run: open::run,
    },
    Bench { name: "history.forget", about: "forgetting what is old, as recorders do", run: forget::run },
];

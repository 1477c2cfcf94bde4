//! Kinescope films a live Kubernetes cluster and plays it again.

mod cli;

use std::process::ExitCode;

/// Replays make and drop many small things: this one serves them sooner than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}

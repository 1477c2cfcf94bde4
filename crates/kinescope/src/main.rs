//! Kinescope films a live Kubernetes cluster and plays it again.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}

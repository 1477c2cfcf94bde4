//! Kinescope films a live Kubernetes cluster and plays it again.

mod cli;
mod http;
mod look;
mod recorder;
mod secret_key;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}

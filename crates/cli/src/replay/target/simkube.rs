//! The arguments of `--style simkube`.

use std::path::PathBuf;
use std::time::Duration;

use live::translate::StartupDelays;
use replay::live_target::{SimkubeOptions, VIRTUAL_NAMESPACE_PREFIX};

/// What concerns SimKube's way.
#[derive(clap::Args)]
#[command(next_help_heading = "SimKube mode options")]
pub(super) struct SimkubeArgs {
    /// Replay like SimKube's driver: workloads in virtual namespaces on virtual nodes, pods with their recorded run times
    #[arg(long, value_name = "simkube", value_parser = ["simkube"])]
    pub(super) style: Option<String>,
    /// SimKube tracer configuration, with the pod template paths of kinds [default: as recorded]
    #[arg(long, value_name = "FILE", requires = "style")]
    tracer_config: Option<PathBuf>,
    /// Prefix of virtual namespaces
    #[arg(long, value_name = "PREFIX", default_value = VIRTUAL_NAMESPACE_PREFIX, requires = "style")]
    virtual_ns_prefix: String,
    /// Image pull delay of pods, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0, requires = "style")]
    image_pull_delay: u32,
    /// Maximum image pull delay, in milliseconds; if larger, the delay is random between both
    #[arg(long, value_name = "MS", default_value_t = 0, requires = "style")]
    image_pull_jitter: u32,
    /// Startup delay of pods after that, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0, requires = "style")]
    pod_startup_delay: u32,
    /// Maximum startup delay, in milliseconds; if larger, the delay is random between both
    #[arg(long, value_name = "MS", default_value_t = 0, requires = "style")]
    pod_startup_jitter: u32,
    /// Re-create bare pods that others delete while they run
    #[arg(long, requires = "style")]
    reschedule_interrupted_bare_pods: bool,
}

// === impl SimkubeArgs ===

impl SimkubeArgs {
    /// The options, if `--style simkube` was given.
    pub(super) fn options(&self) -> Option<SimkubeOptions> {
        let millis = |millis: u32| Duration::from_millis(millis.into());
        self.style.as_ref().map(|_| SimkubeOptions {
            tracer_config: self.tracer_config.clone(),
            namespace_prefix: self.virtual_ns_prefix.clone(),
            delays: StartupDelays {
                image_pull: millis(self.image_pull_delay),
                image_pull_jitter: millis(self.image_pull_jitter),
                startup: millis(self.pod_startup_delay),
                startup_jitter: millis(self.pod_startup_jitter),
            },
            reschedule_interrupted_bare_pods: self.reschedule_interrupted_bare_pods,
        })
    }
}

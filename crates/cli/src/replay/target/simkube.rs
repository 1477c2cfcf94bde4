//! The arguments of `--style simkube`.

use std::path::PathBuf;
use std::time::Duration;

use live::translate::StartupDelays;
use replay::live_target::{SimkubeOptions, VIRTUAL_NAMESPACE_PREFIX};

/// What concerns SimKube's way.
#[derive(clap::Args)]
#[command(next_help_heading = "As SimKube's driver does")]
pub(super) struct SimkubeArgs {
    /// Workloads instead of pods, in namespaces of their own, for virtual nodes, with pods that run as long as they did
    #[arg(long, value_name = "simkube", value_parser = ["simkube"])]
    pub(super) style: Option<String>,
    /// The configuration of SimKube's tracer, which tells where kinds describe pods [default: as the history says]
    #[arg(long, value_name = "FILE", requires = "style")]
    tracer_config: Option<PathBuf>,
    /// What those namespaces begin with
    #[arg(long, value_name = "PREFIX", default_value = VIRTUAL_NAMESPACE_PREFIX, requires = "style")]
    virtual_ns_prefix: String,
    /// How long pods wait for their images, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0, requires = "style")]
    image_pull_delay: u32,
    /// If it is more: it is drawn between both
    #[arg(long, value_name = "MS", default_value_t = 0, requires = "style")]
    image_pull_jitter: u32,
    /// How long pods take to start then, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0, requires = "style")]
    pod_startup_delay: u32,
    /// If it is more: it is drawn between both
    #[arg(long, value_name = "MS", default_value_t = 0, requires = "style")]
    pod_startup_jitter: u32,
    /// Make pods of nobody again that others delete while they run
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

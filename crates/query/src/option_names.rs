//! The names of options in messages.

/// Names of a use case's options for its messages: flags on the command line, fields of an HTTP request.
///
/// The default names the fields of the Rust structs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionNames {
    /// The start time.
    pub from: &'static str,
    /// The end time.
    pub to: &'static str,
    /// The source to read.
    pub source: &'static str,
    /// The level of a replay: pods or workloads.
    pub level: &'static str,
    /// Edits of configurations.
    pub set: &'static str,
    /// The file with a KubeSchedulerConfiguration.
    pub scheduler_config: &'static str,
    /// The file of node groups.
    pub node_groups: &'static str,
    /// Flags of cluster-autoscaler.
    pub autoscaler: &'static str,
    /// The version of cluster-autoscaler.
    pub autoscaler_version: &'static str,
}

impl Default for OptionNames {
    fn default() -> OptionNames {
        OptionNames {
            from: "from",
            to: "to",
            source: "source",
            level: "level",
            set: "set",
            scheduler_config: "scheduler_config",
            node_groups: "node_groups",
            autoscaler: "autoscaler",
            autoscaler_version: "autoscaler_version",
        }
    }
}

//! The settings of an autoscaler: its command line with defaults filled in.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kubernetes::version;

/// The settings of an autoscaler. Each field is the flag of the same name unless noted otherwise.
#[allow(missing_docs, reason = "a field is the flag of its name")]
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The simulated version.
    pub version: Version,
    /// The scheduler whose filters are used, with its first profile.
    pub scheduler: scheduler::Settings,
    /// The seed for cluster-autoscaler's random choices.
    pub seed: u64,
    /// `cloud-provider`: determines the labels that similar groups may differ in.
    pub cloud_provider: Arc<str>,
    /// `namespace` of the ConfigMaps.
    pub namespace: Arc<str>,
    pub status_config_map_name: Arc<str>,
    pub write_status_configmap: bool,

    // Loops.
    pub scan_interval: Duration,
    pub frequent_loops_enabled: bool,

    // Pods.
    pub expendable_pods_priority_cutoff: i64,
    pub new_pod_scale_up_delay: Duration,
    /// Sorted.
    pub bypassed_scheduler_names: Vec<Arc<str>>,
    /// Sorted; all if empty.
    pub allowed_scheduler_names: Vec<Arc<str>>,

    // Limits.
    /// Zero for no limit.
    pub max_nodes_total: i64,
    pub cores_total: MinMax,
    /// In GiB, as on the command line.
    pub memory_total: MinMax,
    /// By the value of the provider's GPU label.
    pub gpu_total: Vec<(Arc<str>, MinMax)>,
    pub max_nodes_per_scaleup: i64,

    // Scale-up.
    /// The chain of expanders; at least one.
    pub expander: Vec<Expander>,
    pub balance_similar_node_groups: bool,
    pub balancing_ignore_labels: Vec<Arc<str>>,
    pub balancing_labels: Vec<Arc<str>>,
    pub memory_difference_ratio: f64,
    pub max_free_difference_ratio: f64,
    pub max_allocatable_difference_ratio: f64,
    pub fastpath_binpacking_enabled: bool,
    pub salvo_scale_up: bool,
    pub enforce_node_group_min_size: bool,
    pub scale_up_from_zero: bool,
    pub scale_from_unschedulable: bool,
    pub parallel_scale_up: bool,
    pub scaleup_simulation_for_skipped_node_groups_enabled: bool,

    // Nodes.
    pub force_ds: bool,
    /// `startup-taint` and `ignore-taint`.
    pub startup_taints: Vec<Arc<str>>,
    pub startup_taint_prefixes: Vec<Arc<str>>,
    pub status_taints: Vec<Arc<str>>,
    pub node_info_cache_expire_time: Duration,

    // Health and backoff.
    pub max_total_unready_percentage: f64,
    pub ok_total_unready_count: i64,
    pub initial_node_group_backoff_duration: Duration,
    pub max_node_group_backoff_duration: Duration,
    pub node_group_backoff_reset_timeout: Duration,
    pub force_delete_unregistered_nodes: bool,

    // Scale-down.
    pub scale_down_enabled: bool,
    pub scale_down_unready_enabled: bool,
    pub scale_down_delay_after_add: Duration,
    pub scale_down_delay_after_delete: Duration,
    pub scale_down_delay_after_failure: Duration,
    pub scale_down_delay_type_local: bool,
    pub unremovable_node_recheck_timeout: Duration,
    pub max_scale_down_parallelism: i64,
    pub max_drain_parallelism: i64,
    /// Only up to 1.32.
    pub max_empty_bulk_delete: i64,
    pub node_delete_delay_after_taint: Duration,
    pub node_deletion_delay_timeout: Duration,
    pub node_deletion_batcher_interval: Duration,
    pub max_graceful_termination_sec: i64,
    pub max_pod_eviction_time: Duration,
    /// Buckets by minimum priority, each with its grace period in seconds. Empty for one bucket of all pods.
    pub drain_priority_config: Vec<(i32, i64)>,
    pub cordon_node_before_terminating: bool,
    pub max_bulk_soft_taint_count: i64,
    pub node_deletion_candidate_ttl: Duration,
    pub daemonset_eviction_for_empty_nodes: bool,
    pub daemonset_eviction_for_occupied_nodes: bool,
    pub skip_nodes_with_system_pods: bool,
    pub skip_nodes_with_local_storage: bool,
    pub skip_nodes_with_custom_controller_pods: bool,
    pub min_replica_count: i64,
    /// `blocking-system-pod-distruption-timeout`, spelled so.
    pub blocking_system_pod_disruption_timeout: Duration,
    pub ignore_mirror_pods_utilization: bool,

    /// Options of groups that do not override them.
    pub group_defaults: NodeGroupAutoscalingOptions,
    /// Messages about requested features that are not simulated.
    pub unsupported: Vec<String>,
}

/// Autoscaling options of a group; flags of the same name.
#[allow(missing_docs, reason = "a field is the flag of its name")]
#[derive(Clone, Debug, PartialEq)]
pub struct NodeGroupAutoscalingOptions {
    pub scale_down_utilization_threshold: f64,
    pub scale_down_gpu_utilization_threshold: f64,
    pub scale_down_unneeded_time: Duration,
    pub scale_down_unready_time: Duration,
    pub max_node_provision_time: Duration,
    pub max_node_startup_time: Duration,
    pub ignore_daemonsets_utilization: bool,
}

/// Options that a group overrides; `None` where the flags apply.
#[allow(missing_docs, reason = "a field is the flag of its name")]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupOptionOverrides {
    pub scale_down_utilization_threshold: Option<f64>,
    pub scale_down_gpu_utilization_threshold: Option<f64>,
    pub scale_down_unneeded_time: Option<Duration>,
    pub scale_down_unready_time: Option<Duration>,
    pub max_node_provision_time: Option<Duration>,
    pub max_node_startup_time: Option<Duration>,
    pub ignore_daemonsets_utilization: Option<bool>,
    /// It has either all of its nodes or none.
    pub zero_or_max_node_scaling: bool,
    pub allow_non_atomic_scale_up_to_max: bool,
}

/// A minimum and a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinMax {
    /// The minimum.
    pub min: i64,
    /// The maximum.
    pub max: i64,
}

/// A strategy for the choice among expansion options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expander {
    /// A random one.
    Random,
    /// The one that helps most pods.
    MostPods,
    /// The one that leaves the least CPU and memory unused.
    LeastWaste,
    /// The one that needs the fewest nodes.
    LeastNodes,
    /// The one with the best ratio of node price to pod price, adjusted by node size.
    Price,
    /// The one with the highest priority in a ConfigMap.
    Priority,
}

/// The simulated version. Only 1.36 is compared with decisions of the real autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// cluster-autoscaler 1.32.
    V1_32,
    /// cluster-autoscaler 1.33.
    V1_33,
    /// cluster-autoscaler 1.34.
    V1_34,
    /// cluster-autoscaler 1.35.
    V1_35,
    /// cluster-autoscaler 1.36.
    V1_36,
    /// cluster-autoscaler 1.37.
    V1_37,
}

/// A text that names no simulated version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported cluster-autoscaler version {text:?}: expected 1.32 to 1.37")]
pub struct BadVersion {
    /// The text.
    pub text: String,
}

// === impl Settings ===

impl Settings {
    /// Whether pods of this scheduler are scaled up for before it has processed them.
    pub(crate) fn bypasses_scheduler(&self, name: &str) -> bool {
        self.bypassed_scheduler_names.iter().any(|bypassed| **bypassed == *name)
    }

    /// The settings of a version without flags.
    pub fn for_version(version: Version) -> Settings {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        Settings {
            version,
            scheduler: scheduler::Settings::for_version(version.scheduler_version()),
            seed: 0,
            cloud_provider: Arc::from(""),
            namespace: Arc::from("kube-system"),
            status_config_map_name: Arc::from("cluster-autoscaler-status"),
            write_status_configmap: true,
            scan_interval: Duration::from_secs(10),
            frequent_loops_enabled: version >= Version::V1_35,
            expendable_pods_priority_cutoff: -10,
            new_pod_scale_up_delay: Duration::ZERO,
            bypassed_scheduler_names: Vec::new(),
            allowed_scheduler_names: Vec::new(),
            max_nodes_total: 0,
            cores_total: MinMax { min: 0, max: 320_000 },
            memory_total: MinMax { min: 0, max: 6_400_000 },
            gpu_total: Vec::new(),
            max_nodes_per_scaleup: 1000,
            expander: vec![if version >= Version::V1_33 { Expander::LeastWaste } else { Expander::Random }],
            balance_similar_node_groups: false,
            balancing_ignore_labels: Vec::new(),
            balancing_labels: Vec::new(),
            memory_difference_ratio: 0.015,
            max_free_difference_ratio: 0.05,
            max_allocatable_difference_ratio: 0.05,
            fastpath_binpacking_enabled: false,
            salvo_scale_up: false,
            enforce_node_group_min_size: false,
            scale_up_from_zero: true,
            scale_from_unschedulable: false,
            parallel_scale_up: false,
            scaleup_simulation_for_skipped_node_groups_enabled: false,
            force_ds: false,
            startup_taints: Vec::new(),
            startup_taint_prefixes: Vec::new(),
            status_taints: Vec::new(),
            node_info_cache_expire_time: Duration::from_secs(87_600 * 3600),
            max_total_unready_percentage: 45.0,
            ok_total_unready_count: 3,
            initial_node_group_backoff_duration: minutes(5),
            max_node_group_backoff_duration: minutes(30),
            node_group_backoff_reset_timeout: minutes(180),
            force_delete_unregistered_nodes: false,
            scale_down_enabled: true,
            scale_down_unready_enabled: true,
            scale_down_delay_after_add: minutes(10),
            scale_down_delay_after_delete: Duration::ZERO,
            scale_down_delay_after_failure: minutes(3),
            scale_down_delay_type_local: false,
            unremovable_node_recheck_timeout: minutes(5),
            max_scale_down_parallelism: 10,
            max_drain_parallelism: 1,
            max_empty_bulk_delete: 10,
            node_delete_delay_after_taint: Duration::from_secs(5),
            node_deletion_delay_timeout: minutes(2),
            node_deletion_batcher_interval: Duration::ZERO,
            max_graceful_termination_sec: 600,
            max_pod_eviction_time: minutes(2),
            drain_priority_config: Vec::new(),
            cordon_node_before_terminating: version >= Version::V1_34,
            max_bulk_soft_taint_count: 10,
            node_deletion_candidate_ttl: Duration::ZERO,
            daemonset_eviction_for_empty_nodes: false,
            daemonset_eviction_for_occupied_nodes: true,
            skip_nodes_with_system_pods: true,
            skip_nodes_with_local_storage: true,
            skip_nodes_with_custom_controller_pods: true,
            min_replica_count: 0,
            blocking_system_pod_disruption_timeout: minutes(60),
            ignore_mirror_pods_utilization: false,
            group_defaults: NodeGroupAutoscalingOptions {
                scale_down_utilization_threshold: 0.5,
                scale_down_gpu_utilization_threshold: 0.5,
                scale_down_unneeded_time: minutes(10),
                scale_down_unready_time: minutes(20),
                max_node_provision_time: minutes(15),
                max_node_startup_time: minutes(15),
                ignore_daemonsets_utilization: false,
            },
            unsupported: Vec::new(),
        }
    }

    /// The same settings for another version: values that equal the old version's default become the new one's.
    pub fn with_version(mut self, version: Version) -> Settings {
        let (old, new) = (Settings::for_version(self.version), Settings::for_version(version));
        macro_rules! take {
            ($($field:ident),*) => { $(if self.$field == old.$field { self.$field = new.$field; })* };
        }
        take!(frequent_loops_enabled, expander, cordon_node_before_terminating, scheduler);
        self.version = version;
        self
    }

    /// The options of a group, with its overrides.
    pub fn group_options(&self, options: Option<&GroupOptionOverrides>) -> NodeGroupAutoscalingOptions {
        let mut own = self.group_defaults.clone();
        let Some(said) = options else { return own };
        macro_rules! take {
            ($($field:ident),*) => { $(if let Some(value) = said.$field { own.$field = value; })* };
        }
        take!(
            scale_down_utilization_threshold,
            scale_down_gpu_utilization_threshold,
            scale_down_unneeded_time,
            scale_down_unready_time,
            max_node_provision_time,
            max_node_startup_time,
            ignore_daemonsets_utilization
        );
        own
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::for_version(Version::V1_36)
    }
}

// === impl Version ===

impl Version {
    /// All versions, oldest first.
    const ALL: [Version; 6] =
        [Version::V1_32, Version::V1_33, Version::V1_34, Version::V1_35, Version::V1_36, Version::V1_37];

    /// Parses `1.34`, or an image tag such as `v1.34.2`.
    pub fn parse(text: &str) -> Result<Version, BadVersion> {
        let found = Version::ALL.into_iter().find(|version| version::is_of_release(text, version.name()));
        found.ok_or_else(|| BadVersion { text: text.to_owned() })
    }

    /// The scheduler version whose filters it uses, or the nearest that is simulated.
    pub(super) fn scheduler_version(self) -> scheduler::Version {
        match self {
            Version::V1_32 => scheduler::Version::V1_32,
            Version::V1_33 => scheduler::Version::V1_33,
            Version::V1_34 => scheduler::Version::V1_34,
            Version::V1_35 => scheduler::Version::V1_35,
            Version::V1_36 | Version::V1_37 => scheduler::Version::V1_36,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Version::V1_32 => "1.32",
            Version::V1_33 => "1.33",
            Version::V1_34 => "1.34",
            Version::V1_35 => "1.35",
            Version::V1_36 => "1.36",
            Version::V1_37 => "1.37",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// === impl Expander ===

impl fmt::Display for Expander {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Expander::Random => "random",
            Expander::MostPods => "most-pods",
            Expander::LeastWaste => "least-waste",
            Expander::LeastNodes => "least-nodes",
            Expander::Price => "price",
            Expander::Priority => "priority",
        })
    }
}

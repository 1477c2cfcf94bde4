//! The table of flags by name.

use super::super::super::settings::{Settings, Version};
use super::super::values;
use super::{Flag, FlagType};

const NO_TIME: &str = "simulated decisions take no time, so the limit is never reached";
const NO_REQUESTS: &str = "ProvisioningRequests are not simulated";
const NO_BUFFERS: &str = "CapacityBuffers are not simulated";

const fn unsupported(flag_type: FlagType, default_value: &'static str, reason: &'static str) -> Flag {
    Flag::Unsupported { flag_type, default: default_value, why: reason }
}

/// In alphabetical order.
pub(in super::super) const FLAGS: &[(&str, Flag)] = &[
    ("add-dir-header", Flag::NoEffect(FlagType::Bool)),
    ("address", Flag::NoEffect(FlagType::String)),
    ("allowed-scheduler-names", Flag::StringSlice(|settings| &mut settings.allowed_scheduler_names)),
    ("alsologtostderr", Flag::NoEffect(FlagType::Bool)),
    (
        "async-node-groups",
        unsupported(FlagType::Bool, "false", "node groups are neither created nor deleted"),
    ),
    ("aws-use-static-instance-list", Flag::NoEffect(FlagType::Bool)),
    ("balance-similar-node-groups", Flag::Bool(|settings| &mut settings.balance_similar_node_groups)),
    ("balancing-ignore-label", Flag::StringArray(|settings| &mut settings.balancing_ignore_labels)),
    ("balancing-label", Flag::StringArray(|settings| &mut settings.balancing_labels)),
    (
        "blocking-system-pod-distruption-timeout",
        Flag::Duration(|settings| &mut settings.blocking_system_pod_disruption_timeout),
    ),
    ("bulk-mig-instances-listing-enabled", Flag::NoEffect(FlagType::Bool)),
    ("bypassed-scheduler-names", Flag::StringSlice(|settings| &mut settings.bypassed_scheduler_names)),
    ("capacity-buffer-controller-enabled", unsupported(FlagType::Bool, "false", NO_BUFFERS)),
    ("capacity-buffer-pod-dry-run-enabled", Flag::NoEffect(FlagType::Bool)),
    ("capacity-buffer-pod-injection-enabled", unsupported(FlagType::Bool, "false", NO_BUFFERS)),
    ("capacity-quotas-enabled", unsupported(FlagType::Bool, "false", "CapacityQuotas are not simulated")),
    ("check-capacity-batch-processing", unsupported(FlagType::Bool, "false", NO_REQUESTS)),
    ("check-capacity-processor-instance", unsupported(FlagType::String, "", NO_REQUESTS)),
    ("check-capacity-provisioning-request-batch-timebox", Flag::NoEffect(FlagType::Duration)),
    ("check-capacity-provisioning-request-max-batch-size", Flag::NoEffect(FlagType::Int)),
    ("cloud-config", Flag::NoEffect(FlagType::String)),
    ("cloud-provider", Flag::String(|settings| &mut settings.cloud_provider)),
    ("cluster-name", Flag::NoEffect(FlagType::String)),
    ("cluster-snapshot-parallelism", Flag::NoEffect(FlagType::Int)),
    ("clusterapi-cloud-config-authoritative", Flag::NoEffect(FlagType::Bool)),
    ("cordon-node-before-terminating", Flag::Bool(|settings| &mut settings.cordon_node_before_terminating)),
    (
        "cores-total",
        Flag::Custom(FlagType::String, |settings, text| {
            settings.cores_total = values::parse_min_max(text)?;
            Ok(())
        }),
    ),
    (
        "daemonset-eviction-for-empty-nodes",
        Flag::Bool(|settings| &mut settings.daemonset_eviction_for_empty_nodes),
    ),
    (
        "daemonset-eviction-for-occupied-nodes",
        Flag::Bool(|settings| &mut settings.daemonset_eviction_for_occupied_nodes),
    ),
    ("debugging-snapshot-enabled", Flag::NoEffect(FlagType::Bool)),
    ("drain-priority-config", Flag::Custom(FlagType::String, values::set_drain_priorities)),
    (
        "dynamic-node-delete-delay-after-taint-enabled",
        unsupported(
            FlagType::Bool,
            "false",
            "the latency of the API server is not simulated: node-delete-delay-after-taint is used",
        ),
    ),
    ("emit-per-nodegroup-metrics", Flag::NoEffect(FlagType::Bool)),
    (
        "enable-csi-node-aware-scheduling",
        unsupported(FlagType::Bool, "false", "new nodes have no volume limits"),
    ),
    ("enable-dynamic-resource-allocation", Flag::Custom(FlagType::Bool, dynamic_resources)),
    (
        "enable-graceful-degradation",
        unsupported(
            FlagType::Bool,
            "false",
            "simulated loops take no time, so pods are never processed in batches",
        ),
    ),
    (
        "enable-proactive-scaleup",
        unsupported(FlagType::Bool, "false", "pods not yet created by controllers are not injected"),
    ),
    ("enable-provisioning-requests", unsupported(FlagType::Bool, "false", NO_REQUESTS)),
    ("enforce-node-group-min-size", Flag::Bool(|settings| &mut settings.enforce_node_group_min_size)),
    (
        "estimator",
        Flag::Custom(FlagType::String, |_, text| match text {
            "binpacking" => Ok(()),
            _ => Err("unknown estimator: expected binpacking".to_owned()),
        }),
    ),
    ("expander", Flag::Custom(FlagType::String, values::set_expanders)),
    ("expendable-pods-priority-cutoff", Flag::Int(|settings| &mut settings.expendable_pods_priority_cutoff)),
    ("fastpath-binpacking-enabled", Flag::Bool(|settings| &mut settings.fastpath_binpacking_enabled)),
    ("feature-gates", unsupported(FlagType::String, "", "feature gates keep their defaults")),
    // The cloud providers here have only one way to delete.
    ("force-delete-failed-nodes", Flag::NoEffect(FlagType::Bool)),
    ("force-delete-unregistered-nodes", Flag::Bool(|settings| &mut settings.force_delete_unregistered_nodes)),
    ("force-ds", Flag::Bool(|settings| &mut settings.force_ds)),
    ("frequent-loops-enabled", Flag::Bool(|settings| &mut settings.frequent_loops_enabled)),
    ("gce-concurrent-refreshes", Flag::NoEffect(FlagType::Int)),
    ("gce-expander-ephemeral-storage-support", Flag::NoEffect(FlagType::Bool)),
    ("gce-mig-instances-min-refresh-wait-time", Flag::NoEffect(FlagType::Duration)),
    (
        "gpu-total",
        Flag::Custom(FlagType::StringArray, |settings, text| {
            settings.gpu_total.push(values::parse_gpu_limits(text)?);
            Ok(())
        }),
    ),
    ("grpc-expander-cert", Flag::NoEffect(FlagType::String)),
    ("grpc-expander-url", Flag::NoEffect(FlagType::String)),
    (
        "ignore-daemonsets-utilization",
        Flag::Bool(|settings| &mut settings.group_defaults.ignore_daemonsets_utilization),
    ),
    ("ignore-mirror-pods-utilization", Flag::Bool(|settings| &mut settings.ignore_mirror_pods_utilization)),
    ("ignore-taint", Flag::StringArray(|settings| &mut settings.startup_taints)),
    (
        "initial-node-group-backoff-duration",
        Flag::Duration(|settings| &mut settings.initial_node_group_backoff_duration),
    ),
    ("kube-api-content-type", Flag::NoEffect(FlagType::String)),
    ("kube-client-burst", Flag::NoEffect(FlagType::Int)),
    ("kube-client-qps", Flag::NoEffect(FlagType::Float)),
    ("kubeconfig", Flag::NoEffect(FlagType::String)),
    ("kubernetes", Flag::NoEffect(FlagType::String)),
    ("leader-elect", Flag::NoEffect(FlagType::Bool)),
    ("leader-elect-lease-duration", Flag::NoEffect(FlagType::Duration)),
    ("leader-elect-renew-deadline", Flag::NoEffect(FlagType::Duration)),
    ("leader-elect-resource-lock", Flag::NoEffect(FlagType::String)),
    ("leader-elect-resource-name", Flag::NoEffect(FlagType::String)),
    ("leader-elect-resource-namespace", Flag::NoEffect(FlagType::String)),
    ("leader-elect-retry-period", Flag::NoEffect(FlagType::Duration)),
    ("legacy-stderr-threshold-behavior", Flag::NoEffect(FlagType::Bool)),
    ("log-backtrace-at", Flag::NoEffect(FlagType::String)),
    ("log-dir", Flag::NoEffect(FlagType::String)),
    ("log-file", Flag::NoEffect(FlagType::String)),
    ("log-file-max-size", Flag::NoEffect(FlagType::Int)),
    ("log-flush-frequency", Flag::NoEffect(FlagType::Duration)),
    ("log-json-info-buffer-size", Flag::NoEffect(FlagType::String)),
    ("log-json-split-stream", Flag::NoEffect(FlagType::Bool)),
    ("log-text-info-buffer-size", Flag::NoEffect(FlagType::String)),
    ("log-text-split-stream", Flag::NoEffect(FlagType::Bool)),
    ("logging-format", Flag::NoEffect(FlagType::String)),
    ("logtostderr", Flag::NoEffect(FlagType::Bool)),
    (
        "max-allocatable-difference-ratio",
        Flag::Float(|settings| &mut settings.max_allocatable_difference_ratio),
    ),
    ("max-autoprovisioned-node-group-count", Flag::NoEffect(FlagType::Int)),
    ("max-binpacking-time", unsupported(FlagType::Duration, "5m", NO_TIME)),
    ("max-bulk-soft-taint-count", Flag::Int(|settings| &mut settings.max_bulk_soft_taint_count)),
    ("max-bulk-soft-taint-time", unsupported(FlagType::Duration, "3s", NO_TIME)),
    ("max-drain-parallelism", Flag::Int(|settings| &mut settings.max_drain_parallelism)),
    ("max-empty-bulk-delete", Flag::Int(|settings| &mut settings.max_empty_bulk_delete)),
    ("max-failing-time", Flag::NoEffect(FlagType::Duration)),
    ("max-free-difference-ratio", Flag::Float(|settings| &mut settings.max_free_difference_ratio)),
    ("max-graceful-termination-sec", Flag::Int(|settings| &mut settings.max_graceful_termination_sec)),
    ("max-inactivity", Flag::NoEffect(FlagType::Duration)),
    (
        "max-node-group-backoff-duration",
        Flag::Duration(|settings| &mut settings.max_node_group_backoff_duration),
    ),
    (
        "max-node-provision-time",
        Flag::Duration(|settings| &mut settings.group_defaults.max_node_provision_time),
    ),
    ("max-node-skip-eval-time-tracker-enabled", Flag::NoEffect(FlagType::Bool)),
    ("max-node-startup-time", Flag::Duration(|settings| &mut settings.group_defaults.max_node_startup_time)),
    ("max-nodegroup-binpacking-duration", unsupported(FlagType::Duration, "10s", NO_TIME)),
    ("max-nodes-per-scaleup", Flag::Int(|settings| &mut settings.max_nodes_per_scaleup)),
    ("max-nodes-total", Flag::Int(|settings| &mut settings.max_nodes_total)),
    ("max-pod-eviction-time", Flag::Duration(|settings| &mut settings.max_pod_eviction_time)),
    ("max-scale-down-parallelism", Flag::Int(|settings| &mut settings.max_scale_down_parallelism)),
    ("max-startup-time", Flag::NoEffect(FlagType::Duration)),
    ("max-total-unready-percentage", Flag::Float(|settings| &mut settings.max_total_unready_percentage)),
    ("memory-difference-ratio", Flag::Float(|settings| &mut settings.memory_difference_ratio)),
    (
        "memory-total",
        Flag::Custom(FlagType::String, |settings, text| {
            settings.memory_total = values::parse_min_max(text)?;
            Ok(())
        }),
    ),
    ("min-replica-count", Flag::Int(|settings| &mut settings.min_replica_count)),
    ("namespace", Flag::String(|settings| &mut settings.namespace)),
    ("new-pod-scale-up-delay", Flag::Duration(|settings| &mut settings.new_pod_scale_up_delay)),
    ("node-autoprovisioning-enabled", unsupported(FlagType::Bool, "false", "node groups are not created")),
    ("node-delete-delay-after-taint", Flag::Duration(|settings| &mut settings.node_delete_delay_after_taint)),
    (
        "node-deletion-batcher-interval",
        Flag::Duration(|settings| &mut settings.node_deletion_batcher_interval),
    ),
    ("node-deletion-candidate-ttl", Flag::Duration(|settings| &mut settings.node_deletion_candidate_ttl)),
    ("node-deletion-delay-timeout", Flag::Duration(|settings| &mut settings.node_deletion_delay_timeout)),
    ("node-group-auto-discovery", Flag::NoEffect(FlagType::StringArray)),
    (
        "node-group-backoff-reset-timeout",
        Flag::Duration(|settings| &mut settings.node_group_backoff_reset_timeout),
    ),
    ("node-info-cache-expire-time", Flag::Duration(|settings| &mut settings.node_info_cache_expire_time)),
    ("node-removal-latency-tracking-enabled", Flag::NoEffect(FlagType::Bool)),
    ("nodes", Flag::Custom(FlagType::StringArray, |_, text| values::parse_group_size(text).map(drop))),
    ("ok-total-unready-count", Flag::Int(|settings| &mut settings.ok_total_unready_count)),
    ("one-output", Flag::NoEffect(FlagType::Bool)),
    ("parallel-scale-up", Flag::Bool(|settings| &mut settings.parallel_scale_up)),
    ("pending-pods-batching-timeout", unsupported(FlagType::Duration, "4m", NO_TIME)),
    ("pod-injection-limit", Flag::NoEffect(FlagType::Int)),
    (
        "predicate-parallelism",
        Flag::Custom(FlagType::Int, |_, text| match values::parse_int(text)? {
            ..1 => Err("must be at least 1".to_owned()),
            _ => Ok(()),
        }),
    ),
    ("profiling", Flag::NoEffect(FlagType::Bool)),
    ("provisioning-request-initial-backoff-time", Flag::NoEffect(FlagType::Duration)),
    ("provisioning-request-max-backoff-cache-size", Flag::NoEffect(FlagType::Int)),
    ("provisioning-request-max-backoff-time", Flag::NoEffect(FlagType::Duration)),
    // Every Event is emitted.
    ("record-duplicated-events", Flag::NoEffect(FlagType::Bool)),
    ("regional", Flag::NoEffect(FlagType::Bool)),
    ("salvo-scale-up", Flag::Bool(|settings| &mut settings.salvo_scale_up)),
    ("salvo-scale-up-budget", unsupported(FlagType::Duration, "1m", NO_TIME)),
    // cluster-autoscaler does not read these since it has the planner.
    ("scale-down-candidates-pool-min-count", Flag::NoEffect(FlagType::Int)),
    ("scale-down-candidates-pool-ratio", Flag::NoEffect(FlagType::Float)),
    ("scale-down-delay-after-add", Flag::Duration(|settings| &mut settings.scale_down_delay_after_add)),
    ("scale-down-delay-after-delete", Flag::Duration(|settings| &mut settings.scale_down_delay_after_delete)),
    (
        "scale-down-delay-after-failure",
        Flag::Duration(|settings| &mut settings.scale_down_delay_after_failure),
    ),
    ("scale-down-delay-type-local", Flag::Bool(|settings| &mut settings.scale_down_delay_type_local)),
    ("scale-down-enabled", Flag::Bool(|settings| &mut settings.scale_down_enabled)),
    (
        "scale-down-gpu-utilization-threshold",
        Flag::Float(|settings| &mut settings.group_defaults.scale_down_gpu_utilization_threshold),
    ),
    ("scale-down-non-empty-candidates-count", Flag::NoEffect(FlagType::Int)),
    ("scale-down-simulation-timeout", unsupported(FlagType::Duration, "30s", NO_TIME)),
    (
        "scale-down-unneeded-time",
        Flag::Duration(|settings| &mut settings.group_defaults.scale_down_unneeded_time),
    ),
    ("scale-down-unready-enabled", Flag::Bool(|settings| &mut settings.scale_down_unready_enabled)),
    (
        "scale-down-unready-time",
        Flag::Duration(|settings| &mut settings.group_defaults.scale_down_unready_time),
    ),
    (
        "scale-down-utilization-threshold",
        Flag::Float(|settings| &mut settings.group_defaults.scale_down_utilization_threshold),
    ),
    ("scale-from-unschedulable", Flag::Bool(|settings| &mut settings.scale_from_unschedulable)),
    ("scale-up-from-zero", Flag::Bool(|settings| &mut settings.scale_up_from_zero)),
    (
        "scaleup-simulation-for-skipped-node-groups-enabled",
        Flag::Bool(|settings| &mut settings.scaleup_simulation_for_skipped_node_groups_enabled),
    ),
    ("scan-interval", Flag::Duration(|settings| &mut settings.scan_interval)),
    (
        "scheduler-config-file",
        unsupported(
            FlagType::String,
            "",
            "the file is not recorded: kube-scheduler's default profile is used, unless the settings have another one under scheduler",
        ),
    ),
    ("scheduler-verbosity", Flag::NoEffect(FlagType::Int)),
    ("skip-headers", Flag::NoEffect(FlagType::Bool)),
    ("skip-log-headers", Flag::NoEffect(FlagType::Bool)),
    (
        "skip-nodes-with-custom-controller-pods",
        Flag::Bool(|settings| &mut settings.skip_nodes_with_custom_controller_pods),
    ),
    ("skip-nodes-with-local-storage", Flag::Bool(|settings| &mut settings.skip_nodes_with_local_storage)),
    ("skip-nodes-with-system-pods", Flag::Bool(|settings| &mut settings.skip_nodes_with_system_pods)),
    ("startup-taint", Flag::StringArray(|settings| &mut settings.startup_taints)),
    ("startup-taint-prefix", Flag::StringArray(|settings| &mut settings.startup_taint_prefixes)),
    ("status-config-map-name", Flag::String(|settings| &mut settings.status_config_map_name)),
    ("status-taint", Flag::StringArray(|settings| &mut settings.status_taints)),
    ("stderrthreshold", Flag::NoEffect(FlagType::String)),
    (
        "unremovable-node-recheck-timeout",
        Flag::Duration(|settings| &mut settings.unremovable_node_recheck_timeout),
    ),
    ("user-agent", Flag::NoEffect(FlagType::String)),
    ("v", Flag::NoEffect(FlagType::Int)),
    ("vmodule", Flag::NoEffect(FlagType::String)),
    ("write-status-configmap", Flag::Bool(|settings| &mut settings.write_status_configmap)),
];

/// `--enable-dynamic-resource-allocation`, which cannot be turned off since 1.35.
fn dynamic_resources(settings: &mut Settings, text: &str) -> Result<(), String> {
    const NAME: &str = "--enable-dynamic-resource-allocation=";
    let on = values::parse_bool(text)?;
    settings.unsupported.retain(|message| !message.starts_with(NAME));
    if settings.version >= Version::V1_35 {
        return if on { Ok(()) } else { Err("cannot be disabled since 1.35".to_owned()) };
    }
    if on {
        settings
            .unsupported
            .push(format!("{NAME}{text}: ResourceClaims are treated as by default in this version"));
    }
    Ok(())
}

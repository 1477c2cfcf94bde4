//! The flags by name.

use super::super::super::settings::{Settings, Version};
use super::super::values;
use super::{Flag, Shape};

const NO_TIME: &str = "a decision takes no time here, so its limit is never reached";
const NO_REQUESTS: &str = "ProvisioningRequests are not simulated";
const NO_BUFFERS: &str = "CapacityBuffers are not simulated";

const fn left_out(shape: Shape, usual: &'static str, why: &'static str) -> Flag {
    Flag::LeftOut { shape, usual, why }
}

/// In the order of the alphabet.
pub(in super::super) const FLAGS: &[(&str, Flag)] = &[
    ("add-dir-header", Flag::Idle(Shape::Switch)),
    ("address", Flag::Idle(Shape::Text)),
    ("allowed-scheduler-names", Flag::Names(|settings| &mut settings.allowed_scheduler_names)),
    ("alsologtostderr", Flag::Idle(Shape::Switch)),
    ("async-node-groups", left_out(Shape::Switch, "false", "node groups are neither made nor deleted")),
    ("aws-use-static-instance-list", Flag::Idle(Shape::Switch)),
    ("balance-similar-node-groups", Flag::Switch(|settings| &mut settings.balance_similar_node_groups)),
    ("balancing-ignore-label", Flag::Each(|settings| &mut settings.balancing_ignore_labels)),
    ("balancing-label", Flag::Each(|settings| &mut settings.balancing_labels)),
    (
        "blocking-system-pod-distruption-timeout",
        Flag::Span(|settings| &mut settings.blocking_system_pod_disruption_timeout),
    ),
    ("bulk-mig-instances-listing-enabled", Flag::Idle(Shape::Switch)),
    ("bypassed-scheduler-names", Flag::Names(|settings| &mut settings.bypassed_scheduler_names)),
    ("capacity-buffer-controller-enabled", left_out(Shape::Switch, "false", NO_BUFFERS)),
    ("capacity-buffer-pod-dry-run-enabled", Flag::Idle(Shape::Switch)),
    ("capacity-buffer-pod-injection-enabled", left_out(Shape::Switch, "false", NO_BUFFERS)),
    ("capacity-quotas-enabled", left_out(Shape::Switch, "false", "CapacityQuotas are not simulated")),
    ("check-capacity-batch-processing", left_out(Shape::Switch, "false", NO_REQUESTS)),
    ("check-capacity-processor-instance", left_out(Shape::Text, "", NO_REQUESTS)),
    ("check-capacity-provisioning-request-batch-timebox", Flag::Idle(Shape::Span)),
    ("check-capacity-provisioning-request-max-batch-size", Flag::Idle(Shape::Count)),
    ("cloud-config", Flag::Idle(Shape::Text)),
    ("cloud-provider", Flag::Text(|settings| &mut settings.cloud_provider)),
    ("cluster-name", Flag::Idle(Shape::Text)),
    ("cluster-snapshot-parallelism", Flag::Idle(Shape::Count)),
    ("clusterapi-cloud-config-authoritative", Flag::Idle(Shape::Switch)),
    ("cordon-node-before-terminating", Flag::Switch(|settings| &mut settings.cordon_node_before_terminating)),
    (
        "cores-total",
        Flag::Own(Shape::Text, |settings, text| {
            settings.cores_total = values::range(text)?;
            Ok(())
        }),
    ),
    (
        "daemonset-eviction-for-empty-nodes",
        Flag::Switch(|settings| &mut settings.daemonset_eviction_for_empty_nodes),
    ),
    (
        "daemonset-eviction-for-occupied-nodes",
        Flag::Switch(|settings| &mut settings.daemonset_eviction_for_occupied_nodes),
    ),
    ("debugging-snapshot-enabled", Flag::Idle(Shape::Switch)),
    ("drain-priority-config", Flag::Own(Shape::Text, values::drain_priorities)),
    (
        "dynamic-node-delete-delay-after-taint-enabled",
        left_out(
            Shape::Switch,
            "false",
            "how long the API server takes to answer is not simulated: node-delete-delay-after-taint holds",
        ),
    ),
    ("emit-per-nodegroup-metrics", Flag::Idle(Shape::Switch)),
    (
        "enable-csi-node-aware-scheduling",
        left_out(Shape::Switch, "false", "new nodes are taken to have no limits of volumes"),
    ),
    ("enable-dynamic-resource-allocation", Flag::Own(Shape::Switch, dynamic_resources)),
    (
        "enable-graceful-degradation",
        left_out(Shape::Switch, "false", "a loop takes no time here, so pods are never taken in batches"),
    ),
    (
        "enable-proactive-scaleup",
        left_out(Shape::Switch, "false", "pods that controllers have yet to make are not made up"),
    ),
    ("enable-provisioning-requests", left_out(Shape::Switch, "false", NO_REQUESTS)),
    ("enforce-node-group-min-size", Flag::Switch(|settings| &mut settings.enforce_node_group_min_size)),
    (
        "estimator",
        Flag::Own(Shape::Text, |_, text| match text {
            "binpacking" => Ok(()),
            _ => Err("there is no other estimator than binpacking".to_owned()),
        }),
    ),
    ("expander", Flag::Own(Shape::Text, values::expanders)),
    (
        "expendable-pods-priority-cutoff",
        Flag::Count(|settings| &mut settings.expendable_pods_priority_cutoff),
    ),
    ("fastpath-binpacking-enabled", Flag::Switch(|settings| &mut settings.fastpath_binpacking_enabled)),
    ("feature-gates", left_out(Shape::Text, "", "feature gates stay as they are by default")),
    // The clouds here have no other way to delete.
    ("force-delete-failed-nodes", Flag::Idle(Shape::Switch)),
    (
        "force-delete-unregistered-nodes",
        Flag::Switch(|settings| &mut settings.force_delete_unregistered_nodes),
    ),
    ("force-ds", Flag::Switch(|settings| &mut settings.force_ds)),
    ("frequent-loops-enabled", Flag::Switch(|settings| &mut settings.frequent_loops_enabled)),
    ("gce-concurrent-refreshes", Flag::Idle(Shape::Count)),
    ("gce-expander-ephemeral-storage-support", Flag::Idle(Shape::Switch)),
    ("gce-mig-instances-min-refresh-wait-time", Flag::Idle(Shape::Span)),
    (
        "gpu-total",
        Flag::Own(Shape::Each, |settings, text| {
            settings.gpu_total.push(values::gpus(text)?);
            Ok(())
        }),
    ),
    ("grpc-expander-cert", Flag::Idle(Shape::Text)),
    ("grpc-expander-url", Flag::Idle(Shape::Text)),
    (
        "ignore-daemonsets-utilization",
        Flag::Switch(|settings| &mut settings.group_defaults.ignore_daemonsets_utilization),
    ),
    ("ignore-mirror-pods-utilization", Flag::Switch(|settings| &mut settings.ignore_mirror_pods_utilization)),
    ("ignore-taint", Flag::Each(|settings| &mut settings.startup_taints)),
    (
        "initial-node-group-backoff-duration",
        Flag::Span(|settings| &mut settings.initial_node_group_backoff_duration),
    ),
    ("kube-api-content-type", Flag::Idle(Shape::Text)),
    ("kube-client-burst", Flag::Idle(Shape::Count)),
    ("kube-client-qps", Flag::Idle(Shape::Share)),
    ("kubeconfig", Flag::Idle(Shape::Text)),
    ("kubernetes", Flag::Idle(Shape::Text)),
    ("leader-elect", Flag::Idle(Shape::Switch)),
    ("leader-elect-lease-duration", Flag::Idle(Shape::Span)),
    ("leader-elect-renew-deadline", Flag::Idle(Shape::Span)),
    ("leader-elect-resource-lock", Flag::Idle(Shape::Text)),
    ("leader-elect-resource-name", Flag::Idle(Shape::Text)),
    ("leader-elect-resource-namespace", Flag::Idle(Shape::Text)),
    ("leader-elect-retry-period", Flag::Idle(Shape::Span)),
    ("legacy-stderr-threshold-behavior", Flag::Idle(Shape::Switch)),
    ("log-backtrace-at", Flag::Idle(Shape::Text)),
    ("log-dir", Flag::Idle(Shape::Text)),
    ("log-file", Flag::Idle(Shape::Text)),
    ("log-file-max-size", Flag::Idle(Shape::Count)),
    ("log-flush-frequency", Flag::Idle(Shape::Span)),
    ("log-json-info-buffer-size", Flag::Idle(Shape::Text)),
    ("log-json-split-stream", Flag::Idle(Shape::Switch)),
    ("log-text-info-buffer-size", Flag::Idle(Shape::Text)),
    ("log-text-split-stream", Flag::Idle(Shape::Switch)),
    ("logging-format", Flag::Idle(Shape::Text)),
    ("logtostderr", Flag::Idle(Shape::Switch)),
    (
        "max-allocatable-difference-ratio",
        Flag::Share(|settings| &mut settings.max_allocatable_difference_ratio),
    ),
    ("max-autoprovisioned-node-group-count", Flag::Idle(Shape::Count)),
    ("max-binpacking-time", left_out(Shape::Span, "5m", NO_TIME)),
    ("max-bulk-soft-taint-count", Flag::Count(|settings| &mut settings.max_bulk_soft_taint_count)),
    ("max-bulk-soft-taint-time", left_out(Shape::Span, "3s", NO_TIME)),
    ("max-drain-parallelism", Flag::Count(|settings| &mut settings.max_drain_parallelism)),
    ("max-empty-bulk-delete", Flag::Count(|settings| &mut settings.max_empty_bulk_delete)),
    ("max-failing-time", Flag::Idle(Shape::Span)),
    ("max-free-difference-ratio", Flag::Share(|settings| &mut settings.max_free_difference_ratio)),
    ("max-graceful-termination-sec", Flag::Count(|settings| &mut settings.max_graceful_termination_sec)),
    ("max-inactivity", Flag::Idle(Shape::Span)),
    ("max-node-group-backoff-duration", Flag::Span(|settings| &mut settings.max_node_group_backoff_duration)),
    ("max-node-provision-time", Flag::Span(|settings| &mut settings.group_defaults.max_node_provision_time)),
    ("max-node-skip-eval-time-tracker-enabled", Flag::Idle(Shape::Switch)),
    ("max-node-startup-time", Flag::Span(|settings| &mut settings.group_defaults.max_node_startup_time)),
    ("max-nodegroup-binpacking-duration", left_out(Shape::Span, "10s", NO_TIME)),
    ("max-nodes-per-scaleup", Flag::Count(|settings| &mut settings.max_nodes_per_scaleup)),
    ("max-nodes-total", Flag::Count(|settings| &mut settings.max_nodes_total)),
    ("max-pod-eviction-time", Flag::Span(|settings| &mut settings.max_pod_eviction_time)),
    ("max-scale-down-parallelism", Flag::Count(|settings| &mut settings.max_scale_down_parallelism)),
    ("max-startup-time", Flag::Idle(Shape::Span)),
    ("max-total-unready-percentage", Flag::Share(|settings| &mut settings.max_total_unready_percentage)),
    ("memory-difference-ratio", Flag::Share(|settings| &mut settings.memory_difference_ratio)),
    (
        "memory-total",
        Flag::Own(Shape::Text, |settings, text| {
            settings.memory_total = values::range(text)?;
            Ok(())
        }),
    ),
    ("min-replica-count", Flag::Count(|settings| &mut settings.min_replica_count)),
    ("namespace", Flag::Text(|settings| &mut settings.namespace)),
    ("new-pod-scale-up-delay", Flag::Span(|settings| &mut settings.new_pod_scale_up_delay)),
    ("node-autoprovisioning-enabled", left_out(Shape::Switch, "false", "node groups are not made")),
    ("node-delete-delay-after-taint", Flag::Span(|settings| &mut settings.node_delete_delay_after_taint)),
    ("node-deletion-batcher-interval", Flag::Span(|settings| &mut settings.node_deletion_batcher_interval)),
    ("node-deletion-candidate-ttl", Flag::Span(|settings| &mut settings.node_deletion_candidate_ttl)),
    ("node-deletion-delay-timeout", Flag::Span(|settings| &mut settings.node_deletion_delay_timeout)),
    ("node-group-auto-discovery", Flag::Idle(Shape::Each)),
    (
        "node-group-backoff-reset-timeout",
        Flag::Span(|settings| &mut settings.node_group_backoff_reset_timeout),
    ),
    ("node-info-cache-expire-time", Flag::Span(|settings| &mut settings.node_info_cache_expire_time)),
    ("node-removal-latency-tracking-enabled", Flag::Idle(Shape::Switch)),
    ("nodes", Flag::Own(Shape::Each, |_, text| values::group_size(text).map(drop))),
    ("ok-total-unready-count", Flag::Count(|settings| &mut settings.ok_total_unready_count)),
    ("one-output", Flag::Idle(Shape::Switch)),
    ("parallel-scale-up", Flag::Switch(|settings| &mut settings.parallel_scale_up)),
    ("pending-pods-batching-timeout", left_out(Shape::Span, "4m", NO_TIME)),
    ("pod-injection-limit", Flag::Idle(Shape::Count)),
    (
        "predicate-parallelism",
        Flag::Own(Shape::Count, |_, text| match values::count(text)? {
            ..1 => Err("it takes 1 or more".to_owned()),
            _ => Ok(()),
        }),
    ),
    ("profiling", Flag::Idle(Shape::Switch)),
    ("provisioning-request-initial-backoff-time", Flag::Idle(Shape::Span)),
    ("provisioning-request-max-backoff-cache-size", Flag::Idle(Shape::Count)),
    ("provisioning-request-max-backoff-time", Flag::Idle(Shape::Span)),
    // Every Event is told.
    ("record-duplicated-events", Flag::Idle(Shape::Switch)),
    ("regional", Flag::Idle(Shape::Switch)),
    ("salvo-scale-up", Flag::Switch(|settings| &mut settings.salvo_scale_up)),
    ("salvo-scale-up-budget", left_out(Shape::Span, "1m", NO_TIME)),
    // Nothing has looked at these since the planner came.
    ("scale-down-candidates-pool-min-count", Flag::Idle(Shape::Count)),
    ("scale-down-candidates-pool-ratio", Flag::Idle(Shape::Share)),
    ("scale-down-delay-after-add", Flag::Span(|settings| &mut settings.scale_down_delay_after_add)),
    ("scale-down-delay-after-delete", Flag::Span(|settings| &mut settings.scale_down_delay_after_delete)),
    ("scale-down-delay-after-failure", Flag::Span(|settings| &mut settings.scale_down_delay_after_failure)),
    ("scale-down-delay-type-local", Flag::Switch(|settings| &mut settings.scale_down_delay_type_local)),
    ("scale-down-enabled", Flag::Switch(|settings| &mut settings.scale_down_enabled)),
    (
        "scale-down-gpu-utilization-threshold",
        Flag::Share(|settings| &mut settings.group_defaults.scale_down_gpu_utilization_threshold),
    ),
    ("scale-down-non-empty-candidates-count", Flag::Idle(Shape::Count)),
    ("scale-down-simulation-timeout", left_out(Shape::Span, "30s", NO_TIME)),
    (
        "scale-down-unneeded-time",
        Flag::Span(|settings| &mut settings.group_defaults.scale_down_unneeded_time),
    ),
    ("scale-down-unready-enabled", Flag::Switch(|settings| &mut settings.scale_down_unready_enabled)),
    ("scale-down-unready-time", Flag::Span(|settings| &mut settings.group_defaults.scale_down_unready_time)),
    (
        "scale-down-utilization-threshold",
        Flag::Share(|settings| &mut settings.group_defaults.scale_down_utilization_threshold),
    ),
    ("scale-from-unschedulable", Flag::Switch(|settings| &mut settings.scale_from_unschedulable)),
    ("scale-up-from-zero", Flag::Switch(|settings| &mut settings.scale_up_from_zero)),
    (
        "scaleup-simulation-for-skipped-node-groups-enabled",
        Flag::Switch(|settings| &mut settings.scaleup_simulation_for_skipped_node_groups_enabled),
    ),
    ("scan-interval", Flag::Span(|settings| &mut settings.scan_interval)),
    (
        "scheduler-config-file",
        left_out(
            Shape::Text,
            "",
            "the file is not at hand: kube-scheduler's default profile holds, unless settings name another under scheduler",
        ),
    ),
    ("scheduler-verbosity", Flag::Idle(Shape::Count)),
    ("skip-headers", Flag::Idle(Shape::Switch)),
    ("skip-log-headers", Flag::Idle(Shape::Switch)),
    (
        "skip-nodes-with-custom-controller-pods",
        Flag::Switch(|settings| &mut settings.skip_nodes_with_custom_controller_pods),
    ),
    ("skip-nodes-with-local-storage", Flag::Switch(|settings| &mut settings.skip_nodes_with_local_storage)),
    ("skip-nodes-with-system-pods", Flag::Switch(|settings| &mut settings.skip_nodes_with_system_pods)),
    ("startup-taint", Flag::Each(|settings| &mut settings.startup_taints)),
    ("startup-taint-prefix", Flag::Each(|settings| &mut settings.startup_taint_prefixes)),
    ("status-config-map-name", Flag::Text(|settings| &mut settings.status_config_map_name)),
    ("status-taint", Flag::Each(|settings| &mut settings.status_taints)),
    ("stderrthreshold", Flag::Idle(Shape::Text)),
    (
        "unremovable-node-recheck-timeout",
        Flag::Span(|settings| &mut settings.unremovable_node_recheck_timeout),
    ),
    ("user-agent", Flag::Idle(Shape::Text)),
    ("v", Flag::Idle(Shape::Count)),
    ("vmodule", Flag::Idle(Shape::Text)),
    ("write-status-configmap", Flag::Switch(|settings| &mut settings.write_status_configmap)),
];

/// It cannot be turned off since 1.35.
fn dynamic_resources(settings: &mut Settings, text: &str) -> Result<(), String> {
    const NAME: &str = "--enable-dynamic-resource-allocation=";
    let on = values::switch(text)?;
    settings.left_out.retain(|told| !told.starts_with(NAME));
    if settings.version >= Version::V1_35 {
        return if on { Ok(()) } else { Err("it cannot be turned off any more".to_owned()) };
    }
    if on {
        settings
            .left_out
            .push(format!("{NAME}{text}: claims of devices are looked at as this version does by default"));
    }
    Ok(())
}

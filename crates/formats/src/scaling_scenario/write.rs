//! The writer of reports, as Go prints them: fields in the order of its types, `null` for empty lists and maps, the
//! zero time for no time.

mod report_json;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;

use model::Moment;
use serde_json::Value;

use self::report_json::{
    ClusterJson, ConfigJson, GoTime, GroupJson, MetaJson, NodeJson, NullIfEmpty, PodJson, PoolJson,
    PriorityClassJson, ResultJson, ScenarioJson, SettingsJson, SizesJson, TemplateJson,
};
use super::cluster::{ClusterSnapshot, NodeGroupInfo, NodeTemplate};
use super::hashes::pod_hash;
use super::report::{ScalingResult, Scenario};
use crate::go_json;
use crate::scaling_history::info::{
    NodeInfo, PodInfo, PriorityClassInfo, ScheduleStatus, SettingsInfo, SnapshotMeta, WorkerPoolInfo,
    int_or_string,
};

/// The mode in which Gardener's replayer holds its autoscaler until all pods exist.
const REPLAY_PAUSE_MODE: &str = "replay-mode-pause";

impl Scenario {
    /// Writes the report as Gardener's replayer does. Row IDs, which exist only in its database, are 0.
    pub fn write(&self, mut out: impl io::Write) -> io::Result<()> {
        let text = serde_json::to_string(&ScenarioJson::of(self))?;
        let mut escaped = Vec::with_capacity(text.len());
        go_json::escape(&mut escaped, &text);
        out.write_all(&escaped)
    }
}

impl<'a> ScenarioJson<'a> {
    fn of(scenario: &'a Scenario) -> ScenarioJson<'a> {
        let Scenario { name, number, begin, cluster, result } = scenario;
        let (config_hash, pods) = (cluster.config_hash(), cluster.pods());
        ScenarioJson {
            begin_time: GoTime(Some(*begin)),
            cluster_snapshot: ClusterJson {
                id: format!("{name}-{number}"),
                number: *number,
                snapshot_time: GoTime(Some(cluster.at)),
                hash: cluster.hash(&config_hash, &pods),
                autoscaler_config: ConfigJson::of(cluster, config_hash),
                worker_pools: NullIfEmpty(cluster.worker_pools.iter().map(PoolJson::of).collect()),
                priority_classes: NullIfEmpty(
                    cluster.priority_classes.iter().map(PriorityClassJson::of).collect(),
                ),
                pods: NullIfEmpty(pods.into_iter().map(PodJson::of).collect()),
                nodes: NullIfEmpty(cluster.nodes.iter().map(NodeJson::of).collect()),
            },
            scaling_result: ResultJson::of(result),
        }
    }
}

impl<'a> ConfigJson<'a> {
    fn of(cluster: &'a ClusterSnapshot, hash: String) -> ConfigJson<'a> {
        let templates = cluster.node_templates.iter();
        let groups = cluster.node_groups.iter();
        ConfigJson {
            node_templates: templates
                .map(|template| (template.name.as_str(), TemplateJson::of(template)))
                .collect(),
            node_groups: groups.map(|template| (template.name.as_str(), GroupJson::of(template))).collect(),
            existing_nodes: NullIfEmpty(cluster.nodes.iter().map(NodeJson::of).collect()),
            settings: SettingsJson::of(cluster.at, &cluster.autoscaler.clone().unwrap_or_default()),
            mode: REPLAY_PAUSE_MODE,
            success_signal_path: "",
            error_signal_path: "",
            hash,
        }
    }
}

impl<'a> TemplateJson<'a> {
    fn of(template: &'a NodeTemplate) -> TemplateJson<'a> {
        TemplateJson {
            name: &template.name,
            instance_type: &template.instance_type,
            region: &template.region,
            zone: &template.zone,
            capacity: NullIfEmpty(&template.capacity),
            allocatable: NullIfEmpty(&template.allocatable),
            labels: NullIfEmpty(&template.labels),
            taints: NullIfEmpty(&template.taints),
            hash: template.hash(),
        }
    }
}

impl<'a> GroupJson<'a> {
    fn of(group: &'a NodeGroupInfo) -> GroupJson<'a> {
        GroupJson {
            name: &group.name,
            pool_name: &group.pool,
            zone: &group.zone,
            target_size: group.target,
            min_size: group.min,
            max_size: group.max,
            hash: group.hash(),
        }
    }
}

impl<'a> MetaJson<'a> {
    fn of(meta: &'a SnapshotMeta, changed: Option<Moment>) -> MetaJson<'a> {
        MetaJson {
            row_id: 0,
            creation_timestamp: GoTime(meta.created),
            snapshot_timestamp: GoTime(changed),
            name: &meta.name,
            namespace: &meta.namespace,
        }
    }
}

impl<'a> NodeJson<'a> {
    fn of(node: &'a NodeInfo) -> NodeJson<'a> {
        NodeJson {
            meta: MetaJson::of(&node.meta, node.changed),
            provider_id: &node.provider_id,
            allocatable_volumes: node.volumes,
            labels: NullIfEmpty(&node.labels),
            taints: NullIfEmpty(&node.taints),
            allocatable: NullIfEmpty(&node.allocatable),
            capacity: NullIfEmpty(&node.capacity),
            deletion_timestamp: GoTime(node.meta.deleted),
            hash: node.hash(),
        }
    }
}

impl<'a> PodJson<'a> {
    fn of(pod: &'a PodInfo) -> PodJson<'a> {
        PodJson {
            meta: MetaJson::of(&pod.meta, pod.changed),
            uid: &pod.uid,
            node_name: pod.node_name(),
            nominated_node_name: &pod.nominated,
            labels: NullIfEmpty(&pod.labels),
            requests: NullIfEmpty(&pod.requests),
            spec: &pod.spec,
            // Gardener's recorder stores no pod that the scheduler has not attempted; here its reader has to place it.
            pod_schedule_status: match pod.status {
                ScheduleStatus::Pending => ScheduleStatus::Unscheduled as i64,
                status => status as i64,
            },
            pod_phase: &pod.phase,
            deletion_timestamp: GoTime(pod.meta.deleted),
            hash: pod_hash(pod),
        }
    }
}

impl<'a> PoolJson<'a> {
    fn of(pool: &'a WorkerPoolInfo) -> PoolJson<'a> {
        PoolJson {
            meta: MetaJson::of(&pool.meta, pool.changed),
            machine_type: &pool.machine_type,
            architecture: &pool.architecture,
            minimum: pool.minimum,
            maximum: pool.maximum,
            max_surge: int_or_string(&pool.max_surge),
            max_unavailable: int_or_string(&pool.max_unavailable),
            zones: NullIfEmpty(&pool.zones),
            labels: (),
            taints: (),
            deletion_timestamp: GoTime(pool.meta.deleted),
            hash: pool.hash(),
        }
    }
}

impl PriorityClassJson {
    fn of(class: &PriorityClassInfo) -> PriorityClassJson {
        let mut fields: BTreeMap<String, Value> = match class.object() {
            Value::Object(fields) => fields.into_iter().collect(),
            _ => BTreeMap::new(),
        };
        fields.retain(|field, _| field != "apiVersion" && field != "kind");
        PriorityClassJson {
            row_id: 0,
            snapshot_timestamp: GoTime(class.meta.created),
            hash: class.hash(),
            class: fields,
        }
    }
}

impl SettingsJson {
    fn of(at: Moment, settings: &SettingsInfo) -> SettingsJson {
        let nanos = |millis: i64| millis.saturating_mul(1_000_000);
        let sizes = settings.groups.iter();
        SettingsJson {
            snapshot_timestamp: GoTime(Some(at)),
            expander: settings.expander.clone(),
            node_groups_min_max: NullIfEmpty(
                sizes.map(|(name, (min, max))| (name.clone(), SizesJson { min: *min, max: *max })).collect(),
            ),
            max_node_provision_time: nanos(settings.max_node_provision_millis),
            scan_interval: nanos(settings.scan_interval_millis),
            max_graceful_termination_seconds: settings.max_graceful_termination_seconds,
            new_pod_scale_up_delay: nanos(settings.new_pod_scale_up_delay_millis),
            max_empty_bulk_delete: settings.max_empty_bulk_delete,
            ignore_daemon_set_utilization: settings.ignore_daemon_sets,
            max_nodes_total: settings.max_nodes_total,
            priorities: settings.priorities.clone(),
            hash: settings.hash(),
        }
    }
}

impl<'a> ResultJson<'a> {
    fn of(result: &'a ScalingResult) -> ResultJson<'a> {
        ResultJson {
            scaled_up_node_groups: NullIfEmpty(&result.scaled_up_node_groups),
            scaled_up_nodes: NullIfEmpty(result.scaled_up_nodes.iter().map(NodeJson::of).collect()),
            pending_unscheduled_pods: NullIfEmpty(
                result.pending_unscheduled_pods.iter().map(PodJson::of).collect(),
            ),
            nodes_utilization: NullIfEmpty(&result.nodes_utilization),
            empty_node_names: NullIfEmpty(&result.empty_node_names),
            scheduled_pods: NullIfEmpty(result.scheduled_pods.iter().map(PodJson::of).collect()),
        }
    }
}

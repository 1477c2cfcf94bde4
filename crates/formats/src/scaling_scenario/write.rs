//! A report as Go prints it: fields in the order of its types, `null` for what is empty, the zero time for none.

mod shapes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;

use model::Moment;
use serde_json::Value;

use self::shapes::{
    ClusterJson, ConfigJson, GroupJson, MetaJson, Nil, NodeJson, PodJson, PoolJson, PriorityClassJson,
    ResultJson, ScenarioJson, SettingsJson, SizesJson, TemplateJson, Time,
};
use super::cluster::{ClusterSnapshot, NodeGroupInfo, NodeTemplate};
use super::hashes::hash_of;
use super::report::{ScalingResult, Scenario};
use crate::go_json;
use crate::scaling_history::info::{
    Meta, NodeInfo, PodInfo, PriorityClassInfo, ScheduleStatus, SettingsInfo, WorkerPoolInfo, number_or_text,
};

/// The mode in which their replayer keeps its autoscaler until all pods are there.
const PAUSED: &str = "replay-mode-pause";

impl Scenario {
    /// Writes it as their replayer does. What they find in a database and no recording has is 0: numbers of rows.
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
            begin_time: Time(Some(*begin)),
            cluster_snapshot: ClusterJson {
                id: format!("{name}-{number}"),
                number: *number,
                snapshot_time: Time(Some(cluster.at)),
                hash: cluster.hash(&config_hash, &pods),
                autoscaler_config: ConfigJson::of(cluster, config_hash),
                worker_pools: Nil(cluster.worker_pools.iter().map(PoolJson::of).collect()),
                priority_classes: Nil(cluster.priority_classes.iter().map(PriorityClassJson::of).collect()),
                pods: Nil(pods.into_iter().map(PodJson::of).collect()),
                nodes: Nil(cluster.nodes.iter().map(NodeJson::of).collect()),
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
            node_templates: templates.map(|it| (it.name.as_str(), TemplateJson::of(it))).collect(),
            node_groups: groups.map(|it| (it.name.as_str(), GroupJson::of(it))).collect(),
            existing_nodes: Nil(cluster.nodes.iter().map(NodeJson::of).collect()),
            settings: SettingsJson::of(cluster.at, &cluster.autoscaler.clone().unwrap_or_default()),
            mode: PAUSED,
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
            capacity: Nil(&template.capacity),
            allocatable: Nil(&template.allocatable),
            labels: Nil(&template.labels),
            taints: Nil(&template.taints),
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
    fn of(meta: &'a Meta, changed: Option<Moment>) -> MetaJson<'a> {
        MetaJson {
            row_id: 0,
            creation_timestamp: Time(meta.created),
            snapshot_timestamp: Time(changed),
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
            labels: Nil(&node.labels),
            taints: Nil(&node.taints),
            allocatable: Nil(&node.allocatable),
            capacity: Nil(&node.capacity),
            deletion_timestamp: Time(node.meta.deleted),
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
            labels: Nil(&pod.labels),
            requests: Nil(&pod.requests),
            spec: &pod.spec,
            // Their recorder waits until the scheduler has looked at a pod; whoever reads a report must place it.
            pod_schedule_status: match pod.status {
                ScheduleStatus::Pending => ScheduleStatus::Unscheduled as i64,
                status => status as i64,
            },
            pod_phase: &pod.phase,
            deletion_timestamp: Time(pod.meta.deleted),
            hash: hash_of(pod),
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
            max_surge: number_or_text(&pool.max_surge),
            max_unavailable: number_or_text(&pool.max_unavailable),
            zones: Nil(&pool.zones),
            labels: (),
            taints: (),
            deletion_timestamp: Time(pool.meta.deleted),
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
            snapshot_timestamp: Time(class.meta.created),
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
            snapshot_timestamp: Time(Some(at)),
            expander: settings.expander.clone(),
            node_groups_min_max: Nil(sizes
                .map(|(name, (min, max))| (name.clone(), SizesJson { min: *min, max: *max }))
                .collect()),
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
            scaled_up_node_groups: Nil(&result.scaled_up_node_groups),
            scaled_up_nodes: Nil(result.scaled_up_nodes.iter().map(NodeJson::of).collect()),
            pending_unscheduled_pods: Nil(result.pending_unscheduled_pods.iter().map(PodJson::of).collect()),
            nodes_utilization: Nil(&result.nodes_utilization),
            empty_node_names: Nil(&result.empty_node_names),
            scheduled_pods: Nil(result.scheduled_pods.iter().map(PodJson::of).collect()),
        }
    }
}

//! Serializable mirrors of the replayer's Go types, with their field names and order.

use std::collections::BTreeMap;

use model::Moment;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::scaling_history::info::{Labels, Resources};

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ScenarioJson<'a> {
    pub(super) begin_time: GoTime,
    pub(super) cluster_snapshot: ClusterJson<'a>,
    pub(super) scaling_result: ResultJson<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ClusterJson<'a> {
    #[serde(rename = "ID")]
    pub(super) id: String,
    pub(super) number: u64,
    pub(super) snapshot_time: GoTime,
    pub(super) autoscaler_config: ConfigJson<'a>,
    pub(super) worker_pools: NullIfEmpty<Vec<PoolJson<'a>>>,
    pub(super) priority_classes: NullIfEmpty<Vec<PriorityClassJson>>,
    pub(super) pods: NullIfEmpty<Vec<PodJson<'a>>>,
    pub(super) nodes: NullIfEmpty<Vec<NodeJson<'a>>>,
    pub(super) hash: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ConfigJson<'a> {
    pub(super) node_templates: BTreeMap<&'a str, TemplateJson<'a>>,
    pub(super) node_groups: BTreeMap<&'a str, GroupJson<'a>>,
    pub(super) existing_nodes: NullIfEmpty<Vec<NodeJson<'a>>>,
    #[serde(rename = "CASettings")]
    pub(super) settings: SettingsJson,
    pub(super) mode: &'static str,
    pub(super) success_signal_path: &'static str,
    pub(super) error_signal_path: &'static str,
    pub(super) hash: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct TemplateJson<'a> {
    pub(super) name: &'a str,
    pub(super) instance_type: &'a str,
    pub(super) region: &'a str,
    pub(super) zone: &'a str,
    pub(super) capacity: NullIfEmpty<&'a Resources>,
    pub(super) allocatable: NullIfEmpty<&'a Resources>,
    pub(super) labels: NullIfEmpty<&'a Labels>,
    pub(super) taints: NullIfEmpty<&'a Vec<Value>>,
    pub(super) hash: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GroupJson<'a> {
    pub(super) name: &'a str,
    pub(super) pool_name: &'a str,
    pub(super) zone: &'a str,
    pub(super) target_size: i64,
    pub(super) min_size: i64,
    pub(super) max_size: i64,
    pub(super) hash: String,
}

/// `SnapshotMeta`, which the other types embed.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct MetaJson<'a> {
    #[serde(rename = "RowID")]
    pub(super) row_id: u64,
    pub(super) creation_timestamp: GoTime,
    pub(super) snapshot_timestamp: GoTime,
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct NodeJson<'a> {
    #[serde(flatten)]
    pub(super) meta: MetaJson<'a>,
    #[serde(rename = "ProviderID")]
    pub(super) provider_id: &'a str,
    pub(super) allocatable_volumes: i64,
    pub(super) labels: NullIfEmpty<&'a Labels>,
    pub(super) taints: NullIfEmpty<&'a Vec<Value>>,
    pub(super) allocatable: NullIfEmpty<&'a Resources>,
    pub(super) capacity: NullIfEmpty<&'a Resources>,
    pub(super) deletion_timestamp: GoTime,
    pub(super) hash: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PodJson<'a> {
    #[serde(flatten)]
    pub(super) meta: MetaJson<'a>,
    #[serde(rename = "UID")]
    pub(super) uid: &'a str,
    pub(super) node_name: &'a str,
    pub(super) nominated_node_name: &'a str,
    pub(super) labels: NullIfEmpty<&'a Labels>,
    pub(super) requests: NullIfEmpty<&'a Resources>,
    pub(super) spec: &'a Value,
    pub(super) pod_schedule_status: i64,
    pub(super) pod_phase: &'a str,
    pub(super) deletion_timestamp: GoTime,
    pub(super) hash: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PoolJson<'a> {
    #[serde(flatten)]
    pub(super) meta: MetaJson<'a>,
    pub(super) machine_type: &'a str,
    pub(super) architecture: &'a str,
    pub(super) minimum: i64,
    pub(super) maximum: i64,
    pub(super) max_surge: Value,
    pub(super) max_unavailable: Value,
    pub(super) zones: NullIfEmpty<&'a Vec<String>>,
    /// Labels and taints are never filled by Gardener's recorder.
    pub(super) labels: (),
    pub(super) taints: (),
    pub(super) deletion_timestamp: GoTime,
    pub(super) hash: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PriorityClassJson {
    #[serde(rename = "RowID")]
    pub(super) row_id: u64,
    pub(super) snapshot_timestamp: GoTime,
    pub(super) hash: String,
    /// The object itself, without its kind.
    #[serde(flatten)]
    pub(super) class: BTreeMap<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SettingsJson {
    pub(super) snapshot_timestamp: GoTime,
    pub(super) expander: String,
    pub(super) node_groups_min_max: NullIfEmpty<BTreeMap<String, SizesJson>>,
    pub(super) max_node_provision_time: i64,
    pub(super) scan_interval: i64,
    pub(super) max_graceful_termination_seconds: i64,
    pub(super) new_pod_scale_up_delay: i64,
    pub(super) max_empty_bulk_delete: i64,
    pub(super) ignore_daemon_set_utilization: bool,
    pub(super) max_nodes_total: i64,
    pub(super) priorities: String,
    pub(super) hash: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SizesJson {
    pub(super) min: i64,
    pub(super) max: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ResultJson<'a> {
    pub(super) scaled_up_node_groups: NullIfEmpty<&'a BTreeMap<String, u64>>,
    pub(super) scaled_up_nodes: NullIfEmpty<Vec<NodeJson<'a>>>,
    pub(super) pending_unscheduled_pods: NullIfEmpty<Vec<PodJson<'a>>>,
    pub(super) nodes_utilization: NullIfEmpty<&'a BTreeMap<String, Resources>>,
    pub(super) empty_node_names: NullIfEmpty<&'a Vec<String>>,
    pub(super) scheduled_pods: NullIfEmpty<Vec<PodJson<'a>>>,
}

/// A time, or Go's zero time.
pub(super) struct GoTime(pub(super) Option<Moment>);

/// A list or a map that is written as `null` if it is empty.
pub(super) struct NullIfEmpty<T>(pub(super) T);

impl Serialize for GoTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(at) => serializer.collect_str(&at),
            None => serializer.serialize_str("0001-01-01T00:00:00Z"),
        }
    }
}

/// Lists and maps that can be empty.
trait IsEmpty {
    fn is_empty(&self) -> bool;
}

impl<T> IsEmpty for Vec<T> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> IsEmpty for BTreeMap<K, V> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<T: IsEmpty> IsEmpty for &T {
    fn is_empty(&self) -> bool {
        (**self).is_empty()
    }
}

impl<T: IsEmpty + Serialize> Serialize for NullIfEmpty<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if IsEmpty::is_empty(&self.0) { serializer.serialize_none() } else { self.0.serialize(serializer) }
    }
}

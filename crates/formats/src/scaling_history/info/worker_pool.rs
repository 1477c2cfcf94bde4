//! Worker pools of Gardener's Worker resource.

use std::collections::BTreeMap;

use model::Moment;
use serde_json::{Value, json};

use super::hash::InfoHasher;
use super::machine::{int_or_string, int_or_string_text};
use super::{InfoResult, SnapshotMeta, time};
use crate::scaling_history::timestamps::go_millis;

/// The annotation with the time at which Gardener last updated a Worker; the recorder takes it for the change's time.
const TIMESTAMP_ANNOTATION: &str = "gardener.cloud/timestamp";

/// A row of `worker_pool_info`.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerPoolInfo {
    /// The pool's name and the Worker's namespace and times.
    pub meta: SnapshotMeta,
    /// When Gardener last updated the Worker.
    pub changed: Option<Moment>,
    /// The type of its machines.
    pub machine_type: String,
    /// Their CPU architecture.
    pub architecture: String,
    /// The fewest machines.
    pub minimum: i64,
    /// The most machines.
    pub maximum: i64,
    /// `maxSurge` of a rolling update, a number or a percentage.
    pub max_surge: String,
    /// `maxUnavailable` of a rolling update, a number or a percentage.
    pub max_unavailable: String,
    /// The zones of its machines.
    pub zones: Vec<String>,
}

// === impl WorkerPoolInfo ===

impl WorkerPoolInfo {
    /// The recorder's rows for the pools of a Worker, by name. The recorder rejects all of them if one lacks a field.
    pub(crate) fn pools_of(worker: &Value) -> InfoResult<BTreeMap<String, WorkerPoolInfo>> {
        let meta = SnapshotMeta::of(worker)?;
        let changed = time(&worker["metadata"]["annotations"][TIMESTAMP_ANNOTATION])?;
        if changed.is_none() {
            return Err(format!("annotation {TIMESTAMP_ANNOTATION} is missing"));
        }
        let pools = worker["spec"]["pools"].as_array().ok_or("pools is missing")?;
        let read = |pool: &Value| -> InfoResult<(String, WorkerPoolInfo)> {
            let required = |field: &str| {
                pool[field].as_str().map(str::to_owned).ok_or_else(|| format!("a pool has no {field}"))
            };
            let number = |field: &str| pool[field].as_i64().ok_or_else(|| format!("a pool has no {field}"));
            let zones = pool["zones"].as_array().ok_or("a pool has no zones")?;
            let zones =
                zones.iter().map(|zone| zone.as_str().map(str::to_owned).ok_or("a zone is not a string"));
            let info = WorkerPoolInfo {
                meta: SnapshotMeta { name: required("name")?, ..meta.clone() },
                changed,
                machine_type: required("machineType")?,
                architecture: required("architecture")?,
                minimum: number("minimum")?,
                maximum: number("maximum")?,
                max_surge: normalize_int_or_string(&int_or_string_text(&pool["maxSurge"], "maxSurge")?),
                max_unavailable: normalize_int_or_string(&int_or_string_text(
                    &pool["maxUnavailable"],
                    "maxUnavailable",
                )?),
                zones: zones.collect::<std::result::Result<_, _>>()?,
            };
            Ok((info.meta.name.clone(), info))
        };
        pools.iter().map(read).collect()
    }

    pub(crate) fn hash(&self) -> String {
        let mut hash = InfoHasher::default();
        hash.text(&self.meta.name);
        hash.number(go_millis(self.meta.created));
        hash.text(&self.machine_type);
        hash.text(&self.architecture);
        hash.number(self.minimum);
        hash.number(self.maximum);
        hash.text(&self.max_surge);
        hash.text(&self.max_unavailable);
        self.zones.iter().for_each(|zone| hash.text(zone));
        hash.hex()
    }

    /// A Worker with only this pool, under the pool's name: the Worker's own name is not recorded.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.meta.object("extensions.gardener.cloud/v1alpha1", "Worker");
        let changed = self.changed.map(|at| at.to_string()).unwrap_or_default();
        object["metadata"]["annotations"] = json!({ TIMESTAMP_ANNOTATION: changed });
        object["spec"] = json!({ "pools": [{
            "name": self.meta.name,
            "machineType": self.machine_type,
            "architecture": self.architecture,
            "minimum": self.minimum,
            "maximum": self.maximum,
            "maxSurge": int_or_string(&self.max_surge),
            "maxUnavailable": int_or_string(&self.max_unavailable),
            "zones": self.zones,
        }] });
        object
    }
}

/// A numeric text is truncated to 32 bits.
fn normalize_int_or_string(text: &str) -> String {
    text.parse::<i64>().map_or_else(|_| text.to_owned(), |number| (number as i32).to_string())
}

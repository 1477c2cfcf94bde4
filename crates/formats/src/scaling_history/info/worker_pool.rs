//! Pools of workers: the parts of Gardener's Worker resource.

use std::collections::BTreeMap;

use model::Moment;
use serde_json::{Value, json};

use super::hash::Hash;
use super::machine::{count_or_share, number_or_text};
use super::{Fit, Meta, time};
use crate::scaling_history::times::go_millis;

/// When Gardener last touched a Worker, which the recorder takes for the time of the change.
const TIMESTAMP: &str = "gardener.cloud/timestamp";

/// What `worker_pool_info` keeps of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerPoolInfo {
    /// The pool's name and the Worker's namespace and times.
    pub meta: Meta,
    /// When Gardener last touched the Worker.
    pub changed: Option<Moment>,
    /// What its machines are.
    pub machine_type: String,
    /// Their processors.
    pub architecture: String,
    /// The fewest machines.
    pub minimum: i64,
    /// The most machines.
    pub maximum: i64,
    /// A number or a share of machines beyond its size, in an update.
    pub max_surge: String,
    /// The same of machines that may be missing.
    pub max_unavailable: String,
    /// Where its machines may be.
    pub zones: Vec<String>,
}

// === impl WorkerPoolInfo ===

impl WorkerPoolInfo {
    /// The pools of this Worker by name. The recorder gives up on all of them if one lacks a field.
    pub(crate) fn all_of(worker: &Value) -> Fit<BTreeMap<String, WorkerPoolInfo>> {
        let meta = Meta::of(worker)?;
        let changed = time(&worker["metadata"]["annotations"][TIMESTAMP])?;
        if changed.is_none() {
            return Err(format!("it has no annotation {TIMESTAMP}"));
        }
        let pools = worker["spec"]["pools"].as_array().ok_or("it has no pools")?;
        let read = |pool: &Value| -> Fit<(String, WorkerPoolInfo)> {
            let required = |field: &str| {
                pool[field].as_str().map(str::to_owned).ok_or_else(|| format!("a pool has no {field}"))
            };
            let number = |field: &str| pool[field].as_i64().ok_or_else(|| format!("a pool has no {field}"));
            let zones = pool["zones"].as_array().ok_or("a pool has no zones")?;
            let zones = zones.iter().map(|zone| zone.as_str().map(str::to_owned).ok_or("a zone is no text"));
            let info = WorkerPoolInfo {
                meta: Meta { name: required("name")?, ..meta.clone() },
                changed,
                machine_type: required("machineType")?,
                architecture: required("architecture")?,
                minimum: number("minimum")?,
                maximum: number("maximum")?,
                max_surge: normal(&count_or_share(&pool["maxSurge"], "maxSurge")?),
                max_unavailable: normal(&count_or_share(&pool["maxUnavailable"], "maxUnavailable")?),
                zones: zones.collect::<std::result::Result<_, _>>()?,
            };
            Ok((info.meta.name.clone(), info))
        };
        pools.iter().map(read).collect()
    }

    pub(crate) fn hash(&self) -> String {
        let mut hash = Hash::default();
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

    /// A Worker of this pool alone, by its name: what the Worker itself was called is not recorded.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.meta.object("extensions.gardener.cloud/v1alpha1", "Worker");
        let changed = self.changed.map(|at| at.to_string()).unwrap_or_default();
        object["metadata"]["annotations"] = json!({ TIMESTAMP: changed });
        object["spec"] = json!({ "pools": [{
            "name": self.meta.name,
            "machineType": self.machine_type,
            "architecture": self.architecture,
            "minimum": self.minimum,
            "maximum": self.maximum,
            "maxSurge": number_or_text(&self.max_surge),
            "maxUnavailable": number_or_text(&self.max_unavailable),
            "zones": self.zones,
        }] });
        object
    }
}

/// A text that is a number is taken for one, and cut to 32 bits.
fn normal(text: &str) -> String {
    text.parse::<i64>().map_or_else(|_| text.to_owned(), |number| (number as i32).to_string())
}

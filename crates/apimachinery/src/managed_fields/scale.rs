//! The managers of the number of replicas, as managers of the subresource `scale`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::field_set::FieldSet;
use super::managers::{ManagedSet, Managers};

/// The version of Scale.
const SCALE_VERSION: &str = "autoscaling/v1";
/// The field in Scale.
const REPLICAS: &[&str] = &["spec", "replicas"];

/// The managers of a Scale: those that have the replicas of its workload, which is written in this version and has them at
/// a path.
pub fn scale_to_subresource(workload: &Value, api_version: &str, path: &[&str]) -> Option<Value> {
    let managers = Managers::decode(&workload["metadata"]["managedFields"]).unwrap_or_default();
    let of_scale =
        managers.0.into_iter().filter(|(_, set)| set.api_version == api_version && set.fields.has(path)).map(
            |(id, set)| {
                let api_version = SCALE_VERSION.to_owned();
                (id, ManagedSet { fields: only(REPLICAS), api_version, ..set })
            },
        );
    Managers(of_scale.collect()).encode()
}

/// The managers of a workload after those of its Scale have changed.
pub fn scale_to_parent(workload: &Value, scale: &Value, api_version: &str, path: &[&str]) -> Option<Value> {
    let managers = Managers::decode(&workload["metadata"]["managedFields"]).unwrap_or_default();
    let mut of_scale = Managers::decode(&scale["metadata"]["managedFields"]).unwrap_or_default();
    let times: BTreeMap<_, _> = managers.0.iter().map(|(id, set)| (id.clone(), set.time.clone())).collect();
    let mut merged = Managers::default();
    for (id, mut set) in managers.0 {
        if set.api_version != api_version {
            continue;
        }
        if set.fields.has(path) && of_scale.0.remove(&id).is_none() {
            set.fields = set.fields.difference(&only(path));
        }
        if !set.fields.is_empty() {
            merged.0.insert(id, set);
        }
    }
    for (id, set) in of_scale.0.into_iter().filter(|(_, set)| set.fields.has(REPLICAS)) {
        let api_version = api_version.to_owned();
        // As in the original, a manager that is new to the workload has no time.
        let time = times.get(&id).cloned().flatten();
        merged.0.insert(id, ManagedSet { fields: only(path), api_version, time, ..set });
    }
    merged.encode()
}

fn only(path: &[&str]) -> FieldSet {
    let mut fields = FieldSet::default();
    fields.insert(path);
    fields
}

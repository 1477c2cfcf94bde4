//! The managers of an object with the fields that each has, as `metadata.managedFields` has them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::field_set::FieldSet;

/// Managers and their fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Managers(pub(super) BTreeMap<ManagerId, ManagedSet>);

/// The identity of a manager, as JSON text: it is what the original sorts by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ManagerId(String);

/// The fields of a manager.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ManagedSet {
    pub(super) fields: FieldSet,
    pub(super) api_version: String,
    /// Whether it applied them; otherwise it wrote them in another way.
    pub(super) is_applied: bool,
    pub(super) time: Option<String>,
}

/// The parts of an identity in their order.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Identity {
    #[serde(skip_serializing_if = "String::is_empty")]
    manager: String,
    operation: String,
    /// Empty if the operation is `Apply`.
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
}

const APPLY: &str = "Apply";
const UPDATE: &str = "Update";

/// The most managers that wrote an object in other ways than by applying. Older ones are merged.
const MAX_UPDATE_MANAGERS: usize = 10;
const OLD_UPDATES_MANAGER: &str = "ancient-changes";

// === impl Managers ===

impl Managers {
    /// Reads `metadata.managedFields`. The error says which entry is invalid.
    pub(super) fn decode(entries: &Value) -> Result<Managers, String> {
        let mut managers = Managers::default();
        for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
            let text = |field: &str| entry[field].as_str().unwrap_or_default();
            let is_applied = match text("operation") {
                APPLY => true,
                UPDATE => false,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            if text("apiVersion").is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
                other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {index}")),
            }
            let fields = FieldSet::from_fields(&entry["fieldsV1"])
                .map_err(|error| format!("error decoding set: {error}"))?;
            let id = ManagerId::new(text("manager"), is_applied, text("apiVersion"), text("subresource"));
            let set = ManagedSet {
                fields,
                api_version: text("apiVersion").to_owned(),
                is_applied,
                time: entry["time"].as_str().map(str::to_owned),
            };
            managers.0.insert(id, set);
        }
        Ok(managers)
    }

    /// The form of `metadata.managedFields`: sorted by operation, time and name.
    pub(super) fn encode(&self) -> Option<Value> {
        if self.0.is_empty() {
            return None;
        }
        let mut entries: Vec<_> = self.0.iter().map(|(id, set)| (id.parse(), set)).collect();
        entries.sort_by_cached_key(|(identity, set)| {
            let name = (identity.manager.clone(), set.api_version.clone(), identity.subresource.clone());
            (identity.operation.clone(), set.seconds(), name)
        });
        let entries = entries.into_iter().map(|(identity, set)| {
            let mut entry = json!({
                "operation": identity.operation,
                "apiVersion": set.api_version,
                "fieldsType": "FieldsV1",
                "fieldsV1": set.fields.to_fields(),
            });
            let time = set.time.clone().unwrap_or_default();
            for (field, text) in
                [("manager", identity.manager), ("time", time), ("subresource", identity.subresource)]
            {
                if !text.is_empty() {
                    entry[field] = text.into();
                }
            }
            entry
        });
        Some(entries.collect())
    }

    /// Merges the oldest of too many managers that did not apply.
    pub(super) fn cap_update_managers(&mut self) {
        let mut updaters: Vec<ManagerId> =
            self.0.iter().filter(|(_, set)| !set.is_applied).map(|(id, _)| id.clone()).collect();
        let mut count = updaters.len();
        updaters.sort_by_key(|id| self.0.get(id).map_or(0, ManagedSet::seconds));
        let mut first_of_version: BTreeMap<String, ManagerId> = BTreeMap::new();
        for id in updaters {
            if count <= MAX_UPDATE_MANAGERS {
                return;
            }
            let Some(api_version) = self.0.get(&id).map(|set| set.api_version.clone()) else { continue };
            let Some(first) = first_of_version.get(&api_version) else {
                first_of_version.insert(api_version, id);
                continue;
            };
            let bucket = ManagerId::new(OLD_UPDATES_MANAGER, false, &api_version, "");
            if !self.0.contains_key(&bucket)
                && let Some(set) = self.0.remove(first)
            {
                self.0.insert(bucket.clone(), set);
            }
            if let Some(merged) = self.0.remove(&id) {
                let target = self.0.entry(bucket).or_insert_with(|| merged.clone());
                target.fields = merged.fields.union(std::mem::take(&mut target.fields));
                target.time = merged.time;
            }
            count -= 1;
        }
    }
}

// === impl ManagerId ===

impl ManagerId {
    pub(super) fn new(manager: &str, is_applied: bool, api_version: &str, subresource: &str) -> ManagerId {
        let identity = Identity {
            manager: manager.to_owned(),
            operation: if is_applied { APPLY } else { UPDATE }.to_owned(),
            api_version: if is_applied { "" } else { api_version }.to_owned(),
            subresource: subresource.to_owned(),
        };
        ManagerId(serde_json::to_string(&identity).unwrap_or_default())
    }

    fn parse(&self) -> Identity {
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// The manager as messages name it: `"kubectl" with subresource "status" using apps/v1`.
    pub(super) fn describe(&self) -> String {
        let identity = self.parse();
        let mut text = kubernetes::go::text::quote(&identity.manager);
        if !identity.subresource.is_empty() {
            text.push_str(" with subresource ");
            text.push_str(&kubernetes::go::text::quote(&identity.subresource));
        }
        if identity.operation == UPDATE {
            text.push_str(" using ");
            text.push_str(&identity.api_version);
        }
        text
    }
}

// === impl ManagedSet ===

impl ManagedSet {
    /// Removes fields that another manager changed or removed.
    pub(super) fn lose(&mut self, changed: &FieldSet, removed: &FieldSet) {
        self.fields = std::mem::take(&mut self.fields).difference(changed).difference(removed);
    }

    /// The time in seconds since 1970; 0 if there is none.
    fn seconds(&self) -> i64 {
        let time = self.time.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
        time.map_or(0, Timestamp::as_second)
    }
}

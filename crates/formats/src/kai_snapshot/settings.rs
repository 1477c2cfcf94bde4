//! The scheduler's settings in a snapshot: as recorded, or the defaults of v0.17.

use model::Object;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{DEFAULT_SCHEDULER_NAME, Partition};

/// The scenario generator plugins, which find victims.
const SCENARIO_GENERATORS: [&str; 2] = ["sg-nodelocalgreedy", "sg-multinodegang"];

/// The scheduler's settings in a snapshot.
#[derive(Clone, Debug)]
pub struct SchedulerSettings {
    /// The configuration: actions and plugins.
    pub config: Value,
    /// The command line's parameters.
    pub scheduler_params: Value,
    /// What the API server serves; `None` where the recorded snapshot has none.
    pub discovery: Option<Value>,
    /// The nodes, queues and pod groups of the scheduler.
    pub partition: Partition,
    /// What was not recorded.
    pub added: Vec<String>,
}

/// Whether the API server serves the optional kinds that the scheduler looks for.
#[derive(Clone, Copy, Default)]
pub(super) struct ServedKinds {
    pub(super) claims: bool,
    pub(super) node_topologies: bool,
}

// === impl SchedulerSettings ===

impl SchedulerSettings {
    /// The settings stored in an object of the kind [`SETTINGS_KIND`](super::SETTINGS_KIND), if there is one. They are written as they were recorded, because a changed
    /// list of plugins changes decisions. Only what the scheduler's own tool fails without is added: it panics where
    /// `config`, `schedulerParams` or its `partitionParams` are missing.
    pub fn new(recorded: Option<&Object>, partition: Option<Partition>) -> SchedulerSettings {
        let is_recorded = recorded.is_some();
        let mut recorded = recorded.and_then(|object| object.value().ok()).unwrap_or_default();
        let mut added = Vec::new();
        let mut take = |key: &str, default: &dyn Fn() -> Value| match recorded.get_mut(key).map(Value::take) {
            Some(value @ Value::Object(_)) => value,
            _ => {
                added.push(format!("{key} (defaults of v0.17)"));
                default()
            }
        };
        let config = with_defaults(take("config", &default_config));
        let mut scheduler_params = take("schedulerParams", &default_params);
        let discovery = match recorded.get_mut("discovery").map(Value::take) {
            Some(value @ Value::Object(_)) => Some(value),
            _ if is_recorded => None,
            _ => {
                added.push("discovery".to_owned());
                Some(default_discovery(ServedKinds::default()))
            }
        };
        let partition = partition.or_else(|| recorded_partition(&scheduler_params)).unwrap_or_else(|| {
            if is_recorded {
                added.push("schedulerParams.partitionParams".to_owned());
            }
            Partition { key: Partition::DEFAULT_KEY.to_owned(), value: String::new() }
        });
        scheduler_params["partitionParams"] =
            json!({"NodePoolLabelKey": partition.key, "NodePoolLabelValue": partition.value});
        SchedulerSettings { config, scheduler_params, discovery, partition, added }
    }

    /// Says in settings without a recorded origin which optional kinds the API server serves.
    pub(super) fn set_served(&mut self, served: ServedKinds) {
        self.discovery = Some(default_discovery(served));
    }
}

/// The name of the scheduler that has these parameters.
pub(super) fn scheduler_name(scheduler_params: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        scheduler_name: Option<String>,
    }
    serde_json::from_str::<Params>(scheduler_params.get()).ok()?.scheduler_name
}

/// Go matches field names case-insensitively.
fn recorded_partition(scheduler_params: &Value) -> Option<Partition> {
    let fields = scheduler_params.get("partitionParams")?.as_object()?;
    let text = |name: &str| {
        let field = fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        field.and_then(|(_, value)| value.as_str()).unwrap_or_default().to_owned()
    };
    Some(Partition { key: text("NodePoolLabelKey"), value: text("NodePoolLabelValue") })
}

/// Without actions or tiers the scheduler has its defaults.
fn with_defaults(mut config: Value) -> Value {
    let mut default = default_config();
    if config["actions"].as_str().is_none_or(str::is_empty) {
        config["actions"] = default["actions"].take();
    }
    if config["tiers"].as_array().is_none_or(Vec::is_empty) {
        config["tiers"] = default["tiers"].take();
    }
    config
}

fn default_config() -> Value {
    let plain = |name: &str| json!({"name": name});
    let plugins: Vec<Value> = [
        "predicates",
        "proportion",
        "priority",
        "elastic",
        "kubeflow",
        "ray",
        "nodeavailability",
        "gpusharingorder",
        "gpupack",
        "resourcetype",
        "subgrouporder",
        "taskorder",
        "nominatednode",
        "dynamicresources",
    ]
    .map(plain)
    .into_iter()
    .chain([json!({"name": "nodeplacement", "arguments": {"cpu": "binpack", "gpu": "binpack"}})])
    .chain(["minruntime", "topology", "snapshot"].map(plain))
    .chain(SCENARIO_GENERATORS.map(plain))
    .collect();
    json!({
        "actions": "allocate, consolidation, reclaim, preempt, stalegangeviction",
        "tiers": [{"plugins": plugins}],
        "scenarioSearchBudgets": {
            "maxActionSearchDuration": {"default": "5m0s"},
            "maxJobSearchDuration": "4m0s",
            "minJobSearchDuration": "0s",
            "maxGeneratorSearchDuration": {
                "default": "2m0s",
                "NodeLocalGreedy": "30s",
                "MultiNodeGang": "2m0s",
            },
        },
    })
}

/// The flags' defaults that are neither false nor empty: those are never written. Durations are in nanoseconds.
fn default_params() -> Value {
    json!({
        "schedulerName": DEFAULT_SCHEDULER_NAME,
        "maxNumberConsolidationPreemptees": 16,
        "useSchedulingSignatures": true,
        "fullHierarchyFairness": true,
        "allowConsolidatingReclaim": true,
        "numOfStatusRecordingWorkers": 5,
        "globalDefaultStalenessGracePeriod": 60_000_000_000_u64,
        "schedulePeriod": 1_000_000_000_u64,
        "stuckInReleasingThreshold": 120_000_000_000_u64,
        "queueLabelKey": "kai.scheduler/queue",
    })
}

/// The discovery of an API server of the version that v0.17 is built for. The scheduler checks only these two groups.
fn default_discovery(serves: ServedKinds) -> Value {
    let resource = |name: &str, kind: &str, namespaced: bool| {
        let singular = kind.to_ascii_lowercase();
        let verbs = ["get", "list", "watch"];
        json!({"name": name, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": verbs})
    };
    let mut resources = Vec::new();
    if serves.claims {
        resources.push(json!({"groupVersion": "resource.k8s.io/v1", "resources": [
            resource("deviceclasses", "DeviceClass", false),
            resource("resourceclaims", "ResourceClaim", true),
            resource("resourceslices", "ResourceSlice", false),
        ]}));
    }
    if serves.node_topologies {
        resources.push(json!({"groupVersion": "topology.node.k8s.io/v1alpha2", "resources": [
            resource("noderesourcetopologies", "NodeResourceTopology", false),
        ]}));
    }
    json!({"serverVersion": {"major": "1", "minor": "35"}, "resources": resources})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings_object(fields: &str) -> Object {
        Object::parse(&format!(
            r#"{{"apiVersion":"kai.kinescope.io/v1","kind":"SnapshotSettings","metadata":{{"name":"s"}},{fields}}}"#
        ))
        .unwrap()
    }

    fn plugins(config: &Value) -> Vec<&str> {
        let tiers = config["tiers"].as_array().unwrap().iter();
        tiers
            .flat_map(|tier| tier["plugins"].as_array().unwrap())
            .map(|p| p["name"].as_str().unwrap())
            .collect()
    }

    #[test]
    fn missing_settings_get_defaults() {
        for fields in [r#""config":null"#, r#""schedulerParams":{"partitionParams":null}"#, r#""config":{}"#]
        {
            let settings = SchedulerSettings::new(Some(&settings_object(fields)), None);
            assert_eq!(
                settings.scheduler_params["partitionParams"],
                json!({"NodePoolLabelKey": "kai.scheduler/node-pool", "NodePoolLabelValue": ""})
            );
            assert_eq!(plugins(&settings.config).len(), 20, "{fields}");
            assert!(!settings.added.is_empty());
        }
    }

    #[test]
    fn recorded_settings_stay_unchanged() {
        let object = settings_object(
            r#""config":{"actions":"allocate","x":1,"tiers":[{"plugins":[{"name":"a"}]}]},
               "schedulerParams":{"schedulerName":"s","partitionParams":{"nodePoolLabelKey":"k","NodePoolLabelValue":"v"}},
               "discovery":{"serverVersion":null,"resources":null}"#,
        );
        let settings = SchedulerSettings::new(Some(&object), None);
        assert_eq!(settings.config, json!({"actions":"allocate","x":1,"tiers":[{"plugins":[{"name":"a"}]}]}));
        assert_eq!(settings.partition, Partition { key: "k".into(), value: "v".into() });
        assert_eq!(settings.discovery, Some(json!({"serverVersion":null,"resources":null})));
        assert!(settings.added.is_empty());
        let given = Partition { key: "pool".into(), value: "a".into() };
        let settings = SchedulerSettings::new(Some(&object), Some(given.clone()));
        assert_eq!(settings.partition, given);
        assert_eq!(
            settings.scheduler_params,
            json!({"schedulerName":"s","partitionParams":{"NodePoolLabelKey":"pool","NodePoolLabelValue":"a"}})
        );
    }

    #[test]
    fn plugins_of_old_configurations_stay_as_they_were() {
        let object = settings_object(
            r#""config":{"actions":"allocate,reclaim","tiers":[{"plugins":[{"name":"a"}]}]},"schedulerParams":{}"#,
        );
        let settings = SchedulerSettings::new(Some(&object), None);
        assert_eq!(plugins(&settings.config), ["a"]);
        assert_eq!(settings.added, ["schedulerParams.partitionParams"]);
        assert_eq!(settings.discovery, None);
    }
}

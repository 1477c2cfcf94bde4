//! The scheduler's settings in a snapshot: as recorded, completed by the defaults of v0.17.

use model::Object;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{DEFAULT_SCHEDULER_NAME, Partition};

/// Actions that search for victims; since v0.16 they need generator plugins.
const VICTIM_SEARCH_ACTIONS: [&str; 3] = ["consolidation", "reclaim", "preempt"];
/// The scenario generator plugins, which find victims.
const SCENARIO_GENERATORS: [&str; 2] = ["sg-nodelocalgreedy", "sg-multinodegang"];

/// The scheduler's settings in a snapshot.
pub(super) struct SchedulerSettings {
    pub(super) config: Value,
    pub(super) scheduler_params: Value,
    pub(super) discovery: Value,
    pub(super) partition: Partition,
}

/// Whether the API server serves the optional kinds that the scheduler looks for.
#[derive(Clone, Copy, Default)]
pub(super) struct ServedKinds {
    pub(super) claims: bool,
    pub(super) node_topologies: bool,
}

// === impl SchedulerSettings ===

impl SchedulerSettings {
    /// The settings stored in an object, if there is one. The scheduler's own tool panics where `config`,
    /// `schedulerParams` or its `partitionParams` are missing, so they are always written.
    pub(super) fn new(
        recorded: Option<&Object>,
        partition: Option<Partition>,
        serves: ServedKinds,
    ) -> SchedulerSettings {
        let mut recorded = recorded.and_then(|object| object.value().ok()).unwrap_or_default();
        let mut take = |key: &str| match recorded.get_mut(key).map(Value::take) {
            Some(value @ Value::Object(_)) => Some(value),
            _ => None,
        };
        let config = take("config").map_or_else(default_config, with_defaults);
        let mut scheduler_params = take("schedulerParams").unwrap_or_else(default_params);
        let discovery = take("discovery").unwrap_or_else(|| default_discovery(serves));
        let partition = partition
            .or_else(|| recorded_partition(&scheduler_params))
            .unwrap_or_else(|| Partition { key: Partition::DEFAULT_KEY.to_owned(), value: String::new() });
        scheduler_params["partitionParams"] =
            json!({"NodePoolLabelKey": partition.key, "NodePoolLabelValue": partition.value});
        SchedulerSettings { config, scheduler_params, discovery, partition }
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

/// Completes the configuration of an older release so that v0.17 behaves the same. Without actions or tiers the
/// defaults apply. Before v0.16 no configuration lists generator plugins, and without them v0.17 finds no victims.
fn with_defaults(mut config: Value) -> Value {
    let mut default = default_config();
    if config["actions"].as_str().is_none_or(str::is_empty) {
        config["actions"] = default["actions"].take();
    }
    if config["tiers"].as_array().is_none_or(Vec::is_empty) {
        config["tiers"] = default["tiers"].take();
    }
    let actions = config["actions"].as_str().unwrap_or_default();
    let searches = actions.split(',').any(|action| VICTIM_SEARCH_ACTIONS.contains(&action.trim()));
    let before_0_16 = config["scenarioSearchBudgets"].is_null();
    let tiers = config["tiers"].as_array_mut().into_iter().flatten();
    let mut plugins: Vec<&mut Vec<Value>> =
        tiers.filter_map(|tier| tier.get_mut("plugins").and_then(Value::as_array_mut)).collect();
    let named =
        |plugin: &Value| plugin["name"].as_str().is_some_and(|name| SCENARIO_GENERATORS.contains(&name));
    if searches && before_0_16 && !plugins.iter().any(|tier| tier.iter().any(named)) {
        let generators = SCENARIO_GENERATORS.map(|name| json!({"name": name}));
        if let Some(last) = plugins.last_mut() {
            last.extend(generators);
        }
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
            let settings =
                SchedulerSettings::new(Some(&settings_object(fields)), None, ServedKinds::default());
            assert_eq!(
                settings.scheduler_params["partitionParams"],
                json!({"NodePoolLabelKey": "kai.scheduler/node-pool", "NodePoolLabelValue": ""})
            );
            assert_eq!(plugins(&settings.config).len(), 20, "{fields}");
            assert!(settings.discovery.is_object());
        }
    }

    #[test]
    fn recorded_settings_stay_unchanged() {
        let object = settings_object(
            r#""config":{"actions":"allocate","x":1,"tiers":[{"plugins":[{"name":"a"}]}]},
               "schedulerParams":{"schedulerName":"s","partitionParams":{"nodePoolLabelKey":"k","NodePoolLabelValue":"v"}},
               "discovery":{"serverVersion":null,"resources":null}"#,
        );
        let settings =
            SchedulerSettings::new(Some(&object), None, ServedKinds { claims: true, node_topologies: true });
        assert_eq!(settings.config, json!({"actions":"allocate","x":1,"tiers":[{"plugins":[{"name":"a"}]}]}));
        assert_eq!(settings.partition, Partition { key: "k".into(), value: "v".into() });
        assert_eq!(settings.discovery, json!({"serverVersion":null,"resources":null}));
        let given = Partition { key: "pool".into(), value: "a".into() };
        let settings = SchedulerSettings::new(Some(&object), Some(given.clone()), ServedKinds::default());
        assert_eq!(settings.partition, given);
        assert_eq!(
            settings.scheduler_params,
            json!({"schedulerName":"s","partitionParams":{"NodePoolLabelKey":"pool","NodePoolLabelValue":"a"}})
        );
    }

    #[test]
    fn old_configurations_get_scenario_generators() {
        let config = |more: &str| {
            let object = settings_object(&format!(
                r#""config":{{"actions":"allocate,reclaim","tiers":[{{"plugins":[{{"name":"a"}}]}}]{more}}}"#
            ));
            let config = SchedulerSettings::new(Some(&object), None, ServedKinds::default()).config;
            plugins(&config).join(" ")
        };
        assert_eq!(config(""), "a sg-nodelocalgreedy sg-multinodegang");
        assert_eq!(config(r#","scenarioSearchBudgets":{}"#), "a");
    }
}

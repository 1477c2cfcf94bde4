//! What a snapshot says of the scheduler: as it was recorded, completed by the defaults of v0.17.

use model::Object;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Partition, SCHEDULER};

/// Actions that look for victims, by plugins of the configuration since v0.16.
const SEARCHING: [&str; 3] = ["consolidation", "reclaim", "preempt"];
/// The plugins that find victims.
const GENERATORS: [&str; 2] = ["sg-nodelocalgreedy", "sg-multinodegang"];

/// What a snapshot says of the scheduler.
pub(super) struct Settings {
    pub(super) config: Value,
    pub(super) scheduler_params: Value,
    pub(super) discovery: Value,
    pub(super) partition: Partition,
}

/// The kinds an API server has that a scheduler asks it for.
#[derive(Clone, Copy, Default)]
pub(super) struct Serves {
    pub(super) claims: bool,
    pub(super) node_topologies: bool,
}

// === impl Settings ===

impl Settings {
    /// The settings kept in an object, if there is one. The scheduler's own tool stops with a panic where `config`,
    /// `schedulerParams` or its `partitionParams` are missing, so that they are always there.
    pub(super) fn new(kept: Option<&Object>, partition: Option<Partition>, serves: Serves) -> Settings {
        let mut kept = kept.and_then(|object| object.value().ok()).unwrap_or_default();
        let mut take = |key: &str| match kept.get_mut(key).map(Value::take) {
            Some(value @ Value::Object(_)) => Some(value),
            _ => None,
        };
        let config = take("config").map_or_else(default_config, completed);
        let mut scheduler_params = take("schedulerParams").unwrap_or_else(default_params);
        let discovery = take("discovery").unwrap_or_else(|| default_discovery(serves));
        let partition = partition
            .or_else(|| kept_partition(&scheduler_params))
            .unwrap_or_else(|| Partition { key: Partition::DEFAULT_KEY.to_owned(), value: String::new() });
        scheduler_params["partitionParams"] =
            json!({"NodePoolLabelKey": partition.key, "NodePoolLabelValue": partition.value});
        Settings { config, scheduler_params, discovery, partition }
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

/// Go does not mind how the names of fields are capitalised.
fn kept_partition(scheduler_params: &Value) -> Option<Partition> {
    let fields = scheduler_params.get("partitionParams")?.as_object()?;
    let text = |name: &str| {
        let field = fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        field.and_then(|(_, value)| value.as_str()).unwrap_or_default().to_owned()
    };
    Some(Partition { key: text("NodePoolLabelKey"), value: text("NodePoolLabelValue") })
}

/// A configuration of an older release, so that it does the same today. A file without actions or plugins has the
/// default ones; before v0.16 no configuration names what finds victims, and without that there are none.
fn completed(mut config: Value) -> Value {
    let mut default = default_config();
    if config["actions"].as_str().is_none_or(str::is_empty) {
        config["actions"] = default["actions"].take();
    }
    if config["tiers"].as_array().is_none_or(Vec::is_empty) {
        config["tiers"] = default["tiers"].take();
    }
    let actions = config["actions"].as_str().unwrap_or_default();
    let searches = actions.split(',').any(|action| SEARCHING.contains(&action.trim()));
    let before_0_16 = config["scenarioSearchBudgets"].is_null();
    let tiers = config["tiers"].as_array_mut().into_iter().flatten();
    let mut plugins: Vec<&mut Vec<Value>> =
        tiers.filter_map(|tier| tier.get_mut("plugins").and_then(Value::as_array_mut)).collect();
    let named = |plugin: &Value| plugin["name"].as_str().is_some_and(|name| GENERATORS.contains(&name));
    if searches && before_0_16 && !plugins.iter().any(|tier| tier.iter().any(named)) {
        let generators = GENERATORS.map(|name| json!({"name": name}));
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
    .chain(GENERATORS.map(plain))
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

/// Of the flags' defaults those that are not false or nothing: these are never written. Times are in nanoseconds.
fn default_params() -> Value {
    json!({
        "schedulerName": SCHEDULER,
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

/// An API server of the version that v0.17 is built for. A scheduler asks it only for these two groups.
fn default_discovery(serves: Serves) -> Value {
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

    fn kept(fields: &str) -> Object {
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
    fn what_is_missing_is_completed() {
        for fields in [r#""config":null"#, r#""schedulerParams":{"partitionParams":null}"#, r#""config":{}"#]
        {
            let settings = Settings::new(Some(&kept(fields)), None, Serves::default());
            assert_eq!(
                settings.scheduler_params["partitionParams"],
                json!({"NodePoolLabelKey": "kai.scheduler/node-pool", "NodePoolLabelValue": ""})
            );
            assert_eq!(plugins(&settings.config).len(), 20, "{fields}");
            assert!(settings.discovery.is_object());
        }
    }

    #[test]
    fn what_was_recorded_stays_as_it_is() {
        let object = kept(
            r#""config":{"actions":"allocate","x":1,"tiers":[{"plugins":[{"name":"a"}]}]},
               "schedulerParams":{"schedulerName":"s","partitionParams":{"nodePoolLabelKey":"k","NodePoolLabelValue":"v"}},
               "discovery":{"serverVersion":null,"resources":null}"#,
        );
        let settings = Settings::new(Some(&object), None, Serves { claims: true, node_topologies: true });
        assert_eq!(settings.config, json!({"actions":"allocate","x":1,"tiers":[{"plugins":[{"name":"a"}]}]}));
        assert_eq!(settings.partition, Partition { key: "k".into(), value: "v".into() });
        assert_eq!(settings.discovery, json!({"serverVersion":null,"resources":null}));
        let given = Partition { key: "pool".into(), value: "a".into() };
        let settings = Settings::new(Some(&object), Some(given.clone()), Serves::default());
        assert_eq!(settings.partition, given);
        assert_eq!(
            settings.scheduler_params,
            json!({"schedulerName":"s","partitionParams":{"NodePoolLabelKey":"pool","NodePoolLabelValue":"a"}})
        );
    }

    #[test]
    fn old_configurations_get_what_finds_victims() {
        let config = |more: &str| {
            let object = kept(&format!(
                r#""config":{{"actions":"allocate,reclaim","tiers":[{{"plugins":[{{"name":"a"}}]}}]{more}}}"#
            ));
            let config = Settings::new(Some(&object), None, Serves::default()).config;
            plugins(&config).join(" ")
        };
        assert_eq!(config(""), "a sg-nodelocalgreedy sg-multinodegang");
        assert_eq!(config(r#","scenarioSearchBudgets":{}"#), "a");
    }
}

//! Decoded configurations compared with those of kube-scheduler.

use serde_json::json;

use super::plugins::ProfilePlugins;
use super::*;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::settings::{AddedAffinity, Profile, ScoringStrategy, SpreadDefaults};

/// The first line is kube-scheduler without a configuration; fields that other lines omit are equal to it.
const CONFIGURATIONS: &str = include_str!("../../../../testdata/scheduler/configurations.jsonl");

/// The same for older versions, each beginning with its own first line.
const OLDER: &str = include_str!("../../../../testdata/scheduler/configurations_older.jsonl");

fn rows() -> Vec<Value> {
    rows_of(CONFIGURATIONS)
}

fn rows_of(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// kube-scheduler accepts alpha plugins even while their feature gates are off.
fn names_an_alpha_plugin(row: &Value) -> bool {
    row["name"].as_str().unwrap().starts_with("alpha ") && !row["name"].as_str().unwrap().ends_with(" off")
}

fn names(plugins: &[Plugin]) -> Value {
    plugins.iter().map(|plugin| plugin.name()).collect()
}

/// The arguments of a profile in the form of the configuration.
fn args(profile: &Profile, plugin: &str) -> Option<Value> {
    let resources = |resources: &mut dyn Iterator<Item = (&str, i64)>| -> Value {
        resources.map(|(name, weight)| json!({"name": name, "weight": weight})).collect()
    };
    Some(match plugin {
        "DefaultPreemption" => json!({
            "minCandidateNodesPercentage": profile.preemption.min_candidate_nodes_percentage,
            "minCandidateNodesAbsolute": profile.preemption.min_candidate_nodes_absolute,
        }),
        "InterPodAffinity" => json!({
            "hardPodAffinityWeight": profile.inter_pod_affinity.hard_pod_affinity_weight,
            "ignorePreferredTermsOfExistingPods": profile.inter_pod_affinity.ignore_preferred_terms_of_existing_pods,
        }),
        "NodeResourcesBalancedAllocation" => {
            json!({"resources": resources(&mut profile.balanced_resources.iter().map(|name| (&**name, 1)))})
        }
        "NodeResourcesFit" => {
            let fit = &profile.fit;
            let weights = resources(&mut fit.resources.iter().map(|(name, weight)| (&**name, *weight)));
            let mut strategy = json!({"resources": weights});
            strategy["type"] = match &fit.strategy {
                ScoringStrategy::LeastAllocated => json!("LeastAllocated"),
                ScoringStrategy::MostAllocated => json!("MostAllocated"),
                ScoringStrategy::RequestedToCapacityRatio(points) => {
                    let point = |(utilization, score): &(i64, i64)| json!({"utilization": utilization, "score": score});
                    strategy["requestedToCapacityRatio"] =
                        json!({"shape": points.iter().map(point).collect::<Vec<_>>()});
                    json!("RequestedToCapacityRatio")
                }
            };
            let mut args = json!({"scoringStrategy": strategy});
            for (name, list) in
                [("ignoredResources", &fit.ignored_resources), ("ignoredResourceGroups", &fit.ignored_groups)]
            {
                if !list.is_empty() {
                    args[name] = list.iter().map(|name| json!(**name)).collect();
                }
            }
            args
        }
        _ => return None,
    })
}

fn affinity(args: &Value) -> AddedAffinity {
    let term = |term: &Value| {
        (term["weight"].as_i64().unwrap(), serde_json::from_value(term["preference"].clone()).unwrap())
    };
    let added = &args["addedAffinity"];
    let preferred = added["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
    AddedAffinity {
        required: added
            .get("requiredDuringSchedulingIgnoredDuringExecution")
            .map(|required| serde_json::from_value(required.clone()).unwrap()),
        preferred: preferred.into_iter().flatten().map(term).filter(|(weight, _)| *weight != 0).collect(),
    }
}

fn check_spread(spread: &SpreadDefaults, args: &Value, row: &Value) {
    let SpreadDefaults::List(constraints) = spread else {
        assert_eq!(args["defaultingType"], "System", "{row}");
        return;
    };
    assert_eq!(args["defaultingType"], "List", "{row}");
    let theirs = args["defaultConstraints"].as_array().cloned().unwrap_or_default();
    assert_eq!(constraints.len(), theirs.len(), "{row}");
    for (ours, theirs) in constraints.iter().zip(theirs) {
        assert_eq!(theirs["maxSkew"], ours.max_skew, "{row}");
        assert_eq!(theirs["topologyKey"], *ours.topology_key, "{row}");
        assert_eq!(theirs["whenUnsatisfiable"] == "DoNotSchedule", ours.hard, "{row}");
        assert_eq!(theirs["minDomains"].as_i64(), ours.min_domains.map(i64::from), "{row}");
        let honors = |name: &str, default: &str| theirs.get(name).unwrap_or(&json!(default)) == "Honor";
        assert_eq!(honors("nodeAffinityPolicy", "Honor"), ours.honor_affinity, "{row}");
        assert_eq!(honors("nodeTaintsPolicy", "Ignore"), ours.honor_taints, "{row}");
        let keys: Value = ours.match_label_keys.iter().map(|key| json!(**key)).collect();
        assert_eq!(theirs.get("matchLabelKeys").cloned().unwrap_or(json!([])), keys, "{row}");
    }
}

#[track_caller]
fn check_profile(ours: &Profile, theirs: &Value, standard: &Value, row: &Value) {
    assert_eq!(theirs["name"], *ours.scheduler_name, "{row}");
    let percentage = ours.percentage_of_nodes_to_score.map(i64::from);
    assert_eq!(theirs["percentageOfNodesToScore"].as_i64(), percentage, "{row}");
    let score: Value = ours.score.iter().map(|(plugin, weight)| json!([plugin.name(), weight])).collect();
    for (point, list) in [
        ("preEnqueue", names(&ours.pre_enqueue)),
        ("preFilter", names(&ours.pre_filter)),
        ("filter", names(&ours.filter)),
        ("postFilter", names(&ours.post_filter)),
        ("preScore", names(&ours.pre_score)),
        ("score", score),
        ("reserve", names(&ours.reserve)),
    ] {
        let expected = theirs["points"].get(point).unwrap_or(&standard["points"][point]);
        assert_eq!(list, *expected, "{point} of {row}");
    }
    for (plugin, usual) in standard["args"].as_object().unwrap() {
        // Null where the plugin is not in use.
        let Some(expected) = Some(theirs["args"].get(plugin).unwrap_or(usual)).filter(|args| !args.is_null())
        else {
            continue;
        };
        match plugin.as_str() {
            "NodeAffinity" => assert_eq!(ours.added_affinity, affinity(expected), "{row}"),
            "PodTopologySpread" => check_spread(&ours.spread, expected, row),
            "VolumeBinding" | "DynamicResources" => {}
            other => assert_eq!(args(ours, other).unwrap(), *expected, "{row}"),
        }
    }
}

#[track_caller]
fn check_row(version: Version, row: &Value, standard: &Value) {
    let settings = match row.get("config") {
        None => Ok(Settings::for_version(version)),
        Some(config) => Settings::read_for(version, config),
    };
    if names_an_alpha_plugin(row) {
        assert!(settings.unwrap_err().reason.contains("alpha"), "{row}");
        return;
    }
    let Some(profiles) = row.get("profiles") else {
        assert!(settings.is_err(), "should be refused: {row}");
        return;
    };
    let settings = settings.unwrap_or_else(|error| panic!("{error} in {row}"));
    for (field, number) in [
        ("percentageOfNodesToScore", settings.percentage_of_nodes_to_score.into()),
        ("podInitialBackoffSeconds", settings.initial_backoff_seconds),
        ("podMaxBackoffSeconds", settings.max_backoff_seconds),
    ] {
        assert_eq!(*row.get(field).unwrap_or(&standard[field]), number, "{field} of {row}");
    }
    let profiles = profiles.as_array().unwrap();
    assert_eq!(settings.profiles.len(), profiles.len(), "{row}");
    for (ours, theirs) in settings.profiles.iter().zip(profiles) {
        check_profile(ours, theirs, &standard["profiles"][0], row);
    }
}

#[test]
fn a_configuration_means_what_it_means_to_kube_scheduler() {
    let rows = rows();
    assert!(rows.len() > 1400);
    for row in &rows {
        check_row(Version::V1_36, row, &rows[0]);
    }
    assert_eq!(Settings::default(), Settings::for_version(Version::V1_36));
}

#[test]
fn a_configuration_means_what_it_means_to_an_older_kube_scheduler() {
    let rows = rows_of(OLDER);
    assert!(rows.len() > 90);
    let mut standard = &rows[0];
    for row in &rows {
        if row.get("config").is_none() {
            standard = row;
        }
        check_row(row["version"].as_str().unwrap().parse().unwrap(), row, standard);
    }
}

#[test]
fn other_extension_points_have_the_plugins_of_kube_scheduler() {
    let rows = rows();
    let points = &rows[0]["profiles"][0]["points"];
    let mut compared = 0;
    for row in rows.iter().filter(|row| row.get("profiles").is_some() && !names_an_alpha_plugin(row)) {
        for (index, theirs) in row["profiles"].as_array().unwrap().iter().enumerate() {
            let given = &row["config"]["profiles"][index]["plugins"];
            let plugins = ProfilePlugins::read(&ConfigValue::root(given), Version::V1_36).unwrap();
            for (name, point) in [
                ("queueSort", ExtensionPoint::QueueSort),
                ("permit", ExtensionPoint::Permit),
                ("preBind", ExtensionPoint::PreBind),
                ("bind", ExtensionPoint::Bind),
                ("postBind", ExtensionPoint::PostBind),
            ] {
                let expected = theirs["points"].get(name).or(points.get(name)).cloned();
                assert_eq!(names(&plugins.at(point)), expected.unwrap_or(json!([])), "{name} of {row}");
                compared += 1;
            }
        }
    }
    assert!(compared > 4000);
}

#[track_caller]
fn check_refused(fields: Value, path: &str, reason: &str) {
    let mut document = json!({"apiVersion": API_VERSION, "kind": KIND});
    document.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let error = Settings::read(&document).unwrap_err();
    assert_eq!(error.path, path);
    assert!(error.reason.contains(reason), "{error}");
}

#[test]
fn an_error_says_where_and_what_would_be_right() {
    let fit =
        json!({"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}});
    let config = json!([{"name": "NodeAffinity"}, {"name": "NodeResourcesFit", "args": fit}]);
    check_refused(
        json!({"profiles": [{"pluginConfig": config}]}),
        "profiles[0].pluginConfig[1].args.scoringStrategy.resources[0].weight",
        "from 1 to 100",
    );
    let term = json!({"matchExpressions": [{"key": "a", "operator": "Is"}]});
    let added =
        json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]});
    check_refused(
        json!({"profiles": [{"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": added}}]}]}),
        "profiles[0].pluginConfig[0].args.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0]",
        "In, NotIn",
    );
    check_refused(json!({"percentageOfNodesToScore": 101}), "percentageOfNodesToScore", "from 0 to 100");
    check_refused(json!({"parallelism": 0}), "parallelism", "at least 1");
    check_refused(json!({"profils": []}), "profils", "profiles");
    let two = json!([{"schedulerName": "a"}, {"schedulerName": "a"}]);
    check_refused(json!({"profiles": two}), "profiles[1].schedulerName", "duplicate schedulerName");
    check_refused(json!({"kind": "Deployment"}), "kind", "KubeSchedulerConfiguration");
    check_refused(
        json!({"apiVersion": "kubescheduler.config.k8s.io/v1beta3"}),
        "apiVersion",
        "must be kubescheduler.config.k8s.io/v1",
    );
    assert_eq!(Settings::read(&json!([])).unwrap_err().path, "the document");
}

#[track_caller]
fn check_plugin_refused(plugin: &str, reason: &str) {
    let filter = json!({"enabled": [{"name": "NodeName"}, {"name": plugin}]});
    check_refused(
        json!({"profiles": [{"plugins": {"filter": filter}}]}),
        "profiles[0].plugins.filter.enabled[1].name",
        reason,
    );
}

#[test]
fn plugins_that_cannot_be_simulated_are_refused_by_name() {
    check_plugin_refused("Coscheduling", "are simulated: SchedulingGates, PrioritySort,");
    check_plugin_refused("GangScheduling", "alpha plugin");
    check_plugin_refused("EBSLimits", "was removed");
    check_plugin_refused("NodeName", "enabled twice");
    check_plugin_refused("ImageLocality", "does not implement filter, only score");
    check_plugin_refused("Unreadable", "only kube-scheduler's own are simulated");
    check_plugin_refused("", "only kube-scheduler's own are simulated");
}

#[test]
fn unsupported_configuration_is_reported() {
    let settings = Settings::read(&json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "extenders": [{"urlPrefix": "http://a"}, {"urlPrefix": "http://b", "bindVerb": "bind"}],
        "profiles": [{"pluginConfig": [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 10}}]}],
    }));
    assert_eq!(
        settings.unwrap().unsupported_features,
        [
            "the extender \"http://a\" is not called (extenders[0])",
            "the extender \"http://b\" is not called (extenders[1])",
            "plugin \"Coscheduling\" is not simulated: its arguments are ignored (profiles[0].pluginConfig[0].name)",
        ]
    );
}

#[test]
fn older_versions_have_fewer_plugins() {
    let filters = |version| Settings::for_version(version).profiles[0].filter.clone();
    for (version, dynamic, features) in [
        (Version::V1_32, false, false),
        (Version::V1_33, false, false),
        (Version::V1_34, true, false),
        (Version::V1_35, true, false),
        (Version::V1_36, true, true),
    ] {
        assert_eq!(filters(version).contains(&Plugin::DynamicResources), dynamic, "{version}");
        assert_eq!(filters(version).contains(&Plugin::NodeDeclaredFeatures), features, "{version}");
        let scores = Settings::for_version(version).profiles[0].score.clone();
        let claims = scores.iter().any(|(plugin, _)| *plugin == Plugin::DynamicResources);
        assert_eq!(claims, version >= Version::V1_35, "{version}");
        assert_eq!(Settings::for_version(version).version, version);
    }
}

#[test]
fn an_older_version_can_be_given_the_plugins_it_has() {
    let enabled = |plugin: &str| {
        let plugins = json!({"multiPoint": {"enabled": [{"name": plugin}]}});
        json!({"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"plugins": plugins}]})
    };
    let settings = Settings::read_for(Version::V1_33, &enabled("DynamicResources")).unwrap();
    assert_eq!(settings.profiles[0].filter.last(), Some(&Plugin::DynamicResources));
    assert!(Settings::read_for(Version::V1_35, &enabled("NodeDeclaredFeatures")).is_ok());
    let error = Settings::read_for(Version::V1_34, &enabled("NodeDeclaredFeatures")).unwrap_err();
    assert!(error.reason.contains("1.35"), "{error}");
}
#[test]
fn a_ratio_that_does_not_count_was_no_error_before_1_36() {
    let ratio = |score: i32| {
        let ratio = json!({"shape": [{"utilization": 0, "score": score}]});
        let args = json!({"scoringStrategy": {"type": "MostAllocated", "requestedToCapacityRatio": ratio}});
        let config = json!([{"name": "NodeResourcesFit", "args": args}]);
        json!({"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"pluginConfig": config}]})
    };
    let settings = Settings::read_for(Version::V1_35, &ratio(0)).unwrap();
    assert_eq!(settings.profiles[0].fit.strategy, ScoringStrategy::MostAllocated);
    assert!(Settings::read_for(Version::V1_35, &ratio(11)).is_err());
    assert!(Settings::read_for(Version::V1_36, &ratio(0)).is_err());
}

/// Calls `visit` with the document once for each value in it, that value replaced.
fn with_each_replaced(document: &Value, by: &Value, visit: &mut dyn FnMut(&Value)) {
    fn pointers(value: &Value, at: String, found: &mut Vec<String>) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
            Value::Array(list) => list.iter().enumerate().map(|(i, value)| (i.to_string(), value)).collect(),
            _ => Vec::new(),
        };
        for (name, child) in children {
            pointers(child, format!("{at}/{name}"), found);
        }
        found.push(at);
    }
    let mut found = Vec::new();
    pointers(document, String::new(), &mut found);
    for pointer in found {
        let mut changed = document.clone();
        *changed.pointer_mut(&pointer).unwrap() = by.clone();
        visit(&changed);
    }
}

#[test]
fn a_configuration_with_a_misplaced_value_is_read_or_refused() {
    let odd = [
        json!(null),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(0.5),
        json!("*"),
        json!([null]),
        json!({"": []}),
    ];
    let (mut refused, mut read) = (0, 0);
    for row in rows().iter().filter(|row| row.get("profiles").is_some()).skip(1).step_by(10) {
        for by in &odd {
            with_each_replaced(&row["config"], by, &mut |config| match Settings::read(config) {
                Ok(settings) => {
                    assert!(!settings.profiles.is_empty());
                    read += 1;
                }
                Err(error) => {
                    assert!(!error.path.is_empty() && !error.reason.is_empty());
                    refused += 1;
                }
            });
        }
    }
    assert!(refused > 1000 && read > 1000);
}

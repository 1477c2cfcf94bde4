//! The arguments of plugins, with their defaults and checks.

use std::collections::BTreeSet;

use kubernetes::selector::{BadSelector, NodeSelector, NodeSelectorTerm, check_key};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::BadConfiguration;
use super::config_value::ConfigValue;
use super::resources::shape;
use super::values::{at_least, fields_of, in_range, texts};
use crate::plugin::Plugin;
use crate::settings::{
    AddedAffinity, DefaultPreemptionArgs, DefaultSpreadConstraint, InterPodAffinityArgs, SpreadDefaults,
};

/// Reads `DefaultPreemptionArgs`.
pub(super) fn preemption(args: &ConfigValue<'_>) -> Result<DefaultPreemptionArgs, BadConfiguration> {
    let names = ["minCandidateNodesPercentage", "minCandidateNodesAbsolute"];
    let fields = fields_of(Plugin::DefaultPreemption, args, &names)?;
    let percentage = fields.get("minCandidateNodesPercentage");
    let absolute = fields.get("minCandidateNodesAbsolute");
    let args = DefaultPreemptionArgs {
        min_candidate_nodes_percentage: in_range(&percentage, percentage.int32()?.unwrap_or(10), 0..=100)?
            .into(),
        min_candidate_nodes_absolute: at_least(&absolute, absolute.int32()?.unwrap_or(100), 0)?.into(),
    };
    if args.min_candidate_nodes_percentage == 0 && args.min_candidate_nodes_absolute == 0 {
        return Err(absolute.bad("must not be zero if minCandidateNodesPercentage is zero"));
    }
    Ok(args)
}

/// Reads `InterPodAffinityArgs`.
pub(super) fn inter_pod_affinity(args: &ConfigValue<'_>) -> Result<InterPodAffinityArgs, BadConfiguration> {
    let names = ["hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"];
    let fields = fields_of(Plugin::InterPodAffinity, args, &names)?;
    let weight = fields.get("hardPodAffinityWeight");
    Ok(InterPodAffinityArgs {
        hard_pod_affinity_weight: in_range(&weight, weight.int32()?.unwrap_or(1), 0..=100)?.into(),
        ignore_preferred_terms_of_existing_pods: fields
            .get("ignorePreferredTermsOfExistingPods")
            .flag()?
            .unwrap_or(false),
    })
}

/// Reads `NodeAffinityArgs`.
pub(super) fn added_affinity(args: &ConfigValue<'_>) -> Result<AddedAffinity, BadConfiguration> {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let affinity = fields_of(Plugin::NodeAffinity, args, &["addedAffinity"])?.get("addedAffinity");
    let fields = affinity.fields(&[REQUIRED, PREFERRED])?;

    let value = fields.get(REQUIRED);
    let terms = value.fields(&["nodeSelectorTerms"])?.get("nodeSelectorTerms").list()?;
    let terms = terms.iter().map(term_json).collect::<Result<Vec<Value>, _>>()?;
    let selector: NodeSelector = well_formed(json!({"nodeSelectorTerms": terms}));
    selector.check().map_err(|error| bad_selector(&value, error))?;
    let required = value.non_null().map(|_| selector);

    let mut preferred = Vec::new();
    for term in fields.get(PREFERRED).list()? {
        let fields = term.fields(&["weight", "preference"])?;
        let (weight, value) = (fields.get("weight").int32()?.unwrap_or(0), fields.get("preference"));
        let term: NodeSelectorTerm = well_formed(term_json(&value)?);
        // A preference of weight zero is not validated.
        if weight != 0 {
            term.check().map_err(|error| bad_selector(&value, error))?;
            preferred.push((weight.into(), term));
        }
    }
    Ok(AddedAffinity { required, preferred })
}

/// A node selector term without null fields, after its fields were checked.
fn term_json(term: &ConfigValue<'_>) -> Result<Value, BadConfiguration> {
    let fields = term.fields(&["matchExpressions", "matchFields"])?;
    let list = |name: &str| -> Result<Vec<Value>, BadConfiguration> {
        fields.get(name).list()?.iter().map(expression_json).collect()
    };
    Ok(json!({"matchExpressions": list("matchExpressions")?, "matchFields": list("matchFields")?}))
}

fn expression_json(expression: &ConfigValue<'_>) -> Result<Value, BadConfiguration> {
    let fields = expression.fields(&["key", "operator", "values"])?;
    let text = |name: &str| fields.get(name).text().map(Option::unwrap_or_default);
    let values: Vec<&str> = texts(&fields.get("values"))?.into_iter().map(|(_, value)| value).collect();
    Ok(json!({"key": text("key")?, "operator": text("operator")?, "values": values}))
}

fn well_formed<T: DeserializeOwned>(selector: Value) -> T {
    serde_json::from_value(selector).expect("every field is present and of its type")
}

fn bad_selector(value: &ConfigValue<'_>, error: &BadSelector) -> BadConfiguration {
    BadConfiguration::new(&format!("{}.{}", value.path(), error.place), error.why.clone())
}

/// Reads `PodTopologySpreadArgs`.
pub(super) fn spread(args: &ConfigValue<'_>) -> Result<SpreadDefaults, BadConfiguration> {
    let fields = fields_of(Plugin::PodTopologySpread, args, &["defaultConstraints", "defaultingType"])?;
    let value = fields.get("defaultConstraints");
    let mut constraints = Vec::new();
    let mut seen = BTreeSet::new();
    for value in value.list()? {
        let constraint = default_constraint(&value)?;
        if !seen.insert((constraint.topology_key.clone(), constraint.hard)) {
            return Err(value.bad("duplicate topologyKey and whenUnsatisfiable"));
        }
        constraints.push(constraint);
    }
    let kind = fields.get("defaultingType");
    match kind.text()?.unwrap_or_default() {
        "List" => Ok(SpreadDefaults::List(constraints)),
        "System" | "" if constraints.is_empty() => Ok(SpreadDefaults::System),
        "System" | "" => Err(kind.bad("must be List if defaultConstraints are set")),
        other => Err(kind.bad(format!("unknown value {other:?}: expected System or List"))),
    }
}

fn default_constraint(value: &ConfigValue<'_>) -> Result<DefaultSpreadConstraint, BadConfiguration> {
    let fields = value.fields(&[
        "maxSkew",
        "topologyKey",
        "whenUnsatisfiable",
        "labelSelector",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "matchLabelKeys",
    ])?;
    let skew = fields.get("maxSkew");
    let key = fields.get("topologyKey");
    let action = fields.get("whenUnsatisfiable");
    let selector = fields.get("labelSelector");
    let topology_key = key.text()?.unwrap_or_default();
    check_key(topology_key).map_err(|why| key.bad(why))?;
    if selector.non_null().is_some() {
        return Err(
            selector.bad("must not be set in a default constraint: the selector of the pod's owner is used")
        );
    }
    let honors = |name: &str, default: bool| {
        let policy = fields.get(name).text()?;
        Ok(policy.map_or(default, |policy| policy == "Honor"))
    };
    Ok(DefaultSpreadConstraint {
        max_skew: at_least(&skew, skew.int32()?.unwrap_or(0), 1)?,
        topology_key: topology_key.into(),
        hard: match action.text()?.unwrap_or_default() {
            "DoNotSchedule" => true,
            "ScheduleAnyway" => false,
            other => {
                return Err(
                    action.bad(format!("unknown value {other:?}: expected DoNotSchedule or ScheduleAnyway"))
                );
            }
        },
        min_domains: fields.get("minDomains").int32()?,
        honor_affinity: honors("nodeAffinityPolicy", true)?,
        honor_taints: honors("nodeTaintsPolicy", false)?,
        match_label_keys: texts(&fields.get("matchLabelKeys"))?
            .into_iter()
            .map(|(_, key)| key.into())
            .collect(),
    })
}

/// Checks `VolumeBindingArgs`: how long binding may take is not simulated.
pub(super) fn check_volume_binding(args: &ConfigValue<'_>) -> Result<(), BadConfiguration> {
    let fields = fields_of(Plugin::VolumeBinding, args, &["bindTimeoutSeconds", "shape"])?;
    let timeout = fields.get("bindTimeoutSeconds");
    if timeout.int64()?.is_some_and(|seconds| seconds < 0) {
        return Err(timeout.bad("must not be negative"));
    }
    let points = fields.get("shape");
    shape(&points)?;
    if points.non_null().is_some() {
        return Err(points.bad("requires the feature gate StorageCapacityScoring, which is disabled"));
    }
    Ok(())
}

/// Checks `DynamicResourcesArgs`: how long allocating may take is not simulated.
pub(super) fn check_dynamic_resources(args: &ConfigValue<'_>) -> Result<(), BadConfiguration> {
    let fields = fields_of(Plugin::DynamicResources, args, &["filterTimeout", "bindingTimeout"])?;
    let (filter, binding) = (fields.get("filterTimeout"), fields.get("bindingTimeout"));
    if filter.duration()?.is_some_and(|nanos| nanos < 0) {
        return Err(filter.bad("must not be negative"));
    }
    if binding.duration()?.is_some_and(|nanos| nanos < 1_000_000_000) {
        return Err(binding.bad("must be at least 1s"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: std::fmt::Debug>(read: Result<T, BadConfiguration>, path: &str, reason: &str) {
        let error = read.unwrap_err();
        assert_eq!(error.path, path);
        assert!(error.reason.contains(reason), "{error}");
    }

    #[test]
    fn default_constraints_count_only_in_a_list() {
        let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
        let read = |kind: &str, constraints: &[&Value]| {
            spread(&ConfigValue::root(&json!({"defaultingType": kind, "defaultConstraints": constraints})))
        };
        assert_eq!(read("", &[]).unwrap(), SpreadDefaults::System);
        assert_eq!(read("List", &[]).unwrap(), SpreadDefaults::List(Vec::new()));
        check(read("", &[&constraint]), "defaultingType", "must be List");
        check(read("Lists", &[]), "defaultingType", "expected System or List");
        check(read("List", &[&constraint, &constraint]), "defaultConstraints[1]", "duplicate");
    }

    #[test]
    fn a_preference_of_weight_zero_is_not_validated() {
        let bad = json!({"matchExpressions": [{"key": "a", "operator": "Is"}]});
        let read = |weight: i32| {
            let preferred = json!([{"weight": weight, "preference": bad}]);
            let affinity = json!({"preferredDuringSchedulingIgnoredDuringExecution": preferred});
            added_affinity(&ConfigValue::root(&json!({"addedAffinity": affinity})))
        };
        assert_eq!(read(0), Ok(AddedAffinity::default()));
        assert!(read(1).is_err());
    }

    #[test]
    fn preemption_tries_one_node_at_least() {
        let read = |percentage: i32, absolute: i32| {
            preemption(&ConfigValue::root(&json!({
                "minCandidateNodesPercentage": percentage,
                "minCandidateNodesAbsolute": absolute,
            })))
        };
        assert!(read(0, 1).is_ok() && read(1, 0).is_ok());
        check(read(0, 0), "minCandidateNodesAbsolute", "must not be zero");
        check(read(101, 0), "minCandidateNodesPercentage", "from 0 to 100");
        check(read(0, -1), "minCandidateNodesAbsolute", "at least 0");
    }

    #[test]
    fn arguments_may_have_only_their_own_kind() {
        let read = |kind: &str| inter_pod_affinity(&ConfigValue::root(&json!({"kind": kind})));
        assert!(read("InterPodAffinityArgs").is_ok() && read("").is_ok());
        check(read("NodeAffinityArgs"), "kind", "must be InterPodAffinityArgs");
    }
}

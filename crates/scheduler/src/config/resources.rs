//! The arguments of NodeResourcesFit and NodeResourcesBalancedAllocation.

use std::collections::BTreeSet;
use std::sync::Arc;

use kubernetes::selector::check_key;

use super::BadConfiguration;
use super::config_value::ConfigValue;
use super::values::{fields_of, in_range, texts};
use crate::plugin::Plugin;
use crate::settings::{NodeResourcesFitArgs, ScoringStrategy, Version};

/// `NodeResourcesFitArgs` before validation. kube-scheduler validates them only if the plugin is enabled, and after
/// extenders replaced the ignored resources.
pub(super) struct UncheckedFitArgs<'v> {
    ignored_resources: Vec<(ConfigValue<'v>, &'v str)>,
    ignored_groups: Vec<(ConfigValue<'v>, &'v str)>,
    /// The type; `None` without a strategy.
    strategy: Option<(ConfigValue<'v>, &'v str)>,
    resources: Vec<ResourceWeight<'v>>,
    ratio: ConfigValue<'v>,
    shape: Vec<ShapePoint<'v>>,
}

struct ResourceWeight<'v> {
    name: ConfigValue<'v>,
    weight: ConfigValue<'v>,
    text: &'v str,
    number: i64,
}

/// A point of a shape.
pub(super) struct ShapePoint<'v> {
    utilization: (ConfigValue<'v>, i32),
    score: (ConfigValue<'v>, i32),
}

// === impl UncheckedFitArgs ===

impl<'v> UncheckedFitArgs<'v> {
    /// Reads `NodeResourcesFitArgs`.
    pub(super) fn read(args: &ConfigValue<'v>) -> Result<UncheckedFitArgs<'v>, BadConfiguration> {
        let names = ["ignoredResources", "ignoredResourceGroups", "scoringStrategy"];
        let fields = fields_of(Plugin::NodeResourcesFit, args, &names)?;
        let value = fields.get("scoringStrategy");
        let strategy = value.fields(&["type", "resources", "requestedToCapacityRatio"])?;
        let kind = strategy.get("type");
        let text = kind.text()?.unwrap_or_default();
        let ratio = strategy.get("requestedToCapacityRatio");
        Ok(UncheckedFitArgs {
            ignored_resources: texts(&fields.get("ignoredResources"))?,
            ignored_groups: texts(&fields.get("ignoredResourceGroups"))?,
            strategy: value.non_null().map(|_| (kind, text)),
            resources: resources(&strategy.get("resources"))?,
            shape: shape(&ratio.fields(&["shape"])?.get("shape"))?,
            ratio,
        })
    }

    /// Validates the arguments. Resources that extenders ignore replace `ignoredResources`.
    pub(super) fn check(
        self,
        ignored_by_extenders: &[Arc<str>],
        version: Version,
    ) -> Result<NodeResourcesFitArgs, BadConfiguration> {
        let ignored_resources = if ignored_by_extenders.is_empty() {
            checked_names(self.ignored_resources)?
        } else {
            ignored_by_extenders.to_vec()
        };
        if let Some((value, _)) = self.ignored_groups.iter().find(|(_, group)| group.contains('/')) {
            return Err(value.bad(
                "a group is the part of a resource name before the slash and must not contain a slash",
            ));
        }
        for ResourceWeight { weight, number, .. } in &self.resources {
            in_range(weight, *number, 1..=100)?;
        }
        let strategy = match self.strategy {
            None | Some((_, "LeastAllocated")) => ScoringStrategy::LeastAllocated,
            Some((_, "MostAllocated")) => ScoringStrategy::MostAllocated,
            Some((_, "RequestedToCapacityRatio")) => {
                ScoringStrategy::RequestedToCapacityRatio(checked_shape(&self.ratio, &self.shape)?)
            }
            Some((value, other)) => {
                let why = format!(
                    "unknown type {other:?}: expected LeastAllocated, MostAllocated or RequestedToCapacityRatio"
                );
                return Err(value.bad(why));
            }
        };
        if self.ratio.non_null().is_some()
            && !matches!(strategy, ScoringStrategy::RequestedToCapacityRatio(_))
        {
            if version >= Version::V1_36 {
                return Err(self.ratio.bad("allowed only if type is RequestedToCapacityRatio"));
            }
            checked_shape(&self.ratio, &self.shape)?;
        }
        Ok(NodeResourcesFitArgs {
            ignored_resources,
            ignored_groups: checked_names(self.ignored_groups)?,
            strategy,
            resources: or_cpu_and_memory(self.resources),
        })
    }
}

/// Reads `NodeResourcesBalancedAllocationArgs`.
pub(super) fn balanced(args: &ConfigValue<'_>) -> Result<Vec<Arc<str>>, BadConfiguration> {
    let fields = fields_of(Plugin::NodeResourcesBalancedAllocation, args, &["resources"])?;
    let resources = resources(&fields.get("resources"))?;
    let mut seen = BTreeSet::new();
    for ResourceWeight { name, weight, text, number } in &resources {
        if *number != 1 {
            return Err(weight.bad(format!("must be 1, found {number}")));
        }
        if !seen.insert(*text) {
            return Err(name.bad(format!("duplicate resource {text}")));
        }
    }
    Ok(or_cpu_and_memory(resources).into_iter().map(|(name, _)| name).collect())
}

/// Resources and their weights; zero defaults to one.
fn resources<'v>(value: &ConfigValue<'v>) -> Result<Vec<ResourceWeight<'v>>, BadConfiguration> {
    let read = |value: ConfigValue<'v>| {
        let fields = value.fields(&["name", "weight"])?;
        let (name, weight) = (fields.get("name"), fields.get("weight"));
        let text = name.text()?.unwrap_or_default();
        let number = weight.int64()?.filter(|weight| *weight != 0).unwrap_or(1);
        Ok(ResourceWeight { name, weight, text, number })
    };
    value.list()?.into_iter().map(read).collect()
}

fn or_cpu_and_memory(resources: Vec<ResourceWeight<'_>>) -> Vec<(Arc<str>, i64)> {
    if resources.is_empty() {
        return vec![("cpu".into(), 1), ("memory".into(), 1)];
    }
    resources.into_iter().map(|resource| (resource.text.into(), resource.number)).collect()
}

/// The points of a shape.
pub(super) fn shape<'v>(value: &ConfigValue<'v>) -> Result<Vec<ShapePoint<'v>>, BadConfiguration> {
    let read = |value: ConfigValue<'v>| {
        let fields = value.fields(&["utilization", "score"])?;
        let number = |name: &str| {
            let value = fields.get(name);
            let number = value.int32()?.unwrap_or(0);
            Ok((value, number))
        };
        Ok(ShapePoint { utilization: number("utilization")?, score: number("score")? })
    };
    value.list()?.into_iter().map(read).collect()
}

/// The points, validated to be in ascending order.
fn checked_shape(
    ratio: &ConfigValue<'_>,
    shape: &[ShapePoint<'_>],
) -> Result<Vec<(i64, i64)>, BadConfiguration> {
    if shape.is_empty() {
        return Err(ratio.bad("requires a shape with at least one point: {utilization, score}"));
    }
    let mut points: Vec<(i64, i64)> = Vec::new();
    for ShapePoint { utilization: (value, utilization), score: (score_value, score) } in shape {
        let utilization = i64::from(in_range(value, *utilization, 0..=100)?);
        if points.last().is_some_and(|(before, _)| *before >= utilization) {
            return Err(value.bad("must be greater than that of the previous point"));
        }
        points.push((utilization, in_range(score_value, *score, 0..=10)?.into()));
    }
    Ok(points)
}

/// Resource names, which are validated like label keys.
fn checked_names(names: Vec<(ConfigValue<'_>, &str)>) -> Result<Vec<Arc<str>>, BadConfiguration> {
    let check = |(value, name): (ConfigValue<'_>, &str)| match check_key(name) {
        Ok(()) => Ok(name.into()),
        Err(why) => Err(value.bad(why)),
    };
    names.into_iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[track_caller]
    fn check<T: std::fmt::Debug>(read: Result<T, BadConfiguration>, path: &str, reason: &str) {
        let error = read.unwrap_err();
        assert_eq!(error.path, path);
        assert!(error.reason.contains(reason), "{error}");
    }

    fn fit(args: Value) -> Result<NodeResourcesFitArgs, BadConfiguration> {
        UncheckedFitArgs::read(&ConfigValue::root(&args))?.check(&[], Version::V1_36)
    }

    fn ratio(points: &[(i64, i64)]) -> Value {
        let point = |(utilization, score): &(i64, i64)| json!({"utilization": utilization, "score": score});
        let shape: Vec<Value> = points.iter().map(point).collect();
        json!({"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}}})
    }

    #[test]
    fn a_shape_rises_from_point_to_point() {
        let points = vec![(0, 0), (50, 10), (100, 3)];
        assert_eq!(fit(ratio(&points)).unwrap().strategy, ScoringStrategy::RequestedToCapacityRatio(points));
        let path = "scoringStrategy.requestedToCapacityRatio";
        check(fit(ratio(&[])), path, "at least one point");
        let point = |field: &str| format!("{path}.shape[1].{field}");
        check(fit(ratio(&[(5, 0), (5, 1)])), &point("utilization"), "greater");
        check(fit(ratio(&[(5, 0), (101, 1)])), &point("utilization"), "from 0 to 100");
        check(fit(ratio(&[(5, 0), (6, 11)])), &point("score"), "from 0 to 10");
    }

    #[test]
    fn extenders_replace_the_resources_to_ignore_before_they_are_checked() {
        let args = json!({"ignoredResources": ["not a name"]});
        check(fit(args.clone()), "ignoredResources[0]", "letters");
        let given = UncheckedFitArgs::read(&ConfigValue::root(&args)).unwrap();
        let names = given.check(&["a.com/x".into()], Version::V1_36).unwrap().ignored_resources;
        assert_eq!(names, ["a.com/x".into()]);
    }

    #[test]
    fn a_group_has_no_slash() {
        check(
            fit(json!({"ignoredResourceGroups": ["a", "b/c"]})),
            "ignoredResourceGroups[1]",
            "before the slash",
        );
    }

    #[test]
    fn balanced_resources_have_the_weight_one_and_are_named_once() {
        let read = |resources: Value| balanced(&ConfigValue::root(&json!({"resources": resources})));
        assert_eq!(read(json!([])).unwrap(), ["cpu".into(), "memory".into()]);
        assert_eq!(read(json!([{"name": "x", "weight": 0}])).unwrap(), ["x".into()]);
        check(read(json!([{"name": "x", "weight": 2}])), "resources[0].weight", "must be 1");
        check(read(json!([{"name": "x"}, {"name": "x"}])), "resources[1].name", "duplicate");
    }
}

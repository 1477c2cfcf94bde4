//! Autoscaler cases: a cluster, a cloud, a timeline of changes, and the real autoscaler's decisions in each loop.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use autoscaler::{
    Delay, GroupId, GroupOptionOverrides, Membership, NodeGroup, PodPricing, Provisioning,
    ProvisioningFailure, ProvisioningFailureKind, Settings, Version,
};
use kubernetes::objects::NodeView;
use model::{Moment, Object};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use simulation::SimulatedCloud;

use super::loop_record::LoopRecord;
use crate::LineCase;

/// Second 0: 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600;

/// A cluster, a cloud, a timeline of changes, and the real autoscaler's decisions in each loop.
#[derive(Clone, Debug)]
pub struct AutoscalerCase {
    /// Its name.
    pub id: String,
    /// The group of cases it belongs to.
    pub family: String,
    /// The autoscaler's settings.
    pub settings: Settings,
    /// The cloud at the beginning.
    pub cloud: SimulatedCloud,
    /// The cluster at the beginning.
    pub objects: Vec<Object>,
    /// Changes, ordered by time.
    pub timeline: Vec<TimelineEntry>,
    /// Whether pending pods are bound before each loop.
    pub binds_pods: bool,
    /// Whether nodes of a group are interchangeable: only their counts are compared.
    pub interchangeable_nodes: bool,
    /// The real autoscaler's decisions, loop by loop.
    pub expect: Vec<LoopRecord>,
}

/// The changes of one second.
#[derive(Clone, Debug)]
pub struct TimelineEntry {
    /// The second.
    pub at: i64,
    /// Objects that are created.
    pub create: Vec<Object>,
    /// New versions of nodes.
    pub update: Vec<Object>,
    /// Pods that are deleted, by namespace and name.
    pub delete: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CaseJson<'a> {
    id: String,
    family: String,
    options: Option<BTreeMap<String, String>>,
    pricing: Option<PricingJson>,
    #[serde(borrow)]
    node_groups: Vec<GroupJson<'a>>,
    #[serde(borrow)]
    objects: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    timeline: Vec<TimelineEntryJson<'a>>,
    binding: Binding,
    steps: Vec<i64>,
    expect: Vec<LoopRecord>,
    /// Not needed: our autoscaler receives the lists in the order of the case anyway.
    #[serde(default, rename = "orderSensitive")]
    _order_sensitive: bool,
    #[serde(default)]
    loose: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Binding {
    FirstFit,
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PricingJson {
    cpu: f64,
    #[serde(rename = "memoryGiB")]
    memory_gib: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupJson<'a> {
    name: String,
    min: i64,
    max: i64,
    #[serde(borrow)]
    template: &'a RawValue,
    #[serde(default)]
    missing: i64,
    #[serde(default)]
    unregistered: i64,
    price: Option<f64>,
    #[serde(default = "default_provision_seconds")]
    provision_seconds: u64,
    #[serde(default)]
    ready_seconds: u64,
    options: Option<OptionsJson>,
    #[serde(default)]
    failures: Vec<FailureJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OptionsJson {
    #[serde(default)]
    zero_or_max_node_scaling: bool,
    max_node_provision_seconds: Option<u64>,
    scale_down_utilization_threshold: Option<f64>,
    scale_down_unneeded_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailureJson {
    from: i64,
    to: i64,
    kind: FailureKindJson,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum FailureKindJson {
    IncreaseError,
    NoInstance,
    NeverRegister,
    CreateError,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimelineEntryJson<'a> {
    at: i64,
    #[serde(borrow, default)]
    create: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    update: Vec<&'a RawValue>,
    #[serde(default)]
    delete: Vec<String>,
}

// === impl AutoscalerCase ===

impl AutoscalerCase {
    /// Whether a line is an autoscaler case, not a scheduler case.
    pub fn is_autoscaler_case(line: &str) -> bool {
        let fields: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(line).ok();
        fields.is_some_and(|fields| fields.contains_key("nodeGroups") && fields.contains_key("steps"))
    }
}

impl LineCase for AutoscalerCase {
    fn parse(line: &str) -> std::result::Result<AutoscalerCase, String> {
        let json: CaseJson<'_> =
            serde_json::from_str(line).map_err(|error| format!("not a case: {error}"))?;
        let id = json.id;
        let within = |error: String| format!("{id}: {error}");
        if !json.steps.iter().eq(json.expect.iter().map(|step| &step.at)) {
            return Err(within("steps and expectations are not at the same seconds".to_owned()));
        }
        let settings = settings(&json.options.unwrap_or_default()).map_err(within)?;
        let objects = parse_objects(json.objects.unwrap_or_default()).map_err(within)?;
        let mut timeline = Vec::new();
        for entry in json.timeline {
            timeline.push(TimelineEntry::parse(entry).map_err(within)?);
        }
        timeline.sort_by_key(|entry| entry.at);
        let cloud = build_cloud(json.node_groups, json.pricing, &objects).map_err(within)?;
        let binds_pods = matches!(json.binding, Binding::FirstFit);
        let (family, loose, expect) = (json.family, json.loose, json.expect);
        Ok(AutoscalerCase {
            id,
            family,
            settings,
            cloud,
            objects,
            timeline,
            binds_pods,
            interchangeable_nodes: loose,
            expect,
        })
    }
}

// === impl TimelineEntry ===

impl TimelineEntry {
    fn parse(json: TimelineEntryJson<'_>) -> std::result::Result<TimelineEntry, String> {
        let pod = |text: &String| match text.splitn(3, '/').collect::<Vec<_>>()[..] {
            ["Pod", namespace, name] => Ok((namespace.to_owned(), name.to_owned())),
            _ => Err(format!("{text:?} is not a pod to delete")),
        };
        Ok(TimelineEntry {
            at: json.at,
            create: parse_objects(json.create)?,
            update: parse_objects(json.update)?,
            delete: json.delete.iter().map(pod).collect::<std::result::Result<_, String>>()?,
        })
    }
}

/// The moment of a case's second.
pub(super) fn moment(second: i64) -> Moment {
    Moment::from_nanos(START.saturating_add(second).saturating_mul(1_000_000_000))
}

/// The second of a case that contains a moment.
pub(super) fn second(moment: Moment) -> i64 {
    moment.nanos().div_euclid(1_000_000_000) - START
}

/// The settings for these flags, with a cloud provider that has no special rules.
fn settings(flags: &BTreeMap<String, String>) -> std::result::Result<Settings, String> {
    let arguments: Vec<String> = flags.iter().map(|(name, value)| format!("--{name}={value}")).collect();
    let settings = Settings::from_flags(Version::V1_36, &arguments).map_err(|error| error.to_string())?;
    Ok(Settings { cloud_provider: "fake".into(), ..settings })
}

fn default_provision_seconds() -> u64 {
    60
}

fn parse_objects(texts: Vec<&RawValue>) -> std::result::Result<Vec<Object>, String> {
    let parse = |text: &RawValue| Object::parse(text.get()).map_err(|error| error.to_string());
    texts.into_iter().map(parse).collect()
}

fn build_cloud(
    groups: Vec<GroupJson<'_>>,
    pricing: Option<PricingJson>,
    objects: &[Object],
) -> std::result::Result<SimulatedCloud, String> {
    let names: BTreeSet<&str> = groups.iter().map(|group| &*group.name).collect();
    if names.len() < groups.len() {
        return Err("two groups have the same name".to_owned());
    }
    let nodes: Vec<(&Object, String)> = objects
        .iter()
        .filter(|object| object.meta().kind == "Node")
        .map(|node| (node, provider_id(node)))
        .collect();
    let unregistered: Vec<(String, i64)> =
        groups.iter().map(|group| (group.name.clone(), group.unregistered)).collect();
    let mut node_groups = Vec::new();
    for group in groups {
        let prefix = format!("fake://{}/", group.name);
        let node_count = nodes.iter().filter(|(_, id)| id.starts_with(&prefix)).count() as i64;
        node_groups.push(group.into_group(&prefix, node_count)?);
    }
    let mut cloud = SimulatedCloud::new(node_groups, 0);
    if let Some(pricing) = pricing {
        cloud = cloud.with_pricing(PodPricing { cpu: pricing.cpu, memory_gib: pricing.memory_gib });
    }
    for (node, _) in nodes {
        cloud.adopt(&NodeView::parse(node));
    }
    for (index, (name, count)) in unregistered.into_iter().enumerate() {
        for number in 1..=count {
            cloud.adopt_unregistered(GroupId(index as u32), &format!("{name}-lost-{number}"));
        }
    }
    Ok(cloud)
}

fn provider_id(node: &Object) -> String {
    let value = node.value().unwrap_or(Value::Null);
    value["spec"]["providerID"].as_str().unwrap_or_default().to_owned()
}

// === impl GroupJson ===

impl GroupJson<'_> {
    fn into_group(self, prefix: &str, node_count: i64) -> std::result::Result<NodeGroup, String> {
        let constant = |seconds| Delay::Constant(Duration::from_secs(seconds));
        let template = Object::parse(self.template.get())
            .map_err(|error| format!("the template of {}: {error}", self.name))?;
        let failure = |json: FailureJson| ProvisioningFailure {
            from: moment(json.from),
            to: moment(json.to),
            kind: match json.kind {
                FailureKindJson::IncreaseError => ProvisioningFailureKind::IncreaseError,
                FailureKindJson::NoInstance => ProvisioningFailureKind::NoInstance,
                FailureKindJson::NeverRegister => ProvisioningFailureKind::NeverRegister,
                FailureKindJson::CreateError => ProvisioningFailureKind::CreateError,
            },
        };
        Ok(NodeGroup {
            name: self.name.into(),
            min: self.min,
            max: self.max,
            target: Some(node_count + self.unregistered + self.missing),
            members: Membership::ProviderIdPrefix(prefix.into()),
            template,
            pods: Vec::new(),
            template_pods: Vec::new(),
            price: self.price,
            options: self.options.map(|json| GroupOptionOverrides {
                zero_or_max_node_scaling: json.zero_or_max_node_scaling,
                max_node_provision_time: json.max_node_provision_seconds.map(Duration::from_secs),
                scale_down_utilization_threshold: json.scale_down_utilization_threshold,
                scale_down_unneeded_time: json.scale_down_unneeded_seconds.map(Duration::from_secs),
                ..GroupOptionOverrides::default()
            }),
            provisioning: Provisioning {
                registers_after: constant(self.provision_seconds),
                ready_after: constant(self.ready_seconds),
            },
            failures: self.failures.into_iter().map(failure).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use autoscaler::CloudProvider;

    const CASE: &str = r#"{"id":"x-1","family":"x","options":{"max-nodes-total":"3"},"nodeGroups":[{"name":"a",
        "min":0,"max":5,"missing":1,"unregistered":2,"template":{"apiVersion":"v1","kind":"Node",
        "metadata":{"name":"t"}}}],"objects":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"a-1"},
        "spec":{"providerID":"fake://a/a-1"}}],"timeline":[{"at":3,"delete":["Pod/b/c"]}],"binding":"first-fit",
        "steps":[0],"expect":[{"at":0}]}"#;

    #[track_caller]
    fn assert_rejected(line: &str, because: &str) {
        let error = AutoscalerCase::parse(line).expect_err(line);
        assert!(error.contains(because), "{error:?} should say {because:?}");
    }

    #[test]
    fn the_cloud_begins_with_registered_unregistered_and_missing_nodes() {
        let case = AutoscalerCase::parse(CASE).unwrap();
        assert_eq!(case.settings.max_nodes_total, 3);
        assert_eq!(case.timeline[0].delete, [("b".to_owned(), "c".to_owned())]);
        assert_eq!(case.cloud.target_size(GroupId(0)), 4);
        let ids: Vec<String> =
            case.cloud.instances(GroupId(0)).iter().map(|instance| instance.id.to_string()).collect();
        assert_eq!(ids, ["fake://a/a-1", "fake://a/a-lost-1", "fake://a/a-lost-2"]);
    }

    #[test]
    fn an_invalid_case_is_rejected_with_the_reason() {
        assert_rejected(&CASE[..CASE.len() - 1], "EOF");
        assert_rejected(&CASE.replace(r#""missing""#, r#""mising""#), "unknown field `mising`");
        assert_rejected(&CASE.replace(r#""at":0"#, r#""at":10"#), "not at the same seconds");
        assert_rejected(&CASE.replace("max-nodes-total", "max-nodes-totals"), "max-nodes-totals");
        assert_rejected(&CASE.replace("Pod/b/c", "Node/b"), "is not a pod to delete");
    }

    #[test]
    fn autoscaler_cases_are_distinguished_from_scheduler_cases() {
        assert!(AutoscalerCase::is_autoscaler_case(CASE));
        assert!(!AutoscalerCase::is_autoscaler_case(
            r#"{"id":"x-1","family":"x","objects":[],"pending":[],"expect":[]}"#
        ));
        assert!(!AutoscalerCase::is_autoscaler_case("nothing"));
    }
}

//! One group of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::quantity::Quantity;
use model::{Moment, Object};
use serde::Deserialize;
use serde_json::Value;

use super::super::super::gpu_names;
use super::super::super::settings::GroupOptions;
use super::super::node_template::{INSTANCE_TYPE, Outline, POOL_LABELS, REGION, ZONE, object};
use super::super::{Failure, FailureKind, MOST_NODES, Membership, NodeGroup, Provisioning};
use super::values::{Amount, DelayFile, Span, TaintFile};
use super::{BadGroups, price};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GroupFile {
    pub(super) name: String,
    min: i64,
    max: i64,
    target: Option<i64>,
    price: Option<f64>,
    members: Option<MembersFile>,
    /// A few facts.
    template: Option<TemplateFile>,
    /// Or all of it.
    node: Option<Value>,
    #[serde(default)]
    pods: Vec<Value>,
    #[serde(default)]
    template_pods: Vec<Value>,
    options: Option<OptionsFile>,
    provisioning: Option<ProvisioningFile>,
    #[serde(default)]
    failures: Vec<FailureFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MembersFile {
    label: Option<String>,
    annotation: Option<String>,
    value: Option<String>,
    provider_id_prefix: Option<String>,
    names: Option<BTreeSet<Arc<str>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TemplateFile {
    cpu: Option<Amount>,
    memory: Option<Amount>,
    pods: Option<Amount>,
    ephemeral_storage: Option<Amount>,
    /// Besides these.
    #[serde(default)]
    resources: BTreeMap<String, Amount>,
    gpu: Option<GpuFile>,
    /// What the system keeps of it.
    reserved: Option<BTreeMap<String, Amount>>,
    /// Or what it leaves.
    allocatable: Option<BTreeMap<String, Amount>>,
    #[serde(default)]
    instance_type: String,
    #[serde(default)]
    region: String,
    #[serde(default)]
    zone: String,
    #[serde(default)]
    arch: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    taints: Vec<TaintFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GpuFile {
    count: Amount,
    #[serde(default)]
    resource: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct OptionsFile {
    scale_down_utilization_threshold: Option<f64>,
    scale_down_gpu_utilization_threshold: Option<f64>,
    scale_down_unneeded_time: Option<Span>,
    scale_down_unready_time: Option<Span>,
    max_node_provision_time: Option<Span>,
    max_node_startup_time: Option<Span>,
    ignore_daemonsets_utilization: Option<bool>,
    #[serde(default)]
    zero_or_max_node_scaling: bool,
    #[serde(default)]
    allow_non_atomic_scale_up_to_max: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProvisioningFile {
    registers_after: Option<DelayFile>,
    ready_after: Option<DelayFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FailureFile {
    from: String,
    to: String,
    kind: FailureWord,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum FailureWord {
    IncreaseError,
    NoInstance,
    NeverRegister,
    CreateError,
}

// === impl GroupFile ===

impl GroupFile {
    /// The group it describes. `place` is where it stands.
    pub(super) fn group(self, place: &str) -> Result<NodeGroup, BadGroups> {
        let bad = |field: &str, why: String| Err(BadGroups::new(&format!("{place}.{field}"), why));
        if self.name.is_empty() {
            return bad("name", "is empty".to_owned());
        }
        if self.min < 0 {
            return bad("min", format!("{} is negative", self.min));
        }
        if self.max < self.min {
            return bad("max", format!("{} is less than min, {}", self.max, self.min));
        }
        if self.max > MOST_NODES {
            return bad("max", format!("{} is more than a group can have, {MOST_NODES}", self.max));
        }
        if let Some(target) = self.target.filter(|target| !(0..=MOST_NODES).contains(target)) {
            return bad("target", format!("{target} is not from 0 to {MOST_NODES}"));
        }
        let node = match (&self.template, self.node) {
            (Some(template), None) => template.node(&self.name, &format!("{place}.template"))?,
            (None, Some(node)) => whole(node, &self.name, &format!("{place}.node"))?,
            (None, None) => return bad("template", "is missing: what are new nodes like?".to_owned()),
            (Some(_), Some(_)) => {
                return bad("node", "is there besides template: give one of them".to_owned());
            }
        };
        let members = match self.members {
            Some(members) => members.membership(&format!("{place}.members"))?,
            None => by_pool(&node),
        };
        let parsed = |field: &str, pods: Vec<Value>| {
            let pod = |(index, pod): (usize, Value)| {
                let why = |error: model::BadObject| {
                    BadGroups::new(&format!("{place}.{field}[{index}]"), error.to_string())
                };
                Object::parse(&pod.to_string()).map_err(why)
            };
            pods.into_iter().enumerate().map(pod).collect::<Result<Vec<_>, _>>()
        };
        Ok(NodeGroup {
            price: self.price.map(|amount| price(amount, &format!("{place}.price"))).transpose()?,
            options: self.options.map(OptionsFile::options),
            provisioning: self.provisioning.map(ProvisioningFile::provisioning).unwrap_or_default(),
            failures: self
                .failures
                .into_iter()
                .enumerate()
                .map(|(index, failure)| failure.failure(&format!("{place}.failures[{index}]")))
                .collect::<Result<_, _>>()?,
            pods: parsed("pods", self.pods)?,
            believed: parsed("templatePods", self.template_pods)?,
            template: template(&node, &format!("{place}.name"))?,
            name: self.name.into(),
            min: self.min,
            max: self.max,
            target: self.target,
            members,
        })
    }
}

/// A whole Node, named and placed as templates are if it says nothing.
fn whole(mut node: Value, group: &str, place: &str) -> Result<Value, BadGroups> {
    if !node.is_object() {
        return Err(BadGroups::new(place, "is not a Node"));
    }
    let plain = Outline::default().node(group);
    for (field, right) in [("apiVersion", "v1"), ("kind", "Node")] {
        match &node[field] {
            Value::Null => node[field] = right.into(),
            Value::String(text) if text == right => {}
            other => {
                return Err(BadGroups::new(&format!("{place}.{field}"), format!("{other} is not {right}")));
            }
        }
    }
    for field in ["metadata", "spec", "status"] {
        if !(node[field].is_null() || node[field].is_object()) {
            return Err(BadGroups::new(&format!("{place}.{field}"), "is not made of fields"));
        }
    }
    if node["metadata"]["name"].is_null() {
        node["metadata"]["name"] = plain["metadata"]["name"].clone();
    }
    if node["status"]["allocatable"].is_null() {
        node["status"]["allocatable"] = node["status"]["capacity"].clone();
    }
    let amounts: BTreeMap<String, Quantity> = Option::deserialize(&node["status"]["allocatable"])
        .map_err(|error| BadGroups::new(&format!("{place}.status.allocatable"), error.to_string()))?
        .unwrap_or_default();
    check_room(&amounts, &format!("{place}.status.allocatable"))?;
    Ok(node)
}

/// A node without one of these takes no pod.
fn check_room(amounts: &BTreeMap<String, Quantity>, place: &str) -> Result<(), BadGroups> {
    for name in ["cpu", "pods"] {
        if amounts.get(name).is_none_or(|amount| amount.sign() <= 0) {
            return Err(BadGroups::new(
                &format!("{place}.{name}"),
                "there is none: no pod would fit such a node",
            ));
        }
    }
    Ok(())
}

fn template(node: &Value, place: &str) -> Result<Object, BadGroups> {
    object(node).ok_or_else(|| BadGroups::new(place, "no node could be called so"))
}

/// By the label with which clouds name the pool of a node; without one, nobody yet.
fn by_pool(node: &Value) -> Membership {
    let label = |key: &&'static str| Some((*key, node["metadata"]["labels"][*key].as_str()?));
    match POOL_LABELS.iter().find_map(label) {
        Some((key, value)) => Membership::Label { key: key.into(), value: value.into() },
        None => Membership::Named(BTreeSet::new()),
    }
}

// === impl TemplateFile ===

impl TemplateFile {
    fn node(&self, group: &str, place: &str) -> Result<Value, BadGroups> {
        let mut outline = Outline { labels: self.labels.clone(), ..Outline::default() };
        for (key, value) in [
            (INSTANCE_TYPE, &self.instance_type),
            (REGION, &self.region),
            (ZONE, &self.zone),
            ("kubernetes.io/arch", &self.arch),
            ("kubernetes.io/os", &self.os),
        ] {
            outline.label(key, value);
        }
        outline.taints = self.taints.iter().map(|taint| taint.0.clone()).collect();
        for (name, amount) in [
            ("cpu", &self.cpu),
            ("memory", &self.memory),
            ("pods", &self.pods),
            ("ephemeral-storage", &self.ephemeral_storage),
        ] {
            outline.capacity.extend(amount.iter().map(|amount| (name.to_owned(), amount.0.clone())));
        }
        outline.capacity.extend(amounts(&self.resources));
        if let Some(gpu) = &self.gpu {
            let resource = if gpu.resource.is_empty() { gpu_names::RESOURCES[0] } else { &gpu.resource };
            outline.capacity.insert(resource.to_owned(), gpu.count.0.clone());
        }
        if let Some((name, _)) = outline.capacity.iter().find(|(_, amount)| amount.sign() < 0) {
            return Err(BadGroups::new(&format!("{place}.{name}"), "is negative"));
        }
        let reserved = self.reserved.as_ref().map(amounts).unwrap_or_default();
        check_parts(&reserved, &outline.capacity, &format!("{place}.reserved"))?;
        outline.reserve(&reserved);
        if let Some(allocatable) = &self.allocatable {
            if self.reserved.is_some() {
                return Err(BadGroups::new(
                    &format!("{place}.reserved"),
                    "is there besides allocatable: give one of them",
                ));
            }
            let allocatable = amounts(allocatable);
            check_parts(&allocatable, &outline.capacity, &format!("{place}.allocatable"))?;
            outline.allocatable.extend(allocatable);
        }
        check_room(&outline.allocatable, place)?;
        Ok(outline.node(group))
    }
}

/// Each must be a part of what a node has.
fn check_parts(
    parts: &BTreeMap<String, Quantity>,
    capacity: &BTreeMap<String, Quantity>,
    place: &str,
) -> Result<(), BadGroups> {
    for (name, part) in parts {
        let why = match capacity.get(name) {
            _ if part.sign() < 0 => "is negative",
            None => "is nothing that the node has",
            Some(all) if part > all => "is more than the node has",
            Some(_) => continue,
        };
        return Err(BadGroups::new(&format!("{place}.{name}"), why));
    }
    Ok(())
}

fn amounts(amounts: &BTreeMap<String, Amount>) -> BTreeMap<String, Quantity> {
    amounts.iter().map(|(name, amount)| (name.clone(), amount.0.clone())).collect()
}

// === impl MembersFile ===

impl MembersFile {
    fn membership(self, place: &str) -> Result<Membership, BadGroups> {
        let wrong = "give label and value, annotation and value, providerIdPrefix, or names";
        Ok(match (self.label, self.annotation, self.value, self.provider_id_prefix, self.names) {
            (Some(key), None, Some(value), None, None) => {
                Membership::Label { key: key.into(), value: value.into() }
            }
            (None, Some(key), Some(value), None, None) => {
                Membership::Annotation { key: key.into(), value: value.into() }
            }
            (None, None, None, Some(prefix), None) => Membership::ProviderIdPrefix(prefix.into()),
            (None, None, None, None, Some(names)) => Membership::Named(names),
            _ => return Err(BadGroups::new(place, wrong)),
        })
    }
}

// === impl OptionsFile ===

impl OptionsFile {
    fn options(self) -> GroupOptions {
        let span = |span: Option<Span>| span.map(|Span(span)| span);
        GroupOptions {
            scale_down_utilization_threshold: self.scale_down_utilization_threshold,
            scale_down_gpu_utilization_threshold: self.scale_down_gpu_utilization_threshold,
            scale_down_unneeded_time: span(self.scale_down_unneeded_time),
            scale_down_unready_time: span(self.scale_down_unready_time),
            max_node_provision_time: span(self.max_node_provision_time),
            max_node_startup_time: span(self.max_node_startup_time),
            ignore_daemonsets_utilization: self.ignore_daemonsets_utilization,
            zero_or_max_node_scaling: self.zero_or_max_node_scaling,
            allow_non_atomic_scale_up_to_max: self.allow_non_atomic_scale_up_to_max,
        }
    }
}

// === impl ProvisioningFile ===

impl ProvisioningFile {
    fn provisioning(self) -> Provisioning {
        let usual = Provisioning::default();
        Provisioning {
            registers_after: self.registers_after.map_or(usual.registers_after, |delay| delay.0),
            ready_after: self.ready_after.map_or(usual.ready_after, |delay| delay.0),
        }
    }
}

// === impl FailureFile ===

impl FailureFile {
    fn failure(self, place: &str) -> Result<Failure, BadGroups> {
        let moment = |text: &str, field: &str| {
            let why =
                |error: model::BadMoment| BadGroups::new(&format!("{place}.{field}"), error.to_string());
            text.parse::<Moment>().map_err(why)
        };
        let (from, to) = (moment(&self.from, "from")?, moment(&self.to, "to")?);
        if to <= from {
            return Err(BadGroups::new(&format!("{place}.to"), "is not after from"));
        }
        let kind = match self.kind {
            FailureWord::IncreaseError => FailureKind::IncreaseError,
            FailureWord::NoInstance => FailureKind::NoInstance,
            FailureWord::NeverRegister => FailureKind::NeverRegister,
            FailureWord::CreateError => FailureKind::CreateError,
        };
        Ok(Failure { from, to, kind })
    }
}

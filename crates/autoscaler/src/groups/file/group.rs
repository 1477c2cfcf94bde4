//! The entry of one group in the node groups file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::quantity::Quantity;
use kubernetes::well_known::{INSTANCE_TYPE, OS, REGION, ZONE};
use model::{Moment, Object};
use serde::Deserialize;
use serde_json::Value;

use super::super::super::gpu_names;
use super::super::super::settings::GroupOptionOverrides;
use super::super::node_template::{POOL_LABELS, TemplateSpec, parse_object};
use super::super::{
    MAX_GROUP_SIZE, Membership, NodeGroup, Provisioning, ProvisioningFailure, ProvisioningFailureKind,
};
use super::values::{DelayFile, DurationFile, QuantityFile, TaintFile};
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
    /// The template in short form,
    template: Option<TemplateFile>,
    /// or as a whole Node.
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
    cpu: Option<QuantityFile>,
    memory: Option<QuantityFile>,
    pods: Option<QuantityFile>,
    ephemeral_storage: Option<QuantityFile>,
    /// Other resources.
    #[serde(default)]
    resources: BTreeMap<String, QuantityFile>,
    gpu: Option<GpuFile>,
    /// The amounts reserved for the system,
    reserved: Option<BTreeMap<String, QuantityFile>>,
    /// or what remains for pods.
    allocatable: Option<BTreeMap<String, QuantityFile>>,
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
    count: QuantityFile,
    #[serde(default)]
    resource: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct OptionsFile {
    scale_down_utilization_threshold: Option<f64>,
    scale_down_gpu_utilization_threshold: Option<f64>,
    scale_down_unneeded_time: Option<DurationFile>,
    scale_down_unready_time: Option<DurationFile>,
    max_node_provision_time: Option<DurationFile>,
    max_node_startup_time: Option<DurationFile>,
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
    kind: FailureKindFile,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum FailureKindFile {
    IncreaseError,
    NoInstance,
    NeverRegister,
    CreateError,
}

// === impl GroupFile ===

impl GroupFile {
    /// The group it describes. `path` is its position in the file, for errors.
    pub(super) fn group(self, path: &str) -> Result<NodeGroup, BadGroups> {
        let bad_groups =
            |field: &str, reason: String| Err(BadGroups::new(&format!("{path}.{field}"), reason));
        if self.name.is_empty() {
            return bad_groups("name", "must not be empty".to_owned());
        }
        if self.min < 0 {
            return bad_groups("min", format!("{} must not be negative", self.min));
        }
        if self.max < self.min {
            return bad_groups("max", format!("{} is less than min, {}", self.max, self.min));
        }
        if self.max > MAX_GROUP_SIZE {
            return bad_groups("max", format!("{} is more than the maximum, {MAX_GROUP_SIZE}", self.max));
        }
        if let Some(target) = self.target.filter(|target| !(0..=MAX_GROUP_SIZE).contains(target)) {
            return bad_groups("target", format!("{target} must be from 0 to {MAX_GROUP_SIZE}"));
        }
        let node = match (&self.template, self.node) {
            (Some(template), None) => template.node(&self.name, &format!("{path}.template"))?,
            (None, Some(node)) => complete_node(node, &self.name, &format!("{path}.node"))?,
            (None, None) => {
                return bad_groups("template", "required: describes the nodes of the group".to_owned());
            }
            (Some(_), Some(_)) => {
                return bad_groups("node", "cannot be combined with template".to_owned());
            }
        };
        let members = match self.members {
            Some(members) => members.membership(&format!("{path}.members"))?,
            None => membership_by_pool_label(&node),
        };
        let parse_pods = |field: &str, pods: Vec<Value>| {
            let pod = |(index, pod): (usize, Value)| {
                let reason = |error: model::BadObject| {
                    BadGroups::new(&format!("{path}.{field}[{index}]"), error.to_string())
                };
                Object::parse(&pod.to_string()).map_err(reason)
            };
            pods.into_iter().enumerate().map(pod).collect::<Result<Vec<_>, _>>()
        };
        Ok(NodeGroup {
            price: self.price.map(|amount| price(amount, &format!("{path}.price"))).transpose()?,
            options: self.options.map(OptionsFile::options),
            provisioning: self.provisioning.map(ProvisioningFile::provisioning).unwrap_or_default(),
            failures: self
                .failures
                .into_iter()
                .enumerate()
                .map(|(index, failure)| failure.failure(&format!("{path}.failures[{index}]")))
                .collect::<Result<_, _>>()?,
            pods: parse_pods("pods", self.pods)?,
            template_pods: parse_pods("templatePods", self.template_pods)?,
            template: template_object(&node, &format!("{path}.name"))?,
            name: self.name.into(),
            min: self.min,
            max: self.max,
            target: self.target,
            members,
        })
    }
}

/// Checks a whole Node, and fills in its kind, name and allocatable if they are missing.
fn complete_node(mut node: Value, group: &str, path: &str) -> Result<Value, BadGroups> {
    if !node.is_object() {
        return Err(BadGroups::new(path, "not a Node"));
    }
    let default_node = TemplateSpec::default().to_node(group);
    for (field, expected) in [("apiVersion", "v1"), ("kind", "Node")] {
        match &node[field] {
            Value::Null => node[field] = expected.into(),
            Value::String(text) if text == expected => {}
            other => {
                return Err(BadGroups::new(
                    &format!("{path}.{field}"),
                    format!("must be {expected}, found {other}"),
                ));
            }
        }
    }
    for field in ["metadata", "spec", "status"] {
        if !(node[field].is_null() || node[field].is_object()) {
            return Err(BadGroups::new(&format!("{path}.{field}"), "expected an object"));
        }
    }
    if node["metadata"]["name"].is_null() {
        node["metadata"]["name"] = default_node["metadata"]["name"].clone();
    }
    if node["status"]["allocatable"].is_null() {
        node["status"]["allocatable"] = node["status"]["capacity"].clone();
    }
    let amounts: BTreeMap<String, Quantity> = Option::deserialize(&node["status"]["allocatable"])
        .map_err(|error| BadGroups::new(&format!("{path}.status.allocatable"), error.to_string()))?
        .unwrap_or_default();
    check_allocatable(&amounts, &format!("{path}.status.allocatable"))?;
    Ok(node)
}

/// Checks the resources without which no pod fits on a node.
fn check_allocatable(amounts: &BTreeMap<String, Quantity>, path: &str) -> Result<(), BadGroups> {
    for name in ["cpu", "pods"] {
        if amounts.get(name).is_none_or(|amount| amount.sign() <= 0) {
            return Err(BadGroups::new(
                &format!("{path}.{name}"),
                "required: without it no pod fits the node",
            ));
        }
    }
    Ok(())
}

fn template_object(node: &Value, path: &str) -> Result<Object, BadGroups> {
    parse_object(node).ok_or_else(|| BadGroups::new(path, "not a valid node name"))
}

/// Membership by the node's pool label; without such a label no node is a member yet.
fn membership_by_pool_label(node: &Value) -> Membership {
    let label = |key: &&'static str| Some((*key, node["metadata"]["labels"][*key].as_str()?));
    match POOL_LABELS.iter().find_map(label) {
        Some((key, value)) => Membership::Label { key: key.into(), value: value.into() },
        None => Membership::Named(BTreeSet::new()),
    }
}

// === impl TemplateFile ===

impl TemplateFile {
    fn node(&self, group: &str, path: &str) -> Result<Value, BadGroups> {
        let mut template_spec = TemplateSpec { labels: self.labels.clone(), ..TemplateSpec::default() };
        for (key, value) in [
            (INSTANCE_TYPE, &self.instance_type),
            (REGION, &self.region),
            (ZONE, &self.zone),
            ("kubernetes.io/arch", &self.arch),
            (OS, &self.os),
        ] {
            template_spec.set_default_label(key, value);
        }
        template_spec.taints = self.taints.iter().map(|taint| taint.0.clone()).collect();
        for (name, amount) in [
            ("cpu", &self.cpu),
            ("memory", &self.memory),
            ("pods", &self.pods),
            ("ephemeral-storage", &self.ephemeral_storage),
        ] {
            template_spec.capacity.extend(amount.iter().map(|amount| (name.to_owned(), amount.0.clone())));
        }
        template_spec.capacity.extend(amounts(&self.resources));
        if let Some(gpu) = &self.gpu {
            let resource = if gpu.resource.is_empty() { gpu_names::RESOURCES[0] } else { &gpu.resource };
            template_spec.capacity.insert(resource.to_owned(), gpu.count.0.clone());
        }
        if let Some((name, _)) = template_spec.capacity.iter().find(|(_, amount)| amount.sign() < 0) {
            return Err(BadGroups::new(&format!("{path}.{name}"), "must not be negative"));
        }
        let reserved = self.reserved.as_ref().map(amounts).unwrap_or_default();
        check_within_capacity(&reserved, &template_spec.capacity, &format!("{path}.reserved"))?;
        template_spec.reserve(&reserved);
        if let Some(allocatable) = &self.allocatable {
            if self.reserved.is_some() {
                return Err(BadGroups::new(
                    &format!("{path}.reserved"),
                    "cannot be combined with allocatable",
                ));
            }
            let allocatable = amounts(allocatable);
            check_within_capacity(&allocatable, &template_spec.capacity, &format!("{path}.allocatable"))?;
            template_spec.allocatable.extend(allocatable);
        }
        check_allocatable(&template_spec.allocatable, path)?;
        Ok(template_spec.to_node(group))
    }
}

/// Checks that each amount is within the node's capacity.
fn check_within_capacity(
    resource_amounts: &BTreeMap<String, Quantity>,
    capacity: &BTreeMap<String, Quantity>,
    path: &str,
) -> Result<(), BadGroups> {
    for (name, amount) in resource_amounts {
        let message = match capacity.get(name) {
            _ if amount.sign() < 0 => "must not be negative",
            None => "not in the capacity of the node",
            Some(total) if amount > total => "more than the capacity of the node",
            Some(_) => continue,
        };
        return Err(BadGroups::new(&format!("{path}.{name}"), message));
    }
    Ok(())
}

fn amounts(amounts: &BTreeMap<String, QuantityFile>) -> BTreeMap<String, Quantity> {
    amounts.iter().map(|(name, amount)| (name.clone(), amount.0.clone())).collect()
}

// === impl MembersFile ===

impl MembersFile {
    fn membership(self, path: &str) -> Result<Membership, BadGroups> {
        let expectation = "expected label and value, annotation and value, providerIdPrefix, or names";
        Ok(match (self.label, self.annotation, self.value, self.provider_id_prefix, self.names) {
            (Some(key), None, Some(value), None, None) => {
                Membership::Label { key: key.into(), value: value.into() }
            }
            (None, Some(key), Some(value), None, None) => {
                Membership::Annotation { key: key.into(), value: value.into() }
            }
            (None, None, None, Some(prefix), None) => Membership::ProviderIdPrefix(prefix.into()),
            (None, None, None, None, Some(names)) => Membership::Named(names),
            _ => return Err(BadGroups::new(path, expectation)),
        })
    }
}

// === impl OptionsFile ===

impl OptionsFile {
    fn options(self) -> GroupOptionOverrides {
        let duration = |duration: Option<DurationFile>| duration.map(|DurationFile(duration)| duration);
        GroupOptionOverrides {
            scale_down_utilization_threshold: self.scale_down_utilization_threshold,
            scale_down_gpu_utilization_threshold: self.scale_down_gpu_utilization_threshold,
            scale_down_unneeded_time: duration(self.scale_down_unneeded_time),
            scale_down_unready_time: duration(self.scale_down_unready_time),
            max_node_provision_time: duration(self.max_node_provision_time),
            max_node_startup_time: duration(self.max_node_startup_time),
            ignore_daemonsets_utilization: self.ignore_daemonsets_utilization,
            zero_or_max_node_scaling: self.zero_or_max_node_scaling,
            allow_non_atomic_scale_up_to_max: self.allow_non_atomic_scale_up_to_max,
        }
    }
}

// === impl ProvisioningFile ===

impl ProvisioningFile {
    fn provisioning(self) -> Provisioning {
        let defaults = Provisioning::default();
        Provisioning {
            registers_after: self.registers_after.map_or(defaults.registers_after, |delay| delay.0),
            ready_after: self.ready_after.map_or(defaults.ready_after, |delay| delay.0),
        }
    }
}

// === impl FailureFile ===

impl FailureFile {
    fn failure(self, path: &str) -> Result<ProvisioningFailure, BadGroups> {
        let parse_moment = |text: &str, field: &str| {
            let to_error =
                |error: model::BadMoment| BadGroups::new(&format!("{path}.{field}"), error.to_string());
            text.parse::<Moment>().map_err(to_error)
        };
        let (from, to) = (parse_moment(&self.from, "from")?, parse_moment(&self.to, "to")?);
        if to <= from {
            return Err(BadGroups::new(&format!("{path}.to"), "must be after from"));
        }
        let kind = match self.kind {
            FailureKindFile::IncreaseError => ProvisioningFailureKind::IncreaseError,
            FailureKindFile::NoInstance => ProvisioningFailureKind::NoInstance,
            FailureKindFile::NeverRegister => ProvisioningFailureKind::NeverRegister,
            FailureKindFile::CreateError => ProvisioningFailureKind::CreateError,
        };
        Ok(ProvisioningFailure { from, to, kind })
    }
}

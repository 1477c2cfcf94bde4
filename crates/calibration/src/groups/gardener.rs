//! Node groups of Gardener: machine deployments, with templates from their machine classes.

use std::collections::BTreeMap;

use autoscaler::node_template::{INSTANCE_TYPE, REGION, TemplateSpec, ZONE, parse_object};
use autoscaler::{GPU_RESOURCES, Membership, NodeGroup, Provisioning};
use kubernetes::quantity::Quantity;
use serde::Deserialize;
use serde_json::Value;

use super::{DerivedGroups, SourceObjects, label, name, namespaced_name, nodes};

/// The labels that may hold the pool name, in the order of Gardener's recorder.
const GARDENER_POOL_LABELS: [&str; 3] =
    ["worker.gardener.cloud/pool", "worker_gardener_cloud_pool", "worker.gardener.cloud_pool"];

/// The labels that may hold the zone, in the order of Gardener's recorder.
const GARDENER_ZONE_LABELS: [&str; 5] = [
    ZONE,
    "topology.gke.io/zone",
    "topology.ebs.csi.aws.com/zone",
    "topology.disk.csi.azure.com/zone",
    "failure-domain.beta.kubernetes.io/zone",
];

/// The resources that Gardener's tools subtract from a machine's capacity for the system.
const RESERVED: [(&str, &str); 2] = [("cpu", "80m"), ("memory", "1Gi")];

/// A machine deployment with its class and nodes.
struct MachineGroup<'a> {
    deployment: &'a Value,
    class: Option<&'a Value>,
    /// `namespace.name`, as in the autoscaler.
    name: String,
    pool: &'a str,
    zone: &'a str,
    nodes: Vec<&'a Value>,
}

/// Assumptions that have to be reported.
#[derive(Default)]
struct Assumptions {
    from_pools: bool,
    from_replicas: bool,
    reserved: bool,
}

/// Adds the groups of machine deployments.
pub(super) fn groups(found: &SourceObjects, derived: &mut DerivedGroups) {
    let machines: Vec<MachineGroup<'_>> =
        found.machine_deployments.iter().map(|deployment| MachineGroup::of(deployment, found)).collect();
    let mut guessed = Assumptions::default();
    for own in &machines {
        let (min, max) = size(own, &machines, found, &mut guessed);
        let is_whole_pool = machines.iter().filter(|other| other.pool == own.pool).count() == 1;
        let Some(template) = own.template(&mut guessed).and_then(|node| parse_object(&node)) else {
            derived.assumptions.push(format!(
                "the machine deployment {} does not count: nothing tells what its machines are like",
                own.name
            ));
            continue;
        };
        derived.groups.push(NodeGroup {
            name: own.name.as_str().into(),
            min,
            max,
            target: own.deployment["spec"]["replicas"].as_i64().filter(|replicas| *replicas >= 0),
            members: match is_whole_pool && !own.pool.is_empty() {
                true => Membership::Label { key: GARDENER_POOL_LABELS[0].into(), value: own.pool.into() },
                false => nodes::named_members(&own.nodes),
            },
            template,
            pods: Vec::new(),
            template_pods: Vec::new(),
            price: None,
            options: None,
            provisioning: Provisioning::default(),
            failures: Vec::new(),
        });
    }
    if derived.groups.is_empty() {
        return;
    }
    derived.assumptions.push(
        "node groups are Gardener's machine deployments; a node belongs to that of its pool and zone"
            .to_owned(),
    );
    for (is_so, words) in [
        (guessed.from_pools, "where no flag gives sizes, those of worker pools are spread over their zones"),
        (
            guessed.from_replicas,
            "where nothing gives sizes, a group may have from none to as many nodes as it is to have",
        ),
        (
            guessed.reserved,
            "where no node shows what pods may have of it, that is the machine's capacity less 80m CPU and 1Gi memory, for 110 pods",
        ),
    ] {
        if is_so {
            derived.assumptions.push(words.to_owned());
        }
    }
}

/// Returns the minimum and maximum size: from flags, worker pools, or replicas.
fn size(
    own: &MachineGroup<'_>,
    all: &[MachineGroup<'_>],
    found: &SourceObjects,
    guessed: &mut Assumptions,
) -> (i64, i64) {
    if let Some(size) = found.size(&own.name) {
        return (size.min, size.max);
    }
    if let Some((min, max)) = pool_size(own, all, found) {
        guessed.from_pools = true;
        return (min, max);
    }
    guessed.from_replicas = true;
    (0, own.deployment["spec"]["replicas"].as_i64().unwrap_or(0).max(0))
}

/// Returns the group's share of its pool's size: zones are in the pool's order, and the first ones get the remainder.
fn pool_size(own: &MachineGroup<'_>, all: &[MachineGroup<'_>], found: &SourceObjects) -> Option<(i64, i64)> {
    let pools = found.workers.iter().filter_map(|worker| worker["spec"]["pools"].as_array()).flatten();
    let pool = pools.into_iter().find(|pool| pool["name"] == own.pool)?;
    let zones: Vec<&str> = pool["zones"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let siblings: Vec<&MachineGroup<'_>> = all.iter().filter(|other| other.pool == own.pool).collect();
    let (index, count) = match zones.iter().position(|zone| *zone == own.zone) {
        Some(index) => (index, zones.len()),
        None => (siblings.iter().position(|other| other.name == own.name)?, siblings.len()),
    };
    let (index, count) = (index as i64, count as i64);
    let share = |field: &str| {
        let whole = pool[field].as_i64().filter(|whole| *whole >= 0)?;
        Some(whole / count + i64::from(index < whole % count))
    };
    let (min, max) = (share("minimum")?, share("maximum")?);
    (min <= max).then_some((min, max))
}

// === impl MachineGroup ===

impl<'a> MachineGroup<'a> {
    fn of(deployment: &'a Value, found: &'a SourceObjects) -> MachineGroup<'a> {
        let (namespace, own) = namespaced_name(deployment);
        let spec = &deployment["spec"]["template"]["spec"];
        let labels = &spec["nodeTemplate"]["metadata"]["labels"];
        let first = |keys: &[&str]| keys.iter().find_map(|key| labels[*key].as_str()).unwrap_or_default();
        let class = spec["class"]["name"].as_str().unwrap_or_default();
        let of_class = |other: &&Value| name(other) == class && namespaced_name(other).0 == namespace;
        let machines = MachineGroup {
            deployment,
            class: found.machine_classes.iter().find(of_class),
            name: if namespace.is_empty() { own.to_owned() } else { format!("{namespace}.{own}") },
            pool: first(&GARDENER_POOL_LABELS),
            zone: first(&GARDENER_ZONE_LABELS),
            nodes: Vec::new(),
        };
        let nodes = found.nodes.iter().filter(|node| machines.has(node)).collect();
        MachineGroup { nodes, ..machines }
    }

    /// Whether a node is in its pool and zone.
    fn has(&self, node: &Value) -> bool {
        let first = |keys: &[&str]| keys.iter().find_map(|key| label(node, key));
        !self.pool.is_empty()
            && first(&GARDENER_POOL_LABELS) == Some(self.pool)
            && (self.zone.is_empty() || first(&GARDENER_ZONE_LABELS).is_none_or(|zone| zone == self.zone))
    }

    /// Returns the node template; `None` if the machines are unknown.
    fn template(&self, guessed: &mut Assumptions) -> Option<Value> {
        let described = self.class.map(|class| &class["nodeTemplate"]);
        let capacity = described.map(|template| amounts(&template["capacity"])).unwrap_or_default();
        let model = nodes::template_node(&self.nodes);
        if capacity.is_empty() && model.is_none() {
            return None;
        }
        let mut outline = TemplateSpec { labels: self.labels(), ..TemplateSpec::default() };
        if let Some(template) = described {
            for (key, field) in [(INSTANCE_TYPE, "instanceType"), (REGION, "region"), (ZONE, "zone")] {
                outline.set_default_label(key, template[field].as_str().unwrap_or_default());
            }
        }
        outline.set_default_label("kubernetes.io/os", "linux");
        let taints = self.deployment["spec"]["template"]["spec"]["nodeTemplate"]["spec"]["taints"].as_array();
        outline.taints = taints.cloned().unwrap_or_default();
        match model {
            Some(node) => {
                outline.capacity = amounts(&node["status"]["capacity"]);
                outline.allocatable = amounts(&node["status"]["allocatable"]);
            }
            None => {
                guessed.reserved = true;
                outline.capacity = capacity;
                if let Some(count) = outline.capacity.remove("gpu").filter(|count| count.sign() > 0) {
                    outline.capacity.insert(GPU_RESOURCES[0].to_owned(), count);
                }
                let pods = || Quantity::parse("110").expect("a number is a quantity");
                outline.capacity.entry("pods".to_owned()).or_insert_with(pods);
                let amount =
                    |text: &str| Quantity::parse(text).expect("a number and a suffix are a quantity");
                outline.reserve(&RESERVED.map(|(name, text)| (name.to_owned(), amount(text))).into());
            }
        }
        Some(outline.to_node(&self.name))
    }

    /// The labels of the deployment, and those of the class that are valid for a node.
    fn labels(&self) -> BTreeMap<String, String> {
        let texts = |labels: &Value| BTreeMap::<String, String>::deserialize(labels).unwrap_or_default();
        let mut labels = BTreeMap::new();
        if let Some(class) = self.class {
            let provider = &class["providerSpec"];
            labels.extend(texts(if provider["labels"].is_object() {
                &provider["labels"]
            } else {
                &provider["tags"]
            }));
            labels.retain(|key, _| key.matches('/').count() < 2);
        }
        labels.extend(texts(
            &self.deployment["spec"]["template"]["spec"]["nodeTemplate"]["metadata"]["labels"],
        ));
        labels
    }
}

fn amounts(amounts: &Value) -> BTreeMap<String, Quantity> {
    let amounts = amounts.as_object().into_iter().flatten();
    let read = |(name, amount): (&String, &Value)| {
        let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        Some((name.clone(), Quantity::parse(&text).ok()?))
    };
    amounts.filter_map(read).collect()
}

//! Groups of Gardener: each machine deployment is one, its machine class says what its nodes are like.

use std::collections::BTreeMap;

use autoscaler::node_template::{INSTANCE_TYPE, Outline, REGION, ZONE, object};
use autoscaler::{GPU_RESOURCES, Membership, NodeGroup, Provisioning};
use kubernetes::quantity::Quantity;
use serde::Deserialize;
use serde_json::Value;

use super::{Derived, Found, label, name, named, nodes};

/// Where the name of a pool may be, in the order Gardener's recorder looks.
const POOLS: [&str; 3] =
    ["worker.gardener.cloud/pool", "worker_gardener_cloud_pool", "worker.gardener.cloud_pool"];

/// Where the zone may be, in the order Gardener's recorder looks.
const ZONES: [&str; 5] = [
    ZONE,
    "topology.gke.io/zone",
    "topology.ebs.csi.aws.com/zone",
    "topology.disk.csi.azure.com/zone",
    "failure-domain.beta.kubernetes.io/zone",
];

/// What Gardener's tools take off a machine's capacity for its system.
const RESERVED: [(&str, &str); 2] = [("cpu", "80m"), ("memory", "1Gi")];

/// A machine deployment and what belongs to it.
struct Machines<'a> {
    deployment: &'a Value,
    class: Option<&'a Value>,
    /// `namespace.name`, as the autoscaler calls it.
    name: String,
    pool: &'a str,
    zone: &'a str,
    nodes: Vec<&'a Value>,
}

/// Where the sizes of groups come from, as far as it has to be told.
#[derive(Default)]
struct Guessed {
    from_pools: bool,
    from_replicas: bool,
    reserved: bool,
}

/// Adds the groups of machine deployments.
pub(super) fn groups(found: &Found, derived: &mut Derived) {
    let machines: Vec<Machines<'_>> =
        found.machine_deployments.iter().map(|deployment| Machines::of(deployment, found)).collect();
    let mut guessed = Guessed::default();
    for own in &machines {
        let (min, max) = size(own, &machines, found, &mut guessed);
        let is_whole_pool = machines.iter().filter(|other| other.pool == own.pool).count() == 1;
        let Some(template) = own.template(&mut guessed).and_then(|node| object(&node)) else {
            derived.assumed.push(format!(
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
                true => Membership::Label { key: POOLS[0].into(), value: own.pool.into() },
                false => nodes::members(&own.nodes),
            },
            template,
            pods: Vec::new(),
            believed: Vec::new(),
            price: None,
            options: None,
            provisioning: Provisioning::default(),
            failures: Vec::new(),
        });
    }
    if derived.groups.is_empty() {
        return;
    }
    derived.assumed.push(
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
            derived.assumed.push(words.to_owned());
        }
    }
}

/// The fewest and the most nodes: by flags, by worker pools, or by how many there are to be.
fn size(own: &Machines<'_>, all: &[Machines<'_>], found: &Found, guessed: &mut Guessed) -> (i64, i64) {
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

/// The group's share of its pool: zones come in the pool's order, and the first get what does not divide.
fn pool_size(own: &Machines<'_>, all: &[Machines<'_>], found: &Found) -> Option<(i64, i64)> {
    let pools = found.workers.iter().filter_map(|worker| worker["spec"]["pools"].as_array()).flatten();
    let pool = pools.into_iter().find(|pool| pool["name"] == own.pool)?;
    let zones: Vec<&str> = pool["zones"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let siblings: Vec<&Machines<'_>> = all.iter().filter(|other| other.pool == own.pool).collect();
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

// === impl Machines ===

impl<'a> Machines<'a> {
    fn of(deployment: &'a Value, found: &'a Found) -> Machines<'a> {
        let (namespace, own) = named(deployment);
        let spec = &deployment["spec"]["template"]["spec"];
        let labels = &spec["nodeTemplate"]["metadata"]["labels"];
        let first = |keys: &[&str]| keys.iter().find_map(|key| labels[*key].as_str()).unwrap_or_default();
        let class = spec["class"]["name"].as_str().unwrap_or_default();
        let of_class = |other: &&Value| name(other) == class && named(other).0 == namespace;
        let machines = Machines {
            deployment,
            class: found.machine_classes.iter().find(of_class),
            name: if namespace.is_empty() { own.to_owned() } else { format!("{namespace}.{own}") },
            pool: first(&POOLS),
            zone: first(&ZONES),
            nodes: Vec::new(),
        };
        let nodes = found.nodes.iter().filter(|node| machines.has(node)).collect();
        Machines { nodes, ..machines }
    }

    /// Whether a node is of its pool and zone.
    fn has(&self, node: &Value) -> bool {
        let first = |keys: &[&str]| keys.iter().find_map(|key| label(node, key));
        !self.pool.is_empty()
            && first(&POOLS) == Some(self.pool)
            && (self.zone.is_empty() || first(&ZONES).is_none_or(|zone| zone == self.zone))
    }

    /// What its machines are like; `None` if nothing says.
    fn template(&self, guessed: &mut Guessed) -> Option<Value> {
        let described = self.class.map(|class| &class["nodeTemplate"]);
        let capacity = described.map(|template| amounts(&template["capacity"])).unwrap_or_default();
        let model = nodes::model_of(&self.nodes);
        if capacity.is_empty() && model.is_none() {
            return None;
        }
        let mut outline = Outline { labels: self.labels(), ..Outline::default() };
        if let Some(template) = described {
            for (key, field) in [(INSTANCE_TYPE, "instanceType"), (REGION, "region"), (ZONE, "zone")] {
                outline.label(key, template[field].as_str().unwrap_or_default());
            }
        }
        outline.label("kubernetes.io/os", "linux");
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
        Some(outline.node(&self.name))
    }

    /// Those of the deployment, else those of the class that could be labels of a node.
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

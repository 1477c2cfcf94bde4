//! What a pod asks for, as Kubernetes adds it up, and its quality-of-service class.
//!
//! The sums are exact quantities; what a scheduler compares are the integers made of them afterwards.

mod list;

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer};

use crate::quantity::{Bytes, Format, MilliCpu, Quantity};

pub use list::{CPU, EPHEMERAL_STORAGE, MEMORY, ResourceList};

/// The parts of a pod that say what it asks for: a view of its JSON.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct PodResources<'a> {
    #[serde(borrow, default, deserialize_with = "null_is_nothing")]
    spec: Spec<'a>,
    #[serde(borrow, default, deserialize_with = "null_is_nothing")]
    status: Status<'a>,
}

/// What counts when a pod's resources are added up.
///
/// The constants are the ways of kube-scheduler 1.36 with its default feature gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// While a resize is under way, the larger of what is asked for, granted and in effect.
    pub status: bool,
    /// The pod's own `spec.resources` replace the sums over its containers.
    pub pod_level: bool,
    /// What the runtime itself needs is added.
    pub overhead: bool,
    /// A container that says nothing about cpu counts as 100m. An explicit zero stays zero.
    pub assume_cpu: bool,
    /// A container that says nothing about memory counts as 200Mi. An explicit zero stays zero.
    pub assume_memory: bool,
}

/// What a pod takes of the node it runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken<'a> {
    /// What it asks for.
    pub requests: ResourceList<'a>,
    /// Its cpu when nodes are scored: something even if it asks for none.
    pub scored_cpu: MilliCpu,
    /// Its memory when nodes are scored: something even if it asks for none.
    pub scored_memory: Bytes,
}

/// Who is evicted first when a node runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QosClass {
    /// It asks for no cpu and no memory.
    BestEffort,
    /// It asks for some.
    Burstable,
    /// It asks for exactly its limits, and has limits on both everywhere.
    Guaranteed,
}

// === impl PodResources ===

impl<'a> PodResources<'a> {
    /// What the pod asks for.
    pub fn requests(&self, counting: Counting) -> ResourceList<'a> {
        let mut sum = self.over_containers(Side::Requests, counting);
        self.apply_pod_level(Side::Requests, counting, &mut sum);
        if counting.overhead {
            sum.add(&self.spec.overhead);
        }
        sum
    }

    /// The limits of the pod; a resource that is not limited anywhere is not named.
    pub fn limits(&self, counting: Counting) -> ResourceList<'a> {
        let mut sum = self.over_containers(Side::Limits, counting);
        self.apply_pod_level(Side::Limits, counting, &mut sum);
        if counting.overhead {
            for (name, quantity) in &mut sum.0 {
                if let Some(overhead) = self.spec.overhead.get(name).filter(|_| !quantity.is_zero()) {
                    *quantity += overhead;
                }
            }
        }
        sum
    }

    /// What the pod takes of the node it runs on, in kube-scheduler's books.
    pub fn taken(&self) -> Taken<'a> {
        let requests = self.requests(Counting::RUNNING);
        let pod_level = self.spec.resources.as_ref();
        let pod_level =
            pod_level.is_some_and(|own| own.requests.iter().any(|(name, _)| allowed_for_pods(name)));
        // Where the pod as a whole asks for something, its containers need not.
        let scored = self.requests(Counting {
            assume_cpu: !pod_level || requests.get(CPU).is_none(),
            assume_memory: !pod_level || requests.get(MEMORY).is_none(),
            ..Counting::RUNNING
        });
        Taken { scored_cpu: scored.cpu(), scored_memory: scored.memory(), requests }
    }

    /// The quality-of-service class that follows from its resources.
    pub fn qos_class(&self) -> QosClass {
        let containers = self.spec.containers.iter().chain(&self.spec.init_containers);
        let (parts, mut guaranteed): (Vec<&Resources<'a>>, bool) = match &self.spec.resources {
            // A pod without any limit of its own fails later: its requests meet none.
            Some(own) => (vec![own], own.limits.0.is_empty() || limits_both(own)),
            None => {
                let parts: Vec<_> = containers.map(|container| &container.resources).collect();
                let guaranteed = parts.iter().all(|part| limits_both(part));
                (parts, guaranteed)
            }
        };
        let (mut requests, mut limits) = (ResourceList::default(), ResourceList::default());
        for part in parts {
            requests.add(&compute_only(&part.requests));
            limits.add(&compute_only(&part.limits));
        }
        if requests.0.is_empty() && limits.0.is_empty() {
            return QosClass::BestEffort;
        }
        guaranteed &= requests == limits;
        if guaranteed { QosClass::Guaranteed } else { QosClass::Burstable }
    }

    fn over_containers(&self, side: Side, counting: Counting) -> ResourceList<'a> {
        let mut total = ResourceList::default();
        for container in &self.spec.containers {
            total.add(&self.of_container(container, side, counting, counting.status));
        }
        // Init containers run one after the other, each beside the sidecars started before it.
        let (mut sidecars, mut highest) = (ResourceList::default(), ResourceList::default());
        for container in &self.spec.init_containers {
            let sidecar = container.restart_policy.as_deref() == Some("Always");
            let mut own = self.of_container(container, side, counting, counting.status && sidecar);
            if sidecar {
                total.add(&own);
                sidecars.add(&own);
                highest.raise(&sidecars);
            } else {
                own.add(&sidecars);
                highest.raise(&own);
            }
        }
        total.raise(&highest);
        total
    }

    fn of_container(
        &self,
        container: &Container<'a>,
        side: Side,
        counting: Counting,
        status: bool,
    ) -> ResourceList<'a> {
        let asked = container.resources.side(side);
        let found = if status { self.status.of(&container.name) } else { None };
        let mut own = match found.and_then(|found| Some((found, found.resources.as_ref()?))) {
            Some((found, actual)) => self.status.effective(side, asked, actual, &found.allocated_resources),
            None => asked.clone(),
        };
        if side == Side::Requests {
            if counting.assume_cpu && own.get(CPU).is_none() {
                own.set(CPU.into(), Quantity::new(100, -3, Format::DecimalSi));
            }
            if counting.assume_memory && own.get(MEMORY).is_none() {
                own.set(MEMORY.into(), Quantity::new(200 << 20, 0, Format::DecimalSi));
            }
        }
        own
    }

    fn apply_pod_level(&self, side: Side, counting: Counting, sum: &mut ResourceList<'a>) {
        let Some(own) = self.spec.resources.as_ref().filter(|_| counting.pod_level) else { return };
        let actual = self.status.resources.as_ref().filter(|_| counting.status);
        let asked = own.side(side);
        let effective = actual
            .map(|actual| self.status.effective(side, asked, actual, &self.status.allocated_resources))
            // To Kubernetes a list of limits that is absent is no list; one of requests is an empty one.
            .filter(|effective| side == Side::Requests || !effective.0.is_empty());
        for (name, quantity) in asked.0.iter().filter(|(name, _)| allowed_for_pods(name)) {
            let quantity = match &effective {
                Some(effective) => effective.get(name).cloned().unwrap_or_default(),
                None => quantity.clone(),
            };
            sum.set(name.clone(), quantity);
        }
    }
}

// === impl Counting ===

impl Counting {
    /// A pod that waits for a node: what the node must have left.
    pub const INCOMING: Counting =
        Counting { status: false, pod_level: true, overhead: true, assume_cpu: false, assume_memory: false };

    /// A pod on a node: what it takes there.
    pub const RUNNING: Counting = Counting { status: true, ..Counting::INCOMING };

    /// A pod that waits, when nodes are scored by what is left on them. That the pod's own resources do not count
    /// here is an oversight of kube-scheduler, and so part of its decisions.
    pub const SCORED: Counting =
        Counting { pod_level: false, assume_cpu: true, assume_memory: true, ..Counting::INCOMING };
}

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QosClass::BestEffort => "BestEffort",
            QosClass::Burstable => "Burstable",
            QosClass::Guaranteed => "Guaranteed",
        })
    }
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow, default, deserialize_with = "null_is_nothing")]
    containers: Vec<Container<'a>>,
    #[serde(borrow, default, deserialize_with = "null_is_nothing")]
    init_containers: Vec<Container<'a>>,
    #[serde(borrow, default)]
    overhead: ResourceList<'a>,
    #[serde(borrow, default)]
    resources: Option<Resources<'a>>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "null_is_nothing")]
    resources: Resources<'a>,
    #[serde(borrow, default)]
    restart_policy: Option<Cow<'a, str>>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
struct Resources<'a> {
    #[serde(borrow, default)]
    requests: ResourceList<'a>,
    #[serde(borrow, default)]
    limits: ResourceList<'a>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow, default, deserialize_with = "null_is_nothing")]
    conditions: Vec<Condition<'a>>,
    #[serde(borrow, default, deserialize_with = "null_is_nothing")]
    container_statuses: Vec<ContainerStatus<'a>>,
    #[serde(borrow, default, deserialize_with = "null_is_nothing")]
    init_container_statuses: Vec<ContainerStatus<'a>>,
    #[serde(borrow, default)]
    resources: Option<Resources<'a>>,
    #[serde(borrow, default)]
    allocated_resources: ResourceList<'a>,
}

#[derive(Clone, Debug, serde::Deserialize)]
struct Condition<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
}

#[derive(Clone, Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    resources: Option<Resources<'a>>,
    #[serde(borrow, default)]
    allocated_resources: ResourceList<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Requests,
    Limits,
}

impl<'a> Resources<'a> {
    fn side(&self, side: Side) -> &ResourceList<'a> {
        match side {
            Side::Requests => &self.requests,
            Side::Limits => &self.limits,
        }
    }
}

impl<'a> Status<'a> {
    /// The status of that container. Of several with one name the last counts, init containers' after the others'.
    fn of(&self, name: &str) -> Option<&ContainerStatus<'a>> {
        let mut all = self.container_statuses.iter().chain(&self.init_container_statuses).rev();
        all.find(|status| status.name == name)
    }

    /// What counts while a resize may be under way. One that can never be granted no longer counts.
    fn effective(
        &self,
        side: Side,
        asked: &ResourceList<'a>,
        actual: &Resources<'a>,
        allocated: &ResourceList<'a>,
    ) -> ResourceList<'a> {
        let pending = self.conditions.iter().find(|condition| condition.kind == "PodResizePending");
        let hopeless = pending.is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible"));
        let mut result = actual.side(side).clone();
        // Only requests are allocated before they are in effect.
        if side == Side::Requests {
            result.raise(allocated);
        }
        if !hopeless {
            result.raise(asked);
        }
        result
    }
}

/// Whether a pod as a whole can ask for this; anything else in `spec.resources` is ignored.
fn allowed_for_pods(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with("hugepages-")
}

fn limits_both(part: &Resources<'_>) -> bool {
    [CPU, MEMORY].iter().all(|name| part.limits.get(name).is_some_and(|limit| limit.sign() > 0))
}

/// The cpu and memory of a list, where there is any of it.
fn compute_only<'a>(list: &ResourceList<'a>) -> ResourceList<'a> {
    let counts =
        |(name, quantity): &&(Cow<'a, str>, Quantity)| (name == CPU || name == MEMORY) && quantity.sign() > 0;
    ResourceList(list.0.iter().filter(counts).cloned().collect())
}

fn null_is_nothing<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const VECTORS: &str = include_str!("../../../../testdata/kubernetes/requests.jsonl");

    fn shown(list: &ResourceList<'_>) -> Value {
        list.iter().map(|(name, quantity)| (name.to_owned(), json!(quantity.to_string()))).collect()
    }

    #[test]
    fn sums_are_those_of_kubernetes() {
        let bare = Counting { overhead: false, ..Counting::RUNNING };
        let ways = [
            ("incoming", Counting::INCOMING),
            ("running", Counting::RUNNING),
            ("scored", Counting::SCORED),
            ("bare", bare),
        ];
        let mut count = 0;
        for line in VECTORS.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let text = row["pod"].to_string();
            let pod: PodResources<'_> = serde_json::from_str(&text).unwrap();
            for (name, counting) in ways {
                assert_eq!(
                    shown(&pod.requests(counting)),
                    row["requests"][name],
                    "{name} requests of {text}"
                );
                if let Some(expected) = row["limits"].get(name) {
                    assert_eq!(&shown(&pod.limits(counting)), expected, "{name} limits of {text}");
                }
            }
            let taken = pod.taken();
            let found = json!({
                "cpu": taken.requests.cpu().0,
                "memory": taken.requests.memory().0,
                "ephemeral": taken.requests.ephemeral_storage().0,
                "nonZeroCpu": taken.scored_cpu.0,
                "nonZeroMemory": taken.scored_memory.0,
            });
            assert_eq!(found, row["node"], "{text}");
            assert_eq!(pod.qos_class().to_string(), row["qos"], "{text}");
            count += 1;
        }
        assert!(count >= 150, "{count}");
    }

    #[test]
    fn a_bad_quantity_is_named() {
        let error =
            serde_json::from_str::<PodResources<'_>>(r#"{"spec":{"overhead":{"cpu":"much"}}}"#).unwrap_err();
        assert!(error.to_string().contains("\"much\" is not a quantity"), "{error}");
    }
}

//! A pod's requests and limits, as Kubernetes aggregates them, and its quality-of-service class.
//!
//! The sums are exact quantities; a scheduler compares integers derived from them.

mod list;

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer};

use crate::quantity::{Bytes, Format, MilliCpu, Quantity};

pub use list::{CPU, EPHEMERAL_STORAGE, MEMORY, ResourceList};

/// The resource-related fields of a pod: a view of its JSON.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct PodResources<'a> {
    #[serde(borrow, default, deserialize_with = "null_is_nothing")]
    spec: Spec<'a>,
    #[serde(borrow, default, deserialize_with = "null_is_nothing")]
    status: Status<'a>,
}

/// Options for aggregating a pod's resources, after Go's `PodResourcesOptions`.
///
/// The constants are those of kube-scheduler 1.36 with its default feature gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodResourcesOptions {
    /// During a resize, use the maximum of the requested, allocated and actual resources.
    pub use_status_resources: bool,
    /// The pod's own `spec.resources` replace the sums over its containers.
    pub use_pod_level_resources: bool,
    /// Adds the RuntimeClass overhead.
    pub include_overhead: bool,
    /// A container without a cpu request counts as 100m. An explicit zero stays zero.
    pub default_missing_cpu: bool,
    /// A container without a memory request counts as 200Mi. An explicit zero stays zero.
    pub default_missing_memory: bool,
}

/// The resources that a pod occupies on its node, after kube-scheduler's `calculateResource`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalculatedResource<'a> {
    /// Its requests.
    pub requests: ResourceList<'a>,
    /// Its cpu request for scoring: non-zero even if it requests none.
    pub non_zero_cpu: MilliCpu,
    /// Its memory request for scoring: non-zero even if it requests none.
    pub non_zero_memory: Bytes,
}

/// The quality-of-service class, which determines eviction order under node pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QosClass {
    /// It requests neither cpu nor memory.
    BestEffort,
    /// It requests some cpu or memory.
    Burstable,
    /// Its requests equal its limits, and all containers have limits for cpu and memory.
    Guaranteed,
}

// === impl PodResources ===

impl<'a> PodResources<'a> {
    /// The pod's requests.
    pub fn requests(&self, counting: PodResourcesOptions) -> ResourceList<'a> {
        let mut sum = self.aggregate_containers(RequestsOrLimits::Requests, counting);
        self.apply_pod_level(RequestsOrLimits::Requests, counting, &mut sum);
        if counting.include_overhead {
            sum.add(&self.spec.overhead);
        }
        sum
    }

    /// The pod's limits; a resource that is limited nowhere is absent.
    pub fn limits(&self, counting: PodResourcesOptions) -> ResourceList<'a> {
        let mut sum = self.aggregate_containers(RequestsOrLimits::Limits, counting);
        self.apply_pod_level(RequestsOrLimits::Limits, counting, &mut sum);
        if counting.include_overhead {
            for (name, quantity) in &mut sum.0 {
                if let Some(overhead) = self.spec.overhead.get(name).filter(|_| !quantity.is_zero()) {
                    *quantity += overhead;
                }
            }
        }
        sum
    }

    /// The resources that the pod occupies on its node, as kube-scheduler accounts for them.
    pub fn calculate_resource(&self) -> CalculatedResource<'a> {
        let requests = self.requests(PodResourcesOptions::RUNNING);
        let pod_level = self.spec.resources.as_ref();
        let pod_level = pod_level
            .is_some_and(|own| own.requests.iter().any(|(name, _)| is_supported_pod_level_resource(name)));
        // If the pod itself requests a resource, its containers need not.
        let scored = self.requests(PodResourcesOptions {
            default_missing_cpu: !pod_level || requests.get(CPU).is_none(),
            default_missing_memory: !pod_level || requests.get(MEMORY).is_none(),
            ..PodResourcesOptions::RUNNING
        });
        CalculatedResource { non_zero_cpu: scored.cpu(), non_zero_memory: scored.memory(), requests }
    }

    /// The quality-of-service class derived from its resources.
    pub fn qos_class(&self) -> QosClass {
        let containers = self.spec.containers.iter().chain(&self.spec.init_containers);
        let (parts, mut guaranteed): (Vec<&Resources<'a>>, bool) = match &self.spec.resources {
            // A pod-level `resources` without any limits fails the comparison of requests and limits below.
            Some(own) => (vec![own], own.limits.0.is_empty() || limits_cpu_and_memory(own)),
            None => {
                let parts: Vec<_> = containers.map(|container| &container.resources).collect();
                let guaranteed = parts.iter().all(|part| limits_cpu_and_memory(part));
                (parts, guaranteed)
            }
        };
        let (mut requests, mut limits) = (ResourceList::default(), ResourceList::default());
        for part in parts {
            requests.add(&non_zero_cpu_and_memory(&part.requests));
            limits.add(&non_zero_cpu_and_memory(&part.limits));
        }
        if requests.0.is_empty() && limits.0.is_empty() {
            return QosClass::BestEffort;
        }
        guaranteed &= requests == limits;
        if guaranteed { QosClass::Guaranteed } else { QosClass::Burstable }
    }

    fn aggregate_containers(
        &self,
        side: RequestsOrLimits,
        counting: PodResourcesOptions,
    ) -> ResourceList<'a> {
        let mut total = ResourceList::default();
        for container in &self.spec.containers {
            total.add(&self.container_resources(container, side, counting, counting.use_status_resources));
        }
        // Init containers run one after the other, each beside the sidecars started before it.
        let (mut sidecars, mut highest) = (ResourceList::default(), ResourceList::default());
        for container in &self.spec.init_containers {
            let sidecar = container.restart_policy.as_deref() == Some("Always");
            let mut own =
                self.container_resources(container, side, counting, counting.use_status_resources && sidecar);
            if sidecar {
                total.add(&own);
                sidecars.add(&own);
                highest.raise_to_max(&sidecars);
            } else {
                own.add(&sidecars);
                highest.raise_to_max(&own);
            }
        }
        total.raise_to_max(&highest);
        total
    }

    fn container_resources(
        &self,
        container: &Container<'a>,
        side: RequestsOrLimits,
        counting: PodResourcesOptions,
        status: bool,
    ) -> ResourceList<'a> {
        let spec_resources = container.resources.side(side);
        let found = if status { self.status.of(&container.name) } else { None };
        let mut own = match found.and_then(|found| Some((found, found.resources.as_ref()?))) {
            Some((found, actual)) => {
                self.status.effective(side, spec_resources, actual, &found.allocated_resources)
            }
            None => spec_resources.clone(),
        };
        if side == RequestsOrLimits::Requests {
            if counting.default_missing_cpu && own.get(CPU).is_none() {
                own.set(CPU.into(), Quantity::new(100, -3, Format::DecimalSi));
            }
            if counting.default_missing_memory && own.get(MEMORY).is_none() {
                own.set(MEMORY.into(), Quantity::new(200 << 20, 0, Format::DecimalSi));
            }
        }
        own
    }

    fn apply_pod_level(
        &self,
        side: RequestsOrLimits,
        counting: PodResourcesOptions,
        sum: &mut ResourceList<'a>,
    ) {
        let Some(own) = self.spec.resources.as_ref().filter(|_| counting.use_pod_level_resources) else {
            return;
        };
        let actual = self.status.resources.as_ref().filter(|_| counting.use_status_resources);
        let spec_resources = own.side(side);
        let effective = actual
            .map(|actual| {
                self.status.effective(side, spec_resources, actual, &self.status.allocated_resources)
            })
            // In Kubernetes an absent list of limits is nil, but an absent list of requests is an empty one.
            .filter(|effective| side == RequestsOrLimits::Requests || !effective.0.is_empty());
        for (name, quantity) in
            spec_resources.0.iter().filter(|(name, _)| is_supported_pod_level_resource(name))
        {
            let quantity = match &effective {
                Some(effective) => effective.get(name).cloned().unwrap_or_default(),
                None => quantity.clone(),
            };
            sum.set(name.clone(), quantity);
        }
    }
}

// === impl PodResourcesOptions ===

impl PodResourcesOptions {
    /// For a pending pod: what the node must have free.
    pub const INCOMING: PodResourcesOptions = PodResourcesOptions {
        use_status_resources: false,
        use_pod_level_resources: true,
        include_overhead: true,
        default_missing_cpu: false,
        default_missing_memory: false,
    };

    /// For a pod on a node: what it occupies there.
    pub const RUNNING: PodResourcesOptions =
        PodResourcesOptions { use_status_resources: true, ..PodResourcesOptions::INCOMING };

    /// For a pending pod, when nodes are scored by free resources. That pod-level resources are ignored here is an
    /// oversight of kube-scheduler, and therefore part of its decisions.
    pub const SCORED: PodResourcesOptions = PodResourcesOptions {
        use_pod_level_resources: false,
        default_missing_cpu: true,
        default_missing_memory: true,
        ..PodResourcesOptions::INCOMING
    };
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
enum RequestsOrLimits {
    Requests,
    Limits,
}

impl<'a> Resources<'a> {
    fn side(&self, side: RequestsOrLimits) -> &ResourceList<'a> {
        match side {
            RequestsOrLimits::Requests => &self.requests,
            RequestsOrLimits::Limits => &self.limits,
        }
    }
}

impl<'a> Status<'a> {
    /// The status of that container. If several have the same name the last counts, init containers after the others.
    fn of(&self, name: &str) -> Option<&ContainerStatus<'a>> {
        let mut all = self.container_statuses.iter().chain(&self.init_container_statuses).rev();
        all.find(|status| status.name == name)
    }

    /// The effective resources while a resize may be in progress. An infeasible resize is ignored.
    fn effective(
        &self,
        side: RequestsOrLimits,
        spec_resources: &ResourceList<'a>,
        actual: &Resources<'a>,
        allocated: &ResourceList<'a>,
    ) -> ResourceList<'a> {
        let pending = self.conditions.iter().find(|condition| condition.kind == "PodResizePending");
        let hopeless = pending.is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible"));
        let mut result = actual.side(side).clone();
        // Only requests are allocated before they take effect.
        if side == RequestsOrLimits::Requests {
            result.raise_to_max(allocated);
        }
        if !hopeless {
            result.raise_to_max(spec_resources);
        }
        result
    }
}

/// Whether this resource is supported at pod level; others in `spec.resources` are ignored.
fn is_supported_pod_level_resource(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with("hugepages-")
}

fn limits_cpu_and_memory(part: &Resources<'_>) -> bool {
    [CPU, MEMORY].iter().all(|name| part.limits.get(name).is_some_and(|limit| limit.sign() > 0))
}

/// The non-zero cpu and memory of a list.
fn non_zero_cpu_and_memory<'a>(list: &ResourceList<'a>) -> ResourceList<'a> {
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
        let bare = PodResourcesOptions { include_overhead: false, ..PodResourcesOptions::RUNNING };
        let ways = [
            ("incoming", PodResourcesOptions::INCOMING),
            ("running", PodResourcesOptions::RUNNING),
            ("scored", PodResourcesOptions::SCORED),
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
            let pod_resource = pod.calculate_resource();
            let found = json!({
                "cpu": pod_resource.requests.cpu().0,
                "memory": pod_resource.requests.memory().0,
                "ephemeral": pod_resource.requests.ephemeral_storage().0,
                "nonZeroCpu": pod_resource.non_zero_cpu.0,
                "nonZeroMemory": pod_resource.non_zero_memory.0,
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
        assert!(error.to_string().contains("invalid quantity \"much\""), "{error}");
    }
}

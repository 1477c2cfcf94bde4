//! A pod's requests and limits, as Kubernetes aggregates them, and its quality-of-service class.
//!
//! The sums are exact quantities; a scheduler compares integers derived from them.

use std::fmt;

use crate::objects::{
    Container, ContainerStatus, PodConditionType, PodSpec, PodStatus, ResourceRequirements,
};
use crate::quantity::{Bytes, Format, MilliCpu, Quantity};

pub use crate::resource_list::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, ResourceList};

/// The spec and status of a pod, whose resources are aggregated.
#[derive(Clone, Copy, Debug)]
pub struct PodResources<'a> {
    /// The pod's spec.
    pub spec: &'a PodSpec,
    /// The pod's status, which matters during a resize.
    pub status: &'a PodStatus,
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
pub struct CalculatedResource {
    /// Its requests.
    pub requests: ResourceList,
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

impl PodResources<'_> {
    /// The pod's requests.
    pub fn requests(&self, counting: PodResourcesOptions) -> ResourceList {
        let mut sum = self.aggregate_containers(RequestsOrLimits::Requests, counting);
        self.apply_pod_level(RequestsOrLimits::Requests, counting, &mut sum);
        if counting.include_overhead {
            sum.add(&self.spec.overhead);
        }
        sum
    }

    /// The pod's limits; a resource that is limited nowhere is absent.
    pub fn limits(&self, counting: PodResourcesOptions) -> ResourceList {
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
    pub fn calculate_resource(&self) -> CalculatedResource {
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
        let (parts, mut guaranteed): (Vec<&ResourceRequirements>, bool) = match &self.spec.resources {
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

    fn aggregate_containers(&self, side: RequestsOrLimits, counting: PodResourcesOptions) -> ResourceList {
        let mut total = ResourceList::default();
        for container in &self.spec.containers {
            total.add(&self.container_resources(container, side, counting, counting.use_status_resources));
        }
        // Init containers run one after the other, each beside the sidecars started before it.
        let (mut sidecars, mut highest) = (ResourceList::default(), ResourceList::default());
        for container in &self.spec.init_containers {
            let sidecar = container.is_sidecar();
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
        container: &Container,
        side: RequestsOrLimits,
        counting: PodResourcesOptions,
        status: bool,
    ) -> ResourceList {
        let spec_resources = side.of(&container.resources);
        let found = if status { self.container_status(&container.name) } else { None };
        let mut own = match found.and_then(|found| Some((found, found.resources.as_ref()?))) {
            Some((found, actual)) => self.effective(side, spec_resources, actual, &found.allocated_resources),
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

    fn apply_pod_level(&self, side: RequestsOrLimits, counting: PodResourcesOptions, sum: &mut ResourceList) {
        let Some(own) = self.spec.resources.as_ref().filter(|_| counting.use_pod_level_resources) else {
            return;
        };
        let actual = self.status.resources.as_ref().filter(|_| counting.use_status_resources);
        let spec_resources = side.of(own);
        let effective = actual
            .map(|actual| self.effective(side, spec_resources, actual, &self.status.allocated_resources))
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestsOrLimits {
    Requests,
    Limits,
}

impl RequestsOrLimits {
    fn of(self, resources: &ResourceRequirements) -> &ResourceList {
        match self {
            RequestsOrLimits::Requests => &resources.requests,
            RequestsOrLimits::Limits => &resources.limits,
        }
    }
}

impl PodResources<'_> {
    /// The status of that container. If several have the same name the last counts, init containers after the others.
    fn container_status(&self, name: &str) -> Option<&ContainerStatus> {
        let PodStatus { container_statuses, init_container_statuses, .. } = self.status;
        let mut all = container_statuses.iter().chain(&**init_container_statuses).rev();
        all.find(|status| *status.name == *name)
    }

    /// The effective resources while a resize may be in progress. An infeasible resize is ignored.
    fn effective(
        &self,
        side: RequestsOrLimits,
        spec_resources: &ResourceList,
        actual: &ResourceRequirements,
        allocated: &ResourceList,
    ) -> ResourceList {
        let pending = self.status.condition(PodConditionType::PodResizePending);
        let is_infeasible = pending.is_some_and(|condition| condition.reason == "Infeasible");
        let mut result = side.of(actual).clone();
        // Only requests are allocated before they take effect.
        if side == RequestsOrLimits::Requests {
            result.raise_to_max(allocated);
        }
        if !is_infeasible {
            result.raise_to_max(spec_resources);
        }
        result
    }
}

/// Whether this resource is supported at pod level; others in `spec.resources` are ignored.
fn is_supported_pod_level_resource(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with("hugepages-")
}

fn limits_cpu_and_memory(part: &ResourceRequirements) -> bool {
    [CPU, MEMORY].iter().all(|name| part.limits.get(name).is_some_and(|limit| limit.sign() > 0))
}

/// The non-zero cpu and memory of a list.
fn non_zero_cpu_and_memory(list: &ResourceList) -> ResourceList {
    let counts = |name: &str, quantity: &Quantity| (name == CPU || name == MEMORY) && quantity.sign() > 0;
    ResourceList(list.0.iter().filter(|(name, quantity)| counts(name, quantity)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const VECTORS: &str = include_str!("../../../testdata/kubernetes/requests.jsonl");

    fn shown(list: &ResourceList) -> Value {
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
            let spec = PodSpec::parse(&row["pod"]["spec"].to_string()).unwrap();
            let status: Option<PodStatus> = serde_json::from_value(row["pod"]["status"].clone()).unwrap();
            let pod = PodResources { spec: &spec, status: &status.unwrap_or_default() };
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
        let error = PodSpec::parse(r#"{"overhead":{"cpu":"much"}}"#).unwrap_err();
        assert!(error.contains("invalid quantity \"much\""), "{error}");
    }
}

//! The request of a pod: the sum of its containers, or what its init containers need, and GPUs by annotations.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::objects::{Container, PodView};
use kubernetes::quantity::Quantity;

use super::gpu::{GpuRequirement, RequestType};
use super::resources::{
    CPU, GPU, MEMORY, PODS, ResourceNames, ResourceVector, is_gpu_resource, is_mig_resource,
    is_scalar_resource, is_storage_resource,
};

/// The request of a pod.
#[derive(Clone, Debug)]
pub(crate) struct PodRequest {
    pub request_type: RequestType,
    pub vector: ResourceVector,
    pub gpu: GpuRequirement,
    /// MIG instances are requested by an annotation.
    pub is_legacy_mig: bool,
}

const FRACTION_ANNOTATION: &str = "gpu-fraction";
const MEMORY_ANNOTATION: &str = "gpu-memory";
const DEVICES_ANNOTATION: &str = "gpu-fraction-num-devices";

/// The devices that a pod may share: far more than a node has.
const MAX_FRACTION_DEVICES: i64 = 4096;

/// Amounts of resources other than GPUs, and GPUs.
#[derive(Clone, Debug, Default)]
struct Amounts {
    cpu: f64,
    memory: f64,
    scalars: BTreeMap<Arc<str>, i64>,
    gpu: GpuRequirement,
}

impl PodRequest {
    /// The request of a pod; the error says what is wrong with an annotation.
    pub(crate) fn new(pod: &PodView, names: &ResourceNames) -> Result<PodRequest, String> {
        let spec = &pod.spec;
        let mut amounts = Amounts::of_containers(&spec.containers);
        let (mut sidecars, mut peak) = (Amounts::default(), Amounts::default());
        for container in &spec.init_containers {
            let mut own = Amounts::of_containers(std::slice::from_ref(container));
            if container.is_sidecar() {
                sidecars.add(&own);
            } else {
                own.add(&sidecars);
                peak.raise_to(&own);
            }
        }
        amounts.add(&sidecars);
        amounts.raise_to(&peak);
        let overhead = Amounts::of(spec.overhead.iter().map(|(name, quantity)| (name, quantity.clone())));
        amounts.add_without_gpus(&overhead);

        let mut vector = ResourceVector::zero(names);
        for (name, amount) in &amounts.scalars {
            if let Some(index) = names.index(name) {
                vector.set(index, *amount as f64);
            }
        }
        vector.set(CPU, amounts.cpu);
        vector.set(MEMORY, amounts.memory);
        vector.set(PODS, 1.0);
        let (request_type, gpu, is_legacy_mig) = with_annotations(pod, amounts.gpu)?;
        vector.set(GPU, gpu.gpus());
        for (name, count) in &gpu.mig {
            if let Some(index) = names.index(name) {
                vector.set(index, *count as f64);
            }
        }
        Ok(PodRequest { request_type, vector, gpu, is_legacy_mig })
    }
}

// === impl Amounts ===

impl Amounts {
    fn of_containers(containers: &[Container]) -> Amounts {
        let mut sums: BTreeMap<&str, Quantity> = BTreeMap::new();
        for container in containers {
            for (name, quantity) in container.resources.requests.iter() {
                match sums.get_mut(name) {
                    Some(sum) => *sum += quantity,
                    None => drop(sums.insert(name, quantity.clone())),
                }
            }
        }
        Amounts::of(sums.into_iter())
    }

    fn of<'q>(list: impl Iterator<Item = (&'q str, Quantity)>) -> Amounts {
        let mut amounts = Amounts::default();
        for (name, quantity) in list {
            match name {
                "cpu" => amounts.cpu += quantity.milli_value() as f64,
                "memory" => amounts.memory += quantity.value() as f64,
                name if is_gpu_resource(name) => {
                    let count = quantity.value();
                    if count >= 1 {
                        amounts.gpu.count = amounts.gpu.count.wrapping_add(count);
                        amounts.gpu.portion = 1.0;
                    } else {
                        amounts.gpu.portion += count as f64;
                        amounts.gpu.count = 1;
                    }
                }
                name if is_mig_resource(name) => amounts.gpu.add_mig(&name.into(), quantity.value()),
                name if is_scalar_resource(name) => amounts.add_scalar(name, quantity.milli_value()),
                name if is_storage_resource(name) => amounts.add_scalar(name, quantity.value()),
                _ => {}
            }
        }
        amounts
    }

    fn add_scalar(&mut self, name: &str, amount: i64) {
        let sum = self.scalars.entry(name.into()).or_default();
        *sum = sum.wrapping_add(amount);
    }

    /// Adds other amounts. GPU requests that cannot be combined are left as they are, as in the original.
    fn add(&mut self, other: &Amounts) {
        self.add_without_gpus(other);
        let _ = self.gpu.add(&other.gpu);
    }

    fn add_without_gpus(&mut self, other: &Amounts) {
        self.cpu += other.cpu;
        self.memory += other.memory;
        for (name, amount) in &other.scalars {
            self.add_scalar(name, *amount);
        }
    }

    fn raise_to(&mut self, other: &Amounts) {
        self.cpu = self.cpu.max(other.cpu);
        self.memory = self.memory.max(other.memory);
        for (name, amount) in &other.scalars {
            let own = self.scalars.entry(name.clone()).or_insert(*amount);
            *own = (*own).max(*amount);
        }
        let _ = self.gpu.raise_to(&other.gpu);
    }
}

/// The GPUs that a pod requests, by annotations or else by its containers.
fn with_annotations(
    pod: &PodView,
    of_containers: GpuRequirement,
) -> Result<(RequestType, GpuRequirement, bool), String> {
    let (mut request_type, mut gpu) = (RequestType::Regular, of_containers);
    let annotation = |name: &str| pod.annotations.get(name);
    let memory = annotation(MEMORY_ANNOTATION).and_then(|text| text.parse::<i64>().ok()).unwrap_or_default();
    if memory > 0 {
        (request_type, gpu) = (RequestType::GpuMemory, GpuRequirement::of_gpus(0.0, memory));
    }
    let fraction = annotation(FRACTION_ANNOTATION).and_then(|text| text.parse::<f64>().ok());
    let fraction = fraction.filter(|fraction| fraction.is_finite()).unwrap_or_default();
    if fraction > 0.0 && fraction <= 1.0 {
        (request_type, gpu) = (RequestType::Fraction, GpuRequirement::of_gpus(fraction, 0));
    }
    if matches!(request_type, RequestType::Fraction | RequestType::GpuMemory)
        && let Some(devices) = annotation(DEVICES_ANNOTATION).and_then(|text| text.parse::<i64>().ok())
    {
        if !(0..=MAX_FRACTION_DEVICES).contains(&devices) {
            return Err(format!(
                "annotation {DEVICES_ANNOTATION}: {devices} devices: expected 0 to {MAX_FRACTION_DEVICES}"
            ));
        }
        gpu = GpuRequirement::of_devices(devices, fraction, memory.max(0));
    }
    let mut is_legacy_mig = false;
    for (name, text) in pod.annotations.iter().filter(|(name, _)| is_mig_resource(name)) {
        if let Ok(count) = text.parse::<i64>() {
            gpu = GpuRequirement::of_mig(vec![(name.clone(), count)]);
            is_legacy_mig = true;
        }
    }
    if !gpu.mig.is_empty() {
        request_type = RequestType::MigInstance;
    }
    Ok((request_type, gpu, is_legacy_mig))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Object;

    fn request(annotations: &str, spec: &str) -> Result<PodRequest, String> {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","annotations":{annotations}}},"spec":{spec}}}"#
        );
        let pod = PodView::parse(&Object::parse(&json).unwrap());
        assert_eq!(pod.read_error, None);
        PodRequest::new(&pod, &ResourceNames::default())
    }

    #[test]
    fn an_init_container_runs_beside_the_sidecars_before_it() {
        let container = |cpu: u32, more: &str| {
            format!(r#"{{"name":"c","resources":{{"requests":{{"cpu":"{cpu}"}}}}{more}}}"#)
        };
        let sidecar = container(2, r#","restartPolicy":"Always""#);
        let init = format!("[{},{sidecar},{}]", container(5, ""), container(4, ""));
        let spec = format!(
            r#"{{"containers":[{}],"initContainers":{init},"overhead":{{"cpu":"1"}}}}"#,
            container(1, "")
        );
        assert_eq!(request("{}", &spec).unwrap().vector.get(CPU), 7000.0);
    }

    #[test]
    fn annotations_replace_the_gpus_of_containers() {
        let spec = r#"{"containers":[{"resources":{"requests":{"nvidia.com/gpu":"2"}}}]}"#;
        let check = |annotations: &str, request_type: RequestType, gpus: f64, devices: i64| {
            let request = request(annotations, spec).unwrap();
            assert_eq!(request.request_type, request_type, "{annotations}");
            assert_eq!((request.vector.get(GPU), request.gpu.count), (gpus, devices), "{annotations}");
        };
        check("{}", RequestType::Regular, 2.0, 2);
        check(r#"{"gpu-fraction":"0.5"}"#, RequestType::Fraction, 0.5, 1);
        check(r#"{"gpu-fraction":"1.5"}"#, RequestType::Regular, 2.0, 2);
        check(r#"{"gpu-fraction":"nan"}"#, RequestType::Regular, 2.0, 2);
        check(r#"{"gpu-fraction":"0.3","gpu-fraction-num-devices":"3"}"#, RequestType::Fraction, 0.9, 3);
        check(r#"{"gpu-memory":"2000","gpu-fraction-num-devices":"2"}"#, RequestType::GpuMemory, 0.0, 2);
    }

    #[test]
    fn an_absurd_number_of_devices_is_refused() {
        let error = request(
            r#"{"gpu-fraction":"0.5","gpu-fraction-num-devices":"9000000000"}"#,
            r#"{"containers":[]}"#,
        );
        assert!(error.unwrap_err().contains("expected 0 to 4096"));
    }
}

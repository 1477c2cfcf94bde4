//! Resource vectors: an amount for each resource name of a cycle, as floating-point numbers like the original's.

use std::sync::Arc;

use kubernetes::quantity::Quantity;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The index of cpu, in millicores.
pub(crate) const CPU: usize = 0;
/// The index of memory, in bytes.
pub(crate) const MEMORY: usize = 1;
/// The index of GPUs, in devices.
pub(crate) const GPU: usize = 2;
/// The index of the number of pods.
pub(crate) const PODS: usize = 3;

/// The suffix of all resource names that count as GPUs.
const GPU_SUFFIX: &str = "gpu";
const MIG_PREFIX: &str = "nvidia.com/mig-";

/// The resource names of a cycle: nodes' allocatable resources and containers' requests.
#[derive(Clone, Debug)]
pub(crate) struct ResourceNames {
    names: Vec<Arc<str>>,
    indexes: FxHashMap<Arc<str>, usize>,
    /// The MIG profiles among them, with the GPUs that an instance counts.
    mig_profiles: Vec<(usize, f64)>,
}

/// An amount of each resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResourceVector(SmallVec<[f64; 6]>);

/// A MIG profile, such as `1g.5gb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MigProfile {
    /// The share of a GPU, in units that count as GPUs.
    pub gpus: i64,
    /// In gigabytes.
    pub memory: i64,
}

// === impl ResourceNames ===

impl ResourceNames {
    /// Adds a name. All names that end with `gpu` are one resource.
    pub(crate) fn add(&mut self, name: &str) {
        let name = normalized(name);
        if self.indexes.contains_key(name) {
            return;
        }
        let index = self.names.len();
        let name: Arc<str> = name.into();
        if let Some(profile) = MigProfile::parse(&name) {
            self.mig_profiles.push((index, profile.gpus as f64));
        }
        self.names.push(name.clone());
        self.indexes.insert(name, index);
    }

    /// The index of a resource in vectors.
    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        self.indexes.get(normalized(name)).copied()
    }

    /// All names, by index.
    pub(crate) fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// The number of names.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

impl Default for ResourceNames {
    fn default() -> ResourceNames {
        let mut names =
            ResourceNames { names: Vec::new(), indexes: FxHashMap::default(), mig_profiles: Vec::new() };
        for name in ["cpu", "memory", GPU_SUFFIX, "pods"] {
            names.add(name);
        }
        names
    }
}

// === impl ResourceVector ===

impl ResourceVector {
    /// Nothing of each.
    pub(crate) fn zero(names: &ResourceNames) -> ResourceVector {
        ResourceVector(SmallVec::from_elem(0.0, names.len()))
    }

    pub(crate) fn get(&self, index: usize) -> f64 {
        self.0[index]
    }

    pub(crate) fn set(&mut self, index: usize, amount: f64) {
        self.0[index] = amount;
    }

    pub(crate) fn add(&mut self, other: &ResourceVector) {
        for (amount, other) in self.0.iter_mut().zip(&other.0) {
            *amount += other;
        }
    }

    pub(crate) fn subtract(&mut self, other: &ResourceVector) {
        for (amount, other) in self.0.iter_mut().zip(&other.0) {
            *amount -= other;
        }
    }

    /// Raises each amount to the other's.
    pub(crate) fn raise_to(&mut self, other: &ResourceVector) {
        for (amount, other) in self.0.iter_mut().zip(&other.0) {
            if *other > *amount {
                *amount = *other;
            }
        }
    }

    /// Whether no amount exceeds the other's.
    pub(crate) fn is_at_most(&self, other: &ResourceVector) -> bool {
        !self.0.iter().zip(&other.0).any(|(amount, other)| amount > other)
    }

    /// The same for the sum of two vectors.
    pub(crate) fn is_at_most_sum(&self, a: &ResourceVector, b: &ResourceVector) -> bool {
        !self.0.iter().zip(a.0.iter().zip(&b.0)).any(|(amount, (a, b))| *amount > a + b)
    }

    /// GPUs, with those of MIG instances.
    pub(crate) fn total_gpus(&self, names: &ResourceNames) -> f64 {
        let mut total = self.get(GPU);
        for &(index, gpus) in &names.mig_profiles {
            total += gpus * self.get(index);
        }
        total
    }

    /// The amounts, by index.
    pub(crate) fn amounts(&self) -> &[f64] {
        &self.0
    }
}

// === impl MigProfile ===

impl MigProfile {
    /// The profile that a resource name such as `nvidia.com/mig-1g.5gb` stands for.
    pub(crate) fn parse(name: &str) -> Option<MigProfile> {
        let (gpus, rest) = name.strip_prefix(MIG_PREFIX)?.split_once("g.")?;
        let memory = rest.strip_suffix("gb")?;
        let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?;
        Some(MigProfile { gpus: number(gpus)?, memory: number(memory)? })
    }
}

/// Whether a resource is an instance of a MIG profile.
pub(crate) fn is_mig_resource(name: &str) -> bool {
    name.starts_with(MIG_PREFIX)
}

/// Whether a resource is whole GPUs.
pub(crate) fn is_gpu_resource(name: &str) -> bool {
    name == "nvidia.com/gpu" || name == "amd.com/gpu"
}

/// Whether a resource is storage, which is counted in bytes.
pub(crate) fn is_storage_resource(name: &str) -> bool {
    name == "ephemeral-storage" || name == "storage"
}

/// Whether a resource is counted in thousandths, as those outside Kubernetes' own domain are.
pub(crate) fn is_scalar_resource(name: &str) -> bool {
    kubernetes::amounts::is_scalar_resource_name(name)
}

/// The amounts of a node's resource list.
pub(crate) fn node_amounts<'q>(
    list: impl Iterator<Item = (&'q str, &'q Quantity)>,
    names: &ResourceNames,
) -> ResourceVector {
    let mut vector = ResourceVector::zero(names);
    // A resource with another name that ends with `gpu` replaces the number of GPUs.
    let mut other_gpus = None;
    for (name, quantity) in list.filter(|(_, quantity)| !quantity.is_zero()) {
        let Some(index) = names.index(name) else { continue };
        let amount = match name {
            "cpu" => quantity.milli_value() as f64,
            name if name == "memory"
                || name == "pods"
                || is_gpu_resource(name)
                || is_mig_resource(name)
                || is_storage_resource(name) =>
            {
                quantity.value() as f64
            }
            name if is_scalar_resource(name) => quantity.milli_value() as f64,
            _ => continue,
        };
        if index == GPU && !is_gpu_resource(name) {
            other_gpus = Some(amount);
        } else {
            vector.set(index, vector.get(index) + amount);
        }
    }
    if let Some(amount) = other_gpus {
        vector.set(GPU, amount);
    }
    vector
}

fn normalized(name: &str) -> &str {
    if name.ends_with(GPU_SUFFIX) { GPU_SUFFIX } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mig_profile_counts_its_slices_as_gpus() {
        assert_eq!(MigProfile::parse("nvidia.com/mig-1g.5gb"), Some(MigProfile { gpus: 1, memory: 5 }));
        for name in ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb.me", "nvidia.com/mig-g.5gb", "mig-1g.5gb"] {
            assert_eq!(MigProfile::parse(name), None, "{name}");
        }
    }

    #[test]
    fn all_kinds_of_gpus_are_one_resource() {
        let mut names = ResourceNames::default();
        names.add("nvidia.com/gpu");
        names.add("example.com/widget");
        assert_eq!((names.index("amd.com/gpu"), names.index("example.com/widget")), (Some(GPU), Some(4)));
        assert_eq!((names.index("example.com/other"), names.len()), (None, 5));
    }
}

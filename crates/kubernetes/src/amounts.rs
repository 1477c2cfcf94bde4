//! Resource amounts as the scheduler compares them (`framework.Resource`): integers, rounded up once from quantities.
//!
//! Sums wrap as in Go: an absurd amount in a recording gives the same absurd result as in the real scheduler, and no
//! panic.

use std::sync::Arc;

use crate::resource_list::{CPU, EPHEMERAL_STORAGE, MEMORY, ResourceList};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A resource other than cpu, memory and ephemeral storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScalarResourceId(u32);

/// Interned names of scalar resources.
#[derive(Debug, Default)]
pub struct ScalarResourceNames {
    /// By identifier; `None` if it is free.
    names: Vec<Option<Arc<str>>>,
    ids_by_name: FxHashMap<Arc<str>, ScalarResourceId>,
    free: Vec<ScalarResourceId>,
}

/// A resource name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// CPU.
    Cpu,
    /// Memory.
    Memory,
    /// Local ephemeral storage of the node.
    EphemeralStorage,
    /// Another resource that the scheduler accounts for.
    Scalar(ScalarResourceId),
    /// A name that the scheduler ignores.
    Other,
}

/// An amount of each resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceAmounts {
    /// In millicores.
    pub cpu: i64,
    /// In bytes.
    pub memory: i64,
    /// In bytes.
    pub ephemeral_storage: i64,
    /// Sorted by id; a resource named with amount zero is kept.
    pub scalars: SmallVec<[(ScalarResourceId, i64); 1]>,
}

// === impl ScalarResourceNames ===

impl ScalarResourceNames {
    /// The resource of that name.
    pub fn resource(&mut self, name: &str) -> Resource {
        match name {
            CPU => Resource::Cpu,
            MEMORY => Resource::Memory,
            EPHEMERAL_STORAGE => Resource::EphemeralStorage,
            name if is_scalar_resource_name(name) => Resource::Scalar(self.id(name)),
            _ => Resource::Other,
        }
    }

    /// The name of a resource.
    pub fn name(&self, id: ScalarResourceId) -> &Arc<str> {
        self.names[id.0 as usize].as_ref().expect("an ID is used only while its name is kept")
    }

    /// The identifiers of all names.
    pub fn ids(&self) -> impl Iterator<Item = ScalarResourceId> {
        (0..).zip(&self.names).filter(|(_, name)| name.is_some()).map(|(index, _)| ScalarResourceId(index))
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.ids_by_name.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.ids_by_name.is_empty()
    }

    /// Frees the names that are not used any more. Their identifiers are given to other names later.
    pub fn retain(&mut self, is_used: impl Fn(ScalarResourceId) -> bool) {
        for (index, slot) in (0..).zip(&mut self.names) {
            if let Some(name) = slot.take_if(|_| !is_used(ScalarResourceId(index))) {
                self.ids_by_name.remove(&name);
                self.free.push(ScalarResourceId(index));
            }
        }
    }

    /// The amounts of a resource list that the scheduler accounts for.
    pub fn amounts(&mut self, list: &ResourceList) -> ResourceAmounts {
        let mut amounts = ResourceAmounts::default();
        for (name, quantity) in list.iter() {
            match self.resource(name) {
                Resource::Cpu => amounts.cpu = quantity.milli_value(),
                Resource::Memory => amounts.memory = quantity.value(),
                Resource::EphemeralStorage => amounts.ephemeral_storage = quantity.value(),
                Resource::Scalar(id) => amounts.scalars.push((id, quantity.value())),
                Resource::Other => {}
            }
        }
        amounts.scalars.sort_unstable();
        amounts
    }

    fn id(&mut self, name: &str) -> ScalarResourceId {
        if let Some(id) = self.ids_by_name.get(name) {
            return *id;
        }
        let id = self.free.pop().unwrap_or(ScalarResourceId(self.names.len() as u32));
        let name: Arc<str> = name.into();
        if id.0 as usize == self.names.len() {
            self.names.push(None);
        }
        self.names[id.0 as usize] = Some(name.clone());
        self.ids_by_name.insert(name, id);
        id
    }
}

// === impl ResourceAmounts ===

impl ResourceAmounts {
    /// The amount of one resource; zero if it is absent.
    pub fn get(&self, resource: Resource) -> i64 {
        match resource {
            Resource::Cpu => self.cpu,
            Resource::Memory => self.memory,
            Resource::EphemeralStorage => self.ephemeral_storage,
            Resource::Scalar(id) => self.scalar(id),
            Resource::Other => 0,
        }
    }

    /// The amount of one scalar resource; zero if it is absent.
    pub fn scalar(&self, id: ScalarResourceId) -> i64 {
        self.scalars.iter().find(|(other, _)| *other == id).map_or(0, |(_, amount)| *amount)
    }

    /// Whether all amounts are zero and no scalar resource is named.
    pub fn is_empty(&self) -> bool {
        self.cpu == 0 && self.memory == 0 && self.ephemeral_storage == 0 && self.scalars.is_empty()
    }

    /// Drops scalar resources with amount zero that are not used any more.
    pub fn drop_unused_scalars(&mut self, is_used: impl Fn(ScalarResourceId) -> bool) {
        self.scalars.retain(|(id, amount)| *amount != 0 || is_used(*id));
    }

    /// Adds what another has, resource by resource.
    pub fn add(&mut self, other: &ResourceAmounts) {
        self.combine(other, i64::wrapping_add);
    }

    /// Takes away what another has, resource by resource.
    pub fn subtract(&mut self, other: &ResourceAmounts) {
        self.combine(other, i64::wrapping_sub);
    }

    fn combine(&mut self, other: &ResourceAmounts, with: impl Fn(i64, i64) -> i64) {
        self.cpu = with(self.cpu, other.cpu);
        self.memory = with(self.memory, other.memory);
        self.ephemeral_storage = with(self.ephemeral_storage, other.ephemeral_storage);
        for &(id, amount) in &other.scalars {
            match self.scalars.binary_search_by_key(&id, |(other, _)| *other) {
                Ok(index) => self.scalars[index].1 = with(self.scalars[index].1, amount),
                Err(index) => self.scalars.insert(index, (id, with(0, amount))),
            }
        }
    }
}

/// Whether the scheduler accounts for a resource of that name besides cpu, memory and ephemeral storage.
pub fn is_scalar_resource_name(name: &str) -> bool {
    is_extended_resource_name(name)
        || name.starts_with("hugepages-")
        || name.contains("kubernetes.io/")
        || name.starts_with("attachable-volumes-")
}

/// Whether it is an extended resource, outside the kubernetes.io domain: `example.com/gpu`.
pub fn is_extended_resource_name(name: &str) -> bool {
    let Some((domain, rest)) = name.split_once('/') else { return false };
    if name.contains("kubernetes.io/") || name.starts_with("requests.") {
        return false;
    }
    // Its quota name `requests.NAME` must be a qualified name as well.
    let label = |text: &str| {
        let end = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        !text.is_empty()
            && text.bytes().all(|b| end(b) || b == b'-')
            && text.bytes().next().is_some_and(end)
            && text.bytes().next_back().is_some_and(end)
    };
    let is_inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let is_name = !rest.is_empty()
        && rest.len() <= 63
        && rest.bytes().all(is_inner)
        && rest.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && rest.bytes().next_back().is_some_and(|b| b.is_ascii_alphanumeric());
    is_name && "requests.".len() + domain.len() <= 253 && domain.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_names_count() {
        for name in ["example.com/gpu", "hugepages-2Mi", "kubernetes.io/x", "attachable-volumes-aws-ebs"] {
            assert!(is_scalar_resource_name(name), "{name}");
        }
        for name in ["pods", "gpu", "requests.example.com/gpu", "Example.com/gpu", "example.com/", "a/b/c"] {
            assert!(!is_scalar_resource_name(name), "{name}");
        }
    }

    #[test]
    fn a_freed_name_leaves_its_identifier_to_another() {
        let mut names = ScalarResourceNames::default();
        let [a, b] = ["example.com/a", "example.com/b"].map(|name| names.id(name));
        names.retain(|id| id == b);
        assert_eq!(names.len(), 1);
        let c = names.id("example.com/c");
        assert_eq!((c, names.id("example.com/b")), (a, b));
        assert_eq!((&**names.name(c), &**names.name(b)), ("example.com/c", "example.com/b"));
    }

    #[test]
    fn sums_wrap() {
        let mut amounts = ResourceAmounts { cpu: i64::MAX, ..ResourceAmounts::default() };
        amounts.add(&ResourceAmounts { cpu: 1, ..ResourceAmounts::default() });
        assert_eq!(amounts.cpu, i64::MIN);
        amounts.subtract(&ResourceAmounts { cpu: 1, ..ResourceAmounts::default() });
        assert_eq!(amounts.cpu, i64::MAX);
    }
}

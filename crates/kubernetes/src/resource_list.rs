//! Resource lists: quantities by resource name.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::quantity::{Bytes, MilliCpu, Quantity};

/// CPU.
pub const CPU: &str = "cpu";
/// Memory.
pub const MEMORY: &str = "memory";
/// Local ephemeral storage.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// The number of pods.
pub const PODS: &str = "pods";

/// Quantities by resource name, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceList(pub(crate) Vec<(Cow<'static, str>, Quantity)>);

impl ResourceList {
    /// The quantity of one resource; `None` if it is absent.
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        self.find(name).ok().map(|index| &self.0[index].1)
    }

    /// All quantities, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.0.iter().map(|(name, quantity)| (&**name, quantity))
    }

    /// The number of resources.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no resource is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The `cpu` in it.
    pub fn cpu(&self) -> MilliCpu {
        MilliCpu(self.get(CPU).map_or(0, Quantity::milli_value))
    }

    /// The `memory` in it.
    pub fn memory(&self) -> Bytes {
        Bytes(self.get(MEMORY).map_or(0, Quantity::value))
    }

    /// The `ephemeral-storage` in it.
    pub fn ephemeral_storage(&self) -> Bytes {
        Bytes(self.get(EPHEMERAL_STORAGE).map_or(0, Quantity::value))
    }

    /// In thousandths; zero if absent.
    pub fn milli(&self, name: &str) -> i64 {
        self.get(name).map_or(0, Quantity::milli_value)
    }

    /// Rounded up; zero if absent.
    pub fn value(&self, name: &str) -> i64 {
        self.get(name).map_or(0, Quantity::value)
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(name))
    }

    pub(crate) fn set(&mut self, name: Cow<'static, str>, quantity: Quantity) {
        match self.find(&name) {
            Ok(index) => self.0[index].1 = quantity,
            Err(index) => self.0.insert(index, (name, quantity)),
        }
    }

    pub(crate) fn add(&mut self, other: &ResourceList) {
        for (name, quantity) in &other.0 {
            match self.find(name) {
                Ok(index) => self.0[index].1 += quantity,
                Err(index) => self.0.insert(index, (name.clone(), quantity.clone())),
            }
        }
    }

    /// Takes the maximum of each resource with `other`'s.
    pub(crate) fn raise_to_max(&mut self, other: &ResourceList) {
        for (name, quantity) in &other.0 {
            match self.find(name) {
                Ok(index) if self.0[index].1 < *quantity => self.0[index].1 = quantity.clone(),
                Ok(_) => {}
                Err(index) => self.0.insert(index, (name.clone(), quantity.clone())),
            }
        }
    }
}

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A name, which must not show up in an error's path.
        #[derive(serde::Deserialize)]
        #[serde(transparent)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = ResourceList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("quantities by resource name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut list = ResourceList::default();
                while let Some((Name(name), quantity)) = map.next_entry()? {
                    list.set(shared_name(name), quantity);
                }
                Ok(list)
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(ResourceList::default())
            }
        }

        deserializer.deserialize_any(Entries)
    }
}

/// The name, without a copy if it is a common one.
fn shared_name(name: Cow<'_, str>) -> Cow<'static, str> {
    match [CPU, EPHEMERAL_STORAGE, MEMORY, PODS].into_iter().find(|common| *common == name) {
        Some(common) => Cow::Borrowed(common),
        None => Cow::Owned(name.into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_names_are_not_copied() {
        let list: ResourceList =
            serde_json::from_str(r#"{"memory":"1Gi","cpu":2,"example.com/gpu":1}"#).unwrap();
        let copied: Vec<&str> = list
            .0
            .iter()
            .filter(|(name, _)| matches!(name, Cow::Owned(_)))
            .map(|(name, _)| &**name)
            .collect();
        assert_eq!(copied, ["example.com/gpu"]);
        assert_eq!((list.cpu(), list.memory()), (MilliCpu(2000), Bytes(1 << 30)));
    }
}

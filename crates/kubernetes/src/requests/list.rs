//! Amounts of resources by name.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::quantity::{Bytes, MilliCpu, Quantity};

/// Processor time.
pub const CPU: &str = "cpu";
/// Memory.
pub const MEMORY: &str = "memory";
/// Disk space that goes with the pod.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// Amounts of resources by name, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceList<'a>(pub(super) Vec<(Cow<'a, str>, Quantity)>);

impl<'a> ResourceList<'a> {
    /// The amount of one resource; `None` where it is not named.
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        self.find(name).ok().map(|index| &self.0[index].1)
    }

    /// All amounts, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.0.iter().map(|(name, quantity)| (&**name, quantity))
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

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(name))
    }

    pub(super) fn set(&mut self, name: Cow<'a, str>, quantity: Quantity) {
        match self.find(&name) {
            Ok(index) => self.0[index].1 = quantity,
            Err(index) => self.0.insert(index, (name, quantity)),
        }
    }

    pub(super) fn add(&mut self, other: &ResourceList<'a>) {
        for (name, quantity) in &other.0 {
            match self.find(name) {
                Ok(index) => self.0[index].1 += quantity,
                Err(index) => self.0.insert(index, (name.clone(), quantity.clone())),
            }
        }
    }

    /// Takes from `other` what is larger there, or missing here.
    pub(super) fn raise(&mut self, other: &ResourceList<'a>) {
        for (name, quantity) in &other.0 {
            match self.find(name) {
                Ok(index) if self.0[index].1 < *quantity => self.0[index].1 = quantity.clone(),
                Ok(_) => {}
                Err(index) => self.0.insert(index, (name.clone(), quantity.clone())),
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ResourceList<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A derived view borrows a key only through a struct of its own; who follows the path must not see that.
        #[derive(serde::Deserialize)]
        #[serde(transparent)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = ResourceList<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("quantities by resource name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut list = ResourceList::default();
                while let Some((Name(name), quantity)) = map.next_entry()? {
                    list.set(name, quantity);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_borrowed_from_the_json() {
        let list: ResourceList<'_> = serde_json::from_str(r#"{"memory":"1Gi","cpu":2}"#).unwrap();
        assert!(list.0.iter().all(|(name, _)| matches!(name, Cow::Borrowed(_))));
        assert_eq!((list.cpu(), list.memory()), (MilliCpu(2000), Bytes(1 << 30)));
    }
}

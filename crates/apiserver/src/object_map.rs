//! Objects sorted by namespace and name. A clone shares all memory with its original until one of them changes.

use std::sync::Arc;

use model::{NamespacedName, Object};

/// Objects by namespace and name.
///
/// Two levels of shared lists, as in a B-tree: a change after a clone copies the list of chunks and one chunk.
#[derive(Clone, Debug, Default)]
pub struct ObjectMap {
    /// None is empty, and each is sorted.
    chunks: Arc<Vec<Arc<Vec<ObjectEntry>>>>,
    len: usize,
}

#[derive(Clone, Debug)]
struct ObjectEntry {
    name: NamespacedName,
    object: Object,
}

/// A longer chunk is split.
const MAX_CHUNK: usize = 128;
/// A shorter chunk is merged into its predecessor, if both fit into one.
const MIN_CHUNK: usize = MAX_CHUNK / 4;

// === impl ObjectMap ===

impl ObjectMap {
    /// The number of objects.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One object.
    pub fn get(&self, name: &NamespacedName) -> Option<&Object> {
        let chunk = self.chunks.get(self.chunk_of(name))?;
        let index = chunk.binary_search_by(|entry| entry.name.cmp(name)).ok()?;
        Some(&chunk[index].object)
    }

    /// Adds or replaces an object. Returns the one that it replaces.
    pub fn insert(&mut self, name: NamespacedName, object: Object) -> Option<Object> {
        // A name after all others belongs into the last chunk.
        let position = self.chunk_of(&name).min(self.chunks.len().saturating_sub(1));
        let chunks = Arc::make_mut(&mut self.chunks);
        let Some(chunk) = chunks.get_mut(position) else {
            chunks.push(Arc::new(vec![ObjectEntry { name, object }]));
            self.len = 1;
            return None;
        };
        let entries = Arc::make_mut(chunk);
        match entries.binary_search_by(|entry| entry.name.cmp(&name)) {
            Ok(index) => Some(std::mem::replace(&mut entries[index].object, object)),
            Err(index) => {
                entries.insert(index, ObjectEntry { name, object });
                self.len += 1;
                if entries.len() > MAX_CHUNK {
                    // Names are often created in ascending order: then full chunks stay behind.
                    let at = if index + 1 == entries.len() { MAX_CHUNK } else { MAX_CHUNK / 2 };
                    let rest = entries.split_off(at);
                    chunks.insert(position + 1, Arc::new(rest));
                }
                None
            }
        }
    }

    /// Removes an object and returns it.
    pub fn remove(&mut self, name: &NamespacedName) -> Option<Object> {
        let position = self.chunk_of(name);
        let index = self.chunks.get(position)?.binary_search_by(|entry| entry.name.cmp(name)).ok()?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let entries = Arc::make_mut(&mut chunks[position]);
        let removed = entries.remove(index).object;
        self.len -= 1;
        let rest = entries.len();
        if rest == 0 {
            chunks.remove(position);
        } else if rest < MIN_CHUNK && position > 0 && chunks[position - 1].len() + rest <= MAX_CHUNK {
            let entries = chunks.remove(position);
            Arc::make_mut(&mut chunks[position - 1]).extend(entries.iter().cloned());
        }
        Some(removed)
    }

    /// The objects, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &Object> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).map(|entry| &entry.object)
    }

    /// The objects in a namespace, or in all, after a name.
    pub fn range<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<&'a NamespacedName>,
    ) -> impl Iterator<Item = &'a Object> {
        let is_before = move |entry: &ObjectEntry| {
            namespace.is_some_and(|namespace| *entry.name.namespace < *namespace)
                || after.is_some_and(|after| entry.name <= *after)
        };
        let first = self.chunks.partition_point(|chunk| chunk.last().is_some_and(is_before));
        let entries = self.chunks[first..].iter().flat_map(|chunk| chunk.iter());
        entries
            .skip_while(move |entry| is_before(entry))
            .take_while(move |entry| namespace.is_none_or(|namespace| *entry.name.namespace == *namespace))
            .map(|entry| &entry.object)
    }

    /// The position of the chunk that a name belongs into: the first that does not end before it.
    fn chunk_of(&self, name: &NamespacedName) -> usize {
        self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| last.name < *name))
    }
}

impl FromIterator<Object> for ObjectMap {
    /// Of several objects with one name the last one stays.
    fn from_iter<I: IntoIterator<Item = Object>>(objects: I) -> ObjectMap {
        let mut map = ObjectMap::default();
        for object in objects {
            map.insert(name_of(&object), object);
        }
        map
    }
}

/// The namespace and name of an object.
pub(crate) fn name_of(object: &Object) -> NamespacedName {
    let meta = object.meta();
    NamespacedName::new(&*meta.namespace, &*meta.name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;
    use testobjects::{object, pod};

    use super::*;

    fn pod_in(namespace: &str, name: &str) -> Object {
        object(&pod(name).namespace(namespace).json())
    }

    fn names<'a>(objects: impl Iterator<Item = &'a Object>) -> Vec<String> {
        objects.map(|object| object.meta().name.into_owned()).collect()
    }

    #[test]
    fn objects_are_found_by_namespace_and_name() {
        let map: ObjectMap = [("b", "x"), ("a", "z"), ("a", "y"), ("b", "w")]
            .map(|(ns, name)| pod_in(ns, name))
            .into_iter()
            .collect();
        assert_eq!(names(map.range(None, None)), ["y", "z", "w", "x"]);
        assert_eq!(names(map.range(Some("b"), None)), ["w", "x"]);
        assert_eq!(names(map.range(Some("c"), None)), [""; 0]);
        let after = NamespacedName::new("a", "y");
        assert_eq!(names(map.range(None, Some(&after))), ["z", "w", "x"]);
        assert_eq!(names(map.range(Some("a"), Some(&after))), ["z"]);
        assert!(map.get(&NamespacedName::new("a", "z")).is_some());
        assert!(map.get(&NamespacedName::new("b", "z")).is_none());
    }

    #[test]
    fn it_behaves_like_a_sorted_map_and_clones_do_not_change() {
        let mut rng = Pcg64::seed_from_u64(7);
        let mut map = ObjectMap::default();
        let mut expected: BTreeMap<NamespacedName, Object> = BTreeMap::new();
        let mut clones = Vec::new();
        for step in 0..20_000 {
            let name = NamespacedName::new(
                format!("ns{}", rng.random_range(0..3)),
                format!("p{}", rng.random_range(0..2_000)),
            );
            // First it grows, then it shrinks.
            if rng.random_range(0..20_000) > step {
                let object = pod_in(&name.namespace, &name.name);
                assert_eq!(map.insert(name.clone(), object.clone()), expected.insert(name, object));
            } else {
                assert_eq!(map.remove(&name), expected.remove(&name));
            }
            if step % 2_500 == 0 {
                clones.push((map.clone(), expected.clone()));
            }
        }
        clones.push((map, expected));
        for (map, expected) in clones {
            assert_eq!(map.len(), expected.len());
            assert!(map.iter().eq(expected.values()));
            for namespace in ["ns0", "ns1", "ns2"] {
                let after = NamespacedName::new(namespace, "p5");
                let rest =
                    expected.iter().filter(|(name, _)| &*name.namespace == namespace && **name > after);
                assert!(map.range(Some(namespace), Some(&after)).eq(rest.map(|(_, object)| object)));
            }
            assert!(map.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= MAX_CHUNK));
        }
    }
}

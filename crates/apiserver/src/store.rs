//! The store that a server reads.

use std::sync::Arc;

use model::{Moment, NamespacedName, Object};

use crate::resource::{Resource, ResourceTable};

/// The objects that a server serves. Its methods may block: the server calls them outside its asynchronous tasks.
pub trait Store: Send + Sync + 'static {
    /// The resources that it has.
    fn resources(&self) -> Arc<ResourceTable>;

    /// All objects of a resource.
    fn list(&self, resource: &Resource) -> Result<ObjectList, StoreError>;

    /// The version of the cluster that it stands for: `v1.36.4`.
    fn git_version(&self) -> &str;

    /// The present moment, from which ages are counted.
    fn now(&self) -> Moment;

    /// Why it refuses writes, as a sentence for the user.
    fn read_only_reason(&self) -> String;
}

/// The objects of a resource at one resourceVersion.
#[derive(Clone, Debug)]
pub struct ObjectList {
    /// Sorted by namespace and name.
    objects: Arc<[Object]>,
    /// At least that of every object.
    pub resource_version: u64,
}

/// Objects that could not be read.
#[derive(Debug)]
pub struct StoreError(pub String);

// === impl ObjectList ===

impl ObjectList {
    /// A list of these objects, in any order.
    pub fn new(mut objects: Vec<Object>, resource_version: u64) -> ObjectList {
        objects.sort_by_cached_key(name_of);
        ObjectList { objects: objects.into(), resource_version }
    }

    /// The objects in a namespace, or in all, sorted by namespace and name.
    pub fn in_namespace(&self, namespace: Option<&str>) -> &[Object] {
        let Some(namespace) = namespace else { return &self.objects };
        let start = self.objects.partition_point(|object| &*object.meta().namespace < namespace);
        let end = self.objects.partition_point(|object| &*object.meta().namespace <= namespace);
        &self.objects[start..end]
    }

    /// One object.
    pub fn get(&self, name: &NamespacedName) -> Option<&Object> {
        let index = self.objects.binary_search_by(|object| name_of(object).cmp(name));
        index.ok().map(|index| &self.objects[index])
    }
}

/// The namespace and name of an object.
pub(crate) fn name_of(object: &Object) -> NamespacedName {
    let meta = object.meta();
    NamespacedName::new(&*meta.namespace, &*meta.name)
}

#[cfg(test)]
mod tests {
    use testobjects::{object, pod};

    use super::*;

    #[test]
    fn objects_are_found_by_namespace_and_name() {
        let names = [("b", "x"), ("a", "z"), ("a", "y"), ("b", "w")];
        let objects = names.map(|(namespace, name)| object(&pod(name).namespace(namespace).json()));
        let list = ObjectList::new(objects.into(), 7);
        let names = |namespace| -> Vec<String> {
            list.in_namespace(namespace).iter().map(|object| object.meta().name.into_owned()).collect()
        };
        assert_eq!(names(None), ["y", "z", "w", "x"]);
        assert_eq!(names(Some("b")), ["w", "x"]);
        assert_eq!(names(Some("c")), [""; 0]);
        assert_eq!(
            list.get(&NamespacedName::new("a", "z")).map(|pod| pod.meta().name.into_owned()).as_deref(),
            Some("z")
        );
        assert!(list.get(&NamespacedName::new("b", "z")).is_none());
    }
}

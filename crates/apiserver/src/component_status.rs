//! ComponentStatuses: objects that say which components of the cluster are healthy. They are not stored.

use kubernetes::kinds;
use model::{Kind, NamespacedName, Object};
use serde_json::json;

use crate::object_map::ObjectMap;
use crate::registry::Registry;
use crate::request_info::RequestInfo;
use crate::resource::Resource;
use crate::store::ObjectList;

/// The store is called as that of a real cluster.
const STORE: &str = "etcd-0";

/// The resource of a path, if it is that of ComponentStatuses.
pub(crate) fn resource_of(info: &RequestInfo) -> Option<Resource> {
    let is_status = info.group.is_empty() && info.version == "v1" && info.resource == "componentstatuses";
    let is_object = info.namespace.is_none() && info.subresource.is_none();
    if is_status && is_object { resource() } else { None }
}

/// The resource.
pub(crate) fn resource() -> Option<Resource> {
    kinds::of(&Kind::new("", "ComponentStatus")).map(Resource::built_in)
}

/// The store, and the components that run in this process, all of them healthy.
pub(crate) fn list(registry: &Registry) -> ObjectList {
    let mut objects = ObjectMap::default();
    for name in registry.components().iter().copied().chain([STORE]) {
        let status = json!({
            "kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name},
            "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
        });
        objects.insert(NamespacedName::new("", name), Object::from_trusted(status.to_string()));
    }
    ObjectList { objects, resource_version: 0 }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::Moment;

    use super::*;
    use crate::memory_store::MemoryStore;

    #[test]
    fn the_store_and_the_components_in_this_process_are_healthy() {
        let store = MemoryStore::new(Box::new(Moment::default), "v1.36.4");
        let registry = Registry::new(Arc::new(store), 1).with_components(vec!["scheduler"]);
        let list = list(&registry);
        let convertor = resource().unwrap().convertor;
        let rows: Vec<String> = list
            .objects
            .iter()
            .map(|status| {
                let cells = convertor.row(status, Moment::default()).cells;
                cells.iter().map(|cell| cell.json().to_string()).collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(rows, [r#""etcd-0" "Healthy" "ok" """#, r#""scheduler" "Healthy" "ok" """#]);
    }

    #[test]
    fn only_the_paths_of_the_resource_are_answered() {
        let is_answered =
            |path: &str| RequestInfo::parse(path).is_some_and(|info| resource_of(&info).is_some());
        for (path, expected) in [
            ("/api/v1/componentstatuses", true),
            ("/api/v1/componentstatuses/etcd-0", true),
            ("/api/v1/componentstatuses/etcd-0/status", false),
            ("/api/v1/namespaces/default/componentstatuses", false),
            ("/apis/apps/v1/componentstatuses", false),
        ] {
            assert_eq!(is_answered(path), expected, "{path}");
        }
    }
}

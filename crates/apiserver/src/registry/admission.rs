//! Admission: what other objects of the cluster add to a new object, or why they refuse it.

use kubernetes::admission::{
    add_default_tolerations, apply_runtime_class, resolve_priority, set_default_resources, violations,
};
use model::{Kind, NamespacedName, Object};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Registry;
use super::metadata::{metadata_mut, metadata_text};
use crate::resource::Resource;
use crate::status::ApiError;

const DEFAULT_CLASS_ANNOTATION: &str = "storageclass.kubernetes.io/is-default-class";
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const DEFAULT_SERVICE_ACCOUNT: &str = "default";

impl Registry {
    /// Admits a new object.
    pub(super) fn admit_new(&self, resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
        match (&*resource.kind.group, &*resource.kind.kind) {
            ("", "Pod") => self.admit_pod(resource, object),
            ("", "PersistentVolumeClaim") => {
                self.set_storage_class(object);
                add_finalizer(object, CLAIM_PROTECTION);
                Ok(())
            }
            ("", "PersistentVolume") => {
                add_finalizer(object, VOLUME_PROTECTION);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Admits the new version of an object: a pod keeps its priority, and has the default tolerations again.
    pub(super) fn admit_update(resource: &Resource, old: &Value, new: &mut Value) {
        let is_pod = resource.kind.group.is_empty() && &*resource.kind.kind == "Pod";
        let spec = new.get_mut("spec").filter(|_| is_pod);
        let Some(spec) = spec.and_then(Value::as_object_mut) else { return };
        for field in ["priority", "preemptionPolicy"] {
            if let Some(value) = old["spec"].get(field)
                && spec.get(field).is_none_or(Value::is_null)
            {
                spec.insert(field.to_owned(), value.clone());
            }
        }
        add_default_tolerations(spec);
    }

    fn admit_pod(&self, resource: &Resource, pod: &mut Value) -> Result<(), ApiError> {
        let name = match metadata_text(pod, "name") {
            "" => metadata_text(pod, "generateName").to_owned(),
            name => name.to_owned(),
        };
        let namespace = metadata_text(pod, "namespace").to_owned();
        let forbidden = |why: String| ApiError::forbidden(resource, &name, why);
        let ranges = self.objects_in(&Kind::new("", "LimitRange"), &namespace);
        for range in &ranges {
            set_default_resources(pod, range);
        }
        let spec = pod["spec"].as_object_mut().ok_or_else(|| ApiError::bad_request("a pod needs a spec"))?;
        let account = spec.get("serviceAccountName").and_then(Value::as_str).filter(|name| !name.is_empty());
        let account = account.unwrap_or(DEFAULT_SERVICE_ACCOUNT).to_owned();
        for field in ["serviceAccountName", "serviceAccount"] {
            spec.insert(field.to_owned(), account.as_str().into());
        }
        let classes = Kind::new("scheduling.k8s.io", "PriorityClass");
        let class_named = |name: &str| self.value_of(&classes, "", name);
        let default_class = || {
            let defaults = self.select_in(&classes, "", is_global_default);
            // Of several defaults the lowest counts.
            defaults.into_iter().min_by_key(|class| class["value"].as_i64().unwrap_or(0))
        };
        resolve_priority(spec, class_named, default_class).map_err(forbidden)?;
        add_default_tolerations(spec);
        if let Some(class) = spec.get("runtimeClassName").and_then(Value::as_str).map(str::to_owned) {
            let found = self.value_of(&Kind::new("node.k8s.io", "RuntimeClass"), "", &class);
            let not_found = || format!("pod rejected: RuntimeClass {class:?} not found");
            apply_runtime_class(pod, &found.ok_or_else(|| forbidden(not_found()))?).map_err(forbidden)?;
        }
        Ok(())
    }

    /// Refuses a new pod that is outside the bounds of its namespace. It has its name by now, and is valid.
    pub(super) fn check_bounds(&self, resource: &Resource, pod: &Value) -> Result<(), ApiError> {
        if !resource.is_pod() {
            return Ok(());
        }
        let ranges = self.objects_in(&Kind::new("", "LimitRange"), metadata_text(pod, "namespace"));
        let violations: Vec<String> = ranges.iter().flat_map(|range| violations(pod, range)).collect();
        let why = match &violations[..] {
            [] => return Ok(()),
            [violation] => violation.clone(),
            violations => format!("[{}]", violations.join(", ")),
        };
        Err(ApiError::forbidden(resource, metadata_text(pod, "name"), why))
    }

    /// The class that is marked as the default one; the newest of several.
    fn set_storage_class(&self, claim: &mut Value) {
        let has_class = claim["spec"].get("storageClassName").is_some_and(|class| !class.is_null());
        if has_class
            || claim["metadata"]["annotations"].get("volume.beta.kubernetes.io/storage-class").is_some()
        {
            return;
        }
        let classes = self.objects_in(&Kind::new("storage.k8s.io", "StorageClass"), "");
        let defaults = classes
            .iter()
            .filter(|class| class["metadata"]["annotations"][DEFAULT_CLASS_ANNOTATION] == "true");
        let age = |class: &&Value| {
            (
                metadata_text(class, "creationTimestamp").to_owned(),
                std::cmp::Reverse(metadata_text(class, "name").to_owned()),
            )
        };
        if let Some(class) = defaults.max_by_key(age) {
            claim["spec"]["storageClassName"] = class["metadata"]["name"].clone();
        }
    }

    /// The objects of a kind in a namespace, or the cluster-scoped ones if that is empty.
    pub(super) fn objects_in(&self, kind: &Kind, namespace: &str) -> Vec<Value> {
        self.select_in(kind, namespace, |_| true)
    }

    /// The same of the objects that meet a condition.
    fn select_in(&self, kind: &Kind, namespace: &str, is_selected: impl Fn(&Object) -> bool) -> Vec<Value> {
        let table = self.table();
        let Some(Ok(list)) = table.of_kind(kind).map(|resource| self.store.list(resource)) else {
            return Vec::new();
        };
        let objects = list.objects.range(Some(namespace), None).filter(|object| is_selected(object));
        objects.filter_map(|object| object.value().ok()).collect()
    }

    fn value_of(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        self.get(kind, &NamespacedName::new(namespace, name))?.value().ok()
    }
}

fn is_global_default(class: &Object) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct View {
        #[serde(default)]
        global_default: bool,
    }
    class.view::<View>().is_ok_and(|class| class.global_default)
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    let finalizers = metadata_mut(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut().filter(|own| !own.iter().any(|own| own == finalizer))
    {
        finalizers.push(finalizer.into());
    }
}

//! The subresource `binding` of pods.

use kubernetes::conditions::set_pod_condition;
use kubernetes::time::whole_second;
use kubernetes::well_known;
use model::{Kind, NamespacedName, Object};
use serde_json::{Value, json};

use super::metadata::{is_terminating, metadata_mut, metadata_text};
use super::update::{UpdatedPart, parsed};
use super::{Registry, WriteOptions};
use crate::resource::Resource;
use crate::status::ApiError;

/// Labels of a node that are copied to the pods bound to it.
const TOPOLOGY_LABELS: [&str; 2] = [well_known::ZONE, well_known::REGION];

impl Registry {
    /// Binds a pod to a node, for a component.
    pub fn bind_pod(&self, pod: &NamespacedName, uid: &str, node: &str) -> Result<Object, ApiError> {
        let table = self.table();
        let resource = table.of_kind(&Kind::new("", "Pod")).ok_or_else(ApiError::unknown_path)?;
        let binding =
            json!({"metadata": {"name": *pod.name, "uid": uid}, "target": {"kind": "Node", "name": node}});
        self.bind(resource, pod, &binding, WriteOptions { is_component: true, ..WriteOptions::default() })
    }

    /// Binds a pod as a Binding says.
    pub fn bind(
        &self,
        pods: &Resource,
        name: &NamespacedName,
        binding: &Value,
        options: WriteOptions<'_>,
    ) -> Result<Object, ApiError> {
        let bound_name = metadata_text(binding, "name");
        if *bound_name != *name.name {
            return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
        }
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        if node.is_empty() {
            return Err(ApiError::bad_request("target.name: Required value"));
        }
        let kind = binding["target"]["kind"].as_str().unwrap_or_default();
        if !matches!(kind, "" | "Node") {
            return Err(ApiError::bad_request(format!(
                "target.kind: Unsupported value: {kind:?}: supported values: \"Node\""
            )));
        }
        let labels = self.topology_labels(node);
        let now = whole_second(self.now()).to_string();
        self.update(pods, name, UpdatedPart::Spec, options, |pod| {
            self.check_bindable(pods, name, pod, binding)?;
            let mut bound = pod.clone();
            bound["spec"]["nodeName"] = node.into();
            let metadata = metadata_mut(&mut bound);
            let extra = binding["metadata"]["labels"].as_object().into_iter().flatten();
            let extra = extra.map(|(key, value)| (key.clone(), value.clone()));
            for (key, value) in labels.iter().cloned().chain(extra) {
                metadata.entry("labels").or_insert_with(|| json!({}))[key.as_str()] = value;
            }
            for (key, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
                metadata.entry("annotations").or_insert_with(|| json!({}))[key.as_str()] = value.clone();
            }
            if let Some(status) = bound["status"].as_object_mut() {
                status.remove("nominatedNodeName");
            }
            set_pod_condition(&mut bound, json!({"type": "PodScheduled", "status": "True"}), &now);
            Ok(bound)
        })
    }

    fn check_bindable(
        &self,
        pods: &Resource,
        name: &NamespacedName,
        pod: &Value,
        binding: &Value,
    ) -> Result<(), ApiError> {
        let conflict = |why: String| Err(ApiError::conflict(&pods_binding(pods), &name.name, why));
        for (what, field) in [("UID", "uid"), ("ResourceVersion", "resourceVersion")] {
            let (wanted, current) = (metadata_text(binding, field), metadata_text(pod, field));
            if !wanted.is_empty() && wanted != current {
                return conflict(format!(
                    "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {current}"
                ));
            }
        }
        if is_terminating(pod) {
            return conflict(format!("pod {} is being deleted, cannot be assigned to a host", name.name));
        }
        if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
            return conflict(format!("pod {} is already assigned to node {node:?}", name.name));
        }
        if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
            return conflict(format!("pod {} has non-empty .spec.schedulingGates", name.name));
        }
        Ok(())
    }

    /// The labels of a node that its pods get.
    fn topology_labels(&self, node: &str) -> Vec<(String, Value)> {
        let node = self.get(&Kind::new("", "Node"), &NamespacedName::new("", node));
        let Some(Ok(node)) = node.as_ref().map(parsed) else { return Vec::new() };
        let label = |key: &str| Some((key.to_owned(), node["metadata"]["labels"].get(key)?.clone()));
        TOPOLOGY_LABELS.into_iter().filter_map(label).collect()
    }
}

/// The resource of bindings, as messages name it.
fn pods_binding(pods: &Resource) -> Resource {
    Resource { plural: "pods/binding".to_owned(), ..pods.clone() }
}

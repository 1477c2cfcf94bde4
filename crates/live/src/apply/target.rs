//! The API server of a replay's target: requests that create, patch, bind and delete objects.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use http::Method;
use model::{Kind, ObjectRef};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::connection::{Connection, WriteRequest};
use crate::kinds::{ServedKind, discover};
use crate::list_watch::RequestFailure;
use crate::run_label::RUN_LABEL;
use crate::url::percent_encode;
use crate::{Error, Result};

/// The annotation of every created object with its uid in the recording.
pub const UID_ANNOTATION: &str = "replay.kinescope.io/uid";

/// An API server that objects are written to.
pub(super) struct TargetCluster {
    connection: Connection,
    kinds: RwLock<HashMap<Kind, ServedKind>>,
    /// The time of the last discovery.
    last_discovery: Mutex<Instant>,
    pub(super) run: String,
}

const JSON: &str = "application/json";
/// Metadata-only lists, which are smaller.
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const MERGE_PATCH: &str = "application/merge-patch+json";
/// The page size of lists.
const PAGE_SIZE: u32 = 500;
/// The minimum interval between discoveries: a kind may be served soon after its definition is created.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(1);

// === impl TargetCluster ===

impl TargetCluster {
    pub(super) async fn connect(connection: Connection, run: &str) -> Result<TargetCluster> {
        let kinds = discover_writable_kinds(&connection)
            .await
            .map_err(|failure| Error::Server { doing: "discover the kinds of the server", failure })?;
        let (kinds, last_discovery) = (RwLock::new(kinds), Mutex::new(Instant::now()));
        Ok(TargetCluster { connection, kinds, last_discovery, run: run.to_owned() })
    }

    /// All kinds that can be listed and watched.
    pub(super) fn watchable_kinds(&self) -> Vec<Kind> {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        kinds.values().filter(|served| served.can_be_watched).map(|served| served.kind.clone()).collect()
    }

    /// All served kinds.
    pub(super) fn served_kinds(&self) -> Vec<ServedKind> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Whether a kind is namespaced.
    pub(super) fn is_namespaced(&self, kind: &Kind) -> bool {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        kinds.get(kind).is_some_and(|served| served.is_namespaced)
    }

    /// Whether the server has a kind.
    pub(super) fn has_kind(&self, kind: &Kind) -> bool {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner).contains_key(kind)
    }

    /// Runs discovery again, and returns whether the server has the kind.
    pub(super) async fn refresh_kind(&self, kind: &Kind) -> std::result::Result<bool, RequestFailure> {
        let mut last_discovery = self.last_discovery.lock().await;
        if !self.has_kind(kind) && last_discovery.elapsed() >= DISCOVERY_INTERVAL {
            let kinds = discover_writable_kinds(&self.connection).await?;
            *self.kinds.write().unwrap_or_else(PoisonError::into_inner) = kinds;
            *last_discovery = Instant::now();
        }
        Ok(self.has_kind(kind))
    }

    /// Whether a kind has a status subresource.
    pub(super) fn has_status(&self, kind: &Kind) -> bool {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        kinds.get(kind).is_some_and(|served| served.has_status)
    }

    /// Adds the run's label and the recorded uid to an object.
    pub(super) fn add_run_metadata(&self, object: &mut Value, uid: Option<&str>) {
        let mut set_entry = |field: &str, key: &str, value: &str| {
            let metadata = &mut object["metadata"];
            if !metadata[field].is_object() {
                metadata[field] = Value::Object(Map::new());
            }
            metadata[field][key] = value.into();
        };
        set_entry("labels", RUN_LABEL, &self.run);
        if let Some(uid) = uid {
            set_entry("annotations", UID_ANNOTATION, uid);
        }
    }

    /// Whether an object was created by this run for the recorded object of that uid.
    pub(super) fn is_created_for(&self, object: &Value, uid: &str) -> bool {
        // A namespace that was created on demand has no recorded uid.
        let recorded_uid = object["metadata"]["annotations"].get(UID_ANNOTATION);
        self.is_of_run(object)
            && recorded_uid.map_or(object["kind"] == "Namespace", |recorded_uid| *recorded_uid == *uid)
    }

    /// Whether an object carries the label of this run.
    pub(super) fn is_of_run(&self, object: &Value) -> bool {
        object["metadata"]["labels"][RUN_LABEL] == *self.run
    }

    pub(super) async fn create(
        &self,
        object_ref: &ObjectRef,
        object: &Value,
    ) -> std::result::Result<Value, RequestFailure> {
        let mut object = object.clone();
        let path = self.path(object_ref, None, Some(&mut object));
        self.send(Method::POST, &path, JSON, &object).await
    }

    /// All objects of a kind with the label of a run, or of any run.
    pub(super) async fn list_labeled(
        &self,
        kind: &Kind,
        run: Option<&str>,
    ) -> std::result::Result<Vec<(ObjectRef, Value)>, RequestFailure> {
        let selector = run.map_or_else(|| RUN_LABEL.to_owned(), |run| format!("{RUN_LABEL}={run}"));
        self.list_selected(kind, "", &selector, JSON).await
    }

    /// The metadata of all objects of a kind, in a namespace or everywhere, without the label of a run, or of any run.
    pub(super) async fn list_unlabeled(
        &self,
        kind: &Kind,
        namespace: &str,
        run: Option<&str>,
    ) -> std::result::Result<Vec<(ObjectRef, Value)>, RequestFailure> {
        let selector = run.map_or_else(|| format!("!{RUN_LABEL}"), |run| format!("{RUN_LABEL}!={run}"));
        self.list_selected(kind, namespace, &selector, METADATA_LIST).await
    }

    async fn list_selected(
        &self,
        kind: &Kind,
        namespace: &str,
        selector: &str,
        accept: &str,
    ) -> std::result::Result<Vec<(ObjectRef, Value)>, RequestFailure> {
        let collection = ObjectRef { kind: kind.clone(), namespace: namespace.into(), name: "".into() };
        let (path, selector) = (self.path(&collection, None, None), percent_encode(selector));
        let (mut objects, mut continue_token) = (Vec::new(), String::new());
        loop {
            let page = format!(
                "{path}?labelSelector={selector}&limit={PAGE_SIZE}&continue={}",
                percent_encode(&continue_token)
            );
            let mut page = parse_response(&self.connection.get(&page, accept).await?)?;
            let is_list = page["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
            let items = match page["items"].take() {
                Value::Array(items) => items,
                // Go encodes an empty metadata list like this.
                Value::Null if is_list => Vec::new(),
                _ => return Err(RequestFailure::from_message("the response is not a list".to_owned())),
            };
            for object in items {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().into();
                let object_ref =
                    ObjectRef { kind: kind.clone(), namespace: text("namespace"), name: text("name") };
                objects.push((object_ref, object));
            }
            match page["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => token.clone_into(&mut continue_token),
                _ => return Ok(objects),
            }
        }
    }

    /// The object; `None` if it does not exist.
    pub(super) async fn get(
        &self,
        object_ref: &ObjectRef,
    ) -> std::result::Result<Option<Value>, RequestFailure> {
        let path = self.path(object_ref, Some(""), None);
        match self.connection.get(&path, JSON).await {
            Ok(bytes) => parse_response(&bytes).map(Some),
            Err(failure) if failure.status == Some(404) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Patches an object or one of its subresources.
    pub(super) async fn patch(
        &self,
        object_ref: &ObjectRef,
        subresource: &str,
        patch: &Value,
    ) -> std::result::Result<Value, RequestFailure> {
        self.patch_in(object_ref, None, subresource, patch).await
    }

    /// Patches in a given API version, if the server has it.
    pub(super) async fn patch_in(
        &self,
        object_ref: &ObjectRef,
        version: Option<&str>,
        subresource: &str,
        patch: &Value,
    ) -> std::result::Result<Value, RequestFailure> {
        let mut object = json!({"apiVersion": version});
        let path = self.path(object_ref, Some(subresource), version.map(|_| &mut object));
        self.send(Method::PATCH, &path, MERGE_PATCH, patch).await
    }

    pub(super) async fn bind(
        &self,
        object_ref: &ObjectRef,
        uid: &str,
        node: &str,
    ) -> std::result::Result<(), RequestFailure> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": &*object_ref.name, "namespace": &*object_ref.namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let path = self.path(object_ref, Some("binding"), None);
        self.send(Method::POST, &path, JSON, &binding).await.map(drop)
    }

    /// Deletes an object, with its uid as a precondition.
    pub(super) async fn delete(
        &self,
        object_ref: &ObjectRef,
        uid: &str,
        grace_period_seconds: Option<i64>,
    ) -> std::result::Result<Value, RequestFailure> {
        let mut options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "propagationPolicy": "Background", "preconditions": {"uid": uid},
        });
        if let Some(grace_period_seconds) = grace_period_seconds {
            options["gracePeriodSeconds"] = grace_period_seconds.into();
        }
        self.send(Method::DELETE, &self.path(object_ref, Some(""), None), JSON, &options).await
    }

    /// Removes the finalizers of an object, if the response to its deletion has any.
    pub(super) async fn remove_finalizers(
        &self,
        object_ref: &ObjectRef,
        uid: &str,
        response: &Value,
    ) -> std::result::Result<(), RequestFailure> {
        // The finalizer of a CustomResourceDefinition must stay until its objects are deleted, or they could never be
        // found.
        let is_definition = &*object_ref.kind.kind == "CustomResourceDefinition";
        if is_definition || response["metadata"].get("finalizers").is_none() {
            return Ok(());
        }
        match self.patch(object_ref, "", &json!({"metadata": {"uid": uid, "finalizers": null}})).await {
            Err(failure) if !matches!(failure.status, Some(404 | 409 | 422)) => Err(failure),
            _ => Ok(()),
        }
    }

    /// Creates a namespace that an object needs and that was not recorded.
    pub(super) async fn create_namespace(&self, name: &str) -> std::result::Result<(), RequestFailure> {
        let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.add_run_metadata(&mut namespace, None);
        match self.create(&ObjectRef::cluster_scoped("", "Namespace", name), &namespace).await {
            Err(failure) if failure.status != Some(409) => Err(failure),
            _ => Ok(()),
        }
    }

    /// The path of the collection if `subresource` is `None`, of the object if it is empty, else of the subresource. An
    /// apiVersion that the server does not serve is replaced, also in `object`.
    fn path(&self, object_ref: &ObjectRef, subresource: Option<&str>, object: Option<&mut Value>) -> String {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        let Some(served) = kinds.get(&object_ref.kind) else { return String::new() };
        let api_version = object.as_ref().and_then(|object| object["apiVersion"].as_str());
        let version = api_version
            .map(|api_version| api_version.rsplit_once('/').map_or(api_version, |(_, version)| version));
        let served_version =
            version.filter(|version| served.versions.iter().any(|candidate| candidate == version));
        let served =
            ServedKind { version: served_version.unwrap_or(&served.version).to_owned(), ..served.clone() };
        if let Some(object) = object {
            object["apiVersion"] = served.api_version().into();
        }
        let namespace = Some(&*object_ref.namespace).filter(|name| served.is_namespaced && !name.is_empty());
        let path = served.path(namespace);
        match subresource {
            None => path,
            Some("") => format!("{path}/{}", percent_encode(&object_ref.name)),
            Some(subresource) => format!("{path}/{}/{subresource}", percent_encode(&object_ref.name)),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: &Value,
    ) -> std::result::Result<Value, RequestFailure> {
        let body =
            serde_json::to_vec(body).map_err(|error| RequestFailure::from_message(error.to_string()))?;
        parse_response(&self.connection.write(path, &WriteRequest { method, content_type, body }).await?)
    }
}

/// Whether the response to a deletion says that the object is gone: it may have a grace period or finalizers.
pub(super) fn is_gone(response: &Value) -> bool {
    let metadata = &response["metadata"];
    let has_finalizers = metadata.get("finalizers").is_some() || response["spec"].get("finalizers").is_some();
    response["kind"] == "Status"
        || (!has_finalizers && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0)
}

/// The kinds that may be written to. Secrets are excluded: without a served kind no request path can be built.
async fn discover_writable_kinds(
    connection: &Connection,
) -> std::result::Result<HashMap<Kind, ServedKind>, RequestFailure> {
    let served = discover(connection).await?.into_iter().filter(|served| !served.is_secret());
    Ok(served.map(|served| (served.kind.clone(), served)).collect())
}

fn parse_response(bytes: &[u8]) -> std::result::Result<Value, RequestFailure> {
    serde_json::from_slice(bytes)
        .map_err(|error| RequestFailure::from_message(format!("the response is not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::tests::{Server, http_response};

    #[tokio::test]
    async fn a_target_has_no_secrets() {
        let resource = |name: &str, kind: &str| {
            format!(
                r#"{{"name":"{name}","kind":"{kind}","namespaced":true,"verbs":["list","watch","create"]}}"#
            )
        };
        let list =
            |all: &[String]| http_response("200 OK", &format!(r#"{{"resources":[{}]}}"#, all.join(",")));
        let server = Server::start(move |head| match head.split(' ').nth(1).unwrap() {
            "/api" => http_response("200 OK", r#"{"kind":"APIVersions","versions":["v1"]}"#),
            "/api/v1" => list(&[resource("pods", "Pod"), resource("secrets", "Secret")]),
            "/apis" => http_response(
                "200 OK",
                r#"{"groups":[{"name":"example.com","versions":[{"version":"v1"}]}]}"#,
            ),
            "/apis/example.com/v1" => list(&[resource("secrets", "Credential")]),
            other => panic!("{other}"),
        });
        let target = TargetCluster::connect(server.connection().await, "run").await.unwrap();
        assert_eq!(target.watchable_kinds(), [Kind::new("", "Pod")]);
        let object_ref = ObjectRef { kind: Kind::new("", "Secret"), namespace: "d".into(), name: "s".into() };
        assert_eq!(target.path(&object_ref, None, None), "");
        assert!(!target.refresh_kind(&object_ref.kind).await.unwrap());
    }
}

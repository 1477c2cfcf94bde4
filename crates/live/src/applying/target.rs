//! The requests by which objects are created, changed and deleted.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use http::Method;
use model::Kind;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::connection::{Connection, Sent};
use crate::kinds::{Served, discover};
use crate::run_label::RUN;
use crate::transplant::Address;
use crate::url::encoded;
use crate::watching::Failure;
use crate::{Error, Result};

/// The annotation of all that a replay creates: the uid that the object has in the recording.
pub const UID: &str = "replay.kinescope.io/uid";

/// An API server that objects are written to.
pub(super) struct Target {
    connection: Connection,
    kinds: RwLock<HashMap<Kind, Served>>,
    /// When it was last asked what it has.
    asked: Mutex<Instant>,
    pub(super) run: String,
}

const JSON: &str = "application/json";
/// Lists of what every object has, for the sake of their size.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const MERGE_PATCH: &str = "application/merge-patch+json";
/// Objects that are listed at once.
const PAGE: u32 = 500;
/// A kind that is not there may come: its definition was just created.
const BETWEEN_DISCOVERIES: Duration = Duration::from_secs(1);

// === impl Target ===

impl Target {
    pub(super) async fn find(connection: Connection, run: &str) -> Result<Target> {
        let kinds = by_kind(&connection)
            .await
            .map_err(|failure| Error::Server { doing: "ask which kinds the server has", failure })?;
        let (kinds, asked) = (RwLock::new(kinds), Mutex::new(Instant::now()));
        Ok(Target { connection, kinds, asked, run: run.to_owned() })
    }

    /// All kinds that the server has.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        kinds.values().filter(|served| served.can_be_watched).map(|served| served.kind.clone()).collect()
    }

    /// All that the server has.
    pub(super) fn served(&self) -> Vec<Served> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Whether objects of a kind live in namespaces.
    pub(super) fn is_namespaced(&self, kind: &Kind) -> bool {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        kinds.get(kind).is_some_and(|served| served.is_namespaced)
    }

    /// Whether the server has a kind.
    pub(super) fn has(&self, kind: &Kind) -> bool {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner).contains_key(kind)
    }

    /// Asks again whether it has it.
    pub(super) async fn look_again(&self, kind: &Kind) -> std::result::Result<bool, Failure> {
        let mut asked = self.asked.lock().await;
        if !self.has(kind) && asked.elapsed() >= BETWEEN_DISCOVERIES {
            let kinds = by_kind(&self.connection).await?;
            *self.kinds.write().unwrap_or_else(PoisonError::into_inner) = kinds;
            *asked = Instant::now();
        }
        Ok(self.has(kind))
    }

    /// Whether the status of a kind is written by itself.
    pub(super) fn has_status(&self, kind: &Kind) -> bool {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        kinds.get(kind).is_some_and(|served| served.has_status)
    }

    /// Marks what is created by this run.
    pub(super) fn mark(&self, object: &mut Value, uid: Option<&str>) {
        let mut put = |field: &str, key: &str, value: &str| {
            let metadata = &mut object["metadata"];
            if !metadata[field].is_object() {
                metadata[field] = Value::Object(Map::new());
            }
            metadata[field][key] = value.into();
        };
        put("labels", RUN, &self.run);
        if let Some(uid) = uid {
            put("annotations", UID, uid);
        }
    }

    /// Whether an object was created by this run for that of the recording.
    pub(super) fn is_ours(&self, object: &Value, uid: &str) -> bool {
        // A namespace that an object needed was made without knowing the recorded one.
        let stands_for = object["metadata"]["annotations"].get(UID);
        self.is_of_run(object)
            && stands_for.map_or(object["kind"] == "Namespace", |stands_for| *stands_for == *uid)
    }

    /// Whether an object carries the label of this run.
    pub(super) fn is_of_run(&self, object: &Value) -> bool {
        object["metadata"]["labels"][RUN] == *self.run
    }

    pub(super) async fn create(
        &self,
        address: &Address,
        object: &Value,
    ) -> std::result::Result<Value, Failure> {
        let mut object = object.clone();
        let path = self.path(address, None, Some(&mut object));
        self.send(Method::POST, &path, JSON, &object).await
    }

    /// All objects of a kind that carry the label of a run, or of any.
    pub(super) async fn labelled(
        &self,
        kind: &Kind,
        run: Option<&str>,
    ) -> std::result::Result<Vec<(Address, Value)>, Failure> {
        let selector = run.map_or_else(|| RUN.to_owned(), |run| format!("{RUN}={run}"));
        self.selected(kind, "", &selector, JSON).await
    }

    /// The metadata of all objects of a kind, in a namespace or everywhere, that do not carry the label of a run, or of any.
    pub(super) async fn unlabelled(
        &self,
        kind: &Kind,
        namespace: &str,
        run: Option<&str>,
    ) -> std::result::Result<Vec<(Address, Value)>, Failure> {
        let selector = run.map_or_else(|| format!("!{RUN}"), |run| format!("{RUN}!={run}"));
        self.selected(kind, namespace, &selector, METADATA).await
    }

    async fn selected(
        &self,
        kind: &Kind,
        namespace: &str,
        selector: &str,
        accept: &str,
    ) -> std::result::Result<Vec<(Address, Value)>, Failure> {
        let all = Address { kind: kind.clone(), namespace: namespace.into(), name: "".into() };
        let (path, selector) = (self.path(&all, None, None), encoded(selector));
        let (mut found, mut next) = (Vec::new(), String::new());
        loop {
            let page = format!("{path}?labelSelector={selector}&limit={PAGE}&continue={}", encoded(&next));
            let mut page = read(&self.connection.get(&page, accept).await?)?;
            let is_list = page["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
            let items = match page["items"].take() {
                Value::Array(items) => items,
                // So Go writes a list of metadata in which nothing is.
                Value::Null if is_list => Vec::new(),
                _ => return Err(Failure::said("an answer that is no list".to_owned())),
            };
            for object in items {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().into();
                let address =
                    Address { kind: kind.clone(), namespace: text("namespace"), name: text("name") };
                found.push((address, object));
            }
            match page["metadata"]["continue"].as_str() {
                Some(more) if !more.is_empty() => more.clone_into(&mut next),
                _ => return Ok(found),
            }
        }
    }

    /// The object, if it is there.
    pub(super) async fn get(&self, address: &Address) -> std::result::Result<Option<Value>, Failure> {
        let path = self.path(address, Some(""), None);
        match self.connection.get(&path, JSON).await {
            Ok(bytes) => read(&bytes).map(Some),
            Err(failure) if failure.status == Some(404) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Changes an object, or a part of it that is written by itself.
    pub(super) async fn patch(
        &self,
        address: &Address,
        part: &str,
        patch: &Value,
    ) -> std::result::Result<Value, Failure> {
        self.patch_in(address, None, part, patch).await
    }

    /// The same in the words of one version of its kind, if the server has that.
    pub(super) async fn patch_in(
        &self,
        address: &Address,
        version: Option<&str>,
        part: &str,
        patch: &Value,
    ) -> std::result::Result<Value, Failure> {
        let mut told = json!({"apiVersion": version});
        let path = self.path(address, Some(part), version.map(|_| &mut told));
        self.send(Method::PATCH, &path, MERGE_PATCH, patch).await
    }

    pub(super) async fn bind(
        &self,
        address: &Address,
        uid: &str,
        node: &str,
    ) -> std::result::Result<(), Failure> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": &*address.name, "namespace": &*address.namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let path = self.path(address, Some("binding"), None);
        self.send(Method::POST, &path, JSON, &binding).await.map(drop)
    }

    /// Deletes the object of that uid, and no other of its name.
    pub(super) async fn delete(
        &self,
        address: &Address,
        uid: &str,
        grace: Option<i64>,
    ) -> std::result::Result<Value, Failure> {
        let mut options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "propagationPolicy": "Background", "preconditions": {"uid": uid},
        });
        if let Some(grace) = grace {
            options["gracePeriodSeconds"] = grace.into();
        }
        self.send(Method::DELETE, &self.path(address, Some(""), None), JSON, &options).await
    }

    /// Takes away what holds an object back, if by the answer to its deletion anything does.
    pub(super) async fn release(
        &self,
        address: &Address,
        uid: &str,
        answer: &Value,
    ) -> std::result::Result<(), Failure> {
        // A definition is held until its objects are gone, which nobody else could find any more.
        let is_definition = &*address.kind.kind == "CustomResourceDefinition";
        if is_definition || answer["metadata"].get("finalizers").is_none() {
            return Ok(());
        }
        match self.patch(address, "", &json!({"metadata": {"uid": uid, "finalizers": null}})).await {
            Err(failure) if !matches!(failure.status, Some(404 | 409 | 422)) => Err(failure),
            _ => Ok(()),
        }
    }

    /// Makes a namespace that an object needs and nobody recorded.
    pub(super) async fn make_namespace(&self, name: &str) -> std::result::Result<(), Failure> {
        let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.mark(&mut namespace, None);
        match self.create(&Address::of_cluster("", "Namespace", name), &namespace).await {
            Err(failure) if failure.status != Some(409) => Err(failure),
            _ => Ok(()),
        }
    }

    /// Where an object is, or with `part` where a part of it is; without it, where new ones are sent. An object in a
    /// version that the server does not have is sent in one that it has.
    fn path(&self, address: &Address, part: Option<&str>, object: Option<&mut Value>) -> String {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        let Some(served) = kinds.get(&address.kind) else { return String::new() };
        let said = object.as_ref().and_then(|object| object["apiVersion"].as_str());
        let version = said.map(|said| said.rsplit_once('/').map_or(said, |(_, version)| version));
        let known = version.filter(|version| served.versions.iter().any(|one| one == version));
        let served = Served { version: known.unwrap_or(&served.version).to_owned(), ..served.clone() };
        if let Some(object) = object {
            object["apiVersion"] = served.api_version().into();
        }
        let namespace = Some(&*address.namespace).filter(|name| served.is_namespaced && !name.is_empty());
        let path = served.path(namespace);
        match part {
            None => path,
            Some("") => format!("{path}/{}", encoded(&address.name)),
            Some(part) => format!("{path}/{}/{part}", encoded(&address.name)),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content: &'static str,
        body: &Value,
    ) -> std::result::Result<Value, Failure> {
        let body = serde_json::to_vec(body).map_err(|error| Failure::said(error.to_string()))?;
        read(&self.connection.write(path, &Sent { method, content, body }).await?)
    }
}

/// Whether an object is gone by the answer to its deletion: it may still be given time, or be held back.
pub(super) fn is_gone(answer: &Value) -> bool {
    let metadata = &answer["metadata"];
    let is_held = metadata.get("finalizers").is_some() || answer["spec"].get("finalizers").is_some();
    answer["kind"] == "Status"
        || (!is_held && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0)
}

/// The kinds that may be written to. Secrets are none of them: without one that is served there is no path to a request.
async fn by_kind(connection: &Connection) -> std::result::Result<HashMap<Kind, Served>, Failure> {
    let served = discover(connection).await?.into_iter().filter(|served| !served.is_secret());
    Ok(served.map(|served| (served.kind.clone(), served)).collect())
}

fn read(bytes: &[u8]) -> std::result::Result<Value, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|error| Failure::said(format!("an answer that is no JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::tests::{Server, answer};

    #[tokio::test]
    async fn a_target_has_no_secrets() {
        let resource = |name: &str, kind: &str| {
            format!(
                r#"{{"name":"{name}","kind":"{kind}","namespaced":true,"verbs":["list","watch","create"]}}"#
            )
        };
        let list = |all: &[String]| answer("200 OK", &format!(r#"{{"resources":[{}]}}"#, all.join(",")));
        let server = Server::start(move |head| match head.split(' ').nth(1).unwrap() {
            "/api" => answer("200 OK", r#"{"kind":"APIVersions","versions":["v1"]}"#),
            "/api/v1" => list(&[resource("pods", "Pod"), resource("secrets", "Secret")]),
            "/apis" => {
                answer("200 OK", r#"{"groups":[{"name":"example.com","versions":[{"version":"v1"}]}]}"#)
            }
            "/apis/example.com/v1" => list(&[resource("secrets", "Credential")]),
            other => panic!("{other}"),
        });
        let target = Target::find(server.connection().await, "run").await.unwrap();
        assert_eq!(target.kinds(), [Kind::new("", "Pod")]);
        let address = Address { kind: Kind::new("", "Secret"), namespace: "d".into(), name: "s".into() };
        assert_eq!(target.path(&address, None, None), "");
        assert!(!target.look_again(&address.kind).await.unwrap());
    }
}

//! One audit event: whether it is a write, to what, and what is kept of it.

use std::borrow::Cow;
use std::fmt;

use model::Moment;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{API_VERSION, AuditedWrite, KIND};
use crate::pull::shown;

/// An event. Most are reads, so that only what decides about it is looked at before it is kept.
pub(super) struct AuditEvent<'a> {
    text: &'a str,
    head: Head<'a>,
}

/// What was written to.
pub(super) struct Target {
    /// Empty for objects of the whole cluster.
    pub(super) namespace: String,
    /// As kubectl names it: `deployments.apps`.
    pub(super) resource: String,
    /// `None`: all of them.
    pub(super) name: Option<String>,
}

/// Why an event is no version of anything.
pub(super) enum Ignored {
    /// The same request is told again when it has ended.
    OtherStage,
    /// An object was created, and it is not said under which name.
    Unnamed,
    /// What it is, in the plural.
    Because(&'static str),
}

/// Why a text is no audit event.
pub(super) enum NoEvent {
    /// It is cut off, as the last line of a log that is being written.
    CutOff,
    Because(String),
}

/// The fields of an object in their order.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(borrow)]
    stage: Cow<'a, str>,
    #[serde(borrow)]
    verb: Cow<'a, str>,
    #[serde(borrow, default, rename = "requestURI")]
    request_uri: Cow<'a, str>,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    response_object: Option<Response>,
    stage_timestamp: String,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    namespace: String,
    name: String,
    api_group: String,
    subresource: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: i32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response {
    metadata: Option<ResponseMeta>,
}

/// What is kept of a response.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct ResponseMeta {
    #[serde(skip_serializing)]
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

/// The events of a value of a log: one, or the list that a webhook is sent.
pub(super) fn parse(text: &str) -> Result<Vec<AuditEvent<'_>>, NoEvent> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(rename = "apiVersion", borrow, default)]
        api_version: Cow<'a, str>,
        #[serde(borrow, default)]
        kind: Cow<'a, str>,
        #[serde(borrow, default)]
        items: Option<Vec<&'a RawValue>>,
    }
    let envelope: Envelope<'_> = serde_json::from_str(text)?;
    match (&*envelope.api_version, &*envelope.kind, envelope.items) {
        ("audit.k8s.io/v1", "Event", _) => Ok(vec![AuditEvent::parse(text)?]),
        ("audit.k8s.io/v1", "EventList", Some(items)) => {
            items.into_iter().map(|item| AuditEvent::parse(item.get())).collect()
        }
        (version, kind, _) => Err(NoEvent::Because(format!(
            "\"{}\" of \"{}\" is no audit event: an Event or EventList of audit.k8s.io/v1 is expected",
            shown(kind),
            shown(version)
        ))),
    }
}

/// Reads what is kept.
pub(super) fn kept_in(text: &str) -> Option<AuditedWrite> {
    #[derive(Deserialize)]
    struct Kept<'a> {
        #[serde(rename = "apiVersion", borrow)]
        api_version: Cow<'a, str>,
        #[serde(borrow)]
        kind: Cow<'a, str>,
        #[serde(default)]
        response: ResponseMeta,
        event: KeptEvent,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct KeptEvent {
        verb: String,
        user: User,
        impersonated_user: Option<User>,
        #[serde(default)]
        user_agent: String,
        #[serde(default, rename = "sourceIPs")]
        source_ips: Vec<String>,
        #[serde(default, rename = "auditID")]
        audit_id: String,
        object_ref: ObjectRef,
        request_received_timestamp: Option<String>,
        stage_timestamp: String,
    }
    let kept: Kept<'_> = serde_json::from_str(text).ok()?;
    let event = kept.event;
    let received = event.request_received_timestamp.unwrap_or(event.stage_timestamp);
    (kept.api_version == API_VERSION && kept.kind == KIND).then_some(())?;
    Some(AuditedWrite {
        received: received.parse().ok()?,
        verb: event.verb,
        subresource: event.object_ref.subresource,
        user: event.user.username,
        impersonated_user: event.impersonated_user.map(|user| user.username),
        user_agent: event.user_agent,
        source_ips: event.source_ips,
        audit_id: event.audit_id,
        resource_version: kept.response.resource_version,
    })
}

// === impl AuditEvent ===

impl<'a> AuditEvent<'a> {
    fn parse(text: &'a str) -> Result<AuditEvent<'a>, NoEvent> {
        Ok(AuditEvent { text, head: serde_json::from_str(text)? })
    }

    /// What it wrote to.
    pub(super) fn write(&self) -> Result<Target, Ignored> {
        use Ignored::{Because, OtherStage, Unnamed};
        let head = &self.head;
        match &*head.stage {
            "ResponseComplete" => {}
            "Panic" => return Err(Because("requests that failed")),
            _ => return Err(OtherStage),
        }
        if !["create", "update", "patch", "delete", "deletecollection"].contains(&&*head.verb) {
            return Err(Because("reads"));
        }
        let Some(target) = head.object_ref.as_ref().filter(|target| !target.resource.is_empty()) else {
            return Err(Because("requests about no object"));
        };
        if !head.response_status.as_ref().is_some_and(|status| (200..300).contains(&status.code)) {
            return Err(Because("requests that failed"));
        }
        if head.request_uri.split_once('?').is_some_and(|(_, query)| query.contains("dryRun=")) {
            return Err(Because("dry runs"));
        }
        if let Some(why) = target.writes_nothing(&head.user) {
            return Err(Because(why));
        }
        let made_up = self.response().map_or("", |response| &response.name);
        let name = match (&*head.verb, &*target.name, made_up) {
            ("deletecollection", _, _) => None,
            (_, "", "") => return Err(Unnamed),
            (_, "", name) | (_, name, _) => Some(name.to_owned()),
        };
        Ok(Target { namespace: target.namespace().to_owned(), resource: target.resource(), name })
    }

    fn response(&self) -> Option<&ResponseMeta> {
        self.head.response_object.as_ref()?.metadata.as_ref()
    }

    /// Whether the object is gone, or will be: it may be written to again before.
    pub(super) fn deletes(&self) -> bool {
        self.head.verb == "delete"
    }

    /// When the request had been answered.
    pub(super) fn completed(&self) -> Result<Moment, String> {
        let time = &self.head.stage_timestamp;
        time.parse().map_err(|error| format!("stageTimestamp \"{}\": {error}", shown(time)))
    }

    /// The object that keeps it: all but the bodies.
    pub(super) fn kept(&self, namespace: &str, name: &str) -> Result<String, String> {
        #[derive(Serialize)]
        struct Metadata<'a> {
            name: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            namespace: &'a str,
        }
        let Fields(fields) = serde_json::from_str(self.text).map_err(|error| error.to_string())?;
        let metadata = json(&Metadata { name, namespace });
        let mut kept = format!(r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","metadata":{metadata}"#);
        // Of a collection it is the list's.
        let is_one = self.head.verb != "deletecollection";
        if let Some(response) =
            self.response().filter(|response| is_one && response.resource_version.is_some())
        {
            kept += &format!(r#","response":{}"#, json(response));
        }
        kept += r#","event":{"#;
        let left_out = ["kind", "apiVersion", "requestObject", "responseObject"];
        let fields = fields.iter().filter(|(name, _)| !left_out.contains(&&**name));
        for (index, (name, value)) in fields.enumerate() {
            let comma = if index > 0 { "," } else { "" };
            kept += &format!("{comma}{}:{}", json(name), value.get());
        }
        Ok(kept + "}}")
    }
}

// === impl ObjectRef ===

impl ObjectRef {
    fn resource(&self) -> String {
        if self.api_group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.api_group)
        }
    }

    /// A Namespace is said to be in itself.
    fn namespace(&self) -> &str {
        if self.resource == "namespaces" && self.api_group.is_empty() { "" } else { &self.namespace }
    }

    /// Why a successful request changes no object that anybody asks about.
    fn writes_nothing(&self, user: &User) -> Option<&'static str> {
        let group = &*self.api_group;
        // What other subresources do, as exec and token, leaves the object as it is.
        let writing = [
            "",
            "status",
            "scale",
            "binding",
            "eviction",
            "finalize",
            "approval",
            "ephemeralcontainers",
            "resize",
        ];
        let by_its_kubelet = user.username.strip_prefix("system:node:") == Some(&self.name);
        match &*self.resource {
            "events" if ["", "events.k8s.io"].contains(&group) => Some("writes of Events"),
            "leases" if self.namespace == "kube-node-lease" => Some("heartbeats of nodes"),
            "nodes" if self.subresource == "status" && by_its_kubelet => Some("heartbeats of nodes"),
            _ if ["authentication.k8s.io", "authorization.k8s.io"].contains(&group) => {
                Some("requests that write nothing")
            }
            _ if !writing.contains(&&*self.subresource) => Some("requests that write nothing"),
            _ => None,
        }
    }
}

// === impl NoEvent ===

impl From<serde_json::Error> for NoEvent {
    fn from(error: serde_json::Error) -> NoEvent {
        match error.is_eof() {
            true => NoEvent::CutOff,
            false => NoEvent::Because(format!("not an audit event: {error}")),
        }
    }
}

// === impl Fields ===

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields<'de>, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                #[derive(Deserialize)]
                struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
                let mut fields = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts are JSON")
}

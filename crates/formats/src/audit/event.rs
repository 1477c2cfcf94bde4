//! An audit event: its target if it is a write, and the object that stores it.

use std::borrow::Cow;
use std::fmt;

use model::Moment;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{API_VERSION, AuditedWrite, KIND};
use crate::json_pull::escape_for_message;

/// An audit event. Most events are reads, so only the fields needed to recognize a write are parsed at first.
pub(super) struct AuditEvent<'a> {
    text: &'a str,
    header: EventHeader<'a>,
}

/// The object, or all objects, that a request wrote to.
pub(super) struct WriteTarget {
    /// Empty for cluster-scoped objects.
    pub(super) namespace: String,
    /// As in kubectl: `deployments.apps`.
    pub(super) resource: String,
    /// `None` for all objects.
    pub(super) name: Option<String>,
}

/// Why an event is not recorded as a write.
pub(super) enum SkipReason {
    /// The request is logged again when it completes.
    OtherStage,
    /// An object was created, and the log does not contain its name.
    Unnamed,
    /// A category of events that are counted and left out, in the plural.
    Category(&'static str),
}

/// Why a text is not an audit event.
pub(super) enum ParseError {
    /// It is truncated, as the last line of a log that is being written.
    Truncated,
    Invalid(String),
}

/// The fields of an object in document order.
struct OrderedFields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventHeader<'a> {
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

/// The metadata stored of a response.
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

/// Parses the events of one JSON value of a log: a single event, or the list that a webhook receives.
pub(super) fn parse(text: &str) -> Result<Vec<AuditEvent<'_>>, ParseError> {
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
        (version, kind, _) => Err(ParseError::Invalid(format!(
            "\"{}\" of \"{}\" is not an audit event: expected an Event or EventList of audit.k8s.io/v1",
            escape_for_message(kind),
            escape_for_message(version)
        ))),
    }
}

/// Parses the write stored in an object.
pub(super) fn parse_stored(text: &str) -> Option<AuditedWrite> {
    #[derive(Deserialize)]
    struct StoredWrite<'a> {
        #[serde(rename = "apiVersion", borrow)]
        api_version: Cow<'a, str>,
        #[serde(borrow)]
        kind: Cow<'a, str>,
        #[serde(default)]
        response: ResponseMeta,
        event: StoredEvent,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct StoredEvent {
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
    let stored: StoredWrite<'_> = serde_json::from_str(text).ok()?;
    let event = stored.event;
    let received = event.request_received_timestamp.unwrap_or(event.stage_timestamp);
    (stored.api_version == API_VERSION && stored.kind == KIND).then_some(())?;
    Some(AuditedWrite {
        received: received.parse().ok()?,
        verb: event.verb,
        subresource: event.object_ref.subresource,
        user: event.user.username,
        impersonated_user: event.impersonated_user.map(|user| user.username),
        user_agent: event.user_agent,
        source_ips: event.source_ips,
        audit_id: event.audit_id,
        resource_version: stored.response.resource_version,
    })
}

// === impl AuditEvent ===

impl<'a> AuditEvent<'a> {
    fn parse(text: &'a str) -> Result<AuditEvent<'a>, ParseError> {
        Ok(AuditEvent { text, header: serde_json::from_str(text)? })
    }

    /// The target of the write, or the reason to skip the event.
    pub(super) fn target(&self) -> Result<WriteTarget, SkipReason> {
        use SkipReason::{Category, OtherStage, Unnamed};
        let head = &self.header;
        match &*head.stage {
            "ResponseComplete" => {}
            "Panic" => return Err(Category("failed requests")),
            _ => return Err(OtherStage),
        }
        if !["create", "update", "patch", "delete", "deletecollection"].contains(&&*head.verb) {
            return Err(Category("reads"));
        }
        let Some(target) = head.object_ref.as_ref().filter(|target| !target.resource.is_empty()) else {
            return Err(Category("requests without an object"));
        };
        if !head.response_status.as_ref().is_some_and(|status| (200..300).contains(&status.code)) {
            return Err(Category("failed requests"));
        }
        if head.request_uri.split_once('?').is_some_and(|(_, query)| query.contains("dryRun=")) {
            return Err(Category("dry runs"));
        }
        if let Some(why) = target.skip_reason(&head.user) {
            return Err(Category(why));
        }
        let generated_name = self.response().map_or("", |response| &response.name);
        let name = match (&*head.verb, &*target.name, generated_name) {
            ("deletecollection", _, _) => None,
            (_, "", "") => return Err(Unnamed),
            (_, "", name) | (_, name, _) => Some(name.to_owned()),
        };
        Ok(WriteTarget { namespace: target.namespace().to_owned(), resource: target.resource(), name })
    }

    fn response(&self) -> Option<&ResponseMeta> {
        self.header.response_object.as_ref()?.metadata.as_ref()
    }

    /// Whether the request deletes the object. With a grace period or finalizers more writes may follow before it is
    /// gone.
    pub(super) fn is_delete(&self) -> bool {
        self.header.verb == "delete"
    }

    /// When the request completed.
    pub(super) fn completed(&self) -> Result<Moment, String> {
        let time = &self.header.stage_timestamp;
        time.parse().map_err(|error| format!("stageTimestamp \"{}\": {error}", escape_for_message(time)))
    }

    /// The object that stores the event, without request and response bodies.
    pub(super) fn to_stored_json(&self, namespace: &str, name: &str) -> Result<String, String> {
        #[derive(Serialize)]
        struct Metadata<'a> {
            name: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            namespace: &'a str,
        }
        let OrderedFields(fields) = serde_json::from_str(self.text).map_err(|error| error.to_string())?;
        let metadata = to_json(&Metadata { name, namespace });
        let mut json = format!(r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","metadata":{metadata}"#);
        // The response to deletecollection carries the list's resourceVersion.
        let is_one = self.header.verb != "deletecollection";
        if let Some(response) =
            self.response().filter(|response| is_one && response.resource_version.is_some())
        {
            json += &format!(r#","response":{}"#, to_json(response));
        }
        json += r#","event":{"#;
        let left_out = ["kind", "apiVersion", "requestObject", "responseObject"];
        let fields = fields.iter().filter(|(name, _)| !left_out.contains(&&**name));
        for (index, (name, value)) in fields.enumerate() {
            let comma = if index > 0 { "," } else { "" };
            json += &format!("{comma}{}:{}", to_json(name), value.get());
        }
        Ok(json + "}}")
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

    /// The API server logs a Namespace as being in itself.
    fn namespace(&self) -> &str {
        if self.resource == "namespaces" && self.api_group.is_empty() { "" } else { &self.namespace }
    }

    /// Why a successful request is not a write worth recording; `None` if it is one.
    fn skip_reason(&self, user: &User) -> Option<&'static str> {
        let group = &*self.api_group;
        // Other subresources, such as exec and token, do not change the object.
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
            "leases" if self.namespace == "kube-node-lease" => Some("node heartbeats"),
            "nodes" if self.subresource == "status" && by_its_kubelet => Some("node heartbeats"),
            _ if ["authentication.k8s.io", "authorization.k8s.io"].contains(&group) => {
                Some("requests that do not write")
            }
            _ if !writing.contains(&&*self.subresource) => Some("requests that do not write"),
            _ => None,
        }
    }
}

// === impl ParseError ===

impl From<serde_json::Error> for ParseError {
    fn from(error: serde_json::Error) -> ParseError {
        match error.is_eof() {
            true => ParseError::Truncated,
            false => ParseError::Invalid(format!("not an audit event: {error}")),
        }
    }
}

// === impl OrderedFields ===

impl<'de> Deserialize<'de> for OrderedFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OrderedFields<'de>, D::Error> {
        struct OrderedFieldsVisitor;
        impl<'de> Visitor<'de> for OrderedFieldsVisitor {
            type Value = OrderedFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedFields<'de>, A::Error> {
                #[derive(Deserialize)]
                struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
                let mut fields = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    fields.push((name, value));
                }
                Ok(OrderedFields(fields))
            }
        }
        deserializer.deserialize_map(OrderedFieldsVisitor)
    }
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("strings serialize as JSON")
}

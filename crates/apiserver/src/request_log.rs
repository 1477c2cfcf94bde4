//! Counts of requests, for `/metrics`, and the audit log.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use kubernetes::time::micro_time;
use serde_json::{Value, json};

use crate::registry::Registry;
use crate::request_info::RequestInfo;
use crate::user::UserInfo;

/// What is known of the requests so far.
pub(crate) struct RequestLog {
    registry: Arc<Registry>,
    counts: Mutex<BTreeMap<RequestKind, u64>>,
    audit: Option<Mutex<File>>,
    /// Numbers audit events.
    next_id: AtomicU64,
}

/// Requests that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RequestKind {
    verb: &'static str,
    group: String,
    resource: String,
    subresource: String,
    code: u16,
}

/// The most kinds of requests that are counted: paths are the clients' choice.
const MAX_KINDS: usize = 2_000;

/// The longest user agent in an audit event, as in kube-apiserver: it is the clients' choice too.
const MAX_USER_AGENT_BYTES: usize = 1_024;

/// Middleware that counts requests and answers `/metrics`.
pub(crate) async fn log_request(
    State(log): State<Arc<RequestLog>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if path == "/metrics" && request.method() == Method::GET {
        return log.metrics().into_response();
    }
    let info = RequestInfo::parse(path);
    let query = request.uri().query().unwrap_or_default();
    let verb = verb_of(request.method(), info.as_ref(), query);
    let uri = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let received = log.registry.store().now();
    let user = request.extensions().get().cloned().unwrap_or_else(UserInfo::admin);
    let user_agent = user_agent(request.headers());
    let response = next.run(request).await;
    let code = response.status().as_u16();
    if let Some(audit) = &log.audit {
        let now = log.registry.store().now();
        let id = log.next_id.fetch_add(1, Ordering::Relaxed);
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": format!("{id:08}"),
            "stage": "ResponseComplete", "requestURI": uri, "verb": verb,
            "user": user.to_json(), "responseStatus": {"metadata": {}, "code": code},
            "requestReceivedTimestamp": micro_time(received), "stageTimestamp": micro_time(now),
        });
        if let Some(user_agent) = user_agent {
            event["userAgent"] = user_agent.into();
        }
        if let Some(info) = &info {
            event["objectRef"] = object_ref(info);
        }
        let mut file = audit.lock().unwrap_or_else(PoisonError::into_inner);
        // The request was answered: a full disk does not change that.
        let _ = file.write_all(format!("{event}\n").as_bytes());
    }
    log.count(verb, info, code);
    response
}

// === impl RequestLog ===

impl RequestLog {
    pub(crate) fn new(registry: Arc<Registry>, audit: Option<File>) -> RequestLog {
        RequestLog {
            registry,
            counts: Mutex::default(),
            audit: audit.map(Mutex::new),
            next_id: AtomicU64::new(1),
        }
    }

    fn count(&self, verb: &'static str, info: Option<RequestInfo>, code: u16) {
        let info = info.filter(|info| {
            let table = self.registry.store().resources();
            table.find(&info.group, &info.version, &info.resource).is_some()
        });
        let (group, resource, subresource) = info
            .map(|info| (info.group, info.resource, info.subresource.unwrap_or_default()))
            .unwrap_or_default();
        let kind = RequestKind { verb, group, resource, subresource, code };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() < MAX_KINDS || counts.contains_key(&kind) {
            *counts.entry(kind).or_default() += 1;
        }
    }

    /// Metrics in Prometheus' text format, with kube-apiserver's names.
    fn metrics(&self) -> String {
        let mut text = String::from(
            "# HELP apiserver_request_total Requests by verb, resource and response code.\n\
             # TYPE apiserver_request_total counter\n",
        );
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (RequestKind { verb, group, resource, subresource, code }, count) in counts {
            let _ = writeln!(
                text,
                "apiserver_request_total{{verb={verb:?},group={group:?},resource={resource:?},\
                 subresource={subresource:?},code=\"{code}\"}} {count}"
            );
        }
        text.push_str(
            "# HELP apiserver_resource_objects Objects by resource.\n# TYPE apiserver_resource_objects gauge\n",
        );
        let store = self.registry.store();
        // A store that is not in memory would have to read them.
        for resource in store.resources().iter().filter(|_| store.is_in_memory()) {
            let count = store.list(resource).map_or(0, |list| list.objects.len());
            let (group, plural) = (&resource.kind.group, &resource.plural);
            let _ =
                writeln!(text, "apiserver_resource_objects{{group=\"{group}\",resource={plural:?}}} {count}");
        }
        text
    }
}

/// The verb of a request, as in RBAC.
fn verb_of(method: &Method, info: Option<&RequestInfo>, query: &str) -> &'static str {
    let has_name = info.is_none_or(|info| info.name.is_some());
    let is_watch = query.split('&').any(|part| matches!(part, "watch=true" | "watch=1" | "watch"));
    match *method {
        Method::GET | Method::HEAD if info.is_some() && is_watch => "watch",
        Method::GET | Method::HEAD if !has_name => "list",
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if !has_name => "deletecollection",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// Which program sent a request: with several controllers on one server, all of them are the same user.
fn user_agent(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::USER_AGENT)?;
    let bytes = value.as_bytes();
    let text = String::from_utf8_lossy(bytes.get(..MAX_USER_AGENT_BYTES).unwrap_or(bytes));
    let suffix = if bytes.len() > MAX_USER_AGENT_BYTES { "...TRUNCATED" } else { "" };
    Some(format!("{text}{suffix}"))
}

fn object_ref(info: &RequestInfo) -> Value {
    let mut object = json!({"resource": info.resource, "apiVersion": info.version});
    let fields = [
        ("apiGroup", Some(&info.group).filter(|group| !group.is_empty())),
        ("namespace", info.namespace.as_ref()),
        ("name", info.name.as_ref()),
        ("subresource", info.subresource.as_ref()),
    ];
    for (field, value) in fields {
        if let Some(value) = value {
            object[field] = value.as_str().into();
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_user_agent_is_cut() {
        let cut = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::USER_AGENT, value.parse().unwrap());
            user_agent(&headers)
        };
        assert_eq!(user_agent(&HeaderMap::new()), None);
        assert_eq!(cut("kubectl/v1.36.4").as_deref(), Some("kubectl/v1.36.4"));
        let longest = "a".repeat(1_024);
        assert_eq!(cut(&longest), Some(longest.clone()));
        assert_eq!(cut(&format!("{longest}b")), Some(format!("{longest}...TRUNCATED")));
    }

    #[test]
    fn verbs_are_those_of_rbac() {
        let verb = |method: Method, path: &str, query: &str| {
            verb_of(&method, RequestInfo::parse(path).as_ref(), query)
        };
        assert_eq!(verb(Method::GET, "/api/v1/pods", ""), "list");
        assert_eq!(verb(Method::GET, "/api/v1/pods", "limit=5&watch=true"), "watch");
        assert_eq!(verb(Method::GET, "/api/v1/nodes/n", ""), "get");
        assert_eq!(verb(Method::GET, "/version", ""), "get");
        assert_eq!(verb(Method::DELETE, "/api/v1/nodes", ""), "deletecollection");
        assert_eq!(verb(Method::PATCH, "/api/v1/nodes/n/status", ""), "patch");
    }
}

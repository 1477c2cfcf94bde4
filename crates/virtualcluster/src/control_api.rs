//! The control of a virtual cluster over HTTP, beside the Kubernetes API: `/kinescope/v1/cluster/…`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{ApiError, ObjectMap};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use model::{Kind, Moment};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::cluster::VirtualCluster;
use crate::control_plane::{AdvanceCancellation, AdvanceError, AdvanceTarget};

/// The path below which a cluster is controlled.
pub const CONTROL_PATH: &str = "/kinescope/v1/cluster";

/// The body of a request to move a virtual clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdvanceRequest {
    /// By so many seconds.
    pub seconds: Option<u64>,
    /// Until nothing is about to happen.
    pub until_idle: bool,
}

/// Cancels an advance when the client that waits for it has gone: then its request is dropped.
struct CancelOnDrop(AdvanceCancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The routes that control a cluster.
pub fn control_routes(cluster: Arc<VirtualCluster>) -> Router {
    let routes = Router::new()
        .route("/reset", post(reset))
        .route("/advance", post(advance))
        .route("/clock", get(clock))
        .route("/dump", get(dump))
        .with_state(cluster);
    Router::new().nest(CONTROL_PATH, routes)
}

/// The same routes of a cluster of the past, which refuse everything.
pub fn read_only_control_routes(moment: Moment) -> Router {
    let refuse = move || async move {
        ApiError::method_not_allowed(format!(
            "this is the cluster as it was at {moment}, which is read-only; `kinescope export --format manifests --at \
             {moment}` prints its objects"
        ))
    };
    Router::new().route(&format!("{CONTROL_PATH}/{{*path}}"), any(refuse))
}

async fn reset(State(cluster): State<Arc<VirtualCluster>>) -> Response {
    cluster.reset();
    Json(json!({"objects": object_count(&cluster)})).into_response()
}

async fn advance(State(cluster): State<Arc<VirtualCluster>>, body: Bytes) -> Result<Response, ApiError> {
    let request: AdvanceRequest = serde_json::from_slice(&body)
        .map_err(|error| ApiError::bad_request(format!("invalid request: {error}")))?;
    let target = match request {
        AdvanceRequest { seconds: Some(seconds), until_idle: false } => {
            AdvanceTarget::By(Duration::from_secs(seconds))
        }
        AdvanceRequest { seconds: None, until_idle: true } => AdvanceTarget::UntilIdle,
        _ => return Err(ApiError::bad_request("expected either seconds or untilIdle")),
    };
    if let Some((lease, holder)) = held_lease(&cluster) {
        return Err(ApiError::bad_request(format!(
            "{holder} holds the Lease {lease}: a controller outside of the cluster would not notice that its clock moves"
        )));
    }
    let cancellation = AdvanceCancellation::default();
    let _guard = CancelOnDrop(cancellation.clone());
    let moved = tokio::task::spawn_blocking(move || cluster.advance_unless(target, cancellation)).await;
    let now = moved.unwrap_or(Err(AdvanceError::Stopped));
    let now = now.map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(Json(json!({"now": now.to_string()})).into_response())
}

/// The moment that the cluster's clock shows, also while it is moved.
async fn clock(State(cluster): State<Arc<VirtualCluster>>) -> Response {
    Json(json!({"now": cluster.now().to_string()})).into_response()
}

/// A Lease in `kube-system`, where controllers elect their leaders, and its holder.
fn held_lease(cluster: &VirtualCluster) -> Option<(String, String)> {
    let leases = cluster.store().objects(&Kind::new("coordination.k8s.io", "Lease"));
    let mut holders = leases.range(Some("kube-system"), None).filter_map(|lease| {
        let (meta, value): (_, Value) = (lease.meta(), lease.value().ok()?);
        let holder = value["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty())?;
        Some((format!("{}/{}", meta.namespace, meta.name), holder.to_owned()))
    });
    holders.next()
}

/// All objects, one per line, and an empty line that says that none is missing.
async fn dump(State(cluster): State<Arc<VirtualCluster>>) -> Response {
    let store = cluster.store();
    let kinds: Vec<ObjectMap> = store.kinds().iter().map(|kind| store.objects(kind)).collect();
    let (sender, lines) = mpsc::channel::<Result<Bytes, Infallible>>(16);
    tokio::task::spawn_blocking(move || {
        let objects = kinds.iter().flat_map(ObjectMap::iter);
        let lines = objects.map(|object| format!("{}\n", object.as_str())).chain(["\n".to_owned()]);
        for line in lines {
            if sender.blocking_send(Ok(line.into())).is_err() {
                break;
            }
        }
    });
    let body = Body::from_stream(ReceiverStream::new(lines));
    ([(header::CONTENT_TYPE, "application/jsonl")], body).into_response()
}

fn object_count(cluster: &VirtualCluster) -> usize {
    let store = cluster.store();
    store.kinds().iter().map(|kind| store.objects(kind).len()).sum()
}

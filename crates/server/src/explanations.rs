//! `/api/v1/histories/{name}/explain`: the scheduler's and the autoscaler's decisions about a pod, or the autoscaler's
//! about a node.

use std::io::{Cursor, Write};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use explain::{ExplainOptions, Manifest, Subject};
use query::{OpenHistory, OptionNames, ProgressListener, autoscaler_choice, scheduler_choice};
use scheduler::Version;
use serde::Deserialize;
use serde_json::Value;

use super::AppState;
use super::api_error::{ApiError, Result};
use super::catalog::CatalogEntry;
use super::extractors::{HistoryName, QueryParams, non_empty, parse_moment};
use super::worker_pool::{BodyWriter, ClientHandle};

/// The names of options in messages: parameters of the query.
const PARAMETERS: OptionNames = OptionNames {
    scheduler_config: "the flag --scheduler-config of `kinescope explain`",
    node_groups: "the flag --node-groups of `kinescope explain`",
    autoscaler: "autoscalerFlags",
    ..super::replays::FIELDS
};

/// The pod or node to explain, the moment, and the settings of scheduler and autoscaler.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExplainQuery {
    pod: Option<String>,
    node: Option<String>,
    namespace: Option<String>,
    at: Option<String>,
    source: Option<String>,
    scheduler_version: Option<String>,
    autoscaler_flags: Option<String>,
    autoscaler_version: Option<String>,
}

/// Collects warnings for the response, and stops the work when the client disconnects.
struct ClientListener {
    client: ClientHandle,
    warnings: Vec<String>,
}

/// `GET /api/v1/histories/{name}/explain`
pub(super) async fn explain_recorded(
    State(app): State<Arc<AppState>>,
    HistoryName(name): HistoryName,
    QueryParams(params): QueryParams<ExplainQuery>,
) -> Result<Response> {
    respond(app, name, params, None).await
}

/// `POST /api/v1/histories/{name}/explain`
pub(super) async fn explain_manifest(
    State(app): State<Arc<AppState>>,
    HistoryName(name): HistoryName,
    QueryParams(params): QueryParams<ExplainQuery>,
    body: Bytes,
) -> Result<Response> {
    respond(app, name, params, Some(body)).await
}

async fn respond(
    app: Arc<AppState>,
    name: String,
    params: ExplainQuery,
    manifest: Option<Bytes>,
) -> Result<Response> {
    let state = app.clone();
    let write = move |sink: &mut BodyWriter| {
        let explanation = params.explain(&state.catalog.find(&name)?, manifest, sink.client())?;
        writeln!(sink, "{explanation:#}")?;
        Ok(())
    };
    let body = app.workers.run_heavy(write).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

// === impl ExplainQuery ===

impl ExplainQuery {
    fn explain(&self, entry: &CatalogEntry, manifest: Option<Bytes>, client: ClientHandle) -> Result<Value> {
        let open_history = OpenHistory::open(&entry.path)?;
        let at = parse_moment(&open_history, &self.at)?;
        let source =
            open_history.source(non_empty(&self.source), "?source=").map_err(ApiError::bad_request)?;
        let source = source.unwrap_or_default();
        let mut listener = ClientListener { client, warnings: Vec::new() };
        let settings = self.settings()?;
        let explanation = match (non_empty(&self.pod), non_empty(&self.node), manifest) {
            (None, Some(node), None) => {
                let autoscaler = &settings.autoscaler;
                explain::node::explain_node(&open_history, source, node, at, autoscaler, &mut listener)
                    .map(|explanation| explanation.to_json())
            }
            (pod, None, manifest) if pod.is_some() != manifest.is_some() => {
                let subject = self.subject(pod, manifest)?;
                explain::explain_pod(&open_history, source, &subject, at, &settings, &mut listener)
                    .map(|explanation| explanation.to_json())
            }
            _ => {
                let message = "specify exactly one of pod=, node= or a manifest";
                return Err(ApiError::new(StatusCode::BAD_REQUEST, message));
            }
        };
        let mut explanation =
            explanation.map_err(|error| match error.downcast_ref::<explain::NotFound>() {
                Some(missing) => ApiError::new(StatusCode::NOT_FOUND, missing.to_string()),
                None => ApiError::bad_request(error),
            })?;
        explanation["warnings"] = listener.warnings.into();
        Ok(explanation)
    }

    fn subject(&self, pod: Option<&str>, manifest: Option<Bytes>) -> Result<Subject> {
        let namespace = non_empty(&self.namespace).map(str::to_owned);
        let Some(text) = manifest else {
            let name = pod.unwrap_or_default().to_owned();
            return Ok(Subject::Recorded { namespace: namespace.unwrap_or_else(|| "default".into()), name });
        };
        let manifest =
            Manifest::read("the manifest", Box::new(Cursor::new(text))).map_err(ApiError::bad_request)?;
        Ok(Subject::Manifest { manifest, namespace })
    }

    fn settings(&self) -> Result<ExplainOptions<'_>> {
        let version = non_empty(&self.scheduler_version).map(str::parse::<Version>).transpose();
        let autoscaler = non_empty(&self.autoscaler_version).map(autoscaler::Version::parse).transpose();
        Ok(ExplainOptions {
            scheduler: scheduler_choice::SchedulerOptions {
                file: None,
                version: version.map_err(ApiError::bad_request)?.unwrap_or(Version::V1_36),
                edits: &[],
                names: PARAMETERS,
            },
            autoscaler: autoscaler_choice::AutoscalerOptions {
                node_groups: None,
                edits: &[],
                names: PARAMETERS,
                flags: non_empty(&self.autoscaler_flags).filter(|flags| !flags.trim().is_empty()),
                version: autoscaler.map_err(ApiError::bad_request)?,
            },
        })
    }
}

// === impl ClientListener ===

impl ProgressListener for ClientListener {
    fn warn(&mut self, sentence: &str) {
        self.warnings.push(sentence.to_owned());
    }

    fn progress(&mut self, _: u64, _: u64) -> anyhow::Result<()> {
        self.client.check()
    }
}

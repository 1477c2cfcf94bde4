//! `POST /export` of SimKube's tracer: a window of a history as a trace.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use formats::Writer;
use formats::sktrace::{self, TraceFilters};
use kubernetes::selector::{LabelSelector, Selector};
use model::{Moment, Window};
use query::{ExportScope, ExportStream, OpenHistory};
use serde::Deserialize;

use super::AppState;
use super::api_error::{ApiError, Result};
use super::extractors::{QueryParams, non_empty};
use super::worker_pool::BodyWriter;

/// How long a client may take to send the request body.
const BODY_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// URL schemes of object stores, to which SimKube's tracer writes the trace instead of returning it.
const OBJECT_STORE_SCHEMES: [&str; 8] = ["s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"];

/// Query parameters that select history and source; SimKube's own tracer has only one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportQuery {
    history: Option<String>,
    source: Option<String>,
}

/// The request body. Unknown fields are ignored, as SimKube's tracer does: older clients send more.
#[derive(Deserialize)]
struct ExportRequest {
    start_ts: i64,
    end_ts: i64,
    export_path: String,
    filters: ExportFilters,
    #[serde(default)]
    transform: Option<String>,
}

#[derive(Deserialize)]
struct ExportFilters {
    excluded_namespaces: Vec<String>,
    excluded_labels: Vec<LabelSelector>,
}

/// `POST /export`
pub(super) async fn export(
    State(app): State<Arc<AppState>>,
    params: Result<QueryParams<ExportQuery>>,
    request: Request,
) -> Response {
    match respond(app, params, request).await {
        Ok(response) => response,
        // SimKube's client prints the response body as it is.
        Err(problem) => problem.into_text(),
    }
}

async fn respond(
    app: Arc<AppState>,
    params: Result<QueryParams<ExportQuery>>,
    request: Request,
) -> Result<Response> {
    let QueryParams(params) = params?;
    let body = tokio::time::timeout(BODY_READ_TIMEOUT, Bytes::from_request(request, &())).await;
    let body = body
        .map_err(|_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "timed out waiting for the request body"))?;
    let body = body.map_err(|error| ApiError::new(error.status(), error.body_text()))?;
    let (window, filters) = ExportRequest::parse(&body).map_err(ApiError::bad_request)?;
    let state = app.clone();
    let write = move |sink: &mut BodyWriter| {
        let open_history = OpenHistory::open(&state.catalog.find_or_only(non_empty(&params.history))?.path)?;
        let source =
            open_history.source(non_empty(&params.source), "?source=").map_err(ApiError::bad_request)?;
        let config = open_history.tracer_config(source.clone())?;
        let mut stream = ExportStream::new(&open_history, ExportScope::WindowAndPast(window));
        stream.selection.source = source;
        let client = sink.client();
        let (spool, mut spooled) = state.scratch.spool()?;
        let mut writer = Box::new(sktrace::SktraceWriter::with_spool(sink, config, window, filters, spool));
        stream.write_to(&mut *writer, || client.check().and_then(|()| spooled.update_reservation()))?;
        writer.finish()?;
        Ok(())
    };
    let body = app.workers.run_heavy(write).await?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

// === impl ExportRequest ===

impl ExportRequest {
    fn parse(body: &[u8]) -> anyhow::Result<(Window, TraceFilters)> {
        let request: ExportRequest = serde_json::from_slice(body).context("invalid export request")?;
        let scheme = request.export_path.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        if let Some(cloud) = scheme.filter(|scheme| OBJECT_STORE_SCHEMES.contains(&&**scheme)) {
            bail!("export_path {cloud}: is not supported: use a local path; the response is the trace");
        }
        if request.transform.is_some_and(|transform| !transform.trim().is_empty()) {
            bail!("transform is not supported: omit it, and transform the trace with skctl");
        }
        let window =
            Window { from: moment_from_seconds(request.start_ts)?, to: moment_from_seconds(request.end_ts)? };
        if window.to <= window.from {
            bail!("end_ts {} must be after start_ts {}", request.end_ts, request.start_ts);
        }
        let ExportFilters { excluded_namespaces, excluded_labels } = request.filters;
        let excluded_labels = excluded_labels.iter().map(|labels| Selector::of(Some(labels)));
        let excluded_labels =
            excluded_labels.collect::<std::result::Result<_, _>>().context("excluded_labels")?;
        Ok((window, TraceFilters { excluded_namespaces, excluded_labels }))
    }
}

fn moment_from_seconds(seconds: i64) -> anyhow::Result<Moment> {
    let nanos = seconds.checked_mul(1_000_000_000);
    nanos.map(Moment::from_nanos).with_context(|| {
        format!("invalid time {seconds}: expected seconds since 1970, in the years 1677 to 2262")
    })
}

//! `POST /export` of SimKube's tracer: what happened in a window, as a trace.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use formats::Writer;
use formats::sktrace::{self, Filters};
use kubernetes::selector::{LabelSelector, Selector};
use model::{Moment, Window};
use query::{Chosen, Feed, Shown};
use serde::Deserialize;

use super::App;
use super::asked::{Asked, given};
use super::problem::{Problem, Result};
use super::work::Sink;

/// How long a client may take to send its request.
const BODY_PATIENCE: Duration = Duration::from_secs(10);

/// Where the tracer itself puts a trace instead of answering with it.
const CLOUDS: [&str; 8] = ["s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"];

/// Of which recording; SimKube's tracer knows only one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportAsked {
    history: Option<String>,
    source: Option<String>,
}

/// The request. Fields that are not known are ignored, as the tracer does: older clients send more.
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
    State(app): State<Arc<App>>,
    asked: Result<Asked<ExportAsked>>,
    request: Request,
) -> Response {
    match answer(app, asked, request).await {
        Ok(response) => response,
        // Clients print what they get.
        Err(problem) => problem.into_text(),
    }
}

async fn answer(app: Arc<App>, asked: Result<Asked<ExportAsked>>, request: Request) -> Result<Response> {
    let Asked(asked) = asked?;
    let body = tokio::time::timeout(BODY_PATIENCE, Bytes::from_request(request, &())).await;
    let body =
        body.map_err(|_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the request did not come in time"))?;
    let body = body.map_err(|error| Problem::new(error.status(), error.body_text()))?;
    let (window, filters) = ExportRequest::read(&body).map_err(Problem::asked)?;
    let shelf = app.clone();
    let write = move |sink: &mut Sink| {
        let chosen = Chosen::open(&shelf.shelf.find_or_only(given(&asked.history))?.path)?;
        let source = chosen.source(given(&asked.source), "?source=").map_err(Problem::asked)?;
        let config = chosen.tracer_config(source.clone())?;
        let mut feed = Feed::new(&chosen, Shown::WindowAndPast(window));
        feed.selection.source = source;
        let client = sink.client();
        let (spool, mut spooled) = shelf.scratch.spool()?;
        let mut writer = Box::new(sktrace::Writer::with_spool(sink, config, window, filters, spool));
        feed.all(&mut *writer, || client.check().and_then(|()| spooled.step()))?;
        writer.finish()?;
        Ok(())
    };
    let body = app.hands.heavy(write).await?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

// === impl ExportRequest ===

impl ExportRequest {
    fn read(body: &[u8]) -> anyhow::Result<(Window, Filters)> {
        let request: ExportRequest = serde_json::from_slice(body).context("this is no export request")?;
        let scheme = request.export_path.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        if let Some(cloud) = scheme.filter(|scheme| CLOUDS.contains(&&**scheme)) {
            bail!("{cloud}: is not written from here: give a local export_path, and the trace is the answer");
        }
        if request.transform.is_some_and(|transform| !transform.trim().is_empty()) {
            bail!("transform is not supported: leave it out, and transform the trace with skctl");
        }
        let window = Window { from: second(request.start_ts)?, to: second(request.end_ts)? };
        if window.to <= window.from {
            bail!("end_ts {} is not after start_ts {}", request.end_ts, request.start_ts);
        }
        let ExportFilters { excluded_namespaces, excluded_labels } = request.filters;
        let excluded_labels = excluded_labels.iter().map(|labels| Selector::of(Some(labels)));
        let excluded_labels =
            excluded_labels.collect::<std::result::Result<_, _>>().context("excluded_labels")?;
        Ok((window, Filters { excluded_namespaces, excluded_labels }))
    }
}

fn second(seconds: i64) -> anyhow::Result<Moment> {
    let nanos = seconds.checked_mul(1_000_000_000);
    nanos.map(Moment::from_nanos).with_context(|| {
        format!("{seconds} is not a time: give seconds since 1970, between the years 1677 and 2262")
    })
}

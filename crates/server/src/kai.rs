//! `GET /get-snapshot` of the KAI scheduler: the cluster at a moment, by default the last one.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use formats::Writer;
use formats::kai_snapshot::{self, Partition};
use query::{ExportScope, ExportStream, OpenHistory};
use serde::Deserialize;

use super::AppState;
use super::api_error::{ApiError, Result};
use super::extractors::{QueryParams, non_empty, parse_moment};
use super::worker_pool::BodyWriter;

/// Query parameters that select history, source and moment. KAI itself knows none of them: it has one cluster, now.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotQuery {
    history: Option<String>,
    source: Option<String>,
    at: Option<String>,
    partition: Option<String>,
}

/// `GET /get-snapshot`
pub(super) async fn snapshot(
    State(app): State<Arc<AppState>>,
    QueryParams(asked): QueryParams<SnapshotQuery>,
) -> Result<Response> {
    let partition: Option<Partition> =
        non_empty(&asked.partition).map(str::parse).transpose().map_err(ApiError::bad_request)?;
    let shelf = app.clone();
    let write = move |sink: &mut BodyWriter| {
        let chosen = OpenHistory::open(&shelf.catalog.find_or_only(non_empty(&asked.history))?.path)?;
        let at = parse_moment(&chosen, &asked.at)?.unwrap_or(chosen.times.end);
        let mut feed = ExportStream::new(&chosen, ExportScope::Moment(at));
        feed.with_settings = true;
        feed.selection.source =
            chosen.source(non_empty(&asked.source), "?source=").map_err(ApiError::bad_request)?;
        let client = sink.client();
        let mut writer = Box::new(kai_snapshot::KaiSnapshotWriter::new(sink, partition));
        feed.write_to(&mut *writer, || client.check())?;
        writer.finish()?;
        Ok(())
    };
    let body = app.workers.run_heavy(write).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/zip"),
        (header::CONTENT_DISPOSITION, "attachment; filename=snapshot.zip"),
    ];
    Ok((headers, body).into_response())
}

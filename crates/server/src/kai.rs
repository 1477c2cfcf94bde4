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
    QueryParams(params): QueryParams<SnapshotQuery>,
) -> Result<Response> {
    let partition: Option<Partition> =
        non_empty(&params.partition).map(str::parse).transpose().map_err(ApiError::bad_request)?;
    let state = app.clone();
    let write = move |sink: &mut BodyWriter| {
        let open_history = OpenHistory::open(&state.catalog.find_or_only(non_empty(&params.history))?.path)?;
        let at = parse_moment(&open_history, &params.at)?.unwrap_or(open_history.times.end);
        let mut stream = ExportStream::new(&open_history, ExportScope::Moment(at));
        stream.with_settings = true;
        stream.selection.source =
            open_history.source(non_empty(&params.source), "?source=").map_err(ApiError::bad_request)?;
        let client = sink.client();
        let mut writer = Box::new(kai_snapshot::KaiSnapshotWriter::new(sink, partition));
        stream.write_to(&mut *writer, || client.check())?;
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

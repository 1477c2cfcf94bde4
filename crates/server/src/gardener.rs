//! `GET /api/db` of Gardener's scaling history recorder: histories as databases of its schema.

use std::io;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use formats::{Writer, scaling_history};
use model::Window;
use query::{ExportScope, ExportStream, OpenHistory};
use serde::Deserialize;

use super::AppState;
use super::api_error::{ApiError, Result};
use super::extractors::{HistoryName, QueryParams, non_empty};
use super::histories::content_disposition;
use super::scratch::{CopyContent, CopyKey};
use super::worker_pool::BodyWriter;

/// The source to export; one of Gardener's databases holds a single source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DatabaseQuery {
    source: Option<String>,
}

/// `GET /api/db`
pub(super) async fn list(State(app): State<Arc<AppState>>) -> Response {
    let state = app.clone();
    match app.workers.run_light(move || Ok(state.catalog.list()?)).await {
        Ok(all) => all.iter().map(|entry| format!("{}.db\n", entry.name)).collect::<String>().into_response(),
        Err(problem) => problem.into_text(),
    }
}

/// `GET /api/db/{name}`
pub(super) async fn database(
    State(app): State<Arc<AppState>>,
    name: Result<HistoryName>,
    params: Result<QueryParams<DatabaseQuery>>,
) -> Response {
    match respond(app, name, params).await {
        Ok(response) => response,
        // Gardener's recorder answers 400 for an unknown database, and its clients expect that.
        Err(problem) if problem.code() == StatusCode::NOT_FOUND => {
            problem.with_code(StatusCode::BAD_REQUEST).into_text()
        }
        Err(problem) => problem.into_text(),
    }
}

async fn respond(
    app: Arc<AppState>,
    name: Result<HistoryName>,
    params: Result<QueryParams<DatabaseQuery>>,
) -> Result<Response> {
    let (HistoryName(name), QueryParams(params)) = (name?, params?);
    let name = name.strip_suffix(".db").unwrap_or(&name).to_owned();
    let attached = content_disposition(&format!("{name}_copy.db"));
    let state = app.clone();
    let write = move |sink: &mut BodyWriter| {
        let entry = state.catalog.find(&name)?;
        let source = non_empty(&params.source).map(str::to_owned);
        let content = CopyContent::ScalingHistory { source: source.clone() };
        let key = CopyKey { history: entry.path.clone(), content };
        let mut copy = state.scratch.get_or_make(key, &sink.client(), |new| {
            let open_history = OpenHistory::open(&entry.path)?;
            let mut stream = ExportStream::new(&open_history, ExportScope::Changes(Window::ALL));
            stream.selection.source =
                open_history.source(source.as_deref(), "?source=").map_err(ApiError::bad_request)?;
            let mut writer = Box::new(scaling_history::ScalingHistoryWriter::create(new.path())?);
            stream.write_to(&mut *writer, || new.update_reservation())?;
            writer.finish()?;
            Ok(())
        })?;
        io::copy(&mut copy, sink)?;
        Ok(())
    };
    let body = app.workers.run_heavy(write).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, attached),
    ];
    Ok((headers, body).into_response())
}

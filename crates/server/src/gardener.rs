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
    let shelf = app.clone();
    match app.workers.run_light(move || Ok(shelf.catalog.list()?)).await {
        Ok(all) => {
            all.iter().map(|listed| format!("{}.db\n", listed.name)).collect::<String>().into_response()
        }
        Err(problem) => problem.into_text(),
    }
}

/// `GET /api/db/{name}`
pub(super) async fn database(
    State(app): State<Arc<AppState>>,
    name: Result<HistoryName>,
    asked: Result<QueryParams<DatabaseQuery>>,
) -> Response {
    match respond(app, name, asked).await {
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
    asked: Result<QueryParams<DatabaseQuery>>,
) -> Result<Response> {
    let (HistoryName(name), QueryParams(asked)) = (name?, asked?);
    let name = name.strip_suffix(".db").unwrap_or(&name).to_owned();
    let attached = content_disposition(&format!("{name}_copy.db"));
    let shelf = app.clone();
    let write = move |sink: &mut BodyWriter| {
        let listed = shelf.catalog.find(&name)?;
        let source = non_empty(&asked.source).map(str::to_owned);
        let content = CopyContent::ScalingHistory { source: source.clone() };
        let key = CopyKey { history: listed.path.clone(), content };
        let mut copy = shelf.scratch.get_or_make(key, &sink.client(), |new| {
            let chosen = OpenHistory::open(&listed.path)?;
            let mut feed = ExportStream::new(&chosen, ExportScope::Changes(Window::ALL));
            feed.selection.source =
                chosen.source(source.as_deref(), "?source=").map_err(ApiError::bad_request)?;
            let mut writer = Box::new(scaling_history::ScalingHistoryWriter::create(new.path())?);
            feed.write_to(&mut *writer, || new.update_reservation())?;
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

//! `GET /get-snapshot` of the KAI scheduler: the cluster at a moment, by default the last one.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use formats::Writer;
use formats::kai_snapshot::{self, Partition};
use query::{Chosen, Feed, Shown};
use serde::Deserialize;

use super::App;
use super::asked::{Asked, given, moment};
use super::problem::{Problem, Result};
use super::work::Sink;

/// Of which recording and moment; the scheduler knows only its own and now.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotAsked {
    history: Option<String>,
    source: Option<String>,
    at: Option<String>,
    partition: Option<String>,
}

/// `GET /get-snapshot`
pub(super) async fn snapshot(
    State(app): State<Arc<App>>,
    Asked(asked): Asked<SnapshotAsked>,
) -> Result<Response> {
    let partition: Option<Partition> =
        given(&asked.partition).map(str::parse).transpose().map_err(Problem::asked)?;
    let shelf = app.clone();
    let write = move |sink: &mut Sink| {
        let chosen = Chosen::open(&shelf.shelf.find_or_only(given(&asked.history))?.path)?;
        let at = moment(&chosen, &asked.at)?.unwrap_or(chosen.times.end);
        let mut feed = Feed::new(&chosen, Shown::Moment(at));
        feed.with_settings = true;
        feed.selection.source = chosen.source(given(&asked.source), "?source=").map_err(Problem::asked)?;
        let client = sink.client();
        let mut writer = Box::new(kai_snapshot::Writer::new(sink, partition));
        feed.all(&mut *writer, || client.check())?;
        writer.finish()?;
        Ok(())
    };
    let body = app.hands.heavy(write).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/zip"),
        (header::CONTENT_DISPOSITION, "attachment; filename=snapshot.zip"),
    ];
    Ok((headers, body).into_response())
}

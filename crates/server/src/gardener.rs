//! `GET /api/db` of Gardener's scaling history recorder: histories as databases of its schema.

use std::io;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use formats::{Writer, scaling_history};
use model::Window;
use query::{Chosen, Feed, Shown};
use serde::Deserialize;

use super::App;
use super::asked::{Asked, Named, given};
use super::histories::attachment;
use super::problem::{Problem, Result};
use super::scratch::{CopyContent, CopyKey};
use super::work::Sink;

/// Of which recording; their databases hold only one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DatabaseAsked {
    source: Option<String>,
}

/// `GET /api/db`
pub(super) async fn list(State(app): State<Arc<App>>) -> Response {
    let shelf = app.clone();
    match app.hands.light(move || Ok(shelf.shelf.all()?)).await {
        Ok(all) => {
            all.iter().map(|listed| format!("{}.db\n", listed.name)).collect::<String>().into_response()
        }
        Err(problem) => problem.into_text(),
    }
}

/// `GET /api/db/{name}`
pub(super) async fn database(
    State(app): State<Arc<App>>,
    name: Result<Named>,
    asked: Result<Asked<DatabaseAsked>>,
) -> Response {
    match answer(app, name, asked).await {
        Ok(response) => response,
        // Their clients know this code for it.
        Err(problem) if problem.code() == StatusCode::NOT_FOUND => {
            problem.with_code(StatusCode::BAD_REQUEST).into_text()
        }
        Err(problem) => problem.into_text(),
    }
}

async fn answer(app: Arc<App>, name: Result<Named>, asked: Result<Asked<DatabaseAsked>>) -> Result<Response> {
    let (Named(name), Asked(asked)) = (name?, asked?);
    let name = name.strip_suffix(".db").unwrap_or(&name).to_owned();
    let attached = attachment(&format!("{name}_copy.db"));
    let shelf = app.clone();
    let write = move |sink: &mut Sink| {
        let listed = shelf.shelf.find(&name)?;
        let source = given(&asked.source).map(str::to_owned);
        let content = CopyContent::ScalingHistory { source: source.clone() };
        let key = CopyKey { history: listed.path.clone(), content };
        let mut copy = shelf.scratch.share(key, &sink.client(), |new| {
            let chosen = Chosen::open(&listed.path)?;
            let mut feed = Feed::new(&chosen, Shown::Changes(Window::ALL));
            feed.selection.source = chosen.source(source.as_deref(), "?source=").map_err(Problem::asked)?;
            let mut writer = Box::new(scaling_history::Writer::create(new.path())?);
            feed.all(&mut *writer, || new.step())?;
            writer.finish()?;
            Ok(())
        })?;
        io::copy(&mut copy, sink)?;
        Ok(())
    };
    let body = app.hands.heavy(write).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, attached),
    ];
    Ok((headers, body).into_response())
}

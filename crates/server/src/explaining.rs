//! `/api/v1/histories/{name}/explain`: why a pod is where it is or waits, and why a node stays or goes.

use std::io::{Cursor, Write};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use explain::{Manifest, Settings, Subject};
use query::{Chosen, Listener, autoscaler_setup, scheduler_settings};
use scheduler::Version;
use serde::Deserialize;
use serde_json::Value;

use super::App;
use super::asked::{Asked, Named, given, moment};
use super::problem::{Problem, Result};
use super::shelf::Listed;
use super::work::{Client, Sink};

/// Which pod or node, as of when, and how those who decide are set.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExplainAsked {
    pod: Option<String>,
    node: Option<String>,
    namespace: Option<String>,
    at: Option<String>,
    source: Option<String>,
    scheduler_version: Option<String>,
    autoscaler_flags: Option<String>,
    autoscaler_version: Option<String>,
}

/// A client that waits: it is told of what should be known with the answer, and the work ends when it has gone.
struct ClientListener {
    client: Client,
    warnings: Vec<String>,
}

/// `GET /api/v1/histories/{name}/explain`
pub(super) async fn recorded(
    State(app): State<Arc<App>>,
    Named(name): Named,
    Asked(asked): Asked<ExplainAsked>,
) -> Result<Response> {
    answer(app, name, asked, None).await
}

/// `POST /api/v1/histories/{name}/explain`
pub(super) async fn manifest(
    State(app): State<Arc<App>>,
    Named(name): Named,
    Asked(asked): Asked<ExplainAsked>,
    body: Bytes,
) -> Result<Response> {
    answer(app, name, asked, Some(body)).await
}

async fn answer(
    app: Arc<App>,
    name: String,
    asked: ExplainAsked,
    manifest: Option<Bytes>,
) -> Result<Response> {
    let shelf = app.clone();
    let write = move |sink: &mut Sink| {
        let explained = asked.explain(&shelf.shelf.find(&name)?, manifest, sink.client())?;
        writeln!(sink, "{explained:#}")?;
        Ok(())
    };
    let body = app.hands.heavy(write).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

// === impl ExplainAsked ===

impl ExplainAsked {
    fn explain(&self, listed: &Listed, manifest: Option<Bytes>, client: Client) -> Result<Value> {
        let chosen = Chosen::open(&listed.path)?;
        let at = moment(&chosen, &self.at)?;
        let source = chosen.source(given(&self.source), "?source=").map_err(Problem::asked)?;
        let source = source.unwrap_or_default();
        let mut listener = ClientListener { client, warnings: Vec::new() };
        let settings = self.settings()?;
        let explained = match (given(&self.pod), given(&self.node), manifest) {
            (None, Some(node), None) => {
                let asked = &settings.autoscaler;
                explain::node::explain(&chosen, source, node, at, asked, &mut listener)
                    .map(|explained| explained.to_json())
            }
            (pod, None, manifest) if pod.is_some() != manifest.is_some() => {
                let subject = self.subject(pod, manifest)?;
                explain::pod(&chosen, source, &subject, at, &settings, &mut listener)
                    .map(|explained| explained.to_json())
            }
            _ => {
                let words = "name one pod or one node, as pod= or node=, or send a manifest alone";
                return Err(Problem::new(StatusCode::BAD_REQUEST, words));
            }
        };
        let mut explained = explained.map_err(Problem::asked)?;
        explained["warnings"] = listener.warnings.into();
        Ok(explained)
    }

    fn subject(&self, pod: Option<&str>, manifest: Option<Bytes>) -> Result<Subject> {
        let namespace = given(&self.namespace).map(str::to_owned);
        let Some(text) = manifest else {
            let name = pod.unwrap_or_default().to_owned();
            return Ok(Subject::Recorded { namespace: namespace.unwrap_or_else(|| "default".into()), name });
        };
        let manifest = Manifest::read("the manifest", Box::new(Cursor::new(text))).map_err(Problem::asked)?;
        Ok(Subject::Manifest { manifest, namespace })
    }

    fn settings(&self) -> Result<Settings<'_>> {
        let version = given(&self.scheduler_version).map(str::parse::<Version>).transpose();
        let autoscaler = given(&self.autoscaler_version).map(autoscaler::Version::parse).transpose();
        Ok(Settings {
            scheduler: scheduler_settings::Asked {
                file: None,
                version: version.map_err(Problem::asked)?.unwrap_or(Version::V1_36),
                edits: &[],
            },
            autoscaler: autoscaler_setup::Asked {
                node_groups: None,
                flags_by: "autoscalerFlags",
                edits: &[],
                flags: given(&self.autoscaler_flags).filter(|flags| !flags.trim().is_empty()),
                version: autoscaler.map_err(Problem::asked)?,
            },
        })
    }
}

// === impl ClientListener ===

impl Listener for ClientListener {
    fn warn(&mut self, sentence: &str) {
        self.warnings.push(sentence.to_owned());
    }

    fn progress(&mut self, _: u64, _: u64) -> anyhow::Result<()> {
        self.client.check()
    }
}

//! Handlers of `/api/v1/histories`: the list of histories, and the objects, changes and gaps of each.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::bail;
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use formats::{Writer, jsonl};
use history::{History, Selection};
use kubernetes::kinds::is_secret;
use kubernetes::selector::{Selector, matches_labels};
use model::{Kind, Moment, Window};
use query::{ExportScope, ExportStream, KindResolver, OpenHistory, gap_as_json, summary_as_json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::api_error::{ApiError, Result};
use super::catalog::CatalogEntry;
use super::extractors::{HistoryName, QueryParams, non_empty, parse_moment};
use super::overview::Overview;
use super::scratch::{CopyContent, CopyKey};
use super::worker_pool::BodyWriter;

/// Query parameters of `/objects`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ObjectsQuery {
    at: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    label_selector: Option<String>,
    source: Option<String>,
}

/// Query parameters of `/changes`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ChangesQuery {
    from: Option<String>,
    to: Option<String>,
    /// Whether to begin with the objects that exist at `from`, as ADDED events.
    #[serde(default)]
    state: bool,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    label_selector: Option<String>,
    source: Option<String>,
}

/// `GET /api/v1/histories`
pub(super) async fn list(State(app): State<Arc<AppState>>) -> Result<Json<Value>> {
    let state = app.clone();
    let all = app.workers.run_light(move || Ok(state.overviews.read_all(state.catalog.list()?))).await?;
    let all: Vec<Value> = all.into_iter().map(|(entry, overview)| overview_json(&entry, overview)).collect();
    Ok(Json(json!({ "histories": all })))
}

/// `GET /api/v1/histories/{name}`
pub(super) async fn info(
    State(app): State<Arc<AppState>>,
    HistoryName(name): HistoryName,
) -> Result<Json<Value>> {
    let state = app.clone();
    let read = move || {
        let history = History::open(&state.catalog.find(&name)?.path)?;
        Ok(summary_as_json(&name, &history.summary()?, &history.gaps()?))
    };
    app.workers.run_light(read).await.map(Json)
}

/// `GET /api/v1/histories/{name}/gaps`
pub(super) async fn gaps(
    State(app): State<Arc<AppState>>,
    HistoryName(name): HistoryName,
) -> Result<Json<Value>> {
    let state = app.clone();
    let read = move || Ok(History::open(&state.catalog.find(&name)?.path)?.gaps()?);
    let gaps = app.workers.run_light(read).await?;
    Ok(Json(json!({ "gaps": gaps.iter().map(gap_as_json).collect::<Vec<_>>() })))
}

/// `GET /api/v1/histories/{name}/objects`
pub(super) async fn objects(
    State(app): State<Arc<AppState>>,
    HistoryName(name): HistoryName,
    QueryParams(params): QueryParams<ObjectsQuery>,
) -> Result<Response> {
    let state = app.clone();
    let body = app.workers.run_heavy(move |sink| params.write(&state.catalog.find(&name)?, sink)).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// `GET /api/v1/histories/{name}/changes`
pub(super) async fn changes(
    State(app): State<Arc<AppState>>,
    HistoryName(name): HistoryName,
    QueryParams(params): QueryParams<ChangesQuery>,
) -> Result<Response> {
    let state = app.clone();
    let body = app.workers.run_heavy(move |sink| params.write(&state.catalog.find(&name)?, sink)).await?;
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// `GET /api/v1/histories/{name}/download`
pub(super) async fn download(
    State(app): State<Arc<AppState>>,
    HistoryName(name): HistoryName,
) -> Result<Response> {
    let state = app.clone();
    let attached = content_disposition(&format!("{name}.kine"));
    let copy = move |sink: &mut BodyWriter| {
        let entry = state.catalog.find(&name)?;
        let key = CopyKey { history: entry.path.clone(), content: CopyContent::History };
        let mut copy = state.scratch.get_or_make(key, &sink.client(), |new| {
            new.reserve_history()?;
            Ok(history::copy(&entry.path, new.path(), new.client_check())?)
        })?;
        io::copy(&mut copy, sink)?;
        Ok(())
    };
    let body = app.workers.run_heavy(copy).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/vnd.sqlite3".to_owned()),
        (header::CONTENT_DISPOSITION, attached),
    ];
    Ok((headers, body).into_response())
}

/// The value of a `Content-Disposition` header that saves the response under this name.
pub(super) fn content_disposition(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.bytes().all(is_plain) {
        return format!("attachment; filename={name}");
    }
    format!("attachment; filename*=UTF-8''{}", percent_encoded(name))
}

/// A name percent-encoded for a URL.
pub(super) fn percent_encoded(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => text.push(char::from(byte)),
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}

// === impl ObjectsQuery ===

impl ObjectsQuery {
    fn write(&self, entry: &CatalogEntry, sink: &mut BodyWriter) -> Result<()> {
        let open_history = OpenHistory::open(&entry.path)?;
        let at = parse_moment(&open_history, &self.at)?.unwrap_or(open_history.times.end);
        let kinds = parse_kinds(&open_history, &self.kind, at)?;
        let mut kinds = kinds.map_or_else(|| open_history.history.kinds(), Ok)?;
        kinds.retain(|kind| !is_secret(kind));
        let labels = parse_labels(&self.label_selector)?;
        let mut selection = Selection {
            kinds: None,
            source: open_history
                .source(non_empty(&self.source), "?source=")
                .map_err(ApiError::bad_request)?,
            namespace: non_empty(&self.namespace).map(str::to_owned),
            name: non_empty(&self.name).map(str::to_owned),
        };
        let mut gaps = open_history.history.gaps()?;
        gaps.retain(|gap| gap.from <= at && at < gap.to);
        let gaps: Vec<Value> = gaps.iter().map(gap_as_json).collect();

        // An early failure still becomes an error response, because the body is buffered before it is sent.
        write_list_header(sink, at, &gaps)?;
        let mut comma = "";
        let mut written = Ok(());
        // Kind by kind, so that the work stops soon after the client disconnects.
        for kind in kinds {
            selection.kinds = Some(vec![kind]);
            open_history.history.for_each_at(at, &selection, |version| {
                if written.is_ok()
                    && labels.as_ref().is_none_or(|labels| matches_labels(&version.object, labels))
                {
                    written = write!(sink, "{comma}{}", version.object.as_str());
                    comma = ",\n";
                }
            })?;
            std::mem::replace(&mut written, Ok(()))?;
        }
        sink.write_all(b"]}\n")?;
        Ok(())
    }
}

// === impl ChangesQuery ===

impl ChangesQuery {
    fn write(&self, entry: &CatalogEntry, sink: &mut BodyWriter) -> Result<()> {
        let open_history = OpenHistory::open(&entry.path)?;
        let end = parse_moment(&open_history, &self.to)?;
        let mut window = Window { to: end.map_or(Moment::MAX, |end| end.plus_nanos(1)), ..Window::ALL };
        if let Some(from) = parse_moment(&open_history, &self.from)? {
            window.from = from;
        }
        let scope = match self.state {
            true => ExportScope::StateAndChanges(window),
            false => ExportScope::Changes(window),
        };
        let mut stream = ExportStream::new(&open_history, scope);
        stream.with_audit_logs = true;
        stream.selection = Selection {
            kinds: parse_kinds(&open_history, &self.kind, end.unwrap_or(open_history.times.end))?,
            source: match non_empty(&self.source) {
                Some(name) => open_history.source(Some(name), "?source=").map_err(ApiError::bad_request)?,
                None => None,
            },
            namespace: non_empty(&self.namespace).map(str::to_owned),
            name: non_empty(&self.name).map(str::to_owned),
        };
        stream.labels = parse_labels(&self.label_selector)?;
        self.check(window, end).map_err(ApiError::bad_request)?;
        let client = sink.client();
        let mut writer = Box::new(jsonl::JsonlWriter::new(sink, None));
        stream.write_to(&mut *writer, || client.check())?;
        writer.finish()?;
        Ok(())
    }

    fn check(&self, window: Window, end: Option<Moment>) -> anyhow::Result<()> {
        if self.state && non_empty(&self.from).is_none() {
            bail!("state=true requires from=");
        }
        if window.to <= window.from {
            bail!("to={} is before from={}", end.unwrap_or_default(), window.from);
        }
        Ok(())
    }
}

/// A history's entry in the list of histories. For an unreadable one it has the error.
fn overview_json(entry: &CatalogEntry, overview: history::Result<Arc<Overview>>) -> Value {
    match overview {
        Ok(overview) => json!({
            "name": entry.name,
            "from": overview.span.map(|(from, _)| from.to_string()),
            "to": overview.span.map(|(_, to)| to.to_string()),
            "bytes": overview.bytes,
            "sources": overview.sources.iter().map(|source| &**source).collect::<Vec<_>>(),
            "gaps": overview.gaps,
        }),
        Err(error) => json!({ "name": entry.name, "error": format!("{:#}", anyhow::Error::from(error)) }),
    }
}

fn parse_kinds(open_history: &OpenHistory, names: &Option<String>, at: Moment) -> Result<Option<Vec<Kind>>> {
    let Some(text) = non_empty(names) else { return Ok(None) };
    let names = KindResolver::read(&open_history.history, at)?;
    let found = names.resolve(text).map_err(ApiError::bad_request)?;
    if found.iter().any(|found| is_secret(&found.kind)) {
        let names = "Secrets are not served: download the history and use `kinescope get`";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, names));
    }
    Ok(Some(found.into_iter().map(|found| found.kind).collect()))
}

fn parse_labels(text: &Option<String>) -> Result<Option<Selector>> {
    non_empty(text).map(Selector::parse).transpose().map_err(ApiError::bad_request)
}

/// Writes a Kubernetes List up to its items, with the moment and the gaps as additional fields.
fn write_list_header(sink: &mut BodyWriter, at: Moment, gaps: &[Value]) -> io::Result<()> {
    let gaps = Value::from(gaps);
    write!(
        sink,
        r#"{{"apiVersion":"v1","kind":"List","metadata":{{"resourceVersion":""}},"at":"{at}","gaps":{gaps},"items":["#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_plain_are_escaped() {
        assert_eq!(content_disposition("prod-1.kine"), "attachment; filename=prod-1.kine");
        assert_eq!(content_disposition("a \"é\".kine"), "attachment; filename*=UTF-8''a%20%22%C3%A9%22.kine");
    }
}

//! Our own API: what histories there are and what is in them.

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
use kubernetes::selector::Selector;
use model::{Kind, Moment, Window};
use query::{Chosen, Feed, KindWords, Shown, gap_as_json, has_labels, summary_as_json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::App;
use super::asked::{Asked, Named, given, moment};
use super::overview::Overview;
use super::problem::{Problem, Result};
use super::scratch::{CopyContent, CopyKey};
use super::shelf::Listed;
use super::work::Sink;

/// Which objects of which moment.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ObjectsAsked {
    at: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    label_selector: Option<String>,
    source: Option<String>,
}

/// Which changes of which time.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ChangesAsked {
    from: Option<String>,
    to: Option<String>,
    /// Whether the lines begin with the objects that were there, as if each had been added.
    #[serde(default)]
    state: bool,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    label_selector: Option<String>,
    source: Option<String>,
}

/// `GET /api/v1/histories`
pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Json<Value>> {
    let here = app.clone();
    let all = app.hands.light(move || Ok(here.overviews.of_all(here.shelf.all()?))).await?;
    let all: Vec<Value> = all.into_iter().map(|(listed, overview)| in_brief(&listed, overview)).collect();
    Ok(Json(json!({ "histories": all })))
}

/// `GET /api/v1/histories/{name}`
pub(super) async fn info(State(app): State<Arc<App>>, Named(name): Named) -> Result<Json<Value>> {
    let shelf = app.clone();
    let read = move || {
        let history = History::open(&shelf.shelf.find(&name)?.path)?;
        Ok(summary_as_json(&name, &history.summary()?, &history.gaps()?))
    };
    app.hands.light(read).await.map(Json)
}

/// `GET /api/v1/histories/{name}/gaps`
pub(super) async fn gaps(State(app): State<Arc<App>>, Named(name): Named) -> Result<Json<Value>> {
    let shelf = app.clone();
    let read = move || Ok(History::open(&shelf.shelf.find(&name)?.path)?.gaps()?);
    let gaps = app.hands.light(read).await?;
    Ok(Json(json!({ "gaps": gaps.iter().map(gap_as_json).collect::<Vec<_>>() })))
}

/// `GET /api/v1/histories/{name}/objects`
pub(super) async fn objects(
    State(app): State<Arc<App>>,
    Named(name): Named,
    Asked(asked): Asked<ObjectsAsked>,
) -> Result<Response> {
    let shelf = app.clone();
    let body = app.hands.heavy(move |sink| asked.write(&shelf.shelf.find(&name)?, sink)).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// `GET /api/v1/histories/{name}/changes`
pub(super) async fn changes(
    State(app): State<Arc<App>>,
    Named(name): Named,
    Asked(asked): Asked<ChangesAsked>,
) -> Result<Response> {
    let shelf = app.clone();
    let body = app.hands.heavy(move |sink| asked.write(&shelf.shelf.find(&name)?, sink)).await?;
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// `GET /api/v1/histories/{name}/download`
pub(super) async fn download(State(app): State<Arc<App>>, Named(name): Named) -> Result<Response> {
    let shelf = app.clone();
    let attached = attachment(&format!("{name}.kine"));
    let copy = move |sink: &mut Sink| {
        let listed = shelf.shelf.find(&name)?;
        let key = CopyKey { history: listed.path.clone(), content: CopyContent::History };
        let mut copy = shelf.scratch.share(key, &sink.client(), |new| {
            new.reserve_history()?;
            Ok(history::copy(&listed.path, new.path(), new.is_wanted())?)
        })?;
        io::copy(&mut copy, sink)?;
        Ok(())
    };
    let body = app.hands.heavy(copy).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/vnd.sqlite3".to_owned()),
        (header::CONTENT_DISPOSITION, attached),
    ];
    Ok((headers, body).into_response())
}

/// The header by which a browser saves an answer under a name.
pub(super) fn attachment(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.bytes().all(is_plain) {
        return format!("attachment; filename={name}");
    }
    format!("attachment; filename*=UTF-8''{}", percent_encoded(name))
}

/// A name as a part of a URL.
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

// === impl ObjectsAsked ===

impl ObjectsAsked {
    fn write(&self, listed: &Listed, sink: &mut Sink) -> Result<()> {
        let chosen = Chosen::open(&listed.path)?;
        let at = moment(&chosen, &self.at)?.unwrap_or(chosen.times.end);
        let kinds = kinds(&chosen, &self.kind, at)?;
        let mut kinds = kinds.map_or_else(|| chosen.history.kinds(), Ok)?;
        kinds.retain(|kind| !is_secret(kind));
        let labels = labels(&self.label_selector)?;
        let mut selection = Selection {
            kinds: None,
            source: chosen.source(given(&self.source), "?source=").map_err(Problem::asked)?,
            namespace: given(&self.namespace).map(str::to_owned),
            name: given(&self.name).map(str::to_owned),
        };
        let mut gaps = chosen.history.gaps()?;
        gaps.retain(|gap| gap.from <= at && at < gap.to);
        let gaps: Vec<Value> = gaps.iter().map(gap_as_json).collect();

        // What goes wrong soon is still answered as an error: parts of the answer are gathered before they are sent.
        write_head(sink, at, &gaps)?;
        let mut comma = "";
        let mut written = Ok(());
        // Kind by kind, so that the work ends soon after the client has gone.
        for kind in kinds {
            selection.kinds = Some(vec![kind]);
            chosen.history.each_at(at, &selection, |version| {
                if written.is_ok() && labels.as_ref().is_none_or(|labels| has_labels(&version.object, labels))
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

// === impl ChangesAsked ===

impl ChangesAsked {
    fn write(&self, listed: &Listed, sink: &mut Sink) -> Result<()> {
        let chosen = Chosen::open(&listed.path)?;
        let end = moment(&chosen, &self.to)?;
        let mut window = Window { to: end.map_or(Moment::MAX, |end| end.plus_nanos(1)), ..Window::ALL };
        if let Some(from) = moment(&chosen, &self.from)? {
            window.from = from;
        }
        let shown = match self.state {
            true => Shown::StateAndChanges(window),
            false => Shown::Changes(window),
        };
        let mut feed = Feed::new(&chosen, shown);
        feed.with_audit_logs = true;
        feed.selection = Selection {
            kinds: kinds(&chosen, &self.kind, end.unwrap_or(chosen.times.end))?,
            source: match given(&self.source) {
                Some(name) => chosen.source(Some(name), "?source=").map_err(Problem::asked)?,
                None => None,
            },
            namespace: given(&self.namespace).map(str::to_owned),
            name: given(&self.name).map(str::to_owned),
        };
        feed.labels = labels(&self.label_selector)?;
        self.check(window, end).map_err(Problem::asked)?;
        let client = sink.client();
        let mut writer = Box::new(jsonl::Writer::new(sink, None));
        feed.all(&mut *writer, || client.check())?;
        writer.finish()?;
        Ok(())
    }

    fn check(&self, window: Window, end: Option<Moment>) -> anyhow::Result<()> {
        if self.state && given(&self.from).is_none() {
            bail!("state=true shows what was there when a window begins: say from= as well");
        }
        if window.to <= window.from {
            bail!("the window ends at {} before it begins at {}", end.unwrap_or_default(), window.from);
        }
        Ok(())
    }
}

/// What is told of a history among others. One that cannot be read says why.
fn in_brief(listed: &Listed, overview: history::Result<Arc<Overview>>) -> Value {
    match overview {
        Ok(overview) => json!({
            "name": listed.name,
            "from": overview.span.map(|(from, _)| from.to_string()),
            "to": overview.span.map(|(_, to)| to.to_string()),
            "bytes": overview.bytes,
            "sources": overview.sources.iter().map(|source| &**source).collect::<Vec<_>>(),
            "gaps": overview.gaps,
        }),
        Err(error) => json!({ "name": listed.name, "error": format!("{:#}", anyhow::Error::from(error)) }),
    }
}

fn kinds(chosen: &Chosen, words: &Option<String>, at: Moment) -> Result<Option<Vec<Kind>>> {
    let Some(text) = given(words) else { return Ok(None) };
    let words = KindWords::read(&chosen.history, at)?;
    let found = words.find(text).map_err(Problem::asked)?;
    if found.iter().any(|found| is_secret(&found.kind)) {
        let words = "Secrets are not served: download the history and use `kinescope get`";
        return Err(Problem::new(StatusCode::BAD_REQUEST, words));
    }
    Ok(Some(found.into_iter().map(|found| found.kind).collect()))
}

fn labels(text: &Option<String>) -> Result<Option<Selector>> {
    given(text).map(Selector::parse).transpose().map_err(Problem::asked)
}

/// All of a Kubernetes list but its objects, and beside it which moment it is of and what may be missing.
fn write_head(sink: &mut Sink, at: Moment, gaps: &[Value]) -> io::Result<()> {
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
        assert_eq!(attachment("prod-1.kine"), "attachment; filename=prod-1.kine");
        assert_eq!(attachment("a \"é\".kine"), "attachment; filename*=UTF-8''a%20%22%C3%A9%22.kine");
    }
}

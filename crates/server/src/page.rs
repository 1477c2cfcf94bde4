//! `/`: a page that lists the histories, for browsers. It has no scripts.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use model::Moment;
use query::{format_bytes, group_digits};
use recorder::{RecorderMetrics, RecordingMetrics};

use super::AppState;
use super::api_error::Result;
use super::catalog::CatalogEntry;
use super::histories::percent_encoded;
use super::overview::Overview;

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>Kinescope</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222; background: #fff }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .4rem 1rem .4rem 0; border-bottom: 1px solid #ccc; vertical-align: top }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums }
td { white-space: nowrap }
td.trouble { white-space: normal }
.trouble { color: #a00 }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #111 } a { color: #8bf } .trouble { color: #f88 } }
</style>
<h1>Kinescope</h1>
";

const FOOT: &str =
    "<p>For programs: <a href=\"/openapi.json\">openapi.json</a>, <a href=\"/api/v1/recordings\">recordings</a>, <a href=\"/metrics\">metrics</a>.</p>
</html>
";

/// `GET /`
pub(super) async fn show(State(app): State<Arc<AppState>>) -> Result<Response> {
    let state = app.clone();
    let page = app
        .workers
        .run_light(move || {
            Ok(render(&state.overviews.read_all(state.catalog.list()?), &state.recorder_metrics))
        })
        .await?;
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";
    Ok(([(header::CONTENT_SECURITY_POLICY, policy)], Html(page)).into_response())
}

fn render(
    all: &[(CatalogEntry, history::Result<Arc<Overview>>)],
    recorder_metrics: &RecorderMetrics,
) -> String {
    let mut page = HEAD.to_owned();
    let recordings = recorder_metrics.snapshot();
    let unborn =
        recordings.iter().filter(|(_, metrics)| !all.iter().any(|(other, _)| other.name == metrics.history));
    for (name, metrics) in unborn {
        let why = metrics.state.failure().map(|why| format!(": {}", escape_html(why))).unwrap_or_default();
        let _ =
            writeln!(page, "<p>{}: no history yet, {}{why}</p>", escape_html(name), metrics.state.as_str());
    }
    if all.is_empty() {
        page += "<p>No histories found.</p>\n";
    } else {
        page += "<table>\n<tr><th>history<th>from<th>to<th class=\"number\">changes<th class=\"number\">size\
                 <th class=\"number\">gaps<th>\n";
        for (entry, overview) in all {
            let recording = recordings.iter().find(|(_, metrics)| metrics.history == entry.name);
            let _ = match overview {
                Ok(overview) => {
                    writeln!(page, "{}", render_row(entry, overview, recording.map(|(_, metrics)| metrics)))
                }
                Err(error) => writeln!(
                    page,
                    "<tr><td>{}<td colspan=\"6\" class=\"trouble\">{}",
                    escape_html(&entry.name),
                    escape_html(&error_chain(error))
                ),
            };
        }
        page += "</table>\n";
    }
    page + FOOT
}

fn render_row(entry: &CatalogEntry, overview: &Overview, recording: Option<&RecordingMetrics>) -> String {
    let at = format!("/api/v1/histories/{}", percent_encoded(&entry.name));
    let (from, to) = match overview.span {
        Some((from, to)) => (format_seconds(from), format_seconds(to)),
        None => ("empty".to_owned(), String::new()),
    };
    let recording = recording.map_or(String::new(), |metrics| match metrics.state.failure() {
        Some(why) => {
            format!("<br><span class=\"trouble\">{}: {}</span>", metrics.state.as_str(), escape_html(why))
        }
        None => format!("<br><small>{}</small>", metrics.state.as_str()),
    });
    format!(
        "<tr><td><a href=\"{at}\">{}</a>{recording}<td>{from}<td>{to}<td class=\"number\">{}<td class=\"number\">{}\
         <td class=\"number\"><a href=\"{at}/gaps\">{}</a>\
         <td><a href=\"{at}/objects\">objects</a> <a href=\"{at}/changes\">changes</a> <a href=\"{at}/download\">download</a>",
        escape_html(&entry.name),
        group_digits(overview.changes),
        format_bytes(overview.bytes),
        group_digits(overview.gaps),
    )
}

/// An error with its causes.
fn error_chain(error: &history::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        let _ = write!(text, ": {error}");
        source = error.source();
    }
    text
}

/// 2026-11-01 14:03:07Z
fn format_seconds(moment: Moment) -> String {
    let text = moment.to_string();
    let second = text.get(..19).unwrap_or(&text);
    format!("{}Z", second.replace('T', " "))
}

/// Escapes the characters that HTML gives a meaning.
fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::overview::OverviewCache;
    use super::*;

    #[test]
    fn names_are_escaped() {
        let listed = CatalogEntry { name: "<b a=\"&\">".to_owned(), path: "/nowhere/x.kine".into() };
        let page = render(&OverviewCache::default().read_all(vec![listed]), &RecorderMetrics::default());
        assert!(page.contains("<tr><td>&lt;b a=&quot;&amp;&quot;&gt;<td"), "{page}");
        assert!(page.contains("not found"), "{page}");
    }
}

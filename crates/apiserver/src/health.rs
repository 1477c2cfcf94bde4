//! Health endpoints: `/livez`, `/readyz` and `/healthz`, as kube-apiserver answers them.

use std::collections::BTreeSet;

use axum::http::{HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::request_info::percent_decoded;
use crate::status::ApiError;

/// The checks. A server that answers has passed all of them: its store is in this process.
const CHECKS: [&str; 3] = ["ping", "log", "etcd"];
/// Further checks of `/readyz`. A server that shuts down accepts no connections.
const READY_CHECKS: [&str; 2] = ["informer-sync", "shutdown"];

/// Answers a request for the health of the server; `None` if it is another path.
pub(crate) fn answer(uri: &Uri) -> Option<Result<Response, ApiError>> {
    let parts: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    let (endpoint, check) = match parts[..] {
        [endpoint] => (endpoint, None),
        [endpoint, check] => (endpoint, Some(check)),
        _ => return None,
    };
    if !matches!(endpoint, "livez" | "readyz" | "healthz") {
        return None;
    }
    let further = if endpoint == "readyz" { &READY_CHECKS[..] } else { &[] };
    let checks: Vec<&str> = CHECKS.iter().chain(further).copied().collect();
    Some(match check {
        None => Ok(plain(report(endpoint, &checks, uri.query().unwrap_or_default()))),
        Some(check) if checks.contains(&check) => Ok(plain("ok".to_owned())),
        Some(_) => Err(ApiError::unknown_path()),
    })
}

/// `ok`, or a line for each check if the query says so.
fn report(endpoint: &str, checks: &[&str], query: &str) -> String {
    let parameters =
        || query.split('&').map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")));
    if !parameters().any(|(name, _)| name == "verbose") {
        return "ok".to_owned();
    }
    let excluded = parameters().filter(|(name, _)| *name == "exclude");
    let excluded: BTreeSet<String> =
        excluded.filter_map(|(_, check)| percent_decoded(&check.replace('+', " "))).collect();
    let mut text = String::new();
    for check in checks {
        let how = if excluded.contains(*check) { " excluded: ok" } else { " ok" };
        text.push_str(&format!("[+]{check}{how}\n"));
    }
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|check| !checks.contains(&&***check))
        .map(|check| format!("{check:?}"))
        .collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        text.push_str(&format!("warn: some health checks cannot be excluded: no matches for {unknown}\n"));
    }
    text + &format!("{endpoint} check passed\n")
}

fn plain(text: String) -> Response {
    let mut response = text.into_response();
    let sniffing = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, sniffing);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_checks_that_are_asked_for() {
        let checks = ["ping", "etcd"];
        for (query, expected) in [
            ("", "ok"),
            ("exclude=etcd", "ok"),
            ("verbose", "[+]ping ok\n[+]etcd ok\nlivez check passed\n"),
            ("verbose=1&exclude=etcd", "[+]ping ok\n[+]etcd excluded: ok\nlivez check passed\n"),
            (
                "verbose&exclude=b&exclude=a%20c&exclude=ping",
                "[+]ping excluded: ok\n[+]etcd ok\n\
                 warn: some health checks cannot be excluded: no matches for \"a c\",\"b\"\nlivez check passed\n",
            ),
        ] {
            assert_eq!(report("livez", &checks, query), expected, "{query}");
        }
    }

    #[test]
    fn only_paths_of_checks_are_answered() {
        let code = |path: &str| {
            let answered = answer(&path.parse().unwrap())?;
            Some(answered.unwrap_or_else(IntoResponse::into_response).status().as_u16())
        };
        for (path, expected) in [
            ("/livez", Some(200)),
            ("/readyz?verbose", Some(200)),
            ("/healthz/ping", Some(200)),
            ("/readyz/shutdown", Some(200)),
            ("/livez/shutdown", Some(404)),
            ("/livez/ping/x", None),
            ("/version", None),
        ] {
            assert_eq!(code(path), expected, "{path}");
        }
    }
}

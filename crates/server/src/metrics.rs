//! `/metrics`: how the histories, the recordings and the server are doing, for Prometheus.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use model::Moment;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::overview::Overview;
use super::problem::{Problem, Result};
use super::shelf::Listed;
use super::{App, recordings};

/// What is counted while the server runs.
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Family<Route, Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: String,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfHistory {
    history: String,
}

/// What is found in the files when it is asked for.
#[derive(Default)]
struct Findings {
    readable: Family<OfHistory, Gauge>,
    changes: Family<OfHistory, Gauge>,
    bytes: Family<OfHistory, Gauge>,
    gaps: Family<OfHistory, Gauge>,
    age: Family<OfHistory, Gauge<f64, AtomicU64>>,
}

// === impl Metrics ===

impl Metrics {
    pub(super) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("kinescope");
        let requests = Family::default();
        let seconds: Family<Route, Histogram> = Family::new_with_constructor(|| {
            Histogram::new([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
        });
        registry.register("requests", "Requests answered, by route and code", requests.clone());
        registry.register("request_seconds", "Time until the answer began, by route", seconds.clone());
        Metrics { registry, requests, seconds }
    }
}

/// Counts a request and how long it took until its answer began.
pub(super) async fn measure(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    // The route, not the path: whatever strangers ask for, there are no more of them than routes.
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let began = Instant::now();
    let response = next.run(request).await;
    let code = response.status().as_u16();
    app.metrics.seconds.get_or_create(&Route { route: route.clone() }).observe(began.elapsed().as_secs_f64());
    app.metrics.requests.get_or_create(&Answered { route, code }).inc();
    response
}

/// `GET /metrics`
pub(super) async fn show(State(app): State<Arc<App>>) -> Result<Response> {
    let here = app.clone();
    let text = app.hands.light(move || here.metrics_text()).await?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

impl App {
    fn metrics_text(&self) -> Result<String> {
        let findings = Findings::default();
        let mut registry = Registry::with_prefix("kinescope_history");
        registry.register("readable", "Whether the history can be read", findings.readable.clone());
        registry.register("changes", "Changes in the history", findings.changes.clone());
        registry.register("bytes", "Bytes of the history's file", findings.bytes.clone());
        registry.register("gaps", "Times in which something may have been missed", findings.gaps.clone());
        registry.register("last_change_age_seconds", "Time since the last change", findings.age.clone());
        let now = Timestamp::now().into();
        for (listed, overview) in self.overviews.of_all(self.shelf.all()?) {
            findings.tell(listed, overview.ok().as_deref(), now);
        }
        let mut out = String::new();
        text::encode_registry(&mut out, &self.metrics.registry)
            .and_then(|()| text::encode_registry(&mut out, &registry))
            .and_then(|()| text::encode_registry(&mut out, &recordings::registry(&self.board)))
            .and_then(|()| text::encode_eof(&mut out))
            .map_err(|error| Problem::from(anyhow::Error::from(error)))?;
        Ok(out)
    }
}

// === impl Findings ===

impl Findings {
    fn tell(&self, listed: Listed, overview: Option<&Overview>, now: Moment) {
        let of = OfHistory { history: listed.name };
        self.readable.get_or_create(&of).set(i64::from(overview.is_some()));
        let Some(overview) = overview else { return };
        self.changes.get_or_create(&of).set(overview.changes.cast_signed());
        self.bytes.get_or_create(&of).set(overview.bytes.cast_signed());
        self.gaps.get_or_create(&of).set(overview.gaps.cast_signed());
        if let Some((_, last)) = overview.span {
            self.age.get_or_create(&of).set(now.nanos_since(last) as f64 / 1e9);
        }
    }
}

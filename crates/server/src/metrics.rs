//! `/metrics`: metrics of the histories, the recordings and the server, for Prometheus.

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

use super::api_error::{ApiError, Result};
use super::catalog::CatalogEntry;
use super::overview::Overview;
use super::{AppState, recordings};

/// Metrics of the server's requests.
pub(super) struct ServerMetrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HistoryLabels {
    history: String,
}

/// Metrics of the histories, read from their files for each scrape.
#[derive(Default)]
struct HistoryMetrics {
    readable: Family<HistoryLabels, Gauge>,
    changes: Family<HistoryLabels, Gauge>,
    bytes: Family<HistoryLabels, Gauge>,
    gaps: Family<HistoryLabels, Gauge>,
    age: Family<HistoryLabels, Gauge<f64, AtomicU64>>,
}

// === impl ServerMetrics ===

impl ServerMetrics {
    pub(super) fn new() -> ServerMetrics {
        let mut registry = Registry::with_prefix("kinescope");
        let requests = Family::default();
        let seconds: Family<RouteLabels, Histogram> = Family::new_with_constructor(|| {
            Histogram::new([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
        });
        registry.register("requests", "Requests by route and code", requests.clone());
        registry.register("request_seconds", "Time to the start of the response, by route", seconds.clone());
        ServerMetrics { registry, requests, seconds }
    }
}

/// Middleware that counts requests and measures the time until the response begins.
pub(super) async fn measure(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    // The route, not the path, so that the number of label values is bounded whatever clients request.
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let start = Instant::now();
    let response = next.run(request).await;
    let code = response.status().as_u16();
    app.metrics
        .seconds
        .get_or_create(&RouteLabels { route: route.clone() })
        .observe(start.elapsed().as_secs_f64());
    app.metrics.requests.get_or_create(&RequestLabels { route, code }).inc();
    response
}

/// `GET /metrics`
pub(super) async fn show(State(app): State<Arc<AppState>>) -> Result<Response> {
    let state = app.clone();
    let text = app.workers.run_light(move || state.metrics_text()).await?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

impl AppState {
    fn metrics_text(&self) -> Result<String> {
        let findings = HistoryMetrics::default();
        let mut registry = Registry::with_prefix("kinescope_history");
        registry.register("readable", "Whether the history can be read", findings.readable.clone());
        registry.register("changes", "Changes in the history", findings.changes.clone());
        registry.register("bytes", "Bytes of the history's file", findings.bytes.clone());
        registry.register("gaps", "Gaps, in which changes may be missing", findings.gaps.clone());
        registry.register("last_change_age_seconds", "Time since the last change", findings.age.clone());
        let now = Timestamp::now().into();
        for (entry, overview) in self.overviews.read_all(self.catalog.list()?) {
            findings.set(entry, overview.ok().as_deref(), now);
        }
        let mut out = String::new();
        text::encode_registry(&mut out, &self.metrics.registry)
            .and_then(|()| text::encode_registry(&mut out, &registry))
            .and_then(|()| text::encode_registry(&mut out, &recordings::registry(&self.recorder_metrics)))
            .and_then(|()| text::encode_eof(&mut out))
            .map_err(|error| ApiError::from(anyhow::Error::from(error)))?;
        Ok(out)
    }
}

// === impl HistoryMetrics ===

impl HistoryMetrics {
    fn set(&self, entry: CatalogEntry, overview: Option<&Overview>, now: Moment) {
        let labels = HistoryLabels { history: entry.name };
        self.readable.get_or_create(&labels).set(i64::from(overview.is_some()));
        let Some(overview) = overview else { return };
        self.changes.get_or_create(&labels).set(overview.changes.cast_signed());
        self.bytes.get_or_create(&labels).set(overview.bytes.cast_signed());
        self.gaps.get_or_create(&labels).set(overview.gaps.cast_signed());
        if let Some((_, last)) = overview.span {
            self.age.get_or_create(&labels).set(now.nanos_since(last) as f64 / 1e9);
        }
    }
}

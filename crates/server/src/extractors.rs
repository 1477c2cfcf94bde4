//! Extractors for query parameters and for the history's name in the path.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use model::Moment;
use query::OpenHistory;
use serde::de::DeserializeOwned;

use super::api_error::{ApiError, Result};

/// The query parameters of a request. An unknown parameter is an error, so that a misspelled one is not silently
/// ignored.
pub(super) struct QueryParams<T>(pub(super) T);

/// The history's name in the path of a request.
pub(super) struct HistoryName(pub(super) String);

// === impl QueryParams ===

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<QueryParams<T>> {
        let Query(params) = Query::try_from_uri(&parts.uri)
            .map_err(|error| ApiError::new(StatusCode::BAD_REQUEST, error.body_text()))?;
        Ok(QueryParams(params))
    }
}

// === impl HistoryName ===

impl<S: Send + Sync> FromRequestParts<S> for HistoryName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<HistoryName> {
        let Path(name) = Path::from_request_parts(parts, state)
            .await
            .map_err(|error| ApiError::new(error.status(), error.body_text()))?;
        Ok(HistoryName(name))
    }
}

/// Returns the parameter's value, or `None` if it is absent or empty.
pub(super) fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Parses a time parameter relative to the history's span.
pub(super) fn parse_moment(open_history: &OpenHistory, text: &Option<String>) -> Result<Option<Moment>> {
    let Some(text) = non_empty(text) else { return Ok(None) };
    // In a query string, a plus that is not written as %2B decodes to a space.
    let read = open_history
        .times
        .parse(text)
        .or_else(|error| open_history.times.parse(&text.replace(' ', "+")).map_err(|_| error));
    read.map(Some).map_err(ApiError::bad_request)
}

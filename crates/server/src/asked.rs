//! What stands behind the question mark.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use model::Moment;
use query::Chosen;
use serde::de::DeserializeOwned;

use super::problem::{Problem, Result};

/// The parameters of a request. One that nobody knows is an error, not a question answered differently.
pub(super) struct Asked<T>(pub(super) T);

/// The name in the path of a request.
pub(super) struct Named(pub(super) String);

// === impl Asked ===

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asked<T>> {
        let Query(asked) = Query::try_from_uri(&parts.uri)
            .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.body_text()))?;
        Ok(Asked(asked))
    }
}

// === impl Named ===

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Named> {
        let Path(name) = Path::from_request_parts(parts, state)
            .await
            .map_err(|error| Problem::new(error.status(), error.body_text()))?;
        Ok(Named(name))
    }
}

/// A parameter that is there but empty is not given.
pub(super) fn given(word: &Option<String>) -> Option<&str> {
    word.as_deref().filter(|word| !word.is_empty())
}

/// The moment that a parameter means.
pub(super) fn moment(chosen: &Chosen, word: &Option<String>) -> Result<Option<Moment>> {
    let Some(word) = given(word) else { return Ok(None) };
    // A plus that was not written as %2B comes as a blank.
    let read = chosen
        .times
        .read(word)
        .or_else(|error| chosen.times.read(&word.replace(' ', "+")).map_err(|_| error));
    read.map(Some).map_err(Problem::asked)
}

//! What could not be answered, and why.

use std::fmt;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Seconds after which it is worth to ask again.
const RETRY_AFTER: &str = "1";

/// An answer that is none: its code, and in words what is wrong and what would be right.
#[derive(Debug)]
pub(super) struct Problem {
    code: StatusCode,
    words: String,
}

/// A result of this room.
pub(super) type Result<T> = std::result::Result<T, Problem>;

// === impl Problem ===

impl Problem {
    pub(super) fn new(code: StatusCode, words: impl Into<String>) -> Problem {
        Problem { code, words: words.into() }
    }

    /// The question is wrong, unless it was the history that could not be read.
    pub(super) fn asked(error: impl Into<anyhow::Error>) -> Problem {
        Problem::of(&error.into(), StatusCode::BAD_REQUEST)
    }

    /// Another time it may go well.
    pub(super) fn busy(words: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, words)
    }

    /// As plain text with a code of one's own, for clients that know no JSON here.
    pub(super) fn into_text(self) -> Response {
        self.with_retry((self.code, format!("{}\n", self.words)).into_response())
    }

    /// The same with another code.
    #[must_use]
    pub(super) fn with_code(self, code: StatusCode) -> Problem {
        Problem { code, ..self }
    }

    pub(super) fn code(&self) -> StatusCode {
        self.code
    }

    fn of(error: &anyhow::Error, otherwise: StatusCode) -> Problem {
        let of_history = error.chain().find_map(|cause| cause.downcast_ref::<history::Error>());
        Problem::new(of_history.map_or(otherwise, code_of), format!("{error:#}"))
    }

    fn with_retry(&self, mut response: Response) -> Response {
        if self.code == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        response
    }
}

impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Problem {
        Problem::of(&error, StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<history::Error> for Problem {
    fn from(error: history::Error) -> Problem {
        anyhow::Error::from(error).into()
    }
}

impl From<formats::Error> for Problem {
    fn from(error: formats::Error) -> Problem {
        anyhow::Error::from(error).into()
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Problem {
        anyhow::Error::from(error).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.with_retry((self.code, Json(json!({ "error": self.words }))).into_response())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Problem {}

fn code_of(error: &history::Error) -> StatusCode {
    use history::Error::{BeforeStart, Damaged, Missing, NotOurs, TooNew, UncleanReadOnly};
    match error {
        Missing(_) => StatusCode::NOT_FOUND,
        BeforeStart { .. } => StatusCode::GONE,
        // What is there is not what is asked for, and asking again does not help.
        NotOurs { .. } | TooNew { .. } | Damaged { .. } | UncleanReadOnly(_) => StatusCode::CONFLICT,
        error if error.is_busy() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

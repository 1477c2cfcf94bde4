//! What could not be answered, and why.

use std::{fmt, io};

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Seconds after which it is worth to ask again.
const RETRY_AFTER: &str = "1";

/// An answer that is none: its code, and in words what is wrong and what would be right.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    code: StatusCode,
    words: String,
}

/// A result of this crate.
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
        if let Some(problem) = error.downcast_ref::<Problem>() {
            return problem.clone();
        }
        let of_history = error.chain().find_map(|cause| cause.downcast_ref::<history::Error>());
        let of_system = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
        let code = match (of_history, of_system) {
            (Some(error), _) => code_of(error),
            (None, Some(error)) if is_full(error) => StatusCode::INSUFFICIENT_STORAGE,
            _ => otherwise,
        };
        Problem::new(code, format!("{error:#}"))
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

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
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
        error if error.is_full() => StatusCode::INSUFFICIENT_STORAGE,
        error if error.is_busy() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

//! Error responses: a status code and a message.

use std::{fmt, io};

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// The value of `Retry-After`, in seconds.
const RETRY_AFTER: &str = "1";

/// An error response: the status code, and a message that says what is wrong and what would be right.
#[derive(Clone, Debug)]
pub(super) struct ApiError {
    code: StatusCode,
    message: String,
}

/// The result type of this crate.
pub(super) type Result<T> = std::result::Result<T, ApiError>;

// === impl ApiError ===

impl ApiError {
    pub(super) fn new(code: StatusCode, message: impl Into<String>) -> ApiError {
        ApiError { code, message: message.into() }
    }

    /// 400 Bad Request, unless the cause is a history that could not be read or a full disk.
    pub(super) fn bad_request(error: impl Into<anyhow::Error>) -> ApiError {
        ApiError::with_default_code(&error.into(), StatusCode::BAD_REQUEST)
    }

    /// 503 Service Unavailable, with `Retry-After`: the client may try again.
    pub(super) fn unavailable(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// A plain text response, for clients of other systems, which do not expect JSON.
    pub(super) fn into_text(self) -> Response {
        self.with_retry((self.code, format!("{}\n", self.message)).into_response())
    }

    #[must_use]
    pub(super) fn with_code(self, code: StatusCode) -> ApiError {
        ApiError { code, ..self }
    }

    pub(super) fn code(&self) -> StatusCode {
        self.code
    }

    fn with_default_code(error: &anyhow::Error, otherwise: StatusCode) -> ApiError {
        if let Some(problem) = error.downcast_ref::<ApiError>() {
            return problem.clone();
        }
        let of_history = error.chain().find_map(|cause| cause.downcast_ref::<history::Error>());
        let of_system = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
        let code = match (of_history, of_system) {
            (Some(error), _) => history_error_code(error),
            (None, Some(error)) if is_disk_full(error) => StatusCode::INSUFFICIENT_STORAGE,
            _ => otherwise,
        };
        ApiError::new(code, format!("{error:#}"))
    }

    fn with_retry(&self, mut response: Response) -> Response {
        if self.code == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        response
    }
}

impl From<anyhow::Error> for ApiError {
    fn from(error: anyhow::Error) -> ApiError {
        ApiError::with_default_code(&error, StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<history::Error> for ApiError {
    fn from(error: history::Error) -> ApiError {
        anyhow::Error::from(error).into()
    }
}

impl From<formats::Error> for ApiError {
    fn from(error: formats::Error) -> ApiError {
        anyhow::Error::from(error).into()
    }
}

impl From<io::Error> for ApiError {
    fn from(error: io::Error) -> ApiError {
        anyhow::Error::from(error).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.with_retry((self.code, Json(json!({ "error": self.message }))).into_response())
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

fn history_error_code(error: &history::Error) -> StatusCode {
    use history::Error::{BeforeStart, Damaged, Missing, NotAHistory, TooNew, UncleanReadOnly};
    match error {
        Missing(_) => StatusCode::NOT_FOUND,
        BeforeStart { .. } => StatusCode::GONE,
        // The file exists but cannot be served, and a retry would not help.
        NotAHistory { .. } | TooNew { .. } | Damaged { .. } | UncleanReadOnly(_) => StatusCode::CONFLICT,
        error if error.is_full() => StatusCode::INSUFFICIENT_STORAGE,
        error if error.is_busy() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn is_disk_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

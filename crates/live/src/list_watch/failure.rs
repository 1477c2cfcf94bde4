//! Failures of requests, their classification, and the backoff.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// The failure of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFailure {
    /// The HTTP status; `None` if there was no response, or none that could be used.
    pub status: Option<u16>,
    /// The server's `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The message of the server or of the system.
    pub message: String,
}

/// The class of a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The requested resourceVersion is too old.
    Expired,
    /// A retry may succeed.
    Transient,
    /// A retry fails until a user acts.
    Rejected,
    /// The server has no such kind.
    NotFound,
}

const FIRST_BACKOFF: Duration = Duration::from_millis(800);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Longer where a user has to act.
const FIRST_SLOW_BACKOFF: Duration = Duration::from_secs(5);
const MAX_SLOW_BACKOFF: Duration = Duration::from_secs(60);
/// The maximum `Retry-After` that is honored.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

// === impl RequestFailure ===

impl RequestFailure {
    /// The message where nobody listens at the server's address.
    pub const CONNECTION_REFUSED: &str = "Connection refused";

    /// A failure without a usable response.
    pub fn from_message(message: String) -> RequestFailure {
        RequestFailure { message, ..RequestFailure::default() }
    }

    /// Parses a Kubernetes Status. `code` is the HTTP status of the response, if it had one of its own.
    pub(crate) fn from_status(body: &str, code: Option<u16>) -> RequestFailure {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Details {
            retry_after_seconds: u64,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            code: u16,
            reason: String,
            message: String,
            details: Option<Details>,
        }
        let Ok(status) = serde_json::from_str::<Status>(body) else {
            // Most likely the error page of a proxy.
            let message = body.lines().next().unwrap_or_default().chars().take(200).collect();
            return RequestFailure { status: code, message, retry_after: None };
        };
        let reported_code = match &*status.reason {
            "Expired" | "Gone" => 410,
            _ => status.code,
        };
        let seconds = status.details.map_or(0, |details| details.retry_after_seconds);
        RequestFailure {
            status: code.or(Some(reported_code)).filter(|code| *code != 0),
            retry_after: (seconds > 0).then(|| Duration::from_secs(seconds)),
            message: status.message,
        }
    }

    /// Whether a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        self.kind() == FailureKind::Transient
    }

    pub(super) fn kind(&self) -> FailureKind {
        match self.status {
            Some(410) => FailureKind::Expired,
            None | Some(408 | 429 | 500..) => FailureKind::Transient,
            Some(404) => FailureKind::NotFound,
            Some(_) => FailureKind::Rejected,
        }
    }

    /// The backoff after this many earlier failures.
    pub(crate) fn backoff(&self, failures: u32, jitter: f64) -> Duration {
        let (first, max) = match self.kind() {
            FailureKind::Expired | FailureKind::Transient => (FIRST_BACKOFF, MAX_BACKOFF),
            FailureKind::Rejected | FailureKind::NotFound => (FIRST_SLOW_BACKOFF, MAX_SLOW_BACKOFF),
        };
        let doubled = first.saturating_mul(1 << failures.min(16)).min(max);
        // Jitter between half and all of it, so that not all clients retry together.
        let wait = doubled.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
        wait.max(self.retry_after.unwrap_or_default().min(MAX_RETRY_AFTER))
    }

    pub(super) fn is_access_denied(&self) -> bool {
        matches!(self.status, Some(401 | 403))
    }
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status, self.message.is_empty()) {
            (Some(status), true) => write!(f, "the server responded {status}"),
            (Some(status), false) => write!(f, "the server responded {status}: {}", self.message),
            (None, true) => f.write_str("no response"),
            (None, false) => f.write_str(&self.message),
        }
    }
}

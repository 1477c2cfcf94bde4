//! Why there is no answer, what that means, and how long to wait.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// Why there is no answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status; `None` if there was no answer at all.
    pub status: Option<u16>,
    /// Not before this time.
    pub retry_after: Option<Duration>,
    /// The server's words, or the system's.
    pub words: String,
}

/// What a failure asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The version asked for is too old.
    Expired,
    /// It may go well next time.
    Passing,
    /// It will not go well before somebody does something.
    Refused,
    /// The server has no such kind.
    Absent,
}

const FIRST_WAIT: Duration = Duration::from_millis(800);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Where a user has to do something, it takes longer.
const FIRST_SLOW_WAIT: Duration = Duration::from_secs(5);
const LONGEST_SLOW_WAIT: Duration = Duration::from_secs(60);
/// What a server may ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);

// === impl Failure ===

impl Failure {
    /// Something that went wrong without an answer.
    pub fn said(words: String) -> Failure {
        Failure { words, ..Failure::default() }
    }

    /// What a server says in a Status. `code` is that of the answer, if it had one of its own.
    pub(crate) fn of_status(body: &str, code: Option<u16>) -> Failure {
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
            // A proxy's page, more likely than not.
            let words = body.lines().next().unwrap_or_default().chars().take(200).collect();
            return Failure { status: code, words, retry_after: None };
        };
        let said = match &*status.reason {
            "Expired" | "Gone" => 410,
            _ => status.code,
        };
        let seconds = status.details.map_or(0, |details| details.retry_after_seconds);
        Failure {
            status: code.or(Some(said)).filter(|code| *code != 0),
            retry_after: (seconds > 0).then(|| Duration::from_secs(seconds)),
            words: status.message,
        }
    }

    /// Whether it may go well next time.
    pub(crate) fn is_passing(&self) -> bool {
        self.meaning() == Meaning::Passing
    }

    pub(super) fn meaning(&self) -> Meaning {
        match self.status {
            Some(410) => Meaning::Expired,
            None | Some(408 | 429 | 500..) => Meaning::Passing,
            Some(404) => Meaning::Absent,
            Some(_) => Meaning::Refused,
        }
    }

    /// How long to wait after so many failures before.
    pub(crate) fn wait(&self, failures: u32, chance: f64) -> Duration {
        let (first, longest) = match self.meaning() {
            Meaning::Expired | Meaning::Passing => (FIRST_WAIT, LONGEST_WAIT),
            Meaning::Refused | Meaning::Absent => (FIRST_SLOW_WAIT, LONGEST_SLOW_WAIT),
        };
        let doubled = first.saturating_mul(1 << failures.min(16)).min(longest);
        // Between half and all of it, so that not all come back together.
        let wait = doubled.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
        wait.max(self.retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER))
    }

    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.status, Some(401 | 403))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status, self.words.is_empty()) {
            (Some(status), true) => write!(f, "the server answered {status}"),
            (Some(status), false) => write!(f, "the server answered {status}: {}", self.words),
            (None, true) => f.write_str("no answer"),
            (None, false) => f.write_str(&self.words),
        }
    }
}

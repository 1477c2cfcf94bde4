//! Responses to probes, one line per recording, in the format of Kubernetes' `/healthz?verbose`.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use recorder::{RecorderMetrics, RecordingMetrics, RecordingState};

use super::api_error::ApiError;

/// The result of a health check. Probes need no token, so a failure is reported in one word; `/api/v1/recordings` has
/// the details.
pub(super) struct Health {
    name: &'static str,
    lines: Vec<(String, CheckResult)>,
    is_healthy: bool,
}

/// The result of a single check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckResult {
    Passed,
    Failed(&'static str),
}

// === impl Health ===

impl Health {
    /// Liveness: no recording hangs, and the recordings are supervised.
    pub(super) fn liveness(recorder_metrics: &RecorderMetrics) -> Health {
        let all = recorder_metrics.snapshot();
        let check_recording = |metrics: &RecordingMetrics| {
            if metrics.is_hung() { CheckResult::Failed("hung") } else { CheckResult::Passed }
        };
        let mut lines = check_lines(&all, check_recording);
        if recorder_metrics.is_config_check_overdue() {
            lines.push(("recording supervisor".to_owned(), CheckResult::Failed("not responding")));
        }
        let is_well = lines.iter().all(|(_, check)| *check == CheckResult::Passed);
        Health { name: "healthz", lines, is_healthy: is_well }
    }

    /// Readiness: histories can be listed and, if this process records, at least one recording is running.
    pub(super) fn readiness(has_histories: bool, recorder_metrics: &RecorderMetrics) -> Health {
        let all = recorder_metrics.snapshot();
        let check_recording = |metrics: &RecordingMetrics| match &metrics.state {
            _ if metrics.is_hung() => CheckResult::Failed("hung"),
            RecordingState::Recording => CheckResult::Passed,
            state => CheckResult::Failed(state.as_str()),
        };
        let mut lines = check_lines(&all, check_recording);
        let is_recording = lines.is_empty() || lines.iter().any(|(_, check)| *check == CheckResult::Passed);
        let histories =
            if has_histories { CheckResult::Passed } else { CheckResult::Failed("cannot be listed") };
        if !lines.is_empty() || !has_histories {
            lines.insert(0, ("histories".to_owned(), histories));
        }
        Health { name: "readyz", lines, is_healthy: has_histories && is_recording }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, check) in &self.lines {
            text += &match check {
                CheckResult::Passed => format!("[+]{name} ok\n"),
                CheckResult::Failed(why) => format!("[-]{name} failed: {why}\n"),
            };
        }
        match (self.is_healthy, self.lines.is_empty()) {
            (true, true) => text += "ok",
            (true, false) => text += &format!("{} check passed", self.name),
            (false, _) => text += &format!("{} check failed", self.name),
        }
        text
    }
}

impl IntoResponse for Health {
    fn into_response(self) -> Response {
        match self.is_healthy {
            true => (StatusCode::OK, format!("{}\n", self.text())).into_response(),
            false => ApiError::unavailable(self.text()).into_text(),
        }
    }
}

fn check_lines(
    all: &[(std::sync::Arc<str>, RecordingMetrics)],
    check_recording: impl Fn(&RecordingMetrics) -> CheckResult,
) -> Vec<(String, CheckResult)> {
    all.iter().map(|(name, metrics)| (name.to_string(), check_recording(metrics))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use recorder::lock;

    #[track_caller]
    fn check(health: &Health, is_well: bool, text: &str) {
        assert_eq!((health.is_healthy, health.text().as_str()), (is_well, text));
    }

    #[test]
    fn without_recordings_it_is_ready_when_it_finds_histories() {
        let recorder_metrics = RecorderMetrics::default();
        check(&Health::liveness(&recorder_metrics), true, "ok");
        check(&Health::readiness(true, &recorder_metrics), true, "ok");
        let text = "[-]histories failed: cannot be listed\nreadyz check failed";
        check(&Health::readiness(false, &recorder_metrics), false, text);
    }

    #[test]
    fn one_running_recording_is_enough_to_be_ready() {
        let recorder_metrics = RecorderMetrics::default();
        let set =
            |name: &str, state: RecordingState| lock(&recorder_metrics.recording(&name.into())).state = state;
        set("east", RecordingState::Starting);
        set("west", RecordingState::Waiting("https://west.example: no route".to_owned()));
        let text = "[+]histories ok\n[-]east failed: starting\n[-]west failed: waiting\nreadyz check failed";
        check(&Health::readiness(true, &recorder_metrics), false, text);
        check(&Health::liveness(&recorder_metrics), true, "[+]east ok\n[+]west ok\nhealthz check passed");
        set("east", RecordingState::Recording);
        let text = "[+]histories ok\n[+]east ok\n[-]west failed: waiting\nreadyz check passed";
        check(&Health::readiness(true, &recorder_metrics), true, text);
    }
}

//! Answers to probes, a line a recording, as Kubernetes' `/healthz?verbose` has them.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use recorder::{Board, Figures, State};

use super::problem::Problem;

/// What a probe is answered. Probes need no token: what is wrong is told in a word, and why at `/api/v1/recordings`.
pub(super) struct Health {
    name: &'static str,
    lines: Vec<(String, Check)>,
    is_well: bool,
}

/// What came of looking at one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Passed,
    Failed(&'static str),
}

// === impl Health ===

impl Health {
    /// Whether the process should go on: nothing in it hangs.
    pub(super) fn alive(board: &Board) -> Health {
        let all = board.all();
        let of = |figures: &Figures| if figures.is_hung() { Check::Failed("hung") } else { Check::Passed };
        let mut lines = lines(&all, of);
        if board.is_unsupervised() {
            lines.push(("clusters to be recorded".to_owned(), Check::Failed("not looked at any more")));
        }
        let is_well = lines.iter().all(|(_, check)| *check == Check::Passed);
        Health { name: "healthz", lines, is_well }
    }

    /// Whether it does what it is there for: histories can be found, and of what is to be recorded some is.
    pub(super) fn ready(has_histories: bool, board: &Board) -> Health {
        let all = board.all();
        let of = |figures: &Figures| match &figures.state {
            _ if figures.is_hung() => Check::Failed("hung"),
            State::Recording => Check::Passed,
            state => Check::Failed(state.word()),
        };
        let mut lines = lines(&all, of);
        let is_recording = lines.is_empty() || lines.iter().any(|(_, check)| *check == Check::Passed);
        let histories = if has_histories { Check::Passed } else { Check::Failed("cannot be looked for now") };
        if !lines.is_empty() || !has_histories {
            lines.insert(0, ("histories".to_owned(), histories));
        }
        Health { name: "readyz", lines, is_well: has_histories && is_recording }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, check) in &self.lines {
            text += &match check {
                Check::Passed => format!("[+]{name} ok\n"),
                Check::Failed(why) => format!("[-]{name} failed: {why}\n"),
            };
        }
        match (self.is_well, self.lines.is_empty()) {
            (true, true) => text += "ok",
            (true, false) => text += &format!("{} check passed", self.name),
            (false, _) => text += &format!("{} check failed", self.name),
        }
        text
    }
}

impl IntoResponse for Health {
    fn into_response(self) -> Response {
        match self.is_well {
            true => (StatusCode::OK, format!("{}\n", self.text())).into_response(),
            false => Problem::busy(self.text()).into_text(),
        }
    }
}

fn lines(all: &[(std::sync::Arc<str>, Figures)], of: impl Fn(&Figures) -> Check) -> Vec<(String, Check)> {
    all.iter().map(|(name, figures)| (name.to_string(), of(figures))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use recorder::lock;

    #[track_caller]
    fn check(health: &Health, is_well: bool, text: &str) {
        assert_eq!((health.is_well, health.text().as_str()), (is_well, text));
    }

    #[test]
    fn what_records_nothing_is_ready_when_it_finds_histories() {
        let board = Board::default();
        check(&Health::alive(&board), true, "ok");
        check(&Health::ready(true, &board), true, "ok");
        let text = "[-]histories failed: cannot be looked for now\nreadyz check failed";
        check(&Health::ready(false, &board), false, text);
    }

    #[test]
    fn one_recording_that_works_is_enough() {
        let board = Board::default();
        let set = |name: &str, state: State| lock(&board.figures(&name.into())).state = state;
        set("east", State::Starting);
        set("west", State::Waiting("https://west.example: no route".to_owned()));
        let text = "[+]histories ok\n[-]east failed: starting\n[-]west failed: waiting\nreadyz check failed";
        check(&Health::ready(true, &board), false, text);
        check(&Health::alive(&board), true, "[+]east ok\n[+]west ok\nhealthz check passed");
        set("east", State::Recording);
        let text = "[+]histories ok\n[+]east ok\n[-]west failed: waiting\nreadyz check passed";
        check(&Health::ready(true, &board), true, text);
    }
}

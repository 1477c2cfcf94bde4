//! A plan carried out: what is decided again is written down, filmed, and compared with what was recorded.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context;
use model::{Moment, What};
use query::Chosen;
use simulation::{Decided, Demand, Observer};

use super::{Plan, SurveyResult, Watcher};
use crate::decisions::{DecisionLog, JsonLines};
use crate::play::Follower;
use crate::report::Report;

/// Where a replay writes while it is played.
#[derive(Default)]
pub struct Outputs {
    /// The folder that errors name: what is written may go there only when it is whole.
    pub folder: PathBuf,
    /// A line a decision, and what was recorded beside it, if that is wanted.
    pub decisions: Option<PathBuf>,
    /// A history of the replay, if one is wanted.
    pub history: Option<PathBuf>,
}

/// All who follow a replay, and whoever waits for it.
struct Watched<'a> {
    watcher: &'a mut dyn Watcher,
    followers: Vec<&'a mut dyn Follower>,
}

impl Plan {
    /// Plays it, and says what came of it.
    pub fn play(
        &self,
        chosen: &Chosen,
        known: SurveyResult,
        outputs: &Outputs,
        watcher: &mut dyn Watcher,
    ) -> anyhow::Result<Report> {
        let run = &self.run;
        let file: Box<dyn Write> = match &outputs.decisions {
            Some(path) => Box::new(File::create(path).with_context(|| outputs.doing())?),
            None => Box::new(io::sink()),
        };
        let lines = JsonLines(BufWriter::with_capacity(1 << 18, file));
        let mut decisions = DecisionLog::new(&known.causes, &known.curve, lines);
        let mut film = outputs.history.as_deref().map(|path| self.film(path)).transpose()?;
        let mut watched = Watched { watcher, followers: vec![&mut decisions] };
        if let Some(film) = &mut film {
            watched.followers.push(film);
        }
        let played = run.play(&chosen.history, &known, &mut watched);
        drop(watched);
        if played.is_ok() {
            watcher.reached(run.end);
        }
        // A replay that was stopped says why: by whoever waited, or by what could not be written.
        watcher.check()?;
        let written = decisions.finish(run.end).and_then(|mut lines| lines.0.flush());
        written.with_context(|| outputs.doing())?;
        if let Some(mut film) = film {
            self.end(&mut film)?;
            film.finish()?;
        }
        let reservations = self.reservations(chosen)?;
        Ok(run.report(&chosen.history, known, played?, self.told(), reservations))
    }
}

// === impl Outputs ===

impl Outputs {
    /// What is being done, for errors.
    fn doing(&self) -> String {
        format!("cannot write {}", self.folder.display())
    }
}

// === impl Watched ===

impl Observer for Watched<'_> {
    fn wants_changes(&self) -> bool {
        self.followers.iter().any(|follower| follower.wants_changes())
    }

    fn changed(&mut self, at: Moment, what: What) {
        self.watcher.reached(at);
        for follower in &mut self.followers {
            follower.changed(at, what.clone());
        }
    }

    fn decided(&mut self, at: Moment, decided: &Decided<'_>) {
        self.watcher.reached(at);
        for follower in &mut self.followers {
            follower.decided(at, decided);
        }
    }
}

impl Follower for Watched<'_> {
    fn asked(&mut self, at: Moment, demand: &Demand) {
        for follower in &mut self.followers {
            follower.asked(at, demand);
        }
    }

    fn reached(&mut self, now: Moment) {
        self.watcher.reached(now);
        for follower in &mut self.followers {
            follower.reached(now);
        }
    }

    fn goes_on(&self) -> bool {
        self.watcher.check().is_ok() && self.followers.iter().all(|follower| follower.goes_on())
    }
}

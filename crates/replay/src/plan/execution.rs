//! The execution of a replay plan: decisions are logged, recorded, and compared with the recording.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context;
use model::{Moment, What};
use query::OpenHistory;
use simulation::{Observer, PodDemand, SimulationEvent};

use super::{RecordingAnalysis, ReplayListener, ReplayPlan};
use crate::decisions::{DecisionLog, JsonLines};
use crate::play::ReplayObserver;
use crate::report::Report;

/// The output files of a replay.
#[derive(Default)]
pub struct OutputFiles {
    /// The folder that errors name: files may be moved there only when they are complete.
    pub folder: PathBuf,
    /// A file with one line per decision and its recorded counterpart, if wanted.
    pub decisions: Option<PathBuf>,
    /// A history of the replay, if wanted.
    pub history: Option<PathBuf>,
}

/// All observers of a replay, and its listener.
struct ObserverSet<'a> {
    listener: &'a mut dyn ReplayListener,
    observers: Vec<&'a mut dyn ReplayObserver>,
}

impl ReplayPlan {
    /// Runs the replay, and returns its report.
    pub fn play(
        &self,
        open_history: &OpenHistory,
        analysis: RecordingAnalysis,
        outputs: &OutputFiles,
        listener: &mut dyn ReplayListener,
    ) -> anyhow::Result<Report> {
        let resolved = &self.resolved;
        let file: Box<dyn Write> = match &outputs.decisions {
            Some(path) => Box::new(File::create(path).with_context(|| outputs.write_context())?),
            None => Box::new(io::sink()),
        };
        let lines = JsonLines(BufWriter::with_capacity(1 << 18, file));
        let mut decisions = DecisionLog::new(&analysis.demands, &analysis.node_counts, lines);
        let mut recording = outputs.history.as_deref().map(|path| self.start_recording(path)).transpose()?;
        let mut observer_set = ObserverSet { listener, observers: vec![&mut decisions] };
        if let Some(recording) = &mut recording {
            observer_set.observers.push(recording);
        }
        let played = resolved.play(&open_history.history, &analysis, &mut observer_set);
        drop(observer_set);
        if played.is_ok() {
            listener.on_progress(resolved.end);
        }
        // The error of a cancelled replay is the listener's, or that of the failed write.
        listener.check_cancelled()?;
        let written = decisions.finish(resolved.end).and_then(|mut lines| lines.0.flush());
        written.with_context(|| outputs.write_context())?;
        let outcome = match (played, recording) {
            (Ok(outcome), Some(mut recording)) => {
                self.end_recording(&mut recording)?;
                recording.finish()?;
                outcome
            }
            (Ok(outcome), None) => outcome,
            // An error of the recording stops the replay.
            (Err(error), recording) => {
                return Err(recording.and_then(|it| it.into_error()).map_or(error.into(), Into::into));
            }
        };
        let caveats = self.caveats(open_history)?;
        Ok(resolved.report(&open_history.history, analysis, outcome, self.reported_settings(), caveats))
    }
}

// === impl OutputFiles ===

impl OutputFiles {
    /// The context of write errors.
    fn write_context(&self) -> String {
        format!("cannot write {}", self.folder.display())
    }
}

// === impl ObserverSet ===

impl Observer for ObserverSet<'_> {
    fn wants_changes(&self) -> bool {
        self.observers.iter().any(|observer| observer.wants_changes())
    }

    fn on_change(&mut self, at: Moment, what: What) {
        self.listener.on_progress(at);
        for observer in &mut self.observers {
            observer.on_change(at, what.clone());
        }
    }

    fn on_event(&mut self, at: Moment, event: &SimulationEvent<'_>) {
        self.listener.on_progress(at);
        for observer in &mut self.observers {
            observer.on_event(at, event);
        }
    }
}

impl ReplayObserver for ObserverSet<'_> {
    fn on_demand(&mut self, at: Moment, demand: &PodDemand) {
        for observer in &mut self.observers {
            observer.on_demand(at, demand);
        }
    }

    fn on_progress(&mut self, now: Moment) {
        self.listener.on_progress(now);
        for observer in &mut self.observers {
            observer.on_progress(now);
        }
    }

    fn should_continue(&self) -> bool {
        self.listener.check_cancelled().is_ok()
            && self.observers.iter().all(|observer| observer.should_continue())
    }
}

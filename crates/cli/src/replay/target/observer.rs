//! A run into a real API server, shown on a terminal.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use live::applying::{Applier, Cleaned};
use model::Moment;
use replay::live_target::{Comparison, LiveNotice, LiveProgress, LiveReplayObserver, RunSummary};

use super::printing;
use crate::lines::harmless;
use crate::output::{Out, times};
use crate::progress::Progress;
use crate::replay::clock::Reading;
use crate::replay::folder::Folder;
use crate::replay::{Replay, seconds, summary};
use crate::signals;

/// Prints what happens, and stops the run at a signal.
pub(super) struct TerminalObserver<'a> {
    pub(super) asked: &'a Replay,
    /// The path of the history that is played.
    pub(super) history: &'a Path,
    pub(super) out: &'a mut Out,
}

// === impl TerminalObserver ===

impl LiveReplayObserver for TerminalObserver<'_> {
    fn notice(&mut self, notice: LiveNotice) {
        let text = match notice {
            LiveNotice::Risk(risk) => format!("warning: {}", harmless(&risk)),
            LiveNotice::HookOutput(line) => line,
            LiveNotice::HookFailed(words) => format!("warning: {words}"),
        };
        self.out.complain(&text);
    }

    fn cleaned(&mut self, cleaned: &Cleaned) -> anyhow::Result<()> {
        printing::cleaned(self.out, cleaned)
    }

    /// Ctrl-C lets the requests under way finish, and ends the run.
    fn started(&mut self, applier: &Arc<Applier>) -> anyhow::Result<()> {
        let (stop, applier) = (signals::stop()?, applier.clone());
        tokio::spawn(async move {
            stop.await;
            applier.stop();
        });
        Ok(())
    }

    fn playing(&mut self, from: Moment, end: Moment) -> Box<dyn FnMut(LiveProgress) + Send> {
        let bar = Progress::replay(self.out, seconds(end.nanos_since(from)));
        Box::new(move |progress| {
            let words = progress.speed.map_or_else(|| "paused".to_owned(), times);
            bar.played(seconds(progress.played_nanos), progress.at, &words);
        })
    }

    fn finished(&mut self, summary: &RunSummary) -> anyhow::Result<()> {
        match self.asked.output.as_str() {
            "json" => writeln!(self.out.data()?, "{:#}", summary.to_json())?,
            _ => printing::summary(self.out, summary)?,
        }
        Ok(())
    }

    /// Writes the history of the target and the report to the folder of the replay.
    fn recorded(&mut self, comparison: Comparison<'_>) -> anyhow::Result<()> {
        let folder = Folder::choose(self.asked.out.as_deref(), self.history)?;
        let scratch = folder.begin()?;
        let path = scratch.path("replay.kine");
        comparison.write_history(&path).with_context(|| scratch.doing())?;
        let reading = Reading::new(self.out, comparison.plan());
        let report = comparison.report(&path, reading)?;
        std::fs::write(scratch.path("report.json"), report.to_json()?).with_context(|| scratch.doing())?;
        scratch.publish()?;
        // For programs there is the report.
        if self.asked.output == "json" { Ok(()) } else { summary::compared(self.out, &report, &folder) }
    }
}

//! A live replay's observer that prints to the terminal.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use live::apply::{Applier, CleanupReport};
use model::Moment;
use replay::live_target::{LiveComparison, LiveNotice, LiveProgress, LiveReplayObserver, RunSummary};

use super::printing;
use crate::lines::escape_line;
use crate::output::{Printer, speed_text};
use crate::progress::Progress;
use crate::replay::clock::ReadProgress;
use crate::replay::folder::OutputFolder;
use crate::replay::{Replay, seconds, summary};
use crate::signals;

/// Prints notices, progress and results, and stops the run at a signal.
pub(super) struct TerminalObserver<'a> {
    pub(super) arguments: &'a Replay,
    /// The path of the history that is replayed.
    pub(super) history: &'a Path,
    pub(super) out: &'a mut Printer,
}

// === impl TerminalObserver ===

impl LiveReplayObserver for TerminalObserver<'_> {
    fn notice(&mut self, notice: LiveNotice) {
        let text = match notice {
            LiveNotice::Risk(risk) => format!("warning: {}", escape_line(&risk)),
            LiveNotice::HookOutput(line) => line,
            LiveNotice::HookFailed(message) => format!("warning: {message}"),
        };
        self.out.print_to_stderr(&text);
    }

    fn cleaned(&mut self, cleaned: &CleanupReport) -> anyhow::Result<()> {
        printing::cleaned(self.out, cleaned)
    }

    /// Ctrl-C stops the run after the requests in progress.
    fn started(&mut self, applier: &Arc<Applier>) -> anyhow::Result<()> {
        let (stop, applier) = (signals::stop_requested()?, applier.clone());
        tokio::spawn(async move {
            stop.await;
            applier.stop();
        });
        Ok(())
    }

    fn playing(&mut self, from: Moment, end: Moment) -> Box<dyn FnMut(LiveProgress) + Send> {
        let bar = Progress::replay(self.out, seconds(end.nanos_since(from)));
        Box::new(move |progress| {
            let speed_message = progress.speed.map_or_else(|| "paused".to_owned(), speed_text);
            bar.set_replay_state(seconds(progress.played_nanos), progress.at, &speed_message);
        })
    }

    fn finished(&mut self, summary: &RunSummary) -> anyhow::Result<()> {
        match self.arguments.output.as_str() {
            "json" => writeln!(self.out.data()?, "{:#}", summary.to_json())?,
            _ => printing::summary(self.out, summary)?,
        }
        Ok(())
    }

    /// Writes the history of the target and the report to the folder of the replay.
    fn recorded(&mut self, comparison: LiveComparison<'_>) -> anyhow::Result<()> {
        let folder = OutputFolder::choose(self.arguments.out.as_deref(), self.history)?;
        let scratch = folder.create_pending()?;
        let path = scratch.path("replay.kine");
        comparison.write_history(&path).with_context(|| scratch.error_context())?;
        let reading = ReadProgress::new(self.out, comparison.plan());
        let report = comparison.report(&path, reading)?;
        std::fs::write(scratch.path("report.json"), report.to_json()?)
            .with_context(|| scratch.error_context())?;
        scratch.publish()?;
        // With JSON output the comparison is only in report.json.
        if self.arguments.output == "json" {
            Ok(())
        } else {
            summary::write_comparison(self.out, &report, &folder)
        }
    }
}

//! A progress listener that prints to the terminal.

use query::ProgressListener;

use super::output::Printer;
use super::progress::Progress;

/// Prints warnings to standard error, and shows a progress bar.
pub(super) struct TerminalListener<'a> {
    out: &'a mut Printer,
    progress: Option<Progress>,
}

impl<'a> TerminalListener<'a> {
    pub(super) fn new(out: &'a mut Printer) -> TerminalListener<'a> {
        TerminalListener { out, progress: None }
    }
}

impl ProgressListener for TerminalListener<'_> {
    fn warn(&mut self, sentence: &str) {
        self.out.print_to_stderr(&format!("warning: {sentence}"));
    }

    fn progress(&mut self, done: u64, total: u64) -> anyhow::Result<()> {
        if done >= total {
            self.progress = None;
        } else {
            self.progress.get_or_insert_with(|| Progress::simulation(self.out, total)).set_position(done);
        }
        Ok(())
    }
}

//! A terminal on which somebody waits for a use case to be done.

use query::Listener;

use super::output::Out;
use super::progress::Progress;

/// Warnings go beside the answer, progress is a bar.
pub(super) struct TerminalListener<'a> {
    out: &'a mut Out,
    progress: Option<Progress>,
}

impl<'a> TerminalListener<'a> {
    pub(super) fn new(out: &'a mut Out) -> TerminalListener<'a> {
        TerminalListener { out, progress: None }
    }
}

impl Listener for TerminalListener<'_> {
    fn warn(&mut self, sentence: &str) {
        self.out.complain(&format!("warning: {sentence}"));
    }

    fn progress(&mut self, done: u64, total: u64) -> anyhow::Result<()> {
        if done >= total {
            self.progress = None;
        } else {
            self.progress.get_or_insert_with(|| Progress::time(self.out, total)).at(done);
        }
        Ok(())
    }
}

//! The receiver of a use case's warnings and progress: a terminal, a client of the server, a program.

/// Receives warnings and progress.
pub trait ProgressListener {
    /// A warning that affects how far the result can be trusted.
    fn warn(&mut self, sentence: &str);

    /// `done` of `total` seconds have been replayed or read. An error aborts the work: its result is not needed any
    /// more.
    fn progress(&mut self, done: u64, total: u64) -> anyhow::Result<()>;
}

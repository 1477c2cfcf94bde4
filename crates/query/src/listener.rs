//! Whoever waits for a use case to be done: a terminal, a client of the server, a program.

/// Is told what should be known beside the answer, and how far the work is.
pub trait Listener {
    /// A sentence that should be read before the answer is believed.
    fn warn(&mut self, sentence: &str);

    /// So many seconds of so many that are played or read are done. An error ends the work: nobody waits any more.
    fn progress(&mut self, done: u64, total: u64) -> anyhow::Result<()>;
}

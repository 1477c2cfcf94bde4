//! A cluster into kube-scheduler-simulator's recording, as its own recorder would have written it.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use formats::{Writer as _, sched_record};
use jiff::tz::Offset;
use live::{Connection, Event, Known, News, Target};
use model::{Change, Moment, Observed};
use tokio::sync::{mpsc, watch};
use tokio::task::block_in_place;
use tokio::time::interval;

use super::policy::{RecordFilter, RecordingPolicy};
use super::{Board, Figures, Notices, RecordingClock, lock};

/// News that may wait for the disk.
const QUEUE: usize = 8;

/// The simulator's recorder knows seven kinds; its replayer takes any.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kinds {
    /// Those seven.
    Seven,
    /// Whichever are recorded.
    Any,
}

/// The file, a line a change.
pub struct SchedRecord {
    path: PathBuf,
    writer: sched_record::Writer<BufWriter<File>>,
    policy: RecordingPolicy,
    filter: RecordFilter,
    seq: i64,
    /// The time of the line above: times do not go back.
    last: Moment,
}

impl SchedRecord {
    /// Makes the file. One that is there is not overwritten: the simulator's recorder would.
    pub fn create(path: &Path, kinds: Kinds, policy: RecordingPolicy) -> anyhow::Result<SchedRecord> {
        let mut options = File::options();
        options.write(true).create_new(true);
        // What it holds is the owner's, as a history is.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options
            .open(path)
            .with_context(|| format!("cannot make {}: is there one already?", path.display()))?;
        let writer = sched_record::Writer::new(BufWriter::new(file), Offset::UTC, kinds == Kinds::Any);
        let filter = policy.filter();
        Ok(SchedRecord { path: path.to_owned(), writer, policy, filter, seq: 0, last: Moment::MIN })
    }

    /// Records until it is told to stop. What was taken is in the file after `between` at the latest.
    pub async fn record(
        mut self,
        connection: Connection,
        between: Duration,
        board: &Board,
        notices: &Notices,
        stop: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let source: Arc<str> = connection.context().into();
        let figures = board.figures(&source);
        let (sender, mut events) = mpsc::channel(QUEUE);
        let clock = Arc::new(RecordingClock::new(connection.server_time()));
        let target = Target { source: source.clone(), connection: connection.clone() };
        let stamps = clock.clone();
        let now = move || stamps.now();
        let wanted = self.policy.wanted();
        let recording = tokio::spawn(live::record(target, wanted, Known::default(), now, sender, stop));
        let mut flushes = interval(between);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    None => break,
                    Some(Event::News(news)) => {
                        lock(&figures).missed(&news.gaps, &news.closed_gaps);
                        block_in_place(|| self.take(news, &figures))?;
                    }
                    Some(Event::Status(status)) => {
                        lock(&figures).heard(status);
                    }
                    Some(Event::Trouble { kind, words: what }) => {
                        notices.say(source.clone(), format!("{kind}: {what}"));
                    }
                },
                _ = flushes.tick() => {
                    clock.compare(&connection);
                    for step in clock.take_steps() {
                        notices.say(source.clone(), step.why);
                    }
                    block_in_place(|| self.flush())?;
                }
            }
        }
        block_in_place(|| self.flush())?;
        let recorded = recording.await.context("the recorder broke")?;
        if recorded.is_err() && self.seq == 0 {
            // Of what could not be begun nothing is left behind.
            let _ = std::fs::remove_file(&self.path);
        }
        Ok(recorded?)
    }

    fn take(&mut self, news: News, figures: &Mutex<Figures>) -> anyhow::Result<()> {
        for observed in news.changes {
            // What the server has no object for, its version, has no place here.
            if observed.inferred && observed.what.state().is_some() {
                continue;
            }
            let Observed { seen, key, what, inferred } = observed;
            let Some(what) = self.filter.pass(&key, &what) else { continue };
            lock(figures).kinds.entry(key.kind.clone()).or_default().kept += 1;
            self.seq += 1;
            // Each kind stamps what it sees, and two may meet on their way here.
            let seen = self.last.max(seen);
            self.last = seen;
            self.writer
                .change(&Change { seq: self.seq, at: seen, seen, key, what, inferred })
                .with_context(|| format!("cannot write {}", self.path.display()))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.writer.flush().with_context(|| format!("cannot write {}", self.path.display()))
    }
}

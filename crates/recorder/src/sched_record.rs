//! Recording of a cluster into kube-scheduler-simulator's file format, as its own recorder writes it.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use formats::{Writer as _, sched_record};
use jiff::tz::Offset;
use live::{Connection, RecordedCluster, RecordingEvent, ResumeState, WatchBatch};
use model::{Change, IncomingChange, Moment};
use tokio::sync::{mpsc, watch};
use tokio::task::block_in_place;
use tokio::time::interval;

use super::policy::{RecordFilter, RecordingPolicy};
use super::{NoticeSender, RecorderMetrics, RecordingClock, RecordingMetrics, lock};

/// The capacity of the event queue.
const QUEUE_CAPACITY: usize = 8;

/// The kinds to record: the simulator's recorder knows seven; its replayer accepts any.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SimulatorKinds {
    /// The simulator's seven kinds.
    Seven,
    /// All recorded kinds.
    Any,
}

/// A record file with one line per change.
pub struct SchedRecord {
    path: PathBuf,
    writer: sched_record::SchedRecordWriter<BufWriter<File>>,
    policy: RecordingPolicy,
    filter: RecordFilter,
    seq: i64,
    /// The time of the previous line: times must not decrease.
    last_time: Moment,
}

impl SchedRecord {
    /// Creates the file. Unlike the simulator's recorder, it does not overwrite an existing one.
    pub fn create(
        path: &Path,
        kinds: SimulatorKinds,
        policy: RecordingPolicy,
    ) -> anyhow::Result<SchedRecord> {
        let mut options = File::options();
        options.write(true).create_new(true);
        // Readable only by the owner, like a history.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options
            .open(path)
            .with_context(|| format!("cannot create {}: does it already exist?", path.display()))?;
        let writer = sched_record::SchedRecordWriter::new(
            BufWriter::new(file),
            Offset::UTC,
            kinds == SimulatorKinds::Any,
        );
        let filter = policy.filter();
        Ok(SchedRecord { path: path.to_owned(), writer, policy, filter, seq: 0, last_time: Moment::MIN })
    }

    /// Records until it is stopped. Changes are flushed to the file at the interval `flush_interval`.
    pub async fn record(
        mut self,
        connection: Connection,
        flush_interval: Duration,
        recorder_metrics: &RecorderMetrics,
        notices: &NoticeSender,
        stop: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let source: Arc<str> = connection.context().into();
        let metrics = recorder_metrics.recording(&source);
        let (sender, mut events) = mpsc::channel(QUEUE_CAPACITY);
        let clock = Arc::new(RecordingClock::new(connection.server_time()));
        let target = RecordedCluster { source: source.clone(), connection: connection.clone() };
        let timestamps = clock.clone();
        let now = move || timestamps.now();
        let scope = self.policy.watch_scope();
        let recording = tokio::spawn(live::record(target, scope, ResumeState::default(), now, sender, stop));
        let mut flushes = interval(flush_interval);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    None => break,
                    Some(RecordingEvent::Batch(batch)) => {
                        lock(&metrics).note_gaps(&batch.gaps, &batch.closed_gaps);
                        block_in_place(|| self.write_batch(batch, &metrics))?;
                    }
                    Some(RecordingEvent::Status(status)) => {
                        lock(&metrics).note_status(status);
                    }
                    Some(RecordingEvent::Warning { kind, message }) => {
                        notices.send(source.clone(), format!("{kind}: {message}"));
                    }
                },
                _ = flushes.tick() => {
                    clock.compare(&connection);
                    for step in clock.take_steps() {
                        notices.send(source.clone(), step.why);
                    }
                    block_in_place(|| self.flush())?;
                }
            }
        }
        block_in_place(|| self.flush())?;
        let recorded = recording.await.context("the recorder task failed")?;
        if recorded.is_err() && self.seq == 0 {
            // A recording that could not start leaves no file.
            let _ = std::fs::remove_file(&self.path);
        }
        Ok(recorded?)
    }

    fn write_batch(&mut self, batch: WatchBatch, metrics: &Mutex<RecordingMetrics>) -> anyhow::Result<()> {
        for observed in batch.changes {
            // The server version is not an object of the server, and is not written.
            if observed.inferred && observed.what.state().is_some() {
                continue;
            }
            let IncomingChange { seen, key, what, inferred } = observed;
            let Some(what) = self.filter.apply(&key, &what) else { continue };
            lock(metrics).kinds.entry(key.kind.clone()).or_default().recorded += 1;
            self.seq += 1;
            // Each kind is timestamped by its own task, so changes may arrive out of order.
            let seen = self.last_time.max(seen);
            self.last_time = seen;
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

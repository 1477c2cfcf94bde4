//! The recorders of many clusters, started and stopped as the configuration file changes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use live::catch_panic;
use tokio::sync::watch;
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::{sleep, timeout};

use super::cluster::{FIRST_BACKOFF, MAX_BACKOFF, record};
use super::metrics::lock;
use super::{Assignment, Config, ConfigOverrides, NoticeSender, RecorderMetrics};

/// The clusters that are being recorded.
struct Fleet {
    metrics: Arc<RecorderMetrics>,
    notices: NoticeSender,
    running: HashMap<Arc<str>, RunningRecorder>,
}

struct RunningRecorder {
    assignment: Assignment,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// The shutdown timeout: recorders normally end within a second.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

// === impl Fleet ===

impl Fleet {
    fn new(recorder_metrics: Arc<RecorderMetrics>, notices: NoticeSender) -> Fleet {
        Fleet { metrics: recorder_metrics, notices, running: HashMap::new() }
    }

    /// Starts new assignments, stops removed ones, and restarts changed ones. The others continue.
    fn update_assignments(&mut self, assignments: Vec<Assignment>) {
        let names: Vec<Arc<str>> = assignments.iter().map(|assignment| assignment.name.clone()).collect();
        self.running.retain(|name, running| {
            let is_kept = names.contains(name);
            if !is_kept {
                let _ = running.stop.send(true);
                self.metrics.remove(name);
            }
            is_kept
        });
        for assignment in assignments {
            let previous = match self.running.remove(&assignment.name) {
                // A task that ended by itself has failed.
                Some(running)
                    if assignment.is_unchanged_from(&running.assignment) && !running.task.is_finished() =>
                {
                    self.running.insert(assignment.name.clone(), running);
                    continue;
                }
                before => before,
            };
            let running = self.start_recorder(assignment, previous);
            self.running.insert(running.assignment.name.clone(), running);
        }
    }

    /// Follows a configuration file until it is stopped. `first` is its current content, if known.
    async fn follow(
        mut self,
        file: &Path,
        overrides: &ConfigOverrides,
        first: Option<Config>,
        mut stop: watch::Receiver<bool>,
    ) {
        let read = async || {
            let read = catch_panic(async { block_in_place(|| Config::read(file, overrides)) });
            read.await.unwrap_or_else(|panic| Err(panic.into()))
        };
        let mut next = match first {
            Some(config) => Ok(config),
            None => read().await,
        };
        let (mut last_warnings, mut is_valid) = (Vec::new(), true);
        loop {
            self.metrics.note_config_check();
            let was_valid = std::mem::replace(&mut is_valid, next.is_ok());
            let warnings = match next {
                Ok(config) => {
                    self.update_assignments(config.assignments);
                    config.warnings
                }
                // Earlier assignments continue.
                Err(error) => vec![format!("{error:#}; the previous configuration stays in effect")],
            };
            if is_valid && !was_valid {
                self.notify(file, "valid again");
            }
            for warning in warnings.iter().filter(|warning| !last_warnings.contains(*warning)) {
                self.notify(file, warning);
            }
            last_warnings = warnings;
            tokio::select! {
                () = sleep(POLL_INTERVAL) => {}
                _ = stop.wait_for(|is_stopped| *is_stopped) => break,
            }
            next = read().await;
        }
        self.stop_all().await;
    }

    fn notify(&self, file: &Path, message: &str) {
        self.notices.send(file.display().to_string().into(), message.to_owned());
    }

    /// Stops all recorders.
    async fn stop_all(self) {
        for running in self.running.values() {
            let _ = running.stop.send(true);
        }
        let shutdown = async {
            for running in self.running.into_values() {
                let _ = running.task.await;
            }
        };
        let _ = timeout(SHUTDOWN_TIMEOUT, shutdown).await;
    }

    fn start_recorder(&self, assignment: Assignment, previous: Option<RunningRecorder>) -> RunningRecorder {
        let (stop, stopped) = watch::channel(false);
        let (recorder_metrics, notices, task_assignment) =
            (self.metrics.clone(), self.notices.clone(), assignment.clone());
        let task = tokio::spawn(async move {
            // A history has only one writer.
            if let Some(previous) = previous {
                let _ = previous.stop.send(true);
                let _ = previous.task.await;
            }
            record_with_retries(&task_assignment, &recorder_metrics, &notices, stopped).await;
        });
        RunningRecorder { assignment, stop, task }
    }
}

/// Records a cluster until it is stopped, and restarts it after errors.
async fn record_with_retries(
    assignment: &Assignment,
    recorder_metrics: &RecorderMetrics,
    notices: &NoticeSender,
    mut stop: watch::Receiver<bool>,
) {
    let mut wait = FIRST_BACKOFF;
    let mut last_error = String::new();
    // The sender may be dropped.
    while !*stop.borrow() && stop.has_changed().is_ok() {
        let started = Instant::now();
        let Err(error) = record(assignment, recorder_metrics, notices, stop.clone()).await else { continue };
        let why = format!("{error:#}");
        if started.elapsed() > MAX_BACKOFF {
            wait = FIRST_BACKOFF;
        }
        let metrics = recorder_metrics.recording(&assignment.name);
        let was_healthy = !std::mem::replace(&mut lock(&metrics).is_failing, true);
        if was_healthy || why != last_error {
            notices.send(assignment.name.clone(), format!("{why}; retrying"));
            last_error.clone_from(&why);
        }
        lock(&metrics).note_restart(why);
        tokio::select! {
            () = sleep(wait) => {}
            _ = stop.wait_for(|is_stopped| *is_stopped) => {}
        }
        wait = (wait * 2).min(MAX_BACKOFF);
    }
}

/// The polling interval of the file. It is read each time, since modification times and links are unreliable on mounted
/// volumes.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Records the clusters of a configuration file and follows its changes until it is stopped. `config` is its current
/// content.
pub async fn follow_config(
    file: &Path,
    overrides: &ConfigOverrides,
    config: Config,
    recorder_metrics: Arc<RecorderMetrics>,
    notices: NoticeSender,
    mut stop: watch::Receiver<bool>,
) {
    let mut first = Some(config);
    loop {
        let fleet = Fleet::new(recorder_metrics.clone(), notices.clone());
        let Err(panic) = catch_panic(fleet.follow(file, overrides, first.take(), stop.clone())).await else {
            return;
        };
        // Dropping the fleet has ended all its recorders.
        notices.send(file.display().to_string().into(), format!("{panic}; retrying"));
        tokio::select! {
            () = sleep(FIRST_BACKOFF) => {}
            _ = stop.wait_for(|is_stopped| *is_stopped) => return,
        }
    }
}

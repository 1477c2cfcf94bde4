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
    fn new(board: Arc<RecorderMetrics>, notices: NoticeSender) -> Fleet {
        Fleet { metrics: board, notices, running: HashMap::new() }
    }

    /// Starts new assignments, stops removed ones, and restarts changed ones. The others continue.
    fn update_assignments(&mut self, assignments: Vec<Assignment>) {
        let names: Vec<Arc<str>> = assignments.iter().map(|assignment| assignment.name.clone()).collect();
        self.running.retain(|name, running| {
            let stays = names.contains(name);
            if !stays {
                let _ = running.stop.send(true);
                self.metrics.remove(name);
            }
            stays
        });
        for assignment in assignments {
            let before = match self.running.remove(&assignment.name) {
                // A task that ended by itself has failed.
                Some(running)
                    if assignment.is_unchanged_from(&running.assignment) && !running.task.is_finished() =>
                {
                    self.running.insert(assignment.name.clone(), running);
                    continue;
                }
                before => before,
            };
            let running = self.start_recorder(assignment, before);
            self.running.insert(running.assignment.name.clone(), running);
        }
    }

    /// Follows a configuration file until it is stopped. `first` is its current content, if known.
    async fn follow(
        mut self,
        file: &Path,
        beside: &ConfigOverrides,
        first: Option<Config>,
        mut stop: watch::Receiver<bool>,
    ) {
        let read = async || {
            let read = catch_panic(async { block_in_place(|| Config::read(file, beside)) });
            read.await.unwrap_or_else(|panic| Err(panic.into()))
        };
        let mut next = match first {
            Some(config) => Ok(config),
            None => read().await,
        };
        let (mut said, mut is_understood) = (Vec::new(), true);
        loop {
            self.metrics.note_config_check();
            let was_understood = std::mem::replace(&mut is_understood, next.is_ok());
            let complaints = match next {
                Ok(config) => {
                    self.update_assignments(config.assignments);
                    config.warnings
                }
                // Earlier assignments continue.
                Err(error) => vec![format!("{error:#}; what it said before holds")],
            };
            if is_understood && !was_understood {
                self.notify(file, "it is understood again");
            }
            for complaint in complaints.iter().filter(|complaint| !said.contains(*complaint)) {
                self.notify(file, complaint);
            }
            said = complaints;
            tokio::select! {
                () = sleep(POLL_INTERVAL) => {}
                _ = stop.wait_for(|is_time| *is_time) => break,
            }
            next = read().await;
        }
        self.stop_all().await;
    }

    fn notify(&self, file: &Path, words: &str) {
        self.notices.send(file.display().to_string().into(), words.to_owned());
    }

    /// Stops all recorders.
    async fn stop_all(self) {
        for running in self.running.values() {
            let _ = running.stop.send(true);
        }
        let farewells = async {
            for running in self.running.into_values() {
                let _ = running.task.await;
            }
        };
        let _ = timeout(SHUTDOWN_TIMEOUT, farewells).await;
    }

    fn start_recorder(&self, assignment: Assignment, before: Option<RunningRecorder>) -> RunningRecorder {
        let (stop, stopped) = watch::channel(false);
        let (board, notices, of_task) = (self.metrics.clone(), self.notices.clone(), assignment.clone());
        let task = tokio::spawn(async move {
            // A history has only one writer.
            if let Some(before) = before {
                let _ = before.stop.send(true);
                let _ = before.task.await;
            }
            record_with_retries(&of_task, &board, &notices, stopped).await;
        });
        RunningRecorder { assignment, stop, task }
    }
}

/// Records a cluster until it is stopped, and restarts it after errors.
async fn record_with_retries(
    assignment: &Assignment,
    board: &RecorderMetrics,
    notices: &NoticeSender,
    mut stop: watch::Receiver<bool>,
) {
    let mut wait = FIRST_BACKOFF;
    let mut said = String::new();
    // The sender may be dropped.
    while !*stop.borrow() && stop.has_changed().is_ok() {
        let begun = Instant::now();
        let Err(error) = record(assignment, board, notices, stop.clone()).await else { continue };
        let why = format!("{error:#}");
        if begun.elapsed() > MAX_BACKOFF {
            wait = FIRST_BACKOFF;
        }
        let figures = board.recording(&assignment.name);
        let was_well = !std::mem::replace(&mut lock(&figures).is_failing, true);
        if was_well || why != said {
            notices.send(assignment.name.clone(), format!("{why}; trying again"));
            said.clone_from(&why);
        }
        lock(&figures).note_restart(why);
        tokio::select! {
            () = sleep(wait) => {}
            _ = stop.wait_for(|is_time| *is_time) => {}
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
    beside: &ConfigOverrides,
    config: Config,
    board: Arc<RecorderMetrics>,
    notices: NoticeSender,
    mut stop: watch::Receiver<bool>,
) {
    let mut first = Some(config);
    loop {
        let fleet = Fleet::new(board.clone(), notices.clone());
        let Err(panic) = catch_panic(fleet.follow(file, beside, first.take(), stop.clone())).await else {
            return;
        };
        // Dropping the fleet has ended all its recorders.
        notices.send(file.display().to_string().into(), format!("{panic}; trying again"));
        tokio::select! {
            () = sleep(FIRST_BACKOFF) => {}
            _ = stop.wait_for(|is_time| *is_time) => return,
        }
    }
}

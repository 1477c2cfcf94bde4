//! Many clusters: each is recorded beside the others, begun when it is assigned and ended when it is not any more.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use live::caught;
use tokio::sync::watch;
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::{sleep, timeout};

use super::cluster::{FIRST_WAIT, LONGEST_WAIT, record};
use super::figures::lock;
use super::{Assignment, Beside, Board, Config, Notices};

/// The clusters that are being recorded.
struct Fleet {
    board: Arc<Board>,
    notices: Notices,
    running: HashMap<Arc<str>, Running>,
}

struct Running {
    assignment: Assignment,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// All have ended within a second; who has not by then will not.
const FAREWELL: Duration = Duration::from_secs(5);

// === impl Fleet ===

impl Fleet {
    fn new(board: Arc<Board>, notices: Notices) -> Fleet {
        Fleet { board, notices, running: HashMap::new() }
    }

    /// Begins what is new, ends what is not there any more, and begins anew what has changed. The rest goes on.
    fn assign(&mut self, assignments: Vec<Assignment>) {
        let names: Vec<Arc<str>> = assignments.iter().map(|assignment| assignment.name.clone()).collect();
        self.running.retain(|name, running| {
            let stays = names.contains(name);
            if !stays {
                let _ = running.stop.send(true);
                self.board.remove(name);
            }
            stays
        });
        for assignment in assignments {
            let before = match self.running.remove(&assignment.name) {
                // One that has ended by itself has broken.
                Some(running) if assignment.is_as(&running.assignment) && !running.task.is_finished() => {
                    self.running.insert(assignment.name.clone(), running);
                    continue;
                }
                before => before,
            };
            let running = self.begin(assignment, before);
            self.running.insert(running.assignment.name.clone(), running);
        }
    }

    /// Does what a file says until it is told to stop. `first` is what it says now, if that is known.
    async fn follow(
        mut self,
        file: &Path,
        beside: &Beside,
        first: Option<Config>,
        mut stop: watch::Receiver<bool>,
    ) {
        let read = async || {
            let read = caught(async { block_in_place(|| Config::read(file, beside)) });
            read.await.unwrap_or_else(|panic| Err(panic.into()))
        };
        let mut next = match first {
            Some(config) => Ok(config),
            None => read().await,
        };
        let (mut said, mut is_understood) = (Vec::new(), true);
        loop {
            self.board.supervise();
            let was_understood = std::mem::replace(&mut is_understood, next.is_ok());
            let complaints = match next {
                Ok(config) => {
                    self.assign(config.assignments);
                    config.warnings
                }
                // What was assigned before goes on.
                Err(error) => vec![format!("{error:#}; what it said before holds")],
            };
            if is_understood && !was_understood {
                self.say(file, "it is understood again");
            }
            for complaint in complaints.iter().filter(|complaint| !said.contains(*complaint)) {
                self.say(file, complaint);
            }
            said = complaints;
            tokio::select! {
                () = sleep(BETWEEN_LOOKS) => {}
                _ = stop.wait_for(|is_time| *is_time) => break,
            }
            next = read().await;
        }
        self.end().await;
    }

    fn say(&self, file: &Path, words: &str) {
        self.notices.say(file.display().to_string().into(), words.to_owned());
    }

    /// Ends all.
    async fn end(self) {
        for running in self.running.values() {
            let _ = running.stop.send(true);
        }
        let farewells = async {
            for running in self.running.into_values() {
                let _ = running.task.await;
            }
        };
        let _ = timeout(FAREWELL, farewells).await;
    }

    fn begin(&self, assignment: Assignment, before: Option<Running>) -> Running {
        let (stop, stopped) = watch::channel(false);
        let (board, notices, of_task) = (self.board.clone(), self.notices.clone(), assignment.clone());
        let task = tokio::spawn(async move {
            // Two cannot write one file.
            if let Some(before) = before {
                let _ = before.stop.send(true);
                let _ = before.task.await;
            }
            attend(&of_task, &board, &notices, stopped).await;
        });
        Running { assignment, stop, task }
    }
}

/// Records a cluster until it is told to stop, whatever happens.
async fn attend(assignment: &Assignment, board: &Board, notices: &Notices, mut stop: watch::Receiver<bool>) {
    let mut wait = FIRST_WAIT;
    let mut said = String::new();
    // Whoever could say so may be gone.
    while !*stop.borrow() && stop.has_changed().is_ok() {
        let begun = Instant::now();
        let Err(error) = record(assignment, board, notices, stop.clone()).await else { continue };
        let why = format!("{error:#}");
        if begun.elapsed() > LONGEST_WAIT {
            wait = FIRST_WAIT;
        }
        let figures = board.figures(&assignment.name);
        let was_well = !std::mem::replace(&mut lock(&figures).is_troubled, true);
        if was_well || why != said {
            notices.say(assignment.name.clone(), format!("{why}; trying again"));
            said.clone_from(&why);
        }
        lock(&figures).restart(why);
        tokio::select! {
            () = sleep(wait) => {}
            _ = stop.wait_for(|is_time| *is_time) => {}
        }
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

/// How often the file is looked at. It is read anew each time: what a mount does to times and links is its own business.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// Records what a file says, as it says it from time to time, until it is told to stop. `config` is what it says now.
pub async fn follow(
    file: &Path,
    beside: &Beside,
    config: Config,
    board: Arc<Board>,
    notices: Notices,
    mut stop: watch::Receiver<bool>,
) {
    let mut first = Some(config);
    loop {
        let fleet = Fleet::new(board.clone(), notices.clone());
        let Err(panic) = caught(fleet.follow(file, beside, first.take(), stop.clone())).await else { return };
        // With the fleet all that it recorded has ended.
        notices.say(file.display().to_string().into(), format!("{panic}; trying again"));
        tokio::select! {
            () = sleep(FIRST_WAIT) => {}
            _ = stop.wait_for(|is_time| *is_time) => return,
        }
    }
}

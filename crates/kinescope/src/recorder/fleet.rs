//! Many clusters: each is recorded beside the others, begun when it is assigned and ended when it is not any more.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::{sleep, timeout};

use super::cluster::record;
use super::figures::{State, lock};
use super::{Assignment, Beside, Board, Config, Words};

/// The clusters that are being recorded.
struct Fleet {
    board: Arc<Board>,
    words: Words,
    running: HashMap<Arc<str>, Running>,
}

struct Running {
    assignment: Assignment,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// What does not work is tried again after this, then after twice as long, up to the most.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// All have ended within a second; who has not by then will not.
const FAREWELL: Duration = Duration::from_secs(5);

// === impl Fleet ===

impl Fleet {
    fn new(board: Arc<Board>, words: Words) -> Fleet {
        Fleet { board, words, running: HashMap::new() }
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
                Some(running) if assignment.is_as(&running.assignment) => {
                    self.running.insert(assignment.name.clone(), running);
                    continue;
                }
                before => before,
            };
            let running = self.begin(assignment, before);
            self.running.insert(running.assignment.name.clone(), running);
        }
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
        let (board, words, of_task) = (self.board.clone(), self.words.clone(), assignment.clone());
        let task = tokio::spawn(async move {
            // Two cannot write one file.
            if let Some(before) = before {
                let _ = before.stop.send(true);
                let _ = before.task.await;
            }
            attend(&of_task, &board, &words, stopped).await;
        });
        Running { assignment, stop, task }
    }
}

/// Records a cluster until it is told to stop, whatever happens.
async fn attend(assignment: &Assignment, board: &Board, words: &Words, mut stop: watch::Receiver<bool>) {
    let mut wait = FIRST_WAIT;
    let mut said = String::new();
    while !*stop.borrow() {
        let begun = Instant::now();
        let Err(error) = record(assignment, board, words, stop.clone()).await else { continue };
        let why = format!("{error:#}");
        let was_well = begun.elapsed() > LONGEST_WAIT;
        if was_well {
            wait = FIRST_WAIT;
        }
        if was_well || why != said {
            let _ = words.send((assignment.name.clone(), format!("{why}; trying again")));
            said.clone_from(&why);
        }
        lock(&board.figures(&assignment.name)).state = State::Waiting(why);
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
pub(crate) async fn follow(
    file: &Path,
    beside: &Beside,
    config: Config,
    board: Arc<Board>,
    words: Words,
    mut stop: watch::Receiver<bool>,
) {
    let mut fleet = Fleet::new(board, words.clone());
    let mut said = Vec::new();
    let mut next = Ok(config);
    loop {
        let complaints = match next {
            Ok(config) => {
                fleet.assign(config.assignments);
                config.warnings
            }
            // What was assigned before goes on.
            Err(error) => vec![format!("{error:#}; what it said before holds")],
        };
        for complaint in complaints.iter().filter(|complaint| !said.contains(*complaint)) {
            let _ = words.send((file.display().to_string().into(), complaint.clone()));
        }
        said = complaints;
        tokio::select! {
            () = sleep(BETWEEN_LOOKS) => {}
            _ = stop.wait_for(|is_time| *is_time) => break,
        }
        next = block_in_place(|| Config::read(file, beside));
    }
    fleet.end().await;
}

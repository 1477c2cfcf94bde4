//! Background processes that end with the process that started them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::{io, thread};

use crate::error::{Error, IoContext, Result};

/// A background process. It is killed when this is dropped, and (where Linux has `setpriv`) when this process ends, in
/// whatever way.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

/// How many lines of a log an error shows.
const TAIL_LINES: usize = 20;

// === impl Process ===

impl Process {
    /// Starts a program. Its output is appended to `NAME.log` in the folder.
    pub(crate) fn start(
        program: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        folder: &Path,
    ) -> Result<Process> {
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let log = folder.join(format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log).io_context("write", &log)?;
        let err = out.try_clone().io_context("write", &log)?;
        let mut command = dying_with_parent(program);
        command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(out).stderr(err);
        let child = spawn(command).io_context("start", program)?;
        Ok(Process { name, child, log })
    }

    /// Returns an error with the end of its log if it no longer runs.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        match self.child.try_wait().io_context("wait for", Path::new(&self.name))? {
            None => Ok(()),
            Some(status) => {
                Err(Error::ProgramEnded { program: self.name.clone(), status, output: self.log_tail() })
            }
        }
    }

    /// The last lines of its log.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killed, not terminated: kube-apiserver would linger for a minute. An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that is killed when the thread that starts it ends, where the system has `setpriv`.
fn dying_with_parent(program: &Path) -> Command {
    static CAN: LazyLock<bool> = LazyLock::new(|| {
        let mut attempt = Command::new("setpriv");
        attempt.args(["--pdeathsig", "KILL", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
        attempt.status().is_ok_and(|status| status.success())
    });
    if !*CAN {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Starts a command from a thread that lives as long as this process. For the parent-death signal, Linux counts the
/// thread that started a child as its parent, not the process, and the thread of a test ends with the test.
fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::SyncSender<io::Result<Child>>);
    static STARTER: LazyLock<mpsc::SyncSender<Order>> = LazyLock::new(|| {
        let (sender, orders) = mpsc::sync_channel::<Order>(1);
        thread::spawn(move || {
            for (mut command, answer) in orders {
                // The caller waits for the result.
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    let (sender, answer) = mpsc::sync_channel(1);
    STARTER.send((command, sender)).expect("the starter thread lives as long as the process");
    answer.recv().expect("the starter thread answers every request")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Set for the process that is to be killed: the folder to work in.
    const FOLDER: &str = "PEERS_TEST_FOLDER";

    /// Waits for something that happens soon.
    #[track_caller]
    fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let end = Instant::now() + Duration::from_secs(30);
        while Instant::now() < end {
            if let Some(seen) = look() {
                return seen;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("timed out waiting for {what}");
    }

    fn start_sleeper(folder: &Path) -> Process {
        Process::start(Path::new("/bin/sleep"), ["600"], folder).unwrap()
    }

    fn is_running(id: u32) -> bool {
        // A zombie has ended, even if it was not waited for.
        fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn a_process_ends_when_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start_sleeper(folder.path());
        let id = process.child.id();
        process.check_running().unwrap();
        drop(process);
        assert!(!is_running(id));
    }

    #[test]
    fn an_ended_process_is_reported_with_the_end_of_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let script = "for i in $(seq 30); do echo line $i; done; exit 3";
        let mut process = Process::start(Path::new("/bin/sh"), ["-c", script], folder.path()).unwrap();
        let error = wait_for("its end", || process.check_running().err()).to_string();
        assert!(error.starts_with("sh ended (exit status: 3):\nline 11\n"), "{error}");
        assert!(error.ends_with("line 30"), "{error}");
    }

    /// The part of the test below that runs in a process of its own; nothing otherwise.
    #[test]
    fn start_and_wait_to_be_killed() {
        let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
        let starter = thread::spawn({
            let folder = folder.clone();
            move || {
                let process = start_sleeper(&folder);
                // Before that, setpriv has not set the signal.
                let name = format!("/proc/{}/comm", process.child.id());
                wait_for("the start", || (fs::read_to_string(&name).ok()? == "sleep\n").then_some(()));
                process
            }
        });
        let mut process = starter.join().unwrap();
        fs::write(folder.join("id.new"), process.child.id().to_string()).unwrap();
        fs::rename(folder.join("id.new"), folder.join("id")).unwrap();
        loop {
            // The thread that started it has ended, which must not end the process.
            process.check_running().unwrap();
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_process_ends_with_its_killed_parent() {
        if dying_with_parent(Path::new("x")).get_program() != "setpriv" {
            return eprintln!("skipped: no setpriv");
        }
        let folder = tempfile::tempdir().unwrap();
        let mut parent = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::tests::start_and_wait_to_be_killed"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let id: u32 = wait_for("the child's id", || {
            Some(fs::read_to_string(folder.path().join("id")).ok()?.parse().unwrap())
        });
        assert!(is_running(id));
        // Long enough for the signal of the ended thread to arrive, had it been sent.
        thread::sleep(Duration::from_millis(100));
        assert_eq!(parent.try_wait().unwrap(), None);
        parent.kill().unwrap();
        parent.wait().unwrap();
        wait_for("the child's end", || (!is_running(id)).then_some(()));
    }
}

//! A running recorder process.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::{ProgramOutput, command};

/// A recorder process, killed if the test ends first.
pub(crate) struct Recorder {
    child: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

/// The longest wait of a test.
const TIMEOUT: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl Recorder {
    pub(crate) fn start(folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> Recorder {
        let mut command = command(folder);
        command.arg("record").arg("--kubeconfig").arg(kubeconfig).args(arguments);
        Recorder::run(&mut command)
    }

    /// Starts the command given.
    pub(crate) fn run(command: &mut Command) -> Recorder {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = read_pipe(child.stdout.take().unwrap());
        let err = read_pipe(child.stderr.take().unwrap());
        Recorder { child, out: Some(out), err: Some(err) }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.id().to_string()]).status().unwrap().success());
    }

    /// Waits until the condition holds. Fails with the recorder's output if it ends first.
    pub(crate) async fn wait(&mut self, what: &str, mut condition: impl FnMut() -> bool) {
        let end = Instant::now() + TIMEOUT;
        while !condition() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{what}: the recorder has ended: {}", self.program_output(status).err);
            }
            if Instant::now() >= end {
                self.child.kill().unwrap();
                let status = self.child.wait().unwrap();
                panic!("{what}: not within {TIMEOUT:?}; {}", self.program_output(status).err);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Stops the recorder with a signal.
    pub(crate) async fn stop(self) -> ProgramOutput {
        self.signal("-TERM");
        self.end().await
    }

    /// Kills the recorder with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end of the recorder and returns its output.
    pub(crate) async fn end(mut self) -> ProgramOutput {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return self.program_output(status);
            }
            assert!(Instant::now() < end, "the recorder does not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn program_output(&mut self, status: ExitStatus) -> ProgramOutput {
        let text = |reader: &mut Option<JoinHandle<String>>| reader.take().unwrap().join().unwrap();
        ProgramOutput {
            code: status.code().unwrap_or(-1),
            out: text(&mut self.out),
            err: text(&mut self.err),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a pipe in a thread, because a full pipe would block the program.
fn read_pipe(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    })
}

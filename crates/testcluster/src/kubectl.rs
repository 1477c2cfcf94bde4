//! The real kubectl.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crate::error::{Error, IoContext, Result};
use crate::programs::{Program, build};

/// The real kubectl, as a client of one cluster. It reads and writes no file of the user.
#[derive(Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// For the cluster of a kubeconfig, beside which it keeps its cache. Builds kubectl if necessary; `None` without Go.
    pub fn new(kubeconfig: &Path) -> Result<Option<Kubectl>> {
        let programs = build(&[Program::Kubectl])?;
        let program = programs.map(|programs| Program::Kubectl.in_folder(&programs));
        Ok(program.map(|program| Kubectl { program, kubeconfig: kubeconfig.to_owned() }))
    }

    /// Runs it, and returns what it printed.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        self.run_with_input(arguments, "")
    }

    /// Runs it with the given standard input, for `apply -f -`.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut kubectl = Command::new(&self.program);
        kubectl.env("KUBERC", "off").arg("--kubeconfig").arg(&self.kubeconfig);
        kubectl.arg("--cache-dir").arg(self.kubeconfig.with_extension("cache")).args(arguments);
        kubectl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = kubectl.spawn().io_context("start", &self.program)?;
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let output = thread::scope(|scope| {
            // A kubectl that does not read its input has closed it, and reports the reason itself.
            scope.spawn(move || stdin.write_all(input.as_bytes()));
            child.wait_with_output()
        });
        let output = output.io_context("wait for", &self.program)?;
        if !output.status.success() {
            let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
            let program = format!("kubectl {}", arguments.join(" "));
            return Err(Error::ProgramEnded { program, status: output.status, output: output_text });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

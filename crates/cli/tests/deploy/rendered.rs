//! The objects of `deploy/` as kubectl and Helm render them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use testcluster::Program;

use crate::common::{ProgramOutput, program_output};

/// kubectl and Helm.
pub(crate) struct Renderer {
    programs: PathBuf,
    home: TempDir,
}

impl Renderer {
    /// `None`, with a message, if Go is not installed.
    pub(crate) fn find() -> Option<Renderer> {
        let programs = testcluster::build(&[Program::Kubectl, Program::Helm]).unwrap();
        if programs.is_none() {
            no_go();
        }
        Some(Renderer { programs: programs?, home: tempfile::tempdir().unwrap() })
    }

    /// The output of `kubectl kustomize` for a folder of `deploy/kustomize`, or any other.
    pub(crate) fn kustomize(&self, folder: &str) -> String {
        let folder = deploy().join("kustomize").join(folder);
        self.run(Program::Kubectl, &["kustomize", folder.to_str().unwrap()]).success()
    }

    /// The output of `helm template` for the chart, as the README installs it.
    pub(crate) fn template(&self, arguments: &[&str]) -> ProgramOutput {
        self.helm(&[&["template"], arguments].concat())
    }

    /// Runs Helm on the release and the chart of the README.
    pub(crate) fn helm(&self, arguments: &[&str]) -> ProgramOutput {
        let chart = deploy().join("helm/kinescope");
        let (verb, rest) = arguments.split_first().unwrap();
        let release = [verb, "kinescope", chart.to_str().unwrap(), "--namespace", "kinescope"];
        self.run(Program::Helm, &[&release, rest].concat())
    }

    pub(crate) fn run(&self, program: Program, arguments: &[&str]) -> ProgramOutput {
        let mut command = Command::new(program.in_folder(&self.programs));
        command.env_clear().env("HOME", self.home.path()).env("KUBERC", "off");
        program_output(command.args(arguments).output().unwrap())
    }
}

/// Reports a skipped test. Written directly: the test runner captures the output of print macros.
pub(crate) fn no_go() {
    std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no go\n").unwrap();
}

/// The `deploy` folder.
pub(crate) fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// The documents of a YAML text.
#[track_caller]
pub(crate) fn objects(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap()
}

/// The only object of a kind.
#[track_caller]
pub(crate) fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let first = found.next().unwrap_or_else(|| panic!("there is no {kind}"));
    assert!(found.next().is_none(), "there are several of {kind}");
    first
}

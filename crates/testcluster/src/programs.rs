//! The real programs, built from their Go modules once and kept in the user's cache folder.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, IoContext, Result};

/// One of the real programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The store behind the API server.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The client.
    Kubectl,
    /// The scheduler.
    KubeScheduler,
    /// Deployments, Jobs, namespaces, service accounts and the rest.
    KubeControllerManager,
    /// Simulates kubelets.
    Kwok,
    /// Renders charts.
    Helm,
}

/// The same versions are in `go/go.mod`.
const KUBERNETES: &str = "1.36.4";
const ETCD: &str = "3.6.8";
const KWOK: &str = "0.8.0";
const HELM: &str = "3.22.0";

/// Builds the programs that are missing and returns their folder; [`Program::in_folder`] returns the path of each.
/// `None` without Go.
///
/// Several processes may call this at once; one builds, the others wait for it.
pub fn build(programs: &[Program]) -> Result<Option<PathBuf>> {
    let folder = programs_folder()?;
    let missing: Vec<Program> =
        programs.iter().copied().filter(|one| !one.in_folder(&folder).exists()).collect();
    if missing.is_empty() {
        return Ok(Some(folder));
    }
    let Some(go) = find_go() else { return Ok(None) };
    fs::create_dir_all(&folder).io_context("create", &folder)?;
    for program in missing {
        program.build(&go, &folder)?;
    }
    Ok(Some(folder))
}

/// Builds the Go program of a folder, unless it was built from the same sources before, and returns its path. `None`
/// without Go.
pub fn build_module(name: &str, sources: &Path) -> Result<Option<PathBuf>> {
    let folder = cache_folder()?.join(format!("{name}-{:016x}", fingerprint(sources)?));
    let path = folder.join(name);
    if path.exists() {
        return Ok(Some(path));
    }
    let Some(go) = find_go() else { return Ok(None) };
    fs::create_dir_all(&folder).io_context("create", &folder)?;
    build_into(&folder, name, &path, |into| {
        let mut command = go_command_in(&go, sources);
        command.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(into.join(name)).arg(".");
        command
    })?;
    Ok(Some(path))
}

// === impl Program ===

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Etcd => "etcd",
            Program::KubeApiserver => "kube-apiserver",
            Program::Kubectl => "kubectl",
            Program::KubeScheduler => "kube-scheduler",
            Program::KubeControllerManager => "kube-controller-manager",
            Program::Kwok => "kwok",
            Program::Helm => "helm",
        }
    }

    /// Its path in the folder that [`build`] returns.
    pub fn in_folder(self, folder: &Path) -> PathBuf {
        match self {
            // Its file name has its version. It is not in the folder's name, since a new version would cause all other
            // programs to be built again.
            Program::Helm => folder.join(format!("helm-{HELM}")),
            Program::Etcd
            | Program::KubeApiserver
            | Program::Kubectl
            | Program::KubeScheduler
            | Program::KubeControllerManager
            | Program::Kwok => folder.join(self.name()),
        }
    }

    fn build(self, go: &Path, folder: &Path) -> Result<()> {
        build_into(folder, self.name(), &self.in_folder(folder), |into| self.go_command(go, into))
    }

    /// The command that builds it into a folder.
    fn go_command(self, go: &Path, into: &Path) -> Command {
        let mut command = go_command_in(go, Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/go")));
        match self {
            // Outside our module: these depend on other versions of the Kubernetes libraries.
            Program::Kwok => {
                command.env("GOBIN", into);
                command.args(["install", "-trimpath", &format!("sigs.k8s.io/kwok/cmd/kwok@v{KWOK}")]);
            }
            Program::Helm => {
                command.env("GOBIN", into);
                command.args(["install", "-trimpath", "-ldflags"]);
                command.arg(format!("-s -w -X helm.sh/helm/v3/internal/version.version=v{HELM}"));
                command.arg(format!("helm.sh/helm/v3/cmd/helm@v{HELM}"));
            }
            Program::Etcd => {
                command.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(into.join(self.name()));
                command.arg("go.etcd.io/etcd/server/v3");
            }
            Program::KubeApiserver
            | Program::Kubectl
            | Program::KubeScheduler
            | Program::KubeControllerManager => {
                command
                    .args(["build", "-trimpath", "-ldflags", &version_flags(), "-o"])
                    .arg(into.join(self.name()));
                command.arg(format!("k8s.io/kubernetes/cmd/{}", self.name()));
            }
        }
        command
    }
}

/// Builds a program in `folder` and moves it to `path` when it is complete. One process builds, the others wait for it.
fn build_into(folder: &Path, name: &str, path: &Path, command: impl FnOnce(&Path) -> Command) -> Result<()> {
    let lock = folder.join(format!("{name}.lock"));
    let held = File::create(&lock).io_context("create", &lock)?;
    held.lock().io_context("lock", &lock)?;
    if path.exists() {
        return Ok(());
    }
    // Not by a macro, whose output a test runner would capture. A failed write does not matter.
    let _ = writeln!(io::stderr(), "building {name} (several minutes the first time)…");
    // Only the holder of the lock has such a folder; an existing one was left by a process that was killed.
    let building = folder.join(format!("{name}.building"));
    if building.exists() {
        fs::remove_dir_all(&building).io_context("remove", &building)?;
    }
    fs::create_dir(&building).io_context("create", &building)?;
    let mut command = command(&building);
    let output = command.output().io_context("run", Path::new(command.get_program()))?;
    if !output.status.success() {
        let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::ProgramEnded {
            program: format!("go, building {name},"),
            status: output.status,
            output: output_text,
        });
    }
    fs::rename(building.join(name), path).io_context("rename", path)?;
    fs::remove_dir(&building).io_context("remove", &building)
}

/// A Go command that runs in a folder.
fn go_command_in(go: &Path, folder: &Path) -> Command {
    let mut command = Command::new(go);
    command.current_dir(folder).envs([("CGO_ENABLED", "0"), ("GOWORK", "off")]);
    command
}

/// A hash of a program's sources: the name and content of every file that Go reads.
fn fingerprint(sources: &Path) -> Result<u64> {
    let mut files = Vec::new();
    for entry in fs::read_dir(sources).io_context("list", sources)? {
        let path = entry.io_context("list", sources)?.path();
        let is_source =
            path.extension().is_some_and(|end| ["go", "mod", "sum"].iter().any(|one| end == *one));
        if is_source {
            files.push(path);
        }
    }
    files.sort_unstable();
    let mut hash = Xxh3::new();
    for path in files {
        let content = fs::read(&path).io_context("read", &path)?;
        hash.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        hash.update(&[0]);
        hash.update(&(content.len() as u64).to_le_bytes());
        hash.update(&content);
    }
    Ok(hash.digest())
}

/// The linker flags that set the programs' version. Without them a server reports v0.0.0-master.
fn version_flags() -> String {
    let mut parts = KUBERNETES.split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!(
        "-s -w -X k8s.io/component-base/version.gitVersion=v{KUBERNETES} \
         -X k8s.io/component-base/version.gitMajor={major} -X k8s.io/component-base/version.gitMinor={minor} \
         -X k8s.io/client-go/pkg/version.gitVersion=v{KUBERNETES}"
    )
}

/// The folder of the programs of these versions.
fn programs_folder() -> Result<PathBuf> {
    Ok(cache_folder()?.join(format!("peers-k8s-{KUBERNETES}-etcd-{ETCD}-kwok-{KWOK}")))
}

/// The cache folder for everything built. Not in `target`, which a clean checkout does not have.
fn cache_folder() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("KINESCOPE_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("kinescope")))
        .or_else(|| Some(set("HOME")?.join(".cache/kinescope")))
        .ok_or(Error::NoCache)?;
    std::path::absolute(&cache).io_context("find", &cache)
}

fn find_go() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = PathBuf::from("/usr/local/go/bin");
    env::split_paths(&path).chain([usual]).map(|folder| folder.join("go")).find(|go| go.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_file_requires_the_same_versions() {
        let module = include_str!("../go/go.mod");
        for required in
            [format!("k8s.io/kubernetes v{KUBERNETES}\n"), format!("go.etcd.io/etcd/server/v3 v{ETCD}\n")]
        {
            assert!(module.contains(&required), "go.mod does not require {required}");
        }
    }

    #[test]
    fn different_sources_have_different_fingerprints() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("main.go", "package main");
        let first = fingerprint(folder.path()).unwrap();
        write("README.md", "not read by Go");
        assert_eq!(fingerprint(folder.path()).unwrap(), first);
        write("go.mod", "module m");
        assert_ne!(fingerprint(folder.path()).unwrap(), first);
    }

    #[test]
    fn built_programs_report_their_version() {
        let programs = [Program::Etcd, Program::KubeApiserver, Program::Kubectl, Program::Helm];
        let Some(folder) = build(&programs).unwrap() else {
            return eprintln!("skipped: no go");
        };
        for (program, arguments, expected) in [
            (Program::Etcd, &["--version"][..], "etcd Version: 3.6.8"),
            (Program::KubeApiserver, &["--version"], "Kubernetes v1.36.4"),
            (Program::Kubectl, &["version", "--client"], "Client Version: v1.36.4"),
            (Program::Helm, &["version", "--short"], "v3.22.0"),
        ] {
            let output = Command::new(program.in_folder(&folder)).args(arguments).output().unwrap();
            let output_text = String::from_utf8(output.stdout).unwrap();
            assert!(output_text.contains(expected), "{output_text}");
        }
    }
}

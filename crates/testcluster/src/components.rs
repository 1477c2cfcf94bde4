//! The real components that work on a cluster through its API server, whichever that is.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{IoContext, Result};
use crate::process::Process;
use crate::programs::{Program, build};

/// The components of a cluster: kube-scheduler, kube-controller-manager and KWOK. They end when this is dropped, the
/// latest first.
#[derive(Debug)]
pub struct Components {
    /// In the order in which they were started.
    processes: Vec<Process>,
    kubeconfig: PathBuf,
    /// For configurations and logs.
    folder: PathBuf,
}

impl Components {
    /// None yet, of the cluster of a kubeconfig. Their configurations and logs are written to a folder.
    pub fn new(kubeconfig: &Path, folder: &Path) -> Components {
        Components { processes: Vec::new(), kubeconfig: kubeconfig.to_owned(), folder: folder.to_owned() }
    }

    /// Starts kube-scheduler. With a parallelism of 1 and `--feature-gates=WatchListClient=false` it decides in an
    /// order that can be reproduced; its default is 16.
    pub fn start_scheduler(&mut self, parallelism: u32, flags: &[&str]) -> Result<()> {
        let kubeconfig = self.kubeconfig.display();
        let path = self.folder.join("scheduler.yaml");
        let config = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\n\
             kind: KubeSchedulerConfiguration\n\
             clientConnection: {{kubeconfig: \"{kubeconfig}\", qps: 5000, burst: 5000}}\n\
             leaderElection: {{leaderElect: false}}\n\
             parallelism: {parallelism}\n"
        );
        fs::write(&path, config).io_context("write", &path)?;
        let mut all = vec![format!("--config={}", path.display()), "--secure-port=0".to_owned()];
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self.start(Program::KubeScheduler, &all)
    }

    /// Starts kube-controller-manager, with flags that come after those that make it quick and quiet.
    pub fn start_controller_manager(&mut self, flags: &[String]) -> Result<()> {
        let mut all = vec![
            format!("--kubeconfig={}", self.kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--kube-api-qps=5000".to_owned(),
            "--kube-api-burst=5000".to_owned(),
        ];
        all.extend_from_slice(flags);
        self.start(Program::KubeControllerManager, &all)
    }

    /// Starts KWOK, which simulates the kubelets of all nodes. It has no built-in stages;
    /// `crates/testcluster/stages.yaml` has some.
    pub fn start_kwok(&mut self, stages: &Path) -> Result<()> {
        let flags = [
            format!("--kubeconfig={}", self.kubeconfig.display()),
            format!("--config={}", stages.display()),
            "--manage-all-nodes=true".to_owned(),
        ];
        self.start(Program::Kwok, &flags)
    }

    fn start(&mut self, program: Program, flags: &[String]) -> Result<()> {
        let programs = build(&[program])?.expect("without Go there is no cluster, or its test was skipped");
        self.processes.push(Process::start(&program.in_folder(&programs), flags, &self.folder)?);
        Ok(())
    }

    /// Returns an error with the end of its log if one has ended. Their start is not waited for: a failed one is reported
    /// here.
    pub fn check_running(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(Process::check_running)
    }
}

impl Drop for Components {
    fn drop(&mut self) {
        while self.processes.pop().is_some() {}
    }
}

//! A control plane on loopback: etcd and kube-apiserver, and further programs on request.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use tempfile::TempDir;

use crate::components::Components;
use crate::credentials::{Credentials, TOKEN};
use crate::error::{Error, IoContext, Result};
use crate::kubectl::Kubectl;
use crate::process::Process;
use crate::programs::{Program, build};
use crate::{http, kubeconfig};

/// The options of a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// Whether pods need a service account, as in any real cluster. Only kube-controller-manager creates them, so no
    /// pod can be created without [`Cluster::start_controller_manager`].
    pub service_accounts: bool,
    /// Whether RBAC is enforced. The administrator, in group `system:masters`, may do anything all the same.
    pub rbac: bool,
    /// Additional flags of kube-apiserver.
    pub apiserver_flags: Vec<String>,
}

/// A real control plane on loopback: etcd and kube-apiserver, empty at first. All programs end when this is dropped, in
/// the order of the fields, so that none logs errors about a missing server.
///
/// There are no kubelets: nodes are plain objects, ready if their creator says so in their status. Without
/// [`Cluster::start_controller_manager`] a namespace never finishes being deleted.
#[derive(Debug)]
pub struct Cluster {
    components: Components,
    /// `None` while it is stopped.
    apiserver: Option<Process>,
    etcd: Process,
    ports: Ports,
    credentials: Credentials,
    options: ClusterOptions,
    programs_folder: PathBuf,
    kubeconfig: PathBuf,
    kubectl: Kubectl,
    url: String,
    folder: TempDir,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    etcd: u16,
    etcd_peer: u16,
    apiserver: u16,
}

const ANY_PORT: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);
/// How often the start is tried: another process may take a free port before the program that is to use it has started.
const ATTEMPTS: u32 = 5;
const READY_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

// === impl Cluster ===

impl Cluster {
    /// Builds the programs if necessary, starts them and waits until the server is ready. `None` without Go.
    pub fn start(options: ClusterOptions) -> Result<Option<Cluster>> {
        let Some(programs) = build(&[Program::Etcd, Program::KubeApiserver])? else { return Ok(None) };
        let mut attempt = 1;
        loop {
            match Cluster::start_once(&programs, &options, Ports::find_free()?) {
                Err(error) if is_port_in_use(&error) && attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome.map(Some),
            }
        }
    }

    fn start_once(programs: &Path, options: &ClusterOptions, ports: Ports) -> Result<Cluster> {
        let folder = tempfile::Builder::new().prefix("kinescope-peers-").tempdir();
        let folder = folder.io_context("create", &std::env::temp_dir())?;
        let credentials = Credentials::write(folder.path())?;
        let etcd = start_etcd(programs, folder.path(), ports)?;
        let kubeconfig = folder.path().join("kubeconfig");
        let kubectl = Kubectl::new(&kubeconfig)?.expect("Go exists, since the other programs were built");
        let mut cluster = Cluster {
            components: Components::new(&kubeconfig, folder.path()),
            apiserver: None,
            etcd,
            ports,
            credentials,
            options: options.clone(),
            programs_folder: programs.to_owned(),
            kubeconfig,
            kubectl,
            url: format!("https://127.0.0.1:{}", ports.apiserver),
            folder,
        };
        cluster.start_apiserver()?;
        Ok(cluster)
    }

    /// The kubeconfig file for clients, with the certificate of the server's authority and the token.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The server's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The administrator's token. Every request needs a token, `/readyz` too.
    pub fn token(&self) -> &str {
        TOKEN
    }

    /// The real kubectl as a client.
    pub fn client(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Runs the real kubectl and returns what it printed.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl.run(arguments)
    }

    /// Runs the real kubectl with the given standard input, for `apply -f -`.
    pub fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        self.kubectl.run_with_input(arguments, input)
    }

    /// Starts kube-scheduler; see [`Components::start_scheduler`].
    pub fn start_scheduler(&mut self, parallelism: u32, flags: &[&str]) -> Result<()> {
        self.components.start_scheduler(parallelism, flags)
    }

    /// Starts kube-controller-manager, without the node lifecycle controller, which treats nodes without a kubelet as
    /// dead.
    pub fn start_controller_manager(&mut self) -> Result<()> {
        self.components.start_controller_manager(&[
            format!("--service-account-private-key-file={}", self.credentials.signing_key.display()),
            "--controllers=*,-node-lifecycle-controller".to_owned(),
        ])
    }

    /// Starts KWOK; see [`Components::start_kwok`].
    pub fn start_kwok(&mut self, stages: &Path) -> Result<()> {
        self.components.start_kwok(stages)
    }

    /// Returns an error with the end of its log if a program has ended. Only kube-apiserver's start is waited for: a
    /// failed start of the other programs is reported here.
    pub fn check_running(&mut self) -> Result<()> {
        let mut servers = [&mut self.etcd].into_iter().chain(&mut self.apiserver);
        servers.try_for_each(Process::check_running)?;
        self.components.check_running()
    }

    /// Compacts etcd at its latest revision, and returns that revision.
    ///
    /// Further pages of an earlier list are then answered with 410. So are watches from an earlier version if the
    /// server has no watch cache (`--watch-cache=false`). With a watch cache it serves them from memory; then
    /// [`Cluster::restart_apiserver`] is needed to make earlier versions too old, with or without this.
    pub fn compact(&self) -> Result<u64> {
        // Any key will do, since every response has the revision. "/" in base64.
        let revision = self.post_to_etcd("/v3/kv/range", r#"{"key":"Lw=="}"#)?;
        let order = format!(r#"{{"revision":"{revision}","physical":true}}"#);
        self.post_to_etcd("/v3/kv/compaction", &order)?;
        Ok(revision)
    }

    /// Posts a request to etcd's JSON gateway and returns the revision.
    fn post_to_etcd(&self, path: &'static str, body: &str) -> Result<u64> {
        let response = http::post(self.ports.etcd, path, body);
        let response = response.map_err(|source| Error::Network { doing: "talk to etcd", source })?;
        let revision = || {
            let (head, body) = response.split_once("\r\n\r\n")?;
            let body: serde_json::Value = serde_json::from_str(body).ok()?;
            // In protobuf's JSON large numbers are strings.
            let revision = body["header"]["revision"].as_str()?.parse().ok()?;
            head.split(' ').nth(1).filter(|code| *code == "200").map(|_| revision)
        };
        revision().ok_or_else(|| Error::Etcd { request: path, answer: response.clone() })
    }

    /// Kills kube-apiserver. Its data stays in etcd.
    pub fn stop_apiserver(&mut self) {
        self.apiserver = None;
    }

    /// Kills kube-apiserver if it runs, starts it again at the same address and waits until it is ready.
    pub fn restart_apiserver(&mut self) -> Result<()> {
        self.stop_apiserver();
        self.start_apiserver()
    }

    fn start_apiserver(&mut self) -> Result<()> {
        let folder = self.folder.path();
        // TaintNodesByCondition would taint nodes that no kubelet reports for.
        let without = match self.options.service_accounts {
            true => "TaintNodesByCondition",
            false => "TaintNodesByCondition,ServiceAccount",
        };
        let authorization = if self.options.rbac { "RBAC" } else { "AlwaysAllow" };
        let flags = [
            format!("--etcd-servers={}", loopback_url(self.ports.etcd)),
            format!("--secure-port={}", self.ports.apiserver),
            "--bind-address=127.0.0.1".to_owned(),
            // An address reserved for documentation. By default the server looks for an address of the machine that is
            // not loopback, and does not start where there is none.
            "--advertise-address=192.0.2.1".to_owned(),
            format!("--cert-dir={}", folder.join("certificates").display()),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-signing-key-file={}", self.credentials.signing_key.display()),
            format!("--service-account-key-file={}", self.credentials.verifying_key.display()),
            format!("--token-auth-file={}", self.credentials.tokens.display()),
            format!("--authorization-mode={authorization}"),
            "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
            format!("--disable-admission-plugins={without}"),
        ];
        let program = Program::KubeApiserver.in_folder(&self.programs_folder);
        let apiserver = Process::start(&program, flags.iter().chain(&self.options.apiserver_flags), folder)?;
        self.apiserver = Some(apiserver);
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let end = Instant::now() + READY_TIMEOUT;
        loop {
            self.etcd.check_running()?;
            let apiserver = self.apiserver.as_mut().expect("the API server was just started");
            apiserver.check_running()?;
            if Instant::now() >= end {
                let output = apiserver.log_tail();
                return Err(Error::NotReady { seconds: READY_TIMEOUT.as_secs(), output });
            }
            if self.has_kubeconfig()?
                && self.kubectl(&["get", "--raw=/readyz", "--request-timeout=5s"]).is_ok()
            {
                return Ok(());
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Writes the kubeconfig as soon as the server has created its certificates. Returns whether it exists.
    fn has_kubeconfig(&self) -> Result<bool> {
        if self.kubeconfig.exists() {
            return Ok(true);
        }
        let certificates = fs::read_to_string(self.certificates()).unwrap_or_default();
        // The server's own, and that of the authority that signed it.
        if certificates.matches("-----END CERTIFICATE-----").count() < 2 {
            return Ok(false);
        }
        kubeconfig::write(&self.kubeconfig, &self.url, TOKEN, Some(&certificates))?;
        Ok(true)
    }

    /// The file with the certificates to trust, once the server has created them.
    pub(crate) fn certificates(&self) -> PathBuf {
        self.folder.path().join("certificates/apiserver.crt")
    }

    pub(crate) fn port(&self) -> u16 {
        self.ports.apiserver
    }
}

// === impl Ports ===

impl Ports {
    fn find_free() -> Result<Ports> {
        // All ports are held before any is released, so that they differ.
        let find = || -> io::Result<Ports> {
            let held =
                [TcpListener::bind(ANY_PORT)?, TcpListener::bind(ANY_PORT)?, TcpListener::bind(ANY_PORT)?];
            let [etcd, etcd_peer, apiserver] =
                held.each_ref().map(|one| one.local_addr().map(|at| at.port()));
            Ok(Ports { etcd: etcd?, etcd_peer: etcd_peer?, apiserver: apiserver? })
        };
        find().map_err(|source| Error::Network { doing: "find free ports", source })
    }
}

/// Whether a program ended because its port was in use.
fn is_port_in_use(error: &Error) -> bool {
    matches!(error, Error::ProgramEnded { output, .. } if output.contains("address already in use"))
}

fn start_etcd(programs: &Path, folder: &Path, ports: Ports) -> Result<Process> {
    let (url, peer) = (loopback_url(ports.etcd), loopback_url(ports.etcd_peer));
    let flags = [
        format!("--data-dir={}", folder.join("etcd").display()),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=error".to_owned(),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
    ];
    Process::start(&Program::Etcd.in_folder(programs), flags, folder)
}

fn loopback_url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_recognized() {
        let Some(programs) = build(&[Program::Etcd, Program::KubeApiserver, Program::Kubectl]).unwrap()
        else {
            return eprintln!("skipped: no go");
        };
        let listener = TcpListener::bind(ANY_PORT).unwrap();
        let taken = listener.local_addr().unwrap().port();
        let free = Ports::find_free().unwrap();
        for ports in [
            Ports { etcd: taken, ..free },
            Ports { etcd_peer: taken, ..free },
            Ports { apiserver: taken, ..free },
        ] {
            let error = Cluster::start_once(&programs, &ClusterOptions::default(), ports).unwrap_err();
            assert!(is_port_in_use(&error), "{error}");
        }
    }

    #[test]
    fn a_failed_start_is_reported_with_the_servers_log() {
        let options = ClusterOptions {
            apiserver_flags: vec!["--no-such-flag".to_owned()],
            ..ClusterOptions::default()
        };
        match Cluster::start(options) {
            Ok(None) => eprintln!("skipped: no go"),
            Ok(Some(_)) => panic!("the API server started"),
            Err(error) => assert!(error.to_string().contains("unknown flag: --no-such-flag"), "{error}"),
        }
    }
}

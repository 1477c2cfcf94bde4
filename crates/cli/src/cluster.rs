//! `kinescope cluster`: an API server over a moment of a history, for kubectl and other clients.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use apiserver::ApiServer;
use model::Moment;
use virtualcluster::{Credentials, Kubeconfig, KubeconfigCluster, PastStore};

use super::out_file::PendingFile;
use super::output::Printer;
use super::{Outcome, history_arg, signals};

/// How long open watches may delay the end of the program.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

const AFTER: &str = "\
The server answers like kube-apiserver: discovery, get, list and watch with selectors, tables and pages. \
It is read-only: writes are answered 405. Kinds that were not recorded do not exist, and Secrets are never served. \
Events are served in both of their API groups, whichever was recorded. Clients need the token and the certificate \
authority in the kubeconfig, which is readable by its owner only and is deleted when the server ends.

Examples:
  kinescope cluster shop.kine --at 14:20
  kubectl --kubeconfig shop.kubeconfig get pods -A -o wide
  # Two moments, one kubeconfig context for each
  kinescope cluster shop.kine --at 13:00 --at 14:20 --kubeconfig-out past.yaml
  kubectl --kubeconfig past.yaml config get-contexts";

/// Serve a moment of a history to kubectl, as a read-only Kubernetes API server
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Cluster {
    /// History [default: $KINESCOPE_HISTORY, else the only .kine file here]
    history: Option<PathBuf>,
    /// Time of the state; repeat it to serve several moments [default: end of the history]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Vec<String>,
    /// Source, if the history has several
    #[arg(long)]
    source: Option<String>,
    /// Address to listen on; port 0 selects a free port. Each further moment has a free port of its own
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Kubeconfig to write [default: NAME.kubeconfig in the current directory]
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Serve plain HTTP without a token, on a loopback address only
    #[arg(long)]
    insecure: bool,
}

/// A moment that is served.
struct ServedMoment {
    moment: Moment,
    store: PastStore,
    server: ApiServer,
    url: String,
    credentials: Option<Credentials>,
}

/// A kubeconfig file, deleted on drop.
struct KubeconfigFile(PathBuf);

// === impl Cluster ===

impl Cluster {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        if self.insecure && !self.listen.ip().is_loopback() {
            bail!(
                "{} is not a loopback address: --insecure would serve the cluster to everyone",
                self.listen
            );
        }
        let path = history_arg::resolve(self.history.as_deref())?;
        let served = self.listen_for_each_moment(&path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let contexts = served.iter().map(|moment| moment.context(&name)).collect();
        let kubeconfig = self.kubeconfig_out.clone().unwrap_or_else(|| format!("{name}.kubeconfig").into());
        let kubeconfig = KubeconfigFile::write(&kubeconfig, &Kubeconfig::new(contexts))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let ended = runtime.block_on(async {
            // Before the first line is printed, so that a reader of it may send a signal right away.
            let stop = signals::stop_requested()?;
            for ServedMoment { moment, url, .. } in &served {
                writeln!(out, "{} at {moment} on {url}", path.display())?;
            }
            writeln!(out, "try: kubectl --kubeconfig {} get pods -A -o wide", kubeconfig.0.display())?;
            out.flush()?;
            let (stop_sender, stopped) = tokio::sync::watch::channel(false);
            let mut servers = tokio::task::JoinSet::new();
            for ServedMoment { store, server, .. } in served {
                let mut stopped = stopped.clone();
                let stop = async move { drop(stopped.wait_for(|is_stopped| *is_stopped).await) };
                servers.spawn(server.serve(Arc::new(store), stop));
            }
            tokio::select! {
                _ = stop => {}
                // A server ends by itself only on an error.
                Some(ended) = servers.join_next() => ended??,
            }
            let _ = stop_sender.send(true);
            while let Some(ended) = servers.join_next().await {
                ended??;
            }
            Ok(Outcome::Done)
        });
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        ended
    }

    fn listen_for_each_moment(&self, path: &Path) -> anyhow::Result<Vec<ServedMoment>> {
        let open_history = history_arg::open(Some(path))?;
        let source = open_history.source(self.source.as_deref(), "--source")?;
        let mut times: Vec<Option<&str>> = self.at.iter().map(|at| Some(&**at)).collect();
        if times.is_empty() {
            times.push(None);
        }
        let mut served = Vec::new();
        for (index, time) in times.into_iter().enumerate() {
            let moment = open_history.moment(time)?;
            let port = if index == 0 { self.listen.port() } else { 0 };
            let store = PastStore::open(path, source.clone(), moment)?;
            served.push(ServedMoment::listen(
                SocketAddr::new(self.listen.ip(), port),
                moment,
                store,
                self.insecure,
            )?);
        }
        Ok(served)
    }
}

// === impl ServedMoment ===

impl ServedMoment {
    fn listen(
        address: SocketAddr,
        moment: Moment,
        store: PastStore,
        insecure: bool,
    ) -> anyhow::Result<ServedMoment> {
        let credentials = if insecure { None } else { Some(Credentials::generate(address.ip())?) };
        let security = credentials.as_ref().map(Credentials::server_security);
        let server =
            ApiServer::listen(address, security).with_context(|| format!("cannot listen on {address}"))?;
        let address = server.address()?;
        let host = match address.ip() {
            // A client cannot connect to the unspecified address.
            ip if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
            ip => ip,
        };
        let scheme = if insecure { "http" } else { "https" };
        let url = format!("{scheme}://{}", SocketAddr::new(host, address.port()));
        Ok(ServedMoment { moment, store, server, url, credentials })
    }

    fn context(&self, name: &str) -> KubeconfigCluster {
        KubeconfigCluster::new(format!("{name}@{}", self.moment), self.url.clone(), self.credentials.as_ref())
    }
}

// === impl KubeconfigFile ===

impl KubeconfigFile {
    fn write(path: &Path, kubeconfig: &Kubeconfig) -> anyhow::Result<KubeconfigFile> {
        // It is deleted at the end, so it must not be a file of the user's, such as another kubeconfig.
        if path.exists() {
            bail!("{} exists: delete it, or name another file with --kubeconfig-out", path.display());
        }
        let file = PendingFile::for_target(path, true);
        let mut output = file.create()?;
        let written = serde_json::to_string_pretty(&kubeconfig.to_json())?;
        let doing = || format!("cannot write {}", path.display());
        output.write_all(written.as_bytes()).with_context(doing)?;
        output.finish().with_context(doing)?;
        file.publish()?;
        Ok(KubeconfigFile(path.to_owned()))
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        // It may have been deleted already.
        let _ = std::fs::remove_file(&self.0);
    }
}

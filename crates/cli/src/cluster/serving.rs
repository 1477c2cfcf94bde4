//! Servers of clusters: where they listen, and who may use them.

use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apiserver::{ApiServer, Registry, ServeOptions};
use axum::Router;
use virtualcluster::{Credentials, Kubeconfig, KubeconfigCluster};

use super::kubeconfig_file::KubeconfigTarget;
use crate::output::Printer;
use crate::{InvalidArguments, Outcome, signals};

/// How long open watches may delay the end of the program.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// Options of the server.
#[derive(clap::Args)]
pub(super) struct ServingOptions {
    /// Address to listen on; port 0 selects a free port. Each further moment has a free port of its own
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Kubeconfig to write [default: NAME.kubeconfig in the current directory]
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Serve plain HTTP without a token, on a loopback address only
    #[arg(long)]
    insecure: bool,
    /// File to which an audit event of each request is appended
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
}

/// A cluster that is served.
pub(super) struct ServedCluster {
    /// The name of its context.
    pub(super) context: String,
    /// What it is: `shop.kine at 2026-11-02T14:20:00Z`.
    pub(super) description: String,
    pub(super) registry: Arc<Registry>,
    options: ServeOptions,
    server: ApiServer,
    url: String,
    credentials: Option<Credentials>,
}

// === impl ServingOptions ===

impl ServingOptions {
    /// Whether everyone may be served.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.insecure && !self.listen.ip().is_loopback() {
            let message = format!(
                "{} is not a loopback address: --insecure would serve the cluster to everyone",
                self.listen
            );
            return Err(InvalidArguments(message).into());
        }
        Ok(())
    }

    /// Where the kubeconfig of clusters of this name is written. One that exists is refused, unless it is stale.
    pub(super) fn kubeconfig_target(&self, name: &str) -> anyhow::Result<KubeconfigTarget> {
        let path = self.kubeconfig_out.clone();
        KubeconfigTarget::check(path.unwrap_or_else(|| format!("{name}.kubeconfig").into()))
    }

    /// New credentials of a server; none for plain HTTP.
    pub(super) fn credentials(&self) -> anyhow::Result<Option<Credentials>> {
        if self.insecure { Ok(None) } else { Credentials::generate(self.listen.ip()).map(Some) }
    }

    /// Listens for a cluster. The first one has the port that the user named.
    pub(super) fn listen(
        &self,
        is_first: bool,
        credentials: Option<Credentials>,
        context: String,
        description: String,
        registry: Arc<Registry>,
        other_routes: Router,
    ) -> anyhow::Result<ServedCluster> {
        let audit_log = self.audit_log.as_deref().map(open_audit_log).transpose()?;
        let options = ServeOptions { other_routes, audit_log };
        let port = if is_first { self.listen.port() } else { 0 };
        let address = SocketAddr::new(self.listen.ip(), port);
        let security = credentials.as_ref().map(Credentials::server_security);
        let server =
            ApiServer::listen(address, security).with_context(|| format!("cannot listen on {address}"))?;
        let address = server.address()?;
        let host = match address.ip() {
            // A client cannot connect to the unspecified address.
            ip if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
            ip => ip,
        };
        let scheme = if self.insecure { "http" } else { "https" };
        let url = format!("{scheme}://{}", SocketAddr::new(host, address.port()));
        Ok(ServedCluster { context, description, registry, options, server, url, credentials })
    }

    /// Serves clusters until the program is asked to stop. `example` is what to try with their kubeconfig.
    pub(super) fn serve(
        &self,
        out: &mut Printer,
        clusters: Vec<ServedCluster>,
        kubeconfig: KubeconfigTarget,
        example: &str,
    ) -> anyhow::Result<Outcome> {
        let contexts = clusters.iter().map(ServedCluster::kubeconfig_cluster).collect();
        let kubeconfig = kubeconfig.write(&Kubeconfig::new(contexts), out)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let ended = runtime.block_on(async {
            // Before the first line is printed, so that a reader of it may send a signal right away.
            let stop = signals::stop_requested()?;
            for ServedCluster { description, url, .. } in &clusters {
                writeln!(out, "{description} on {url}")?;
            }
            writeln!(out, "try: kubectl --kubeconfig {} {example}", kubeconfig.path().display())?;
            out.flush()?;
            let (stop_sender, stopped) = tokio::sync::watch::channel(false);
            let mut servers = tokio::task::JoinSet::new();
            for ServedCluster { registry, options, server, .. } in clusters {
                let mut stopped = stopped.clone();
                let stop = async move { drop(stopped.wait_for(|is_stopped| *is_stopped).await) };
                servers.spawn(server.serve(registry, options, stop));
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
}

/// The audit log names the cluster's objects: only its owner may read it.
fn open_audit_log(path: &Path) -> anyhow::Result<File> {
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).with_context(|| format!("cannot open {}", path.display()))
}

// === impl ServedCluster ===

impl ServedCluster {
    fn kubeconfig_cluster(&self) -> KubeconfigCluster {
        KubeconfigCluster::new(self.context.clone(), self.url.clone(), self.credentials.as_ref())
    }
}

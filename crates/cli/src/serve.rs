//! `kinescope serve`: serves histories over HTTP.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use recorder::{Config, ConfigOverrides, RecorderMetrics};
use server::{HistoryCatalog, ScratchSpace, ServerSettings};
use tokio::sync::watch;

use super::output::{Printer, group_digits};
use super::{Outcome, signals};

/// How long work that does not stop by itself may delay the end of the program.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

const AFTER: &str = "\
Endpoints:
  /                            list of the histories, HTML
  /api/v1/recordings           status of the recordings of --config
  /api/v1/histories[/NAME]     histories; summary of one, as in info
    …/objects?at=              objects at a time
    …/gaps                     gaps in the recording
    …/changes?from=&to=        changes in a time range, as jsonl
    …/explain?pod=  ?node=     explanation of a pod or node
    …/replays[/ID]             POST starts a replay, GET shows its progress,
                               DELETE cancels it
    …/download                 the history file, consistent while it is written
  POST /export                 SimKube trace, like SimKube's tracer
  /get-snapshot?at=            snapshot, like the KAI scheduler
  /api/db[/NAME.db]            SQLite database, like Gardener's recorder
  /metrics  /healthz  /readyz  metrics and health probes
  /openapi.json                OpenAPI description of this API

Histories may be written while they are served; new files in a folder are served at once. Unless it \
is a loopback address, --listen requires --token-file (clients send `Authorization: Bearer TOKEN`) or --client-ca.

Examples:
  kinescope serve
  kinescope serve prod.kine test.kine --listen 127.0.0.1:8080
  # Record and serve; see `kinescope record --help`
  kinescope serve --config clusters.yaml
  kinescope serve films --listen 0.0.0.0:7777 --token-file token \\
    --tls-cert tls.crt --tls-key tls.key

  API=http://127.0.0.1:7777/api/v1/histories
  curl \"$API/prod/objects?at=-2h&kind=pods&namespace=web\"
  curl \"$API/prod/changes?from=14:00&to=14:10\" | jq .type
  curl -o then.zip 'http://127.0.0.1:7777/get-snapshot?at=14:03'";

/// Serve histories over HTTP
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Serve {
    /// Histories, or folders of histories [default: the folder of --config, else $KINESCOPE_HISTORY, else the current
    /// directory]
    #[arg(value_name = "FOLDER|HISTORY")]
    places: Vec<PathBuf>,
    /// Configuration file with clusters to record, as in `kinescope record`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Output folder of these recordings [default: that of the configuration file]
    #[arg(long, value_name = "FOLDER", requires = "config")]
    into: Option<PathBuf>,
    /// Path pattern of the kubeconfigs for Gardener's clusters.csv: conf/{landscape}_{project}_{shoot}.yaml
    #[arg(long, value_name = "PATTERN", requires = "config")]
    kubeconfigs: Option<String>,
    /// Path pattern of the kubeconfigs of their control planes
    #[arg(long, value_name = "PATTERN", requires = "config")]
    control_kubeconfigs: Option<String>,
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7777")]
    listen: String,
    /// Separate address for /healthz and /readyz, without TLS and token [default: the address of --listen]
    #[arg(long, value_name = "ADDRESS:PORT")]
    health_probe_bind_address: Option<String>,
    /// Maximum size of temporary copies for downloads and exports, in $TMPDIR or /tmp
    #[arg(long, value_name = "SIZE", default_value = "10Gi", value_parser = recorder::parse_size)]
    scratch_size: u64,
    /// File with the bearer token that clients must send
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// TLS certificate chain, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// CA certificates that client certificates must be signed by, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
    /// TLS private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl Serve {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let mut overrides = ConfigOverrides {
            folder: self.into.clone(),
            kubeconfig_pattern: self.kubeconfigs.clone(),
            control_kubeconfig_pattern: self.control_kubeconfigs.clone(),
            ..ConfigOverrides::default()
        };
        let config = match &self.config {
            Some(file) => Some(Config::read(file, &overrides)?),
            None => None,
        };
        // The folder served is fixed at start, even if the file changes later.
        overrides.folder = config.as_ref().map(|config| config.folder_path().to_owned());
        let catalog = HistoryCatalog::open(&self.places(config.as_ref()))?;
        let addresses = socket_addresses(&self.listen)?;
        let is_local = addresses.iter().all(|address| address.ip().is_loopback());
        if !is_local && self.token_file.is_none() && self.client_ca.is_none() {
            bail!(
                "{} is not a loopback address: pass --token-file or --client-ca to authenticate clients",
                self.listen
            );
        }
        let mut settings = ServerSettings::listen(&addresses)
            .with_context(|| format!("cannot listen on {}", self.listen))?;
        if let Some(address) = &self.health_probe_bind_address {
            let listening = settings.listen_for_probes(&socket_addresses(address)?);
            listening.with_context(|| format!("cannot listen on {address}"))?;
        }
        if let Some(file) = &self.token_file {
            settings.set_token(file)?;
        }
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            settings.set_tls(certificate, key, self.client_ca.as_deref())?;
        } else if !is_local {
            out.print_to_stderr("warning: without --tls-cert the token and all data are sent unencrypted");
        }
        let scratch = ScratchSpace::new(self.scratch_size);
        let count = catalog.list()?.len() as u64;
        let noun = if count == 1 { "history" } else { "histories" };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let served = runtime.block_on(async {
            // Before the first line is printed, so that a reader of it may send a signal right away.
            let stop = signals::stop_requested()?;
            writeln!(out, "serving {} {noun} on {}", group_digits(count), settings.url()?)?;
            if let Some(url) = settings.probe_url()? {
                writeln!(out, "health probes on {url}")?;
            }
            out.flush()?;
            let recorder_metrics = Arc::new(RecorderMetrics::default());
            let (is_over, over) = watch::channel(false);
            let (notices, mut notice_receiver) = recorder::notice_channel();
            // In a separate task, so that recording does not delay responses.
            let recording = tokio::spawn({
                let (file, recorder_metrics) = (self.config.clone(), recorder_metrics.clone());
                async move {
                    if let (Some(config), Some(file)) = (config, file) {
                        recorder::follow_config(&file, &overrides, config, recorder_metrics, notices, over)
                            .await;
                    }
                }
            });
            let serving = async {
                let stop = async {
                    let _ = stop.await;
                    let _ = is_over.send(true);
                };
                let served = server::serve(catalog, recorder_metrics.clone(), scratch, settings, stop).await;
                let _ = is_over.send(true);
                served
            };
            let listening = async {
                while let Some((name, message)) = notice_receiver.next().await {
                    out.print_to_stderr(&format!("warning: {name}: {message}"));
                }
            };
            tokio::join!(recording, serving, listening).1
        });
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        served.map(|()| Outcome::Done)
    }

    fn places(&self, config: Option<&Config>) -> Vec<PathBuf> {
        let mut paths = self.places.clone();
        if let Some(config) = config {
            paths.push(config.folder_path().to_owned());
        }
        if paths.is_empty() {
            let named = std::env::var_os("KINESCOPE_HISTORY").filter(|path| !path.is_empty());
            paths.push(named.map_or_else(|| ".".into(), PathBuf::from));
        }
        paths
    }
}

/// Resolves an address with a port.
fn socket_addresses(text: &str) -> anyhow::Result<Vec<SocketAddr>> {
    let wrong = || format!("invalid address {text:?}: expected ADDRESS:PORT, such as 127.0.0.1:7777");
    let addresses: Vec<SocketAddr> = text.to_socket_addrs().with_context(wrong)?.collect();
    if addresses.is_empty() {
        bail!(wrong());
    }
    Ok(addresses)
}

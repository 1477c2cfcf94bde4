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
What is served:
  /                               a page that lists the histories
  /api/v1/recordings              how what is recorded with --config is getting on
  /api/v1/histories[/NAME]        what there is, as info tells it
    …/objects?at=  …/gaps         a moment; what may be missing
    …/changes?from=&to=           a span of time, as jsonl
    …/explain?pod=  ?node=        why a pod or a node is decided about so
    …/replays[/ID]                POST plays it again, GET tells how far it is, DELETE cancels
    …/download                    the file, whole also while it is written
  POST /export                    a trace, as SimKube's tracer answers
  /get-snapshot?at=               a snapshot, as the KAI scheduler answers
  /api/db[/NAME.db]               a database, as Gardener's recorder answers
  /metrics  /healthz  /readyz     for Prometheus and Kubernetes
  /openapi.json                   all of this, for programs

Histories may be recorded or imported meanwhile; what is put into a folder is there with the next question. Beyond \
this machine nothing is served without --token-file (clients then send `Authorization: Bearer TOKEN`) or --client-ca.

Examples:
  kinescope serve
  kinescope serve prod.kine test.kine --listen 127.0.0.1:8080
  kinescope serve --config clusters.yaml    records too: see `kinescope record --help`
  kinescope serve films --listen 0.0.0.0:7777 --token-file token --tls-cert tls.crt --tls-key tls.key
  curl 'http://127.0.0.1:7777/api/v1/histories/prod/objects?at=-2h&kind=pods&namespace=web'
  curl 'http://127.0.0.1:7777/api/v1/histories/prod/changes?from=14:00&to=14:10' | jq .type
  curl -o then.zip 'http://127.0.0.1:7777/get-snapshot?at=14:03'";

/// Serve histories over HTTP: their objects, changes, downloads, and what clients of other systems ask for
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Serve {
    /// Folders of histories, or histories [default: that of --config, else $KINESCOPE_HISTORY, else this folder]
    #[arg(value_name = "FOLDER|HISTORY")]
    places: Vec<PathBuf>,
    /// Record the clusters that this file names, as `kinescope record` does
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where they are recorded to [default: what the file says]
    #[arg(long, value_name = "FOLDER", requires = "config")]
    into: Option<PathBuf>,
    /// With Gardener's clusters.csv: where the kubeconfigs are, as in conf/{landscape}_{project}_{shoot}.yaml
    #[arg(long, value_name = "PATTERN", requires = "config")]
    kubeconfigs: Option<String>,
    /// The same for the kubeconfigs of their control planes
    #[arg(long, value_name = "PATTERN", requires = "config")]
    control_kubeconfigs: Option<String>,
    /// Where clients connect; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7777")]
    listen: String,
    /// Where /healthz and /readyz are answered, without TLS and token, whoever crowds the other address
    /// [default: where clients connect]
    #[arg(long, value_name = "ADDRESS:PORT")]
    health_probe_bind_address: Option<String>,
    /// The most that copies for downloads and exports may take of the folder for temporary files, $TMPDIR or /tmp
    #[arg(long, value_name = "SIZE", default_value = "10Gi", value_parser = recorder::parse_size)]
    scratch_size: u64,
    /// Serve only who sends the token in this file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Speak TLS with this certificate and what vouches for it, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Serve only who has a certificate of one of these authorities, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
    /// The certificate's private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl Serve {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let mut beside = ConfigOverrides {
            folder: self.into.clone(),
            kubeconfig_pattern: self.kubeconfigs.clone(),
            control_kubeconfig_pattern: self.control_kubeconfigs.clone(),
            ..ConfigOverrides::default()
        };
        let config = match &self.config {
            Some(file) => Some(Config::read(file, &beside)?),
            None => None,
        };
        // The folder served is fixed at start, even if the file changes later.
        beside.folder = config.as_ref().map(|config| config.folder_path().to_owned());
        let shelf = HistoryCatalog::open(&self.places(config.as_ref()))?;
        let addresses = socket_addresses(&self.listen)?;
        let is_local = addresses.iter().all(|address| address.ip().is_loopback());
        if !is_local && self.token_file.is_none() && self.client_ca.is_none() {
            bail!(
                "{} is reached from beyond this machine: say with --token-file what clients must know, or with \
                 --client-ca who vouches for them",
                self.listen
            );
        }
        let mut settings = ServerSettings::listen(&addresses)
            .with_context(|| format!("cannot listen at {}", self.listen))?;
        if let Some(address) = &self.health_probe_bind_address {
            let listening = settings.listen_for_probes(&socket_addresses(address)?);
            listening.with_context(|| format!("cannot listen at {address}"))?;
        }
        if let Some(file) = &self.token_file {
            settings.set_token(file)?;
        }
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            settings.set_tls(certificate, key, self.client_ca.as_deref())?;
        } else if !is_local {
            out.print_to_stderr(
                "warning: without --tls-cert the token and all that is read can be overheard",
            );
        }
        let scratch = ScratchSpace::new(self.scratch_size);
        let count = shelf.list()?.len() as u64;
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
            let board = Arc::new(RecorderMetrics::default());
            let (is_over, over) = watch::channel(false);
            let (notices, mut said) = recorder::notice_channel();
            // In a separate task, so that recording does not delay responses.
            let recording = tokio::spawn({
                let (file, board) = (self.config.clone(), board.clone());
                async move {
                    if let (Some(config), Some(file)) = (config, file) {
                        recorder::follow_config(&file, &beside, config, board, notices, over).await;
                    }
                }
            });
            let serving = async {
                let stop = async {
                    let _ = stop.await;
                    let _ = is_over.send(true);
                };
                let served = server::serve(shelf, board.clone(), scratch, settings, stop).await;
                let _ = is_over.send(true);
                served
            };
            let listening = async {
                while let Some((name, words)) = said.next().await {
                    out.print_to_stderr(&format!("warning: {name}: {words}"));
                }
            };
            tokio::join!(recording, serving, listening).1
        });
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        served.map(|()| Outcome::Done)
    }

    fn places(&self, config: Option<&Config>) -> Vec<PathBuf> {
        let mut places = self.places.clone();
        if let Some(config) = config {
            places.push(config.folder_path().to_owned());
        }
        if places.is_empty() {
            let named = std::env::var_os("KINESCOPE_HISTORY").filter(|path| !path.is_empty());
            places.push(named.map_or_else(|| ".".into(), PathBuf::from));
        }
        places
    }
}

/// Resolves an address with a port.
fn socket_addresses(text: &str) -> anyhow::Result<Vec<SocketAddr>> {
    let wrong = || format!("{text:?} is no address and port such as 127.0.0.1:7777");
    let addresses: Vec<SocketAddr> = text.to_socket_addrs().with_context(wrong)?.collect();
    if addresses.is_empty() {
        bail!(wrong());
    }
    Ok(addresses)
}

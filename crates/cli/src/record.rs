//! `kinescope record`: records live clusters into histories until it is stopped.

mod status;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use history::Retention;
use kubernetes::change_filter::RedactKey;
use kubernetes::recording::DEFAULT_KINDS_IN_WORDS;
use live::{Connection, EventChoice};
use recorder::policy::{self, RecordingDetail, RecordingPolicy};
use recorder::sched_record::{SchedRecord, SimulatorKinds};
use recorder::{
    ApiServerConfig, Assignment, Config, ConfigOverrides, RecorderMetrics, parse_duration,
    read_scheduler_config, secret_key,
};
use tokio::sync::watch;

use self::status::StatusLine;
use super::output::Printer;
use super::{Outcome, lines, signals};

/// How long tasks that do not stop by themselves may delay the end of the program.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

const AFTER: &str = "\
A recording resumes where it stopped. Changes since then are not missed if the API server still has them; otherwise \
they are a gap. What an earlier run recorded and this one does not (namespaces, kinds, labels, events) is a gap too.

Examples:
  # Record the current context into CONTEXT.kine until Ctrl-C
  kinescope record
  kinescope record --context prod --into prod.kine --duration 1h
  kinescope record --kinds pods,nodes -n web
  kinescope record --also ingresses --skip configmaps --events scheduling
  kinescope record --format sched-record --path record.jsonl --duration 60
  # Record several clusters, each into its own history
  kinescope record --config clusters.yaml
  kinescope record --show-rules

Example of a --config file:
  folder: films
  retention: {age: 30d, size: 10Gi}
  clusters:
  - name: prod
    kubeconfig: prod.yaml
    context: admin
    controlPlane: {kubeconfig: seed.yaml, namespace: shoot--dev--prod}
  - name: test
    also: [ingresses]
    redact: false
    trackedObjects: {apps/v1.Deployment: {}}
Only `clusters` and their names are required. Other fields: namespaces, selector, kinds, skip, events, usage, \
everything, redactKey, schedulerConfig. Top-level fields apply to all clusters. The file is reloaded when it changes. \
A tracer configuration of SimKube and Gardener's clusters.csv are accepted too.";

/// Record live clusters
#[derive(clap::Args)]
#[command(after_help = format!("{DEFAULT_KINDS_IN_WORDS}\n\n{AFTER}"))]
pub(super) struct Record {
    /// History to write, appended to if it exists; with --config, the folder of histories [default: the context's name
    /// with .kine]
    #[arg(long, value_name = "HISTORY|FOLDER", conflicts_with = "path")]
    into: Option<PathBuf>,
    /// Configuration file with the clusters to record; see below
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "source", "kinds", "also", "skip", "namespaces", "selector", "events", "usage", "everything",
            "no_redact", "redact_key", "scheduler_config", "keep_age", "keep_size", "format",
        ]
    )]
    config: Option<PathBuf>,
    /// Path pattern of the kubeconfigs for Gardener's clusters.csv: conf/{landscape}_{project}_{shoot}.yaml
    #[arg(long, value_name = "PATTERN", requires = "config")]
    kubeconfigs: Option<String>,
    /// Path pattern of the kubeconfigs of their control planes
    #[arg(long, value_name = "PATTERN", requires = "config")]
    control_kubeconfigs: Option<String>,
    /// Path to the kubeconfig file [default: $KUBECONFIG, else ~/.kube/config, else in-cluster]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Source name [default: the context's name]
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Duration: 60, 60s, 5m, 2h [default: until Ctrl-C or SIGTERM]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Resource types to record: pods,nodes [default: see below]
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Additional resource types
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    also: Vec<String>,
    /// Resource types to exclude
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    skip: Vec<String>,
    /// Namespaces, in addition to cluster-scoped objects [default: all]
    #[arg(short, long = "namespace", value_name = "NAMES", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// Label selector: app=web,tier!=db
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Events to record: all, scheduling (those of schedulers and autoscalers) or none
    #[arg(long, value_name = "WHICH", value_parser = policy::parse_event_choice, default_value = "all")]
    events: EventChoice,
    /// Sample usage of nodes and pods from metrics.k8s.io at this interval; --usage alone is 1m
    #[arg(long, value_name = "INTERVAL", value_parser = recorder::parse_duration, num_args = 0..=1, require_equals = true,
        default_missing_value = "1m", conflicts_with = "format")]
    usage: Option<Duration>,
    /// Record all changes and all fields; a history then requires --no-redact
    #[arg(long)]
    everything: bool,
    /// Do not redact values of environment variables
    #[arg(long)]
    no_redact: bool,
    /// Key file to redact values of environment variables with; with --format they are only redacted if given
    #[arg(long, value_name = "FILE", conflicts_with = "no_redact")]
    redact_key: Option<PathBuf>,
    /// KubeSchedulerConfiguration file to record
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    scheduler_config: Option<PathBuf>,
    /// Delete history older than this: 12h, 30d
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "path")]
    keep_age: Option<Duration>,
    /// Delete the oldest history beyond this size: 500Mi, 10Gi
    #[arg(long, value_name = "SIZE", value_parser = recorder::parse_size, conflicts_with = "path")]
    keep_size: Option<u64>,
    /// Print the recording rules and exit
    #[arg(long)]
    show_rules: bool,
    /// Write a recording of kube-scheduler-simulator instead of a history
    #[arg(long, value_name = "FORMAT", value_parser = ["sched-record"], requires = "path")]
    format: Option<String>,
    /// Output file of --format
    #[arg(long, value_name = "FILE", requires = "format")]
    path: Option<PathBuf>,
    /// Flush interval of --path
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s", requires = "format")]
    flush_interval: Duration,
}

/// The recording to make: one cluster, a fleet, or kube-scheduler-simulator's format.
enum RecordTask {
    SingleCluster(Box<Assignment>),
    Fleet {
        file: PathBuf,
        beside: ConfigOverrides,
        config: Config,
    },
    SchedRecordFile {
        path: PathBuf,
        kinds: SimulatorKinds,
        policy: Box<RecordingPolicy>,
        server: ApiServerConfig,
        flush_interval: Duration,
    },
}

impl Record {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        if self.show_rules {
            return show_rules(out);
        }
        let task = self.task()?;
        let runtime = recorder::runtime()?;
        let recorded = runtime.block_on(run_task(task, self.duration, out));
        // A credential plugin that was started may never return.
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        recorded.map(|()| Outcome::Done)
    }

    fn task(&self) -> anyhow::Result<RecordTask> {
        let policy = self.policy();
        policy.check_selector()?;
        if let Some(file) = &self.config {
            let overrides = ConfigOverrides {
                folder: self.into.clone(),
                kubeconfig: self.kubeconfig.clone(),
                context: self.context.clone(),
                kubeconfig_pattern: self.kubeconfigs.clone(),
                control_kubeconfig_pattern: self.control_kubeconfigs.clone(),
            };
            let config = Config::read(file, &overrides)?;
            return Ok(RecordTask::Fleet { file: file.clone(), beside: overrides, config });
        }
        policy.check()?;
        let server = ApiServerConfig {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            ..ApiServerConfig::default()
        };
        if let Some(path) = &self.path {
            let kinds = if self.kinds.is_empty() && self.also.is_empty() {
                SimulatorKinds::Seven
            } else {
                SimulatorKinds::Any
            };
            let redaction = self.redact_key.as_deref().map(secret_key::read_redact_key).transpose()?;
            return Ok(RecordTask::SchedRecordFile {
                path: path.clone(),
                kinds,
                policy: Box::new(RecordingPolicy { redaction, ..policy.with_simulator_defaults() }),
                server,
                flush_interval: self.flush_interval,
            });
        }
        if let Some(into) = self.into.as_ref().filter(|into| into.is_dir()) {
            bail!("{} is a folder: without --config, --into must be a file", into.display());
        }
        let context = || Connection::context_name(self.kubeconfig.as_deref(), self.context.as_deref());
        let name: Arc<str> = self.source.clone().unwrap_or_else(context).into();
        let default_path = || -> PathBuf { format!("{}.kine", recorder::file_name(&name)).into() };
        let history_path = self.into.clone().unwrap_or_else(default_path);
        // Not only once the cluster answers.
        history::require_folder(&history_path)?;
        Ok(RecordTask::SingleCluster(Box::new(Assignment {
            history_path,
            name,
            cluster: server,
            control_plane: None,
            policy: RecordingPolicy { redaction: self.redaction()?, ..policy },
            settings: self
                .scheduler_config
                .iter()
                .map(|path| read_scheduler_config(path))
                .collect::<Result<_, _>>()?,
        })))
    }

    /// What to record. The redaction key is not read here, because reading it creates it if it is missing.
    fn policy(&self) -> RecordingPolicy {
        let nanos = self.keep_age.map(|age| i64::try_from(age.as_nanos()).unwrap_or(i64::MAX));
        RecordingPolicy {
            kinds: (!self.kinds.is_empty()).then(|| self.kinds.clone()),
            also: self.also.clone(),
            if_served: Vec::new(),
            skip: self.skip.clone(),
            namespaces: self.namespaces.clone(),
            selector: self.selector.clone(),
            events: self.events,
            usage: self.usage,
            detail: if self.everything { RecordingDetail::Everything } else { RecordingDetail::Significant },
            redaction: None,
            retention: Retention { nanos, bytes: self.keep_size },
            in_order: false,
        }
    }

    /// The key that redacts the values of environment variables; `None` if they are kept.
    fn redaction(&self) -> anyhow::Result<Option<RedactKey>> {
        match (&self.redact_key, self.no_redact) {
            (_, true) => Ok(None),
            _ if self.everything => {
                bail!("--everything keeps environment values: it requires --no-redact")
            }
            (Some(path), _) => secret_key::read_redact_key(path).map(Some),
            (None, _) => secret_key::read_redact_key(&secret_key::default_path()?).map(Some),
        }
    }
}

// === impl RecordTask ===

impl RecordTask {
    /// The file or folder that the recording is written to.
    fn destination(&self) -> &Path {
        match self {
            RecordTask::SingleCluster(assignment) => &assignment.history_path,
            RecordTask::Fleet { config, .. } => config.folder_path(),
            RecordTask::SchedRecordFile { path, .. } => path,
        }
    }

    async fn run(
        self,
        recorder_metrics: Arc<RecorderMetrics>,
        notices: recorder::NoticeSender,
        stop: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        match self {
            RecordTask::SingleCluster(assignment) => {
                recorder::record(&assignment, &recorder_metrics, &notices, stop).await
            }
            RecordTask::Fleet { file, beside: overrides, config } => {
                recorder::follow_config(&file, &overrides, config, recorder_metrics, notices, stop).await;
                Ok(())
            }
            RecordTask::SchedRecordFile { path, kinds, policy, server, flush_interval: between } => {
                let mut stop_signal = stop.clone();
                let connection = tokio::select! {
                    connection = recorder::connect(&server) => connection?,
                    _ = stop_signal.wait_for(|is_time| *is_time) => return Ok(()),
                };
                let stream = SchedRecord::create(&path, kinds, *policy)?;
                stream.record(connection, between, &recorder_metrics, &notices, stop).await
            }
        }
    }
}

/// Runs a task until it ends, a signal arrives or the duration is over, and shows its status.
async fn run_task(task: RecordTask, duration: Option<Duration>, out: &mut Printer) -> anyhow::Result<()> {
    // Before starting anything that a signal should stop.
    let (signal, time) = (signals::stop_requested()?, wait_duration(duration));
    tokio::pin!(signal, time);
    let recorder_metrics = Arc::new(RecorderMetrics::default());
    let mut status = StatusLine::new(out, task.destination().display().to_string());
    let is_many = matches!(task, RecordTask::Fleet { .. });
    let (notices, mut notice_receiver) = recorder::notice_channel();
    let (stop, stopped) = watch::channel(false);
    let mut running = tokio::spawn(task.run(recorder_metrics.clone(), notices, stopped));
    let mut ticks = tokio::time::interval(Duration::from_millis(500));
    let (mut is_stopping, mut is_late, mut why) = (false, false, None);
    let outcome = loop {
        tokio::select! {
            Some((name, message)) = notice_receiver.next() => {
                let cluster_prefix = if is_many { format!("{name}: ") } else { String::new() };
                status.print_above(&format!("warning: {cluster_prefix}{message}"), out);
            }
            _ = ticks.tick() => status.refresh(&recorder_metrics),
            how = &mut signal, if !is_stopping => {
                is_stopping = true;
                why.get_or_insert(how);
                let _ = stop.send(true);
            }
            () = &mut time, if !is_late => {
                is_late = true;
                why.get_or_insert("duration elapsed");
                let _ = stop.send(true);
            }
            outcome = &mut running => break outcome.context("the recorder panicked")?,
        }
    };
    while let Some((_, message)) = notice_receiver.try_next() {
        status.print_above(&format!("warning: {message}"), out);
    }
    status.clear();
    // A recording that never started has nothing to summarize.
    if outcome.is_ok() || recorder_metrics.snapshot().iter().any(|(_, metrics)| metrics.object_count() > 0) {
        status.print_summary(&recorder_metrics, why.unwrap_or("completed"), out);
    }
    outcome
}

async fn wait_duration(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

fn show_rules(out: &mut Printer) -> anyhow::Result<Outcome> {
    lines::write_rules(out, &policy::describe_rules())?;
    Ok(Outcome::Done)
}

//! `kinescope snapshot take`: a snapshot for KAI's own tool, of a moment of a history or of a live cluster.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use live::Connection;
use snapshot::{CaptureOptions, CaptureSummary, CapturedObjects, HistoryMoment, list_live, take};

use super::input::HistoryArgs;
use crate::Outcome;
use crate::export::{anonymizer, count_text};
use crate::history_arg;
use crate::out_file::PendingFile;
use crate::output::{Printer, group_digits};
use crate::signals;

const AFTER: &str = "\
The file is what KAI-Scheduler's /get-snapshot serves, and KAI's snapshot-tool reads it. It has the time of the \
snapshot in a key that the tool ignores. What KAI itself captured, and was imported, is written as it was, with its \
settings; otherwise the settings are the defaults of v0.17. From a live cluster, containers are reduced to what \
decisions depend on, as KAI does; the values of environment variables, ConfigMaps and Secrets are not read into the file.

Examples:
  kinescope snapshot take --history gpu.kine --at 14:03
  kinescope snapshot take --kubeconfig ~/.kube/config --out now.zip
  kinescope snapshot take --history gpu.kine --anonymize --key anon.key --out -
  snapshot-tool --filename gpu-20261101T140300Z.zip";

/// Write a moment of a history, or a live cluster, as a snapshot
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct TakeSnapshot {
    #[command(flatten)]
    history: HistoryArgs,
    /// Time in the history [default: its end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["kubeconfig", "context"])]
    at: Option<String>,
    /// Take it from the live cluster of this kubeconfig
    #[arg(long, value_name = "FILE", conflicts_with = "history")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig, or of the default one: take it from that live cluster
    #[arg(long, value_name = "NAME", conflicts_with = "history")]
    context: Option<String>,
    /// Replace names, labels, images and addresses by generated ones, equal values by equal ones
    #[arg(long, alias = "anonymise")]
    anonymize: bool,
    /// Key file for --anonymize, created if missing; snapshots with the same key use the same names
    #[arg(long, value_name = "FILE", requires = "anonymize")]
    key: Option<PathBuf>,
    /// Leave out the data of ConfigMaps: the scheduler only needs to know that they exist
    #[arg(long)]
    without_configmap_data: bool,
    /// Output file; - for standard output [default: NAME-TIME.zip]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl TakeSnapshot {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let options = CaptureOptions {
            anonymizer: self.anonymize.then(|| anonymizer(self.key.as_deref())).transpose()?,
            without_config_map_data: self.without_configmap_data,
            partition: self.history.partition.clone(),
        };
        let is_live = self.kubeconfig.is_some() || self.context.is_some();
        let (captured, name) = if is_live { self.list(out)? } else { self.read()? };
        let path = match &self.out {
            Some(path) => path.clone(),
            None => PathBuf::from(format!(
                "{name}-{}.zip",
                captured.time().timestamp().strftime("%Y%m%dT%H%M%SZ")
            )),
        };
        let summary = if path == Path::new("-") {
            take(&captured, &options, out.data()?)?
        } else {
            write_file(&path, &captured, &options)?
        };
        print_summary(out, &path, &summary);
        Ok(Outcome::Done)
    }

    /// The objects at the moment of the history, and its name.
    fn read(&self) -> anyhow::Result<(CapturedObjects, String)> {
        let open_history = history_arg::open(self.history.history.as_deref())?;
        let path = open_history.history.path();
        if let Some(out) = self.out.as_deref().filter(|out| out.exists() && *out != Path::new("-"))
            && std::fs::canonicalize(out)? == std::fs::canonicalize(path)?
        {
            bail!("{} is the history itself: pass another file with --out", out.display());
        }
        let moment = open_history.moment(self.at.as_deref())?;
        let source = self.history.source.as_deref();
        let moment = HistoryMoment { open_history: &open_history, moment, source, partition: None };
        let name = path.file_stem().map_or("snapshot".to_owned(), |stem| stem.to_string_lossy().into_owned());
        Ok((CapturedObjects::at(&moment)?, name))
    }

    /// The objects of the live cluster, and the name of its context.
    fn list(&self, out: &mut Printer) -> anyhow::Result<(CapturedObjects, String)> {
        let runtime = recorder::runtime()?;
        let now = jiff::Timestamp::now().into();
        let (kubeconfig, context) = (self.kubeconfig.as_deref(), self.context.as_deref());
        let listed = runtime.block_on(async {
            let connection = Connection::open(kubeconfig, context).await?;
            list_live(&connection, now).await
        });
        let listed = listed?;
        let missing: Vec<&str> = listed.missing.iter().map(|kind| &*kind.kind).collect();
        if missing.contains(&"Queue") || missing.contains(&"PodGroup") {
            bail!(
                "the cluster has no queues or pod groups of scheduling.run.ai: is KAI-Scheduler installed?"
            );
        }
        if !missing.is_empty() {
            out.print_to_stderr(&format!("the server does not have: {}", missing.join(", ")));
        }
        let name = Connection::context_name(kubeconfig, context);
        Ok((listed.captured, name.replace(['/', ':', '@'], "-")))
    }
}

fn write_file(
    path: &Path,
    captured: &CapturedObjects,
    options: &CaptureOptions,
) -> anyhow::Result<CaptureSummary> {
    signals::defer_signals()?;
    let pending = PendingFile::for_target(path, false);
    let mut file = pending.create()?;
    let summary = take(captured, options, &mut file)?;
    signals::check()?;
    file.finish().with_context(|| format!("cannot write {}", path.display()))?;
    pending.publish()?;
    Ok(summary)
}

fn print_summary(out: &mut Printer, path: &Path, summary: &CaptureSummary) {
    let target = if path == Path::new("-") { String::new() } else { format!(" to {}", path.display()) };
    let count = group_digits(summary.written.count);
    out.print_to_stderr(&format!("{count} objects written{target}, as of {}", summary.time));
    if !summary.written.added.is_empty() {
        let added = summary.written.added.join(", ");
        out.print_to_stderr(&format!("added, because KAI's snapshot-tool needs it: {added}"));
    }
    let left_out: Vec<String> =
        summary.written.left_out.iter().map(|(what, count)| count_text(count, what)).collect();
    if !left_out.is_empty() {
        out.print_to_stderr(&format!("skipped: {}", left_out.join(", ")));
    }
}

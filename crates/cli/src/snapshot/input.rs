//! The arguments that name a snapshot: a file, or a moment of a history; and those that change how it is run.

use std::path::{Path, PathBuf};

use anyhow::bail;
use formats::Input;
use formats::kai_snapshot::Partition;
use jiff::tz::TimeZone;
use kai::Action;
use model::{Moment, TimeParser};
use query::OpenHistory;
use snapshot::{GeneratorChoice, HistoryMoment, RunOptions, SchedulerSnapshot, SettingOverride};

use crate::history_arg;
use crate::input_files::open_file;
use crate::output::Printer;

/// The moment of a history that is the snapshot.
#[derive(clap::Args)]
pub(super) struct HistoryArgs {
    /// History to read [default, without FILE: $KINESCOPE_HISTORY, else the only .kine file in the current directory]
    #[arg(long, value_name = "FILE")]
    pub(super) history: Option<PathBuf>,
    /// Source to read; required if the history has several
    #[arg(long, value_name = "NAME")]
    pub(super) source: Option<String>,
    /// Nodes, queues and pod groups with this label, or without it if no value is given [default: as recorded]
    #[arg(long, value_name = "KEY[=VALUE]")]
    pub(super) partition: Option<Partition>,
}

/// How a snapshot is run.
#[derive(clap::Args)]
pub(super) struct CycleArgs {
    /// Actions to run, in this order [default: as configured]
    #[arg(long, value_name = "ACTIONS", value_delimiter = ',', value_parser = parse_action)]
    actions: Vec<Action>,
    /// Change a setting, queue or pod group; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    overrides: Vec<SettingOverride>,
    /// Time of the scheduler's clock [default: when the snapshot was taken]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    now: Option<String>,
}

/// The values of --set, for the help of commands that have it.
pub(super) const PATHS_HELP: &str = "\
Values of PATH:
  queue/NAME.gpu.quota          also limit, overQuotaWeight; also cpu, in
                                millicores, and memory, in MB; -1 is unlimited
  queue/NAME.priority           also parentQueue, preemptMinRuntime,
                                reclaimMinRuntime
  podgroup/[NS/]NAME.minMember  also minSubGroup, priorityClassName, queue,
                                preemptibility
  params.NAME                   of schedulerParams: fullHierarchyFairness, ...
  plugin/NAME.ARGUMENT          plugin/proportion.kValue, ...
  config.queueDepthPerAction.ACTION";

/// Reads the snapshot in a file, or at a moment of a history.
pub(super) fn read(
    file: Option<&Path>,
    at: Option<&str>,
    args: &HistoryArgs,
) -> anyhow::Result<SchedulerSnapshot> {
    match file {
        Some(path) => {
            let given = [
                (args.history.is_some(), "--history"),
                (args.source.is_some(), "--source"),
                (args.partition.is_some(), "--partition"),
                (at.is_some(), "--at"),
            ];
            if let Some((_, option)) = given.iter().find(|(is_given, _)| *is_given) {
                bail!("{option} is for histories: omit it, or the file {}", path.display());
            }
            read_file(path, GeneratorChoice::AsInItsRelease)
        }
        None => {
            let open_history = history_arg::open(args.history.as_deref())?;
            let moment = open_history.moment(at)?;
            read_moment(&open_history, moment, args)
        }
    }
}

/// Reads a file, or, where there is none of this name, the moment of the history that it stands for.
pub(super) fn read_file_or_moment(text: &str, args: &HistoryArgs) -> anyhow::Result<SchedulerSnapshot> {
    let path = Path::new(text);
    if args.history.is_none() {
        return read_file(path, GeneratorChoice::AsInItsRelease);
    }
    let open_history = history_arg::open(args.history.as_deref())?;
    let moment = open_history.moment(Some(text));
    match moment {
        Ok(moment) => read_moment(&open_history, moment, args),
        Err(_) if path.exists() => read_file(path, GeneratorChoice::AsInItsRelease),
        Err(error) => Err(error),
    }
}

/// Reads the snapshot in a file; `-` for standard input.
pub(super) fn read_file(path: &Path, generators: GeneratorChoice) -> anyhow::Result<SchedulerSnapshot> {
    let (name, file) = open_file(path)?;
    SchedulerSnapshot::read(Input::open(&name, file)?, generators)
}

fn read_moment(
    open_history: &OpenHistory,
    moment: Moment,
    args: &HistoryArgs,
) -> anyhow::Result<SchedulerSnapshot> {
    let (source, partition) = (args.source.as_deref(), args.partition.as_ref());
    SchedulerSnapshot::at(&HistoryMoment { open_history, moment, source, partition })
}

/// Prints what is noteworthy about a snapshot.
pub(super) fn print_warnings(out: &mut Printer, warnings: &[String]) {
    for warning in warnings {
        out.print_to_stderr(&format!("warning: {warning}"));
    }
}

// === impl CycleArgs ===

impl CycleArgs {
    pub(super) fn options(&self, cycles: u32) -> RunOptions {
        RunOptions {
            actions: (!self.actions.is_empty()).then(|| self.actions.clone()),
            overrides: self.overrides.clone(),
            cycles,
        }
    }

    /// The snapshot at the time given.
    pub(super) fn at_now(&self, snapshot: SchedulerSnapshot) -> anyhow::Result<SchedulerSnapshot> {
        let Some(text) = &self.now else { return Ok(snapshot) };
        let times = TimeParser { start: snapshot.time, end: snapshot.time, zone: TimeZone::system() };
        let now = times.parse(text)?;
        Ok(snapshot.at_time(Some(now)))
    }
}

fn parse_action(text: &str) -> anyhow::Result<Action> {
    let names = Action::ALL.map(Action::name);
    match Action::ALL.into_iter().find(|action| action.name() == text.trim()) {
        Some(action) => Ok(action),
        None => match query::similar(text, &names) {
            Some(similar) => bail!("unknown action {text:?}: did you mean {similar}?"),
            None => bail!("unknown action {text:?}: expected some of {}", names.join(", ")),
        },
    }
}

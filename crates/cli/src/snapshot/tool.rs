//! `kinescope snapshot-tool`, and the program under the name `snapshot-tool`: the arguments and the output of KAI's
//! tool of that name.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Map, json};
use snapshot::{GeneratorChoice, ToolEvent, tool_log};

use super::input::read_file;
use crate::Outcome;
use crate::output::Printer;

/// The name under which the program answers as KAI's tool.
const NAME: &str = "snapshot-tool";
/// Its flags.
const FLAGS: [&str; 4] = ["filename", "verbosity", "cpuprofile", "memprofile"];

const USAGE: &str = "\
Usage of snapshot-tool:
  -cpuprofile string
    \tPath to write the CPU profile
  -filename string
    \tPath to the snapshot file
  -memprofile string
    \tPath to write the memory profile
  -verbosity int
    \tLogging verbosity (default 4)";

const AFTER: &str = "\
Answers as the snapshot-tool of KAI-Scheduler: runs one cycle on the snapshot, logs it to standard error, and prints a \
summary with the durations. It also does so when the program is started under the name snapshot-tool. The clock is that of the snapshot.

Examples:
  kinescope snapshot-tool --filename snapshot.zip
  kinescope snapshot-tool -filename snapshot.zip -verbosity 3
  ln -s $(which kinescope) snapshot-tool && ./snapshot-tool --filename snapshot.zip";

/// Run a snapshot as KAI-Scheduler's snapshot-tool does
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct SnapshotTool {
    /// Path to the snapshot file
    #[arg(long, value_name = "FILE", default_value = "")]
    filename: OsString,
    /// Logging verbosity
    #[arg(long, value_name = "LEVEL", default_value_t = 4, allow_negative_numbers = true)]
    verbosity: i64,
    /// Accepted, and not written
    #[arg(long, value_name = "FILE")]
    cpuprofile: Option<PathBuf>,
    /// Accepted, and not written
    #[arg(long, value_name = "FILE")]
    memprofile: Option<PathBuf>,
}

/// The arguments of the program with those of KAI's tool in clap's form: flags may have one dash, and the subcommand is
/// implied by the program's name.
pub(crate) fn arguments(given: Vec<OsString>) -> Vec<OsString> {
    let name = given.first().and_then(|name| Path::new(name).file_stem()).unwrap_or_default();
    let is_tool = name == NAME;
    if !is_tool && given.get(1).is_none_or(|command| command != NAME) {
        return given;
    }
    let with_dashes = |argument: OsString| {
        let flag = argument.to_str().and_then(|text| text.strip_prefix('-'));
        let name = flag.map(|flag| flag.split('=').next().unwrap_or_default());
        match name.is_some_and(|name| FLAGS.contains(&name) || name == "help") {
            true => {
                let mut long = OsString::from("-");
                long.push(argument);
                long
            }
            false => argument,
        }
    };
    let mut given = given.into_iter();
    let own_name = given.next();
    let mut arguments = match is_tool {
        true => vec!["kinescope".into(), NAME.into()],
        false => Vec::from_iter(own_name),
    };
    arguments.extend(given.map(with_dashes));
    arguments
}

impl SnapshotTool {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        if self.filename.is_empty() {
            out.print_to_stderr(USAGE);
            return Ok(Outcome::Done);
        }
        for (flag, is_given) in
            [("cpuprofile", self.cpuprofile.is_some()), ("memprofile", self.memprofile.is_some())]
        {
            if is_given {
                out.print_to_stderr(&format!("-{flag}: profiles are not written"));
            }
        }
        let start = Instant::now();
        let snapshot = read_file(Path::new(&self.filename), GeneratorChoice::AsListed)?;
        let mut durations = Map::new();
        let mut action_start = start;
        tool_log(&snapshot, |event| match event {
            ToolEvent::Line(line) => {
                if i64::from(line.level) <= self.verbosity {
                    out.print_to_stderr(&line.message);
                }
            }
            ToolEvent::Started(_) => action_start = Instant::now(),
            ToolEvent::Ended(action) => {
                let elapsed = action_start.elapsed().as_millis() as u64;
                durations.insert(action.to_owned(), json!(elapsed));
            }
        })?;
        let total = start.elapsed().as_millis() as u64;
        let summary = json!({"total_duration_ms": total, "action_durations_ms": durations});
        writeln!(out, "{summary:#}")?;
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &[&str], expected: &[&str]) {
        let owned = |texts: &[&str]| texts.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(arguments(owned(given)), owned(expected));
    }

    #[test]
    fn flags_may_have_one_dash_and_the_name_implies_the_command() {
        check(&["kinescope", "get", "-filename"], &["kinescope", "get", "-filename"]);
        check(
            &["/bin/snapshot-tool", "-filename=a.zip", "-verbosity", "-1"],
            &["kinescope", "snapshot-tool", "--filename=a.zip", "--verbosity", "-1"],
        );
        check(
            &["kinescope", "snapshot-tool", "--filename", "-a.zip"],
            &["kinescope", "snapshot-tool", "--filename", "-a.zip"],
        );
    }
}

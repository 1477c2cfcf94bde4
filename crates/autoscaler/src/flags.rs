//! Parsing of cluster-autoscaler's flags from a command line, a document or a Deployment.

mod definitions;
mod deployment;
mod document;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::settings::{Settings, Version};
use definitions::{Flag, FlagAvailability};

pub use deployment::DeployedAutoscaler;

/// An error in a flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid autoscaler flag {flag}: {why}")]
pub struct BadFlags {
    /// The flag: `--cores-total=8`.
    pub flag: String,
    /// What is wrong and what would be right.
    pub why: String,
}

/// The size limits of a node group, from `--nodes=min:max:name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSize {
    /// Its name, or the cloud provider's ID of it.
    pub name: Arc<str>,
    /// Its minimum size.
    pub min: i64,
    /// Its maximum size.
    pub max: i64,
}

// === impl Settings ===

impl Settings {
    /// The settings of an autoscaler of that version with these flags, in Go's notation: `--name=value`, `--name
    /// value`, `--switch`. Positional arguments and the program name are ignored.
    ///
    /// Flags that define node groups (`nodes`, `node-group-auto-discovery`) are checked, but not kept: groups are
    /// configured elsewhere.
    pub fn from_flags(version: Version, arguments: &[String]) -> Result<Settings, BadFlags> {
        let mut parser = FlagParser::new(version);
        // The default of the stock program, which is built with all cloud providers.
        parser.settings.cloud_provider = Arc::from("gce");
        parse_command_line(arguments, PositionalArguments::Ignored, |name, value| {
            parser.set_flag(name, value)
        })?;
        parser.finish()
    }

    /// The same settings with further flags, which override earlier ones.
    pub fn with_flags(self, arguments: &[String]) -> Result<Settings, BadFlags> {
        let mut parser = FlagParser { settings: self, given: BTreeSet::new() };
        parse_command_line(arguments, PositionalArguments::Refused, |name, value| {
            parser.set_flag(name, value)
        })?;
        parser.finish()
    }
}

/// The group sizes in the `--nodes` flags of a command line; malformed ones are ignored.
pub(super) fn group_sizes(arguments: &[String]) -> Vec<GroupSize> {
    let mut sizes = Vec::new();
    // Of an invalid command line the sizes before the error are used.
    let _ = parse_command_line(arguments, PositionalArguments::Ignored, |name, value| {
        if name == "nodes" {
            sizes.extend(value.and_then(|value| values::parse_group_size(value).ok()));
        }
        let flag = definitions::find(name).map(|(_, flag)| flag);
        Ok(if value.is_none() && flag.is_some_and(|flag| !flag.is_bool()) {
            NextArgument::Value
        } else {
            NextArgument::Flag
        })
    });
    sizes
}

/// Settings while flags are parsed.
struct FlagParser {
    settings: Settings,
    /// The flags given so far.
    given: BTreeSet<&'static str>,
}

/// The treatment of positional arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PositionalArguments {
    /// They are ignored, as in cluster-autoscaler.
    Ignored,
    /// They are an error, because they are likely a mistake.
    Refused,
}

/// What follows a flag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextArgument {
    /// Another flag: its value is complete.
    Flag,
    /// Its value, in the next argument.
    Value,
}

/// Parses arguments as pflag does. `take` is called with the name of each flag, underscores replaced by dashes, and its
/// value if given with `=`; if it returns that a value follows, it is called again with the next argument.
fn parse_command_line(
    arguments: &[String],
    positional: PositionalArguments,
    mut take: impl FnMut(&str, Option<&str>) -> Result<NextArgument, BadFlags>,
) -> Result<(), BadFlags> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let bad_flags = |reason: &str| BadFlags { flag: argument.clone(), why: reason.to_owned() };
        let (name, value) = match argument.strip_prefix("--") {
            Some("") => break,
            Some(flag) => match flag.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (flag, None),
            },
            None => match argument.strip_prefix('-') {
                None | Some("") if positional == PositionalArguments::Ignored => continue,
                None | Some("") => return Err(bad_flags("not a flag: expected --name=value")),
                Some(short_flags) => match short_flags.strip_prefix('v') {
                    Some("") => ("v", None),
                    Some(value) => ("v", Some(value.strip_prefix('=').unwrap_or(value))),
                    None => return Err(bad_flags("a single dash is for one-letter flags: use --")),
                },
            },
        };
        if name.is_empty() || name.starts_with('-') {
            return Err(bad_flags("expected --name=value"));
        }
        let name = name.replace('_', "-");
        if take(&name, value)? == NextArgument::Value {
            let value = arguments.next().ok_or_else(|| bad_flags("value required"))?;
            take(&name, Some(value))?;
        }
    }
    Ok(())
}

// === impl FlagParser ===

impl FlagParser {
    fn new(version: Version) -> FlagParser {
        FlagParser { settings: Settings::for_version(version), given: BTreeSet::new() }
    }

    fn set_flag(&mut self, name: &str, value: Option<&str>) -> Result<NextArgument, BadFlags> {
        let bad_flags = |reason: String| {
            let value = value.map(|value| format!("={value}")).unwrap_or_default();
            BadFlags { flag: format!("--{name}{value}"), why: reason }
        };
        let (name, flag) = definitions::find(name).ok_or_else(|| bad_flags("unknown flag".to_owned()))?;
        let version = self.settings.version;
        match definitions::availability(name, version) {
            FlagAvailability::Available => {}
            FlagAvailability::AddedIn(since) => {
                return Err(bad_flags(format!(
                    "not supported by cluster-autoscaler {version}: added in {since}"
                )));
            }
            FlagAvailability::RemovedIn(removed_in) => {
                return Err(bad_flags(format!(
                    "not supported by cluster-autoscaler {version}: removed in {removed_in}"
                )));
            }
        }
        let value = match value {
            Some(value) => value,
            None if flag.is_bool() => "true",
            None => return Ok(NextArgument::Value),
        };
        flag.set(name, value, &mut self.settings).map_err(bad_flags)?;
        self.given.insert(name);
        Ok(NextArgument::Flag)
    }

    fn finish(mut self) -> Result<Settings, BadFlags> {
        let bad_flags = |flag: &str, reason: String| Err(BadFlags { flag: format!("--{flag}"), why: reason });
        if self.given.contains("drain-priority-config") && self.given.contains("max-graceful-termination-sec")
        {
            return bad_flags(
                "drain-priority-config",
                "cannot be used with --max-graceful-termination-sec".to_owned(),
            );
        }
        let settings = &mut self.settings;
        for names in [&mut settings.bypassed_scheduler_names, &mut settings.allowed_scheduler_names] {
            names.sort();
            names.dedup();
        }
        let allowed = &settings.allowed_scheduler_names;
        let missing = settings.bypassed_scheduler_names.iter().find(|name| !allowed.contains(name));
        if let Some(name) = missing.filter(|_| !allowed.is_empty()) {
            return bad_flags(
                "bypassed-scheduler-names",
                format!("{name} is not in --allowed-scheduler-names"),
            );
        }
        Ok(self.settings)
    }
}

// === impl Flag ===

impl Flag {
    fn is_bool(&self) -> bool {
        matches!(self.flag_type(), definitions::FlagType::Bool)
    }

    /// Sets a value; the error is the reason why it is invalid.
    fn set(&self, name: &str, value: &str, settings: &mut Settings) -> Result<(), String> {
        match self {
            Flag::Bool(field) => *field(settings) = values::parse_bool(value)?,
            Flag::Int(field) => *field(settings) = values::parse_int(value)?,
            Flag::Float(field) => *field(settings) = values::parse_float(value)?,
            Flag::Duration(field) => *field(settings) = values::parse_duration(value)?,
            Flag::String(field) => *field(settings) = value.into(),
            Flag::StringArray(field) => field(settings).push(value.into()),
            Flag::StringSlice(field) => field(settings).extend(values::parse_string_slice(value)?),
            Flag::Custom(_, parse) => parse(settings, value)?,
            Flag::NoEffect(flag_type) => flag_type.check(value)?,
            Flag::Unsupported { flag_type, default: default_value, why } => {
                flag_type.check(value)?;
                let message = format!("--{name}={value}: {why}");
                settings.unsupported.retain(|other| !other.starts_with(&format!("--{name}=")));
                if value != *default_value && !flag_type.is_same(value, default_value) {
                    settings.unsupported.push(message);
                }
            }
        }
        Ok(())
    }
}

//! What a cluster-autoscaler's command line says, whether it stands in a Deployment, in a document or in a shell.

mod deployment;
mod document;
mod known;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::settings::{Settings, Version};
use known::{Flag, Life};

pub use deployment::Running;

/// What is wrong with a flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad autoscaler flag {flag}: {why}")]
pub struct BadFlags {
    /// Which: `--cores-total=8`.
    pub flag: String,
    /// What is wrong with it and what would be right.
    pub why: String,
}

/// How large a node group may be, as `--nodes=min:max:name` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSize {
    /// Its name, or what the cloud takes for it.
    pub name: Arc<str>,
    /// The fewest nodes it may have.
    pub min: i64,
    /// The most nodes it may have.
    pub max: i64,
}

// === impl Settings ===

impl Settings {
    /// What an autoscaler of that version does with these flags, written as Go's programs take them: `--name=value`,
    /// `--name value`, `--switch`. What is no flag does not count, the name of the program neither.
    ///
    /// Flags that say which node groups there are (`nodes`, `node-group-auto-discovery`) are checked, not kept:
    /// groups come from elsewhere.
    pub fn from_flags(version: Version, arguments: &[String]) -> Result<Settings, BadFlags> {
        let mut reading = Reading::new(version);
        // What the stock program, which knows every cloud, takes.
        reading.settings.cloud_provider = Arc::from("gce");
        command_line(arguments, Strays::AreIgnored, |name, value| reading.take(name, value))?;
        reading.finish()
    }

    /// The same with further flags, which count more than those before.
    pub fn with_flags(self, arguments: &[String]) -> Result<Settings, BadFlags> {
        let mut reading = Reading { settings: self, given: BTreeSet::new() };
        command_line(arguments, Strays::AreRefused, |name, value| reading.take(name, value))?;
        reading.finish()
    }
}

/// The sizes of node groups that a command line names; those of which it says less do not count.
pub(super) fn sizes(arguments: &[String]) -> Vec<GroupSize> {
    let mut sizes = Vec::new();
    // A line that breaks off has named what it names.
    let _ = command_line(arguments, Strays::AreIgnored, |name, value| {
        if name == "nodes" {
            sizes.extend(value.and_then(|value| values::group_size(value).ok()));
        }
        let flag = known::find(name).map(|(_, flag)| flag);
        Ok(if value.is_none() && flag.is_some_and(|flag| !flag.is_switch()) {
            Next::Value
        } else {
            Next::Flag
        })
    });
    sizes
}

/// Settings while flags are read.
struct Reading {
    settings: Settings,
    /// Which were given.
    given: BTreeSet<&'static str>,
}

/// What becomes of words that are no flags.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strays {
    /// They do not count, as with the original.
    AreIgnored,
    /// Whoever wrote them meant something.
    AreRefused,
}

/// What a flag wants to see next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Another flag: it has what it needs.
    Flag,
    /// The next argument, whatever it is.
    Value,
}

/// Goes through arguments as pflag does. `take` gets the name of each flag, a dash for each underscore, with its value
/// if it stands there; if it asks for one it is called again with the next argument.
fn command_line(
    arguments: &[String],
    strays: Strays,
    mut take: impl FnMut(&str, Option<&str>) -> Result<Next, BadFlags>,
) -> Result<(), BadFlags> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let bad = |why: &str| BadFlags { flag: argument.clone(), why: why.to_owned() };
        let (name, value) = match argument.strip_prefix("--") {
            Some("") => break,
            Some(flag) => match flag.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (flag, None),
            },
            None => match argument.strip_prefix('-') {
                None | Some("") if strays == Strays::AreIgnored => continue,
                None | Some("") => return Err(bad("it is no flag: give --name=value")),
                Some(letters) => match letters.strip_prefix('v') {
                    Some("") => ("v", None),
                    Some(value) => ("v", Some(value.strip_prefix('=').unwrap_or(value))),
                    None => return Err(bad("one dash is for flags of one letter: give two")),
                },
            },
        };
        if name.is_empty() || name.starts_with('-') {
            return Err(bad("this is not how a flag is written: give --name=value"));
        }
        let name = name.replace('_', "-");
        if take(&name, value)? == Next::Value {
            let value = arguments.next().ok_or_else(|| bad("it needs a value"))?;
            take(&name, Some(value))?;
        }
    }
    Ok(())
}

// === impl Reading ===

impl Reading {
    fn new(version: Version) -> Reading {
        Reading { settings: Settings::for_version(version), given: BTreeSet::new() }
    }

    fn take(&mut self, name: &str, value: Option<&str>) -> Result<Next, BadFlags> {
        let bad = |why: String| {
            let value = value.map(|value| format!("={value}")).unwrap_or_default();
            BadFlags { flag: format!("--{name}{value}"), why }
        };
        let (name, flag) = known::find(name).ok_or_else(|| bad("there is no such flag".to_owned()))?;
        let version = self.settings.version;
        match known::life(name, version) {
            Life::Now => {}
            Life::Later(since) => {
                return Err(bad(format!(
                    "cluster-autoscaler {version} does not know it: it came with {since}"
                )));
            }
            Life::Before(gone) => {
                return Err(bad(format!(
                    "cluster-autoscaler {version} does not know it: it went with {gone}"
                )));
            }
        }
        let value = match value {
            Some(value) => value,
            None if flag.is_switch() => "true",
            None => return Ok(Next::Value),
        };
        flag.set(name, value, &mut self.settings).map_err(bad)?;
        self.given.insert(name);
        Ok(Next::Flag)
    }

    fn finish(mut self) -> Result<Settings, BadFlags> {
        let bad = |flag: &str, why: String| Err(BadFlags { flag: format!("--{flag}"), why });
        if self.given.contains("drain-priority-config") && self.given.contains("max-graceful-termination-sec")
        {
            return bad("drain-priority-config", "it excludes --max-graceful-termination-sec".to_owned());
        }
        let settings = &mut self.settings;
        for names in [&mut settings.bypassed_scheduler_names, &mut settings.allowed_scheduler_names] {
            names.sort();
            names.dedup();
        }
        let allowed = &settings.allowed_scheduler_names;
        let stray = settings.bypassed_scheduler_names.iter().find(|name| !allowed.contains(name));
        if let Some(name) = stray.filter(|_| !allowed.is_empty()) {
            return bad(
                "bypassed-scheduler-names",
                format!("--allowed-scheduler-names does not have {name}"),
            );
        }
        Ok(self.settings)
    }
}

// === impl Flag ===

impl Flag {
    fn is_switch(&self) -> bool {
        matches!(self.shape(), known::Shape::Switch)
    }

    /// Takes a value; the reason if it takes no such value.
    fn set(&self, name: &str, value: &str, settings: &mut Settings) -> Result<(), String> {
        match self {
            Flag::Switch(field) => *field(settings) = values::switch(value)?,
            Flag::Count(field) => *field(settings) = values::count(value)?,
            Flag::Share(field) => *field(settings) = values::share(value)?,
            Flag::Span(field) => *field(settings) = values::span(value)?,
            Flag::Text(field) => *field(settings) = value.into(),
            Flag::Each(field) => field(settings).push(value.into()),
            Flag::Names(field) => field(settings).extend(values::names(value)?),
            Flag::Own(_, read) => read(settings, value)?,
            Flag::Idle(shape) => shape.check(value)?,
            Flag::LeftOut { shape, usual, why } => {
                shape.check(value)?;
                let told = format!("--{name}={value}: {why}");
                settings.left_out.retain(|other| !other.starts_with(&format!("--{name}=")));
                if value != *usual && !shape.is_same(value, usual) {
                    settings.left_out.push(told);
                }
            }
        }
        Ok(())
    }
}

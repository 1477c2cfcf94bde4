//! Which autoscaler decides: its node groups, its version, how it is set, and who says so.

mod others;
mod play;
mod pod;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use history::Selection;
use model::{Kind, Object};
use sim::autoscaler::{
    Derived, Expander, Loop, NodeGroup, NodeGroups, Pricing, Settings, ToldBy, Version, derive,
};

pub(super) use self::play::{Played, play};
pub(super) use self::pod::{Outcome, PodSeen, Search, Triggered};
use super::state::{self, AsOf};
use crate::cli::output::Out;
use crate::look::Chosen;

/// What a user says of an autoscaler.
pub(super) struct Asked<'a> {
    pub(super) node_groups: Option<&'a Path>,
    pub(super) flags: Option<&'a str>,
    pub(super) version: Option<Version>,
}

/// An autoscaler and its node groups.
pub(super) struct Setup {
    pub(super) settings: Settings,
    pub(super) groups: Vec<NodeGroup>,
    pub(super) pricing: Option<Pricing>,
    pub(super) gpu_label: Arc<str>,
    /// Who says which groups there are.
    pub(super) groups_by: GroupsBy,
    /// Who says how it is set.
    pub(super) settings_by: SettingsBy,
    /// Flags of the user on top of that.
    pub(super) flags: Option<String>,
    /// What was taken for granted.
    pub(super) assumed: Vec<String>,
    /// What of it does not do what it seems to.
    doubts: Vec<String>,
}

/// Who says which groups there are.
pub(super) enum GroupsBy {
    /// Nobody: there are none.
    Nobody,
    /// This file.
    File(String),
    /// The history, by such objects.
    History(ToldBy),
}

/// Who says how an autoscaler is set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingsBy {
    /// Nobody: it has its defaults.
    Nobody,
    /// The file of node groups.
    File,
    /// The history, by the Deployment that runs it.
    History,
}

const PRICELESS: &str = "give `pricing`, and the `price` of every group, in --node-groups FILE";

/// The kinds that tell of node groups, by group and kind.
const TELLING: [(&str, &str); 7] = [
    ("", "Node"),
    ("", "ConfigMap"),
    ("apps", "Deployment"),
    ("machine.sapcloud.io", "MachineDeployment"),
    ("machine.sapcloud.io", "MachineClass"),
    ("extensions.gardener.cloud", "Worker"),
    ("karpenter.sh", "NodePool"),
];

// === impl Asked ===

impl Asked<'_> {
    /// Whether the user says anything of an autoscaler.
    pub(super) fn is_something(&self) -> bool {
        self.node_groups.is_some() || self.flags.is_some() || self.version.is_some()
    }
}

// === impl Setup ===

impl Setup {
    /// The autoscaler as a file says, else as the history says at a moment, with the user's flags on top.
    pub(super) fn choose(
        chosen: &Chosen,
        source: &Arc<str>,
        as_of: AsOf,
        asked: &Asked<'_>,
    ) -> anyhow::Result<Setup> {
        let file = asked.node_groups.map(read).transpose()?;
        let objects = telling(chosen, source, as_of)?;
        let mut setup = match file {
            Some((name, file)) => Setup::of_file(name, file, &objects),
            None => Setup::of_history(derive(objects.iter())),
        };
        if let Some(version) = asked.version {
            setup.settings = setup.settings.for_other_version(version);
        }
        if let Some(flags) = asked.flags {
            setup.add(flags).context("--autoscaler-flags")?;
        }
        if setup.lacks_prices() {
            setup.doubts.push(format!("--expander=price chooses no group without prices: {PRICELESS}"));
        }
        Ok(setup)
    }

    /// Puts flags on top.
    fn add(&mut self, flags: &str) -> anyhow::Result<()> {
        let words = words(flags)?;
        let lacked_prices = self.lacks_prices();
        self.settings = std::mem::take(&mut self.settings).with_flags(&words)?;
        if self.lacks_prices() && !lacked_prices {
            bail!("--expander=price needs prices: {PRICELESS}");
        }
        for flag in ["--nodes", "--node-group-auto-discovery"] {
            let is_it = |word: &String| word.replace('_', "-").split('=').next() == Some(flag);
            if words.iter().any(is_it) {
                let words = "does not count: say with --node-groups FILE which groups there are";
                self.doubts.push(format!("{flag} of --autoscaler-flags {words}"));
            }
        }
        self.flags = Some(flags.to_owned());
        Ok(())
    }

    fn of_file(name: String, file: NodeGroups, objects: &[Object]) -> Setup {
        let mut derived = derive(objects.iter().filter(|object| object.meta().kind == "Deployment"));
        // It ends with what is said of groups, and these come from the file.
        derived.assumed.pop();
        let (settings, settings_by) = match (file.settings, derived.settings) {
            (Some(settings), _) => (settings, SettingsBy::File),
            (None, Some(settings)) => (settings, SettingsBy::History),
            (None, None) => (Settings::default(), SettingsBy::Nobody),
        };
        Setup {
            settings,
            groups: file.groups,
            pricing: file.pricing,
            gpu_label: file.gpu_label,
            groups_by: GroupsBy::File(name),
            settings_by,
            flags: None,
            assumed: if settings_by == SettingsBy::File { Vec::new() } else { derived.assumed },
            doubts: Vec::new(),
        }
    }

    fn of_history(derived: Derived) -> Setup {
        let settings_by = match derived.settings {
            Some(_) => SettingsBy::History,
            None => SettingsBy::Nobody,
        };
        Setup {
            settings: derived.settings.unwrap_or_default(),
            groups: derived.groups,
            pricing: None,
            gpu_label: derived.gpu_label,
            groups_by: derived.told_by.map_or(GroupsBy::Nobody, GroupsBy::History),
            settings_by,
            flags: None,
            assumed: derived.assumed,
            doubts: Vec::new(),
        }
    }

    /// Says what of the flags is not simulated, and what does not do what it seems to.
    pub(super) fn warn(&self, out: &mut Out) {
        for sentence in self.settings.left_out.iter().chain(&self.doubts) {
            out.complain(&format!("warning: {sentence}"));
        }
    }

    /// Whether the groups are more than a guess.
    pub(super) fn is_known(&self) -> bool {
        match self.groups_by {
            GroupsBy::Nobody | GroupsBy::History(ToldBy::Nodes) => false,
            GroupsBy::File(_) | GroupsBy::History(_) => true,
        }
    }

    /// Whether it is to choose by prices, and they are not known.
    fn lacks_prices(&self) -> bool {
        let has_prices = self.pricing.is_some() && self.groups.iter().all(|group| group.price.is_some());
        self.settings.expander.contains(&Expander::Price) && !has_prices
    }

    /// That nothing tells of groups, what was looked for, and what to do about it.
    pub(super) fn groupless(&self, chosen: &Chosen, as_of: AsOf) -> String {
        let history = chosen.history.path().display();
        let mut text = format!(
            "nothing in {history} tells of node groups {as_of}: say with --node-groups FILE which there are"
        );
        // The last sentence is that there are none.
        if let [assumed @ .., _] = &self.assumed[..]
            && !assumed.is_empty()
        {
            text += &format!(" ({})", assumed.join("; "));
        }
        text
    }

    /// The group of that name.
    pub(super) fn group(&self, name: &str) -> Option<&NodeGroup> {
        self.groups.iter().find(|group| *group.name == *name)
    }

    /// The groups as they were before the moment asked for: what a history says of targets then does not hold before.
    fn groups_to_watch(&self) -> Vec<NodeGroup> {
        let mut groups = self.groups.clone();
        if !matches!(self.groups_by, GroupsBy::File(_)) {
            groups.iter_mut().for_each(|group| group.target = None);
        }
        groups
    }

    /// Only one version is held against the real one.
    pub(super) fn is_verified(&self) -> bool {
        self.settings.version == Version::V1_36
    }

    /// Whether the number of nodes a group is to have is the number it has: so it is with kwok's provider, whose
    /// status tells it too late.
    fn has_as_many_as_wanted(&self) -> bool {
        &*self.settings.cloud_provider == "kwok" || matches!(self.groups_by, GroupsBy::History(ToldBy::Kwok))
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.settings.version;
        match (self.settings_by, &self.groups_by) {
            (SettingsBy::File, GroupsBy::File(name)) => write!(f, "{version}, set by {name}")?,
            (SettingsBy::History, _) => write!(f, "{version}, set as the history says (its Deployment)")?,
            (SettingsBy::Nobody | SettingsBy::File, _) => write!(f, "defaults of {version}")?,
        }
        if let Some(flags) = &self.flags {
            write!(f, ", with {flags}")?;
        }
        match &self.groups_by {
            GroupsBy::Nobody => f.write_str("; no node groups")?,
            GroupsBy::File(name) => write!(f, "; groups from {name}")?,
            GroupsBy::History(told_by) => write!(f, "; groups from {told_by}")?,
        }
        if !self.is_verified() {
            f.write_str("; the rules of that version are not verified")?;
        }
        Ok(())
    }
}

fn read(path: &Path) -> anyhow::Result<(String, NodeGroups)> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let groups = NodeGroups::parse(&text).with_context(|| name.clone())?;
    Ok((name, groups))
}

/// Why a loop did nothing for anybody.
pub(super) fn why_ended(done: &Loop) -> String {
    match (&done.error, done.healthy) {
        (Some(error), _) => error.clone(),
        // There was not even a search to begin with.
        (None, _) if done.scale_ups.is_empty() => {
            "no node is ready, and --scale-up-from-zero is false".to_owned()
        }
        (None, false) => "too many nodes are not ready".to_owned(),
        (None, true) => "the size of a group is corrected first".to_owned(),
    }
}

/// What tells of node groups as of a moment.
fn telling(chosen: &Chosen, source: &Arc<str>, as_of: AsOf) -> anyhow::Result<Vec<Object>> {
    let kinds = TELLING.iter().map(|(group, kind)| Kind::new(group, kind)).collect();
    let selection = Selection { kinds: Some(kinds), source: Some(source.clone()), ..Selection::default() };
    Ok(state::objects(chosen, &selection, as_of)?.into_values().collect())
}

/// The words of a command line, as a shell takes it apart.
fn words(line: &str) -> anyhow::Result<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let (mut inside, mut quote) = (false, None);
    for letter in line.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == '\'' || letter == '"' => {
                quote = Some(letter);
                if !inside {
                    words.push(String::new());
                }
                inside = true;
            }
            None if letter.is_whitespace() => inside = false,
            _ => {
                if !inside {
                    words.push(String::new());
                }
                inside = true;
                words.last_mut().expect("a word has begun").push(letter);
            }
        }
    }
    if let Some(open) = quote {
        bail!("a {open} is not closed");
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_taken_apart_as_a_shell_does() {
        let check = |line: &str, expected: &[&str]| assert_eq!(words(line).unwrap(), expected, "{line}");
        check("", &[]);
        check(" --a=1  --b 2 ", &["--a=1", "--b", "2"]);
        check("--a='x y' --b=\"it's\" ''", &["--a=x y", "--b=it's", ""]);
        assert!(words("--a='x").is_err());
    }
}

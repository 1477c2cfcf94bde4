//! Which autoscaler decides: its node groups, its version, how it is set, and who says so.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use autoscaler::{Expander, NodeGroup, NodeGroups, Pricing, Settings, Version};
use calibration::{Derived, NodesBy, ReplaySettings, ToldBy, derive};
use history::Selection;
use model::{Kind, Object};
use serde_json::Value;

use super::{AsOf, Chosen, Edit, Root, kept, objects};

/// What a user says of an autoscaler.
#[derive(Clone)]
pub struct Asked<'a> {
    /// The file that names node groups.
    pub node_groups: Option<&'a Path>,
    /// Flags on top of those that are found.
    pub flags: Option<&'a str>,
    /// How a user gives those.
    pub flags_by: &'static str,
    /// Whose rules are to be followed.
    pub version: Option<Version>,
    /// What is set otherwise, of groups and of flags.
    pub edits: &'a [Edit],
}

/// An autoscaler and its node groups.
pub struct Setup {
    /// How it is set.
    pub settings: Settings,
    /// Its groups.
    pub groups: Vec<NodeGroup>,
    /// What pods cost, where the expander wants to know.
    pub pricing: Option<Pricing>,
    /// The label that names the GPU of a node.
    pub gpu_label: Arc<str>,
    /// Who says which groups there are.
    pub groups_by: GroupsBy,
    /// Who says how it is set.
    pub settings_by: SettingsBy,
    /// How it is set, where its Deployment does not say.
    pub document: Value,
    /// The version that was asked for.
    pub other_version: Option<Version>,
    /// Flags on top of all that.
    pub flags: Vec<String>,
    /// What a replay that made the history did about nodes.
    pub nodes_by: Option<NodesBy>,
    /// What was taken for granted.
    pub assumed: Vec<String>,
    /// What of it does not do what it seems to.
    doubts: Vec<String>,
}

/// Who says which groups there are.
pub enum GroupsBy {
    /// Nobody: there are none.
    Nobody,
    /// This file.
    File(String),
    /// The history, by such objects.
    History(ToldBy),
    /// The replay that the history was made by.
    Replay,
}

/// Who says how an autoscaler is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsBy {
    /// Nobody: it has its defaults.
    Nobody,
    /// The file of node groups.
    File,
    /// The history, by the Deployment that runs it.
    History,
    /// The replay that the history was made by.
    Replay,
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
    pub fn is_something(&self) -> bool {
        self.node_groups.is_some() || self.flags.is_some() || self.version.is_some()
    }
}

// === impl Setup ===

impl Setup {
    /// The autoscaler as a file says, else as the history says at a moment, with the user's flags on top.
    pub fn choose(
        chosen: &Chosen,
        source: &Arc<str>,
        as_of: AsOf,
        asked: &Asked<'_>,
    ) -> anyhow::Result<Setup> {
        let objects = telling(chosen, source, as_of)?;
        let kept = kept(chosen, source, as_of.moment())?;
        let mut setup = match (asked.node_groups, kept) {
            (Some(path), _) => {
                let (name, document) = read(path)?;
                Setup::of_document(GroupsBy::File(name), document, asked.edits, &objects)?
            }
            (None, Some(ReplaySettings { nodes, node_groups, .. })) if !node_groups.is_null() => {
                Setup::of_replay(nodes, node_groups, asked.edits, &objects)?
            }
            (None, kept) => {
                let setup = Setup::of_history(derive(objects.iter())).edited(asked.edits)?;
                Setup { nodes_by: kept.map(|kept| kept.nodes), ..setup }
            }
        };
        if let Some(version) = asked.version {
            setup.follow(version);
        }
        if let Some(flags) = asked.flags {
            let flags = words(flags).context(asked.flags_by)?;
            setup.ask(asked.flags_by, &flags).context(asked.flags_by)?;
        }
        let edits = asked.edits.iter().filter(|edit| edit.root == Root::Autoscaler);
        let flags: Vec<String> = edits.map(Edit::flag).collect::<anyhow::Result<_>>()?;
        setup.ask("--set autoscaler", &flags).context("--set autoscaler")?;
        if setup.lacks_prices() {
            setup.doubts.push(format!("--expander=price chooses no group without prices: {PRICELESS}"));
        }
        Ok(setup)
    }

    /// Follows the rules of another version.
    fn follow(&mut self, version: Version) {
        self.settings = std::mem::take(&mut self.settings).for_other_version(version);
        self.other_version = Some(version);
    }

    /// Puts flags of the user on top.
    fn ask(&mut self, by: &str, words: &[String]) -> anyhow::Result<()> {
        let lacked_prices = self.lacks_prices();
        self.add(words)?;
        if self.lacks_prices() && !lacked_prices {
            bail!("--expander=price needs prices: {PRICELESS}");
        }
        for flag in ["--nodes", "--node-group-auto-discovery"] {
            let is_it = |word: &String| word.replace('_', "-").split('=').next() == Some(flag);
            if words.iter().any(is_it) {
                let words = "does not count: say with --node-groups FILE which groups there are";
                self.doubts.push(format!("{flag} of {by} {words}"));
            }
        }
        Ok(())
    }

    /// Puts flags on top.
    fn add(&mut self, words: &[String]) -> anyhow::Result<()> {
        self.settings = std::mem::take(&mut self.settings).with_flags(words)?;
        self.flags.extend_from_slice(words);
        Ok(())
    }

    /// Sets groups otherwise.
    fn edited(mut self, edits: &[Edit]) -> anyhow::Result<Setup> {
        if edits.iter().all(|edit| edit.root != Root::NodeGroups) {
            return Ok(self);
        }
        let mut document = self.groups_document();
        edit_groups(&mut document, edits)?;
        self.groups = NodeGroups::read(&document).context("--set nodeGroups")?.groups;
        Ok(self)
    }

    /// The groups, as `node-groups.yaml` has them.
    pub fn groups_document(&self) -> Value {
        NodeGroups::document(&self.groups, self.pricing, &self.gpu_label)
    }

    /// As a document of node groups says; how its autoscaler is set, the history may say.
    fn of_document(
        groups_by: GroupsBy,
        mut document: Value,
        edits: &[Edit],
        objects: &[Object],
    ) -> anyhow::Result<Setup> {
        edit_groups(&mut document, edits)?;
        let by = match &groups_by {
            GroupsBy::File(name) => name.as_str(),
            GroupsBy::Nobody | GroupsBy::History(_) | GroupsBy::Replay => {
                "the settings of the replay that made the history"
            }
        };
        if document["settings"].is_null()
            && let Value::Object(fields) = &mut document
        {
            fields.remove("settings");
        }
        let file = NodeGroups::read(&document).context(by.to_owned())?;
        let mut derived = derive(objects.iter().filter(|object| object.meta().kind == "Deployment"));
        // It ends with what is said of groups, and these come from the document.
        derived.assumed.pop();
        let (settings, settings_by) = match (file.settings, derived.settings) {
            (Some(settings), _) => (settings, SettingsBy::File),
            (None, Some(settings)) => (settings, SettingsBy::History),
            (None, None) => (Settings::default(), SettingsBy::Nobody),
        };
        Ok(Setup {
            settings,
            groups: file.groups,
            pricing: file.pricing,
            gpu_label: file.gpu_label,
            groups_by,
            settings_by,
            document: document["settings"].take(),
            other_version: None,
            flags: Vec::new(),
            nodes_by: None,
            assumed: if settings_by == SettingsBy::File { Vec::new() } else { derived.assumed },
            doubts: Vec::new(),
        })
    }

    /// As the replay was that made the history.
    fn of_replay(
        nodes: NodesBy,
        mut groups: Value,
        edits: &[Edit],
        objects: &[Object],
    ) -> anyhow::Result<Setup> {
        if let NodesBy::Autoscaler { settings, .. } = &nodes {
            groups["settings"] = settings.clone();
        }
        let mut setup = Setup::of_document(GroupsBy::Replay, groups, edits, objects)?;
        if let NodesBy::Autoscaler { version, flags, .. } = &nodes {
            if let Some(version) = version {
                setup.follow(Version::parse(version)?);
            }
            setup.add(flags).context("the flags of the replay that made the history")?;
            if setup.settings_by == SettingsBy::File {
                setup.settings_by = SettingsBy::Replay;
            }
        }
        Ok(Setup { nodes_by: Some(nodes), ..setup })
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
            document: Value::Null,
            other_version: None,
            flags: Vec::new(),
            nodes_by: None,
            assumed: derived.assumed,
            doubts: Vec::new(),
        }
    }

    /// What of the settings does not do what it seems to.
    pub fn doubts(&self) -> impl Iterator<Item = &String> {
        self.doubts.iter()
    }

    /// What of the flags is not simulated, and what does not do what it seems to.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        self.settings.left_out.iter().chain(&self.doubts)
    }

    /// Whether the groups are more than a guess.
    pub fn is_known(&self) -> bool {
        match self.groups_by {
            GroupsBy::Nobody | GroupsBy::History(ToldBy::Nodes) => false,
            GroupsBy::File(_) | GroupsBy::History(_) | GroupsBy::Replay => true,
        }
    }

    /// Whether it is to choose by prices, and they are not known.
    fn lacks_prices(&self) -> bool {
        let has_prices = self.pricing.is_some() && self.groups.iter().all(|group| group.price.is_some());
        self.settings.expander.contains(&Expander::Price) && !has_prices
    }

    /// That nothing tells of groups, what was looked for, and what to do about it.
    pub fn groupless(&self, chosen: &Chosen, as_of: AsOf) -> String {
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
    pub fn group(&self, name: &str) -> Option<&NodeGroup> {
        self.groups.iter().find(|group| *group.name == *name)
    }

    /// The groups as they were before the moment asked for: what a history says of targets then does not hold before.
    pub fn groups_to_watch(&self) -> Vec<NodeGroup> {
        let mut groups = self.groups.clone();
        if !matches!(self.groups_by, GroupsBy::File(_)) {
            groups.iter_mut().for_each(|group| group.target = None);
        }
        groups
    }

    /// Only one version is held against the real one.
    pub fn is_verified(&self) -> bool {
        self.settings.version == Version::V1_36
    }

    /// Whether the number of nodes a group is to have is the number it has: so it is with kwok's provider, whose
    /// status tells it too late.
    pub fn has_as_many_as_wanted(&self) -> bool {
        &*self.settings.cloud_provider == "kwok" || matches!(self.groups_by, GroupsBy::History(ToldBy::Kwok))
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.settings.version;
        match (self.settings_by, &self.groups_by) {
            (SettingsBy::File, GroupsBy::File(name)) => write!(f, "{version}, set by {name}")?,
            (SettingsBy::History, _) => write!(f, "{version}, set as the history says (its Deployment)")?,
            (SettingsBy::Replay, _) => write!(f, "{version}, set as the replay was that made the history")?,
            (SettingsBy::Nobody | SettingsBy::File, _) => write!(f, "defaults of {version}")?,
        }
        if !self.flags.is_empty() {
            write!(f, ", with {}", self.flags.join(" "))?;
        }
        match &self.groups_by {
            GroupsBy::Nobody => f.write_str("; no node groups")?,
            GroupsBy::File(name) => write!(f, "; groups from {name}")?,
            GroupsBy::History(told_by) => write!(f, "; groups from {told_by}")?,
            GroupsBy::Replay => f.write_str("; groups as that replay had them")?,
        }
        if !self.is_verified() {
            f.write_str("; the rules of that version are not verified")?;
        }
        Ok(())
    }
}

/// A file of node groups, as a tree that has been read once.
fn read(path: &Path) -> anyhow::Result<(String, Value)> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    NodeGroups::parse(&text).with_context(|| name.clone())?;
    let document = formats::manifests::of_yaml(&name, &text)?;
    Ok((name, document))
}

fn edit_groups(document: &mut Value, edits: &[Edit]) -> anyhow::Result<()> {
    for edit in edits.iter().filter(|edit| edit.root == Root::NodeGroups) {
        edit.apply_to_one_of(&mut document["groups"], "node group")?;
    }
    Ok(())
}

/// What tells of node groups as of a moment.
fn telling(chosen: &Chosen, source: &Arc<str>, as_of: AsOf) -> anyhow::Result<Vec<Object>> {
    let kinds = TELLING.iter().map(|(group, kind)| Kind::new(group, kind)).collect();
    let selection = Selection { kinds: Some(kinds), source: Some(source.clone()), ..Selection::default() };
    Ok(objects(chosen, &selection, as_of)?.into_values().collect())
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

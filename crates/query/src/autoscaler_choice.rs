//! The choice of an autoscaler: its node groups, version and settings, and their sources.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use autoscaler::{Expander, NodeGroup, NodeGroups, PodPricing, Settings, Version};
use calibration::{DerivedGroups, NodeGroupsOrigin, NodesDecidedBy, ReplaySettings, derive_node_groups};
use history::Selection;
use model::{Kind, Object};
use serde_json::Value;

use super::{
    AsOf, ConfigEdit, ConfigRoot, OpenHistory, OptionNames, objects_as_of, recorded_replay_settings,
};

/// A user's options for the autoscaler.
#[derive(Clone)]
pub struct AutoscalerOptions<'a> {
    /// A file of node groups.
    pub node_groups: Option<&'a Path>,
    /// Flags that override those found in the file or the history.
    pub flags: Option<&'a str>,
    /// The version to simulate.
    pub version: Option<Version>,
    /// Edits of node groups and flags.
    pub edits: &'a [ConfigEdit],
    /// The names of these options in messages.
    pub names: OptionNames,
}

/// An autoscaler's settings and node groups, and their sources.
pub struct AutoscalerChoice {
    /// The settings.
    pub settings: Settings,
    /// The node groups.
    pub groups: Vec<NodeGroup>,
    /// The prices for the price expander, if known.
    pub pricing: Option<PodPricing>,
    /// The label that names the GPU of a node.
    pub gpu_label: Arc<str>,
    /// The source of the node groups.
    pub groups_source: NodeGroupsSource,
    /// The source of the settings.
    pub settings_source: AutoscalerSettingsSource,
    /// The settings of the file or the replay, if the Deployment's are not used.
    pub settings_document: Value,
    /// The version requested by the user or the replay.
    pub requested_version: Option<Version>,
    /// Overriding flags.
    pub flags: Vec<String>,
    /// The node handling of the replay that produced the history.
    pub replay_nodes: Option<NodesDecidedBy>,
    /// Assumptions made.
    pub assumptions: Vec<String>,
    /// Settings that have no effect, or not the expected one.
    caveats: Vec<String>,
    /// The names of the user's options in messages.
    names: OptionNames,
}

/// The source of node groups.
pub enum NodeGroupsSource {
    /// There are no node groups.
    NoGroups,
    /// A file.
    File(String),
    /// Objects of that kind in the history.
    History(NodeGroupsOrigin),
    /// The replay that produced the history.
    Replay,
}

/// The source of an autoscaler's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoscalerSettingsSource {
    /// cluster-autoscaler's defaults.
    Defaults,
    /// The file of node groups.
    File,
    /// The autoscaler's Deployment in the history.
    History,
    /// The replay that produced the history.
    Replay,
}

/// The kinds from which node groups are derived, by API group and kind.
const NODE_GROUP_KINDS: [(&str, &str); 7] = [
    ("", "Node"),
    ("", "ConfigMap"),
    ("apps", "Deployment"),
    ("machine.sapcloud.io", "MachineDeployment"),
    ("machine.sapcloud.io", "MachineClass"),
    ("extensions.gardener.cloud", "Worker"),
    ("karpenter.sh", "NodePool"),
];

// === impl AutoscalerOptions ===

impl AutoscalerOptions<'_> {
    /// Whether the user set any option.
    pub fn has_any(&self) -> bool {
        self.node_groups.is_some() || self.flags.is_some() || self.version.is_some()
    }
}

// === impl AutoscalerChoice ===

impl AutoscalerChoice {
    /// Takes the node groups from the file, else from the history at a moment; the user's flags override.
    pub fn resolve(
        open_history: &OpenHistory,
        source: &Arc<str>,
        as_of: AsOf,
        options: &AutoscalerOptions<'_>,
    ) -> anyhow::Result<AutoscalerChoice> {
        let objects = node_group_objects(open_history, source, as_of)?;
        let replay_settings = recorded_replay_settings(open_history, source, as_of.moment())?;
        let choice = match (options.node_groups, replay_settings) {
            (Some(path), _) => {
                let (name, document) = read_node_groups_file(path)?;
                AutoscalerChoice::from_document(NodeGroupsSource::File(name), document, options, &objects)?
            }
            (None, Some(ReplaySettings { nodes, node_groups, .. })) if !node_groups.is_null() => {
                AutoscalerChoice::from_replay(nodes, node_groups, options, &objects)?
            }
            (None, replay_settings) => {
                let choice =
                    AutoscalerChoice::from_history(derive_node_groups(objects.iter()), options.names)
                        .with_group_edits(options.edits)?;
                AutoscalerChoice {
                    replay_nodes: replay_settings.map(|replay_settings| replay_settings.nodes),
                    ..choice
                }
            }
        };
        choice.with_options(options)
    }

    /// Takes the node groups and settings from a file, without a history; the user's flags override.
    pub fn from_file(path: &Path, options: &AutoscalerOptions<'_>) -> anyhow::Result<AutoscalerChoice> {
        let (name, document) = read_node_groups_file(path)?;
        AutoscalerChoice::from_document(NodeGroupsSource::File(name), document, options, &[])?
            .with_options(options)
    }

    /// Applies the user's version, flags and edits of flags.
    fn with_options(mut self, options: &AutoscalerOptions<'_>) -> anyhow::Result<AutoscalerChoice> {
        if let Some(version) = options.version {
            self.use_version(version);
        }
        if let Some(flags) = options.flags {
            let by = options.names.autoscaler;
            let flags = split_command_line(flags).context(by)?;
            self.add_user_flags(by, &flags).context(by)?;
        }
        let edits = options.edits.iter().filter(|edit| edit.root == ConfigRoot::Autoscaler);
        let flags: Vec<String> = edits.map(ConfigEdit::flag).collect::<anyhow::Result<_>>()?;
        let by = format!("{} autoscaler", options.names.set);
        self.add_user_flags(&by, &flags).context(by)?;
        if self.lacks_prices() {
            let text =
                format!("--expander=price selects no node group without prices: {}", self.prices_hint());
            self.caveats.push(text);
        }
        Ok(self)
    }

    /// Switches to the rules of another version.
    fn use_version(&mut self, version: Version) {
        self.settings = std::mem::take(&mut self.settings).with_version(version);
        self.requested_version = Some(version);
    }

    /// Applies the user's flags.
    fn add_user_flags(&mut self, by: &str, flags: &[String]) -> anyhow::Result<()> {
        let lacked_prices = self.lacks_prices();
        self.add_flags(flags)?;
        if self.lacks_prices() && !lacked_prices {
            bail!("--expander=price requires prices: {}", self.prices_hint());
        }
        for flag in ["--nodes", "--node-group-auto-discovery"] {
            let is_flag = |argument: &String| argument.replace('_', "-").split('=').next() == Some(flag);
            if flags.iter().any(is_flag) {
                let flags = format!("ignored: specify node groups with {}", self.names.node_groups);
                self.caveats.push(format!("{flag} of {by} is {flags}"));
            }
        }
        Ok(())
    }

    /// Applies flags.
    fn add_flags(&mut self, flags: &[String]) -> anyhow::Result<()> {
        self.settings = std::mem::take(&mut self.settings).with_flags(flags)?;
        self.flags.extend_from_slice(flags);
        Ok(())
    }

    /// Applies edits of node groups.
    fn with_group_edits(mut self, edits: &[ConfigEdit]) -> anyhow::Result<AutoscalerChoice> {
        if edits.iter().all(|edit| edit.root != ConfigRoot::NodeGroups) {
            return Ok(self);
        }
        let mut document = self.groups_document();
        edit_groups(&mut document, edits)?;
        let by = format!("{} nodeGroups", self.names.set);
        self.groups = NodeGroups::read(&document).context(by)?.groups;
        Ok(self)
    }

    /// The node groups in the format of `node-groups.yaml`.
    pub fn groups_document(&self) -> Value {
        NodeGroups::document(&self.groups, self.pricing, &self.gpu_label)
    }

    /// Takes the node groups from a document, and the settings from it or else from the history.
    fn from_document(
        groups_by: NodeGroupsSource,
        mut document: Value,
        options: &AutoscalerOptions<'_>,
        objects: &[Object],
    ) -> anyhow::Result<AutoscalerChoice> {
        edit_groups(&mut document, options.edits)?;
        let by = match &groups_by {
            NodeGroupsSource::File(name) => name.as_str(),
            NodeGroupsSource::NoGroups | NodeGroupsSource::History(_) | NodeGroupsSource::Replay => {
                "the settings of the replay that wrote the history"
            }
        };
        if document["settings"].is_null()
            && let Value::Object(fields) = &mut document
        {
            fields.remove("settings");
        }
        let file = NodeGroups::read(&document).context(by.to_owned())?;
        let mut derived =
            derive_node_groups(objects.iter().filter(|object| object.meta().kind == "Deployment"));
        // The last assumption is about node groups, which come from the document.
        derived.assumptions.pop();
        let (settings, settings_by) = match (file.settings, derived.settings) {
            (Some(settings), _) => (settings, AutoscalerSettingsSource::File),
            (None, Some(settings)) => (settings, AutoscalerSettingsSource::History),
            (None, None) => (Settings::default(), AutoscalerSettingsSource::Defaults),
        };
        Ok(AutoscalerChoice {
            settings,
            groups: file.groups,
            pricing: file.pricing,
            gpu_label: file.gpu_label,
            groups_source: groups_by,
            settings_source: settings_by,
            settings_document: document["settings"].take(),
            requested_version: None,
            flags: Vec::new(),
            replay_nodes: None,
            assumptions: if settings_by == AutoscalerSettingsSource::File {
                Vec::new()
            } else {
                derived.assumptions
            },
            caveats: Vec::new(),
            names: options.names,
        })
    }

    /// Takes node groups and settings from the replay that produced the history.
    fn from_replay(
        nodes: NodesDecidedBy,
        mut groups: Value,
        options: &AutoscalerOptions<'_>,
        objects: &[Object],
    ) -> anyhow::Result<AutoscalerChoice> {
        if let NodesDecidedBy::Autoscaler { settings, .. } = &nodes {
            groups["settings"] = settings.clone();
        }
        let mut setup = AutoscalerChoice::from_document(NodeGroupsSource::Replay, groups, options, objects)?;
        if let NodesDecidedBy::Autoscaler { version, flags, .. } = &nodes {
            if let Some(version) = version {
                setup.use_version(Version::parse(version)?);
            }
            setup
                .add_flags(flags)
                .context("the cluster-autoscaler flags of the replay that wrote the history")?;
            if setup.settings_source == AutoscalerSettingsSource::File {
                setup.settings_source = AutoscalerSettingsSource::Replay;
            }
        }
        Ok(AutoscalerChoice { replay_nodes: Some(nodes), ..setup })
    }

    fn from_history(derived: DerivedGroups, names: OptionNames) -> AutoscalerChoice {
        let settings_by = match derived.settings {
            Some(_) => AutoscalerSettingsSource::History,
            None => AutoscalerSettingsSource::Defaults,
        };
        AutoscalerChoice {
            settings: derived.settings.unwrap_or_default(),
            groups: derived.groups,
            pricing: None,
            gpu_label: derived.gpu_label,
            groups_source: derived.origin.map_or(NodeGroupsSource::NoGroups, NodeGroupsSource::History),
            settings_source: settings_by,
            settings_document: Value::Null,
            requested_version: None,
            flags: Vec::new(),
            replay_nodes: None,
            assumptions: derived.assumptions,
            caveats: Vec::new(),
            names,
        }
    }

    /// Settings that have no effect, or not the expected one.
    pub fn caveats(&self) -> impl Iterator<Item = &String> {
        self.caveats.iter()
    }

    /// Flags that are not simulated, and settings without the expected effect.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        self.settings.unsupported.iter().chain(&self.caveats)
    }

    /// Whether the node groups come from more than the nodes alone.
    pub fn has_known_groups(&self) -> bool {
        match self.groups_source {
            NodeGroupsSource::NoGroups | NodeGroupsSource::History(NodeGroupsOrigin::Nodes) => false,
            NodeGroupsSource::File(_) | NodeGroupsSource::History(_) | NodeGroupsSource::Replay => true,
        }
    }

    /// Whether the price expander is set and prices are missing.
    fn lacks_prices(&self) -> bool {
        let has_prices = self.pricing.is_some() && self.groups.iter().all(|group| group.price.is_some());
        self.settings.expander.contains(&Expander::Price) && !has_prices
    }

    /// Where to specify prices.
    fn prices_hint(&self) -> String {
        format!(
            "set `pricing`, and the `price` of every group, in the file given by {}",
            self.names.node_groups
        )
    }

    /// The message that no node groups were found, with the assumptions made and the remedy.
    pub fn no_groups_message(&self, open_history: &OpenHistory, as_of: AsOf) -> String {
        let history = open_history.history.path().display();
        let option = self.names.node_groups;
        let mut text =
            format!("no node groups found in {history} {as_of}: specify them in a file with {option}");
        // The last assumption is that there are none.
        if let [assumed @ .., _] = &self.assumptions[..]
            && !assumed.is_empty()
        {
            text += &format!(" ({})", assumed.join("; "));
        }
        text
    }

    /// The node group of that name.
    pub fn group(&self, name: &str) -> Option<&NodeGroup> {
        self.groups.iter().find(|group| *group.name == *name)
    }

    /// The node groups before the requested moment: targets that the history shows at that moment do not hold before.
    pub fn groups_without_targets(&self) -> Vec<NodeGroup> {
        let mut groups = self.groups.clone();
        if !matches!(self.groups_source, NodeGroupsSource::File(_)) {
            groups.iter_mut().for_each(|group| group.target = None);
        }
        groups
    }

    /// Whether the version is verified against the real autoscaler; only one is.
    pub fn is_verified(&self) -> bool {
        self.settings.version == Version::V1_36
    }

    /// Whether a group's target is its number of nodes, as with kwok's provider, whose status lags behind.
    pub fn has_targets_equal_to_nodes(&self) -> bool {
        &*self.settings.cloud_provider == "kwok"
            || matches!(self.groups_source, NodeGroupsSource::History(NodeGroupsOrigin::Kwok))
    }
}

impl fmt::Display for AutoscalerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.settings.version;
        match (self.settings_source, &self.groups_source) {
            (AutoscalerSettingsSource::File, NodeGroupsSource::File(name)) => {
                write!(f, "{version}, configured by {name}")?
            }
            (AutoscalerSettingsSource::History, _) => {
                write!(f, "{version}, recorded flags (its Deployment)")?
            }
            (AutoscalerSettingsSource::Replay, _) => {
                write!(f, "{version}, as in the replay that wrote the history")?
            }
            (AutoscalerSettingsSource::Defaults | AutoscalerSettingsSource::File, _) => {
                write!(f, "defaults of {version}")?
            }
        }
        if !self.flags.is_empty() {
            write!(f, ", with {}", self.flags.join(" "))?;
        }
        match &self.groups_source {
            NodeGroupsSource::NoGroups => f.write_str("; no node groups")?,
            NodeGroupsSource::File(name) => write!(f, "; groups from {name}")?,
            NodeGroupsSource::History(told_by) => write!(f, "; groups from {told_by}")?,
            NodeGroupsSource::Replay => f.write_str("; groups as in that replay")?,
        }
        if !self.is_verified() {
            f.write_str("; this version is not verified")?;
        }
        Ok(())
    }
}

/// Reads and validates a file of node groups.
fn read_node_groups_file(path: &Path) -> anyhow::Result<(String, Value)> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    NodeGroups::parse(&text).with_context(|| name.clone())?;
    let document = formats::manifests::parse_yaml(&name, &text)?;
    Ok((name, document))
}

fn edit_groups(document: &mut Value, edits: &[ConfigEdit]) -> anyhow::Result<()> {
    for edit in edits.iter().filter(|edit| edit.root == ConfigRoot::NodeGroups) {
        edit.apply_to_member(&mut document["groups"], "node group")?;
    }
    Ok(())
}

/// The objects from which node groups are derived, as of a moment.
fn node_group_objects(
    open_history: &OpenHistory,
    source: &Arc<str>,
    as_of: AsOf,
) -> anyhow::Result<Vec<Object>> {
    let kinds = NODE_GROUP_KINDS.iter().map(|(group, kind)| Kind::new(group, kind)).collect();
    let selection = Selection { kinds: Some(kinds), source: Some(source.clone()), ..Selection::default() };
    Ok(objects_as_of(open_history, &selection, as_of)?.into_values().collect())
}

/// Splits a command line into words, as a shell does.
fn split_command_line(line: &str) -> anyhow::Result<Vec<String>> {
    let mut arguments: Vec<String> = Vec::new();
    let (mut in_word, mut quote) = (false, None);
    for letter in line.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == '\'' || letter == '"' => {
                quote = Some(letter);
                if !in_word {
                    arguments.push(String::new());
                }
                in_word = true;
            }
            None if letter.is_whitespace() => in_word = false,
            _ => {
                if !in_word {
                    arguments.push(String::new());
                }
                in_word = true;
                arguments.last_mut().expect("an argument has been started").push(letter);
            }
        }
    }
    if let Some(open) = quote {
        bail!("unclosed quote {open}");
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_split_as_a_shell_does() {
        let check =
            |line: &str, expected: &[&str]| assert_eq!(split_command_line(line).unwrap(), expected, "{line}");
        check("", &[]);
        check(" --a=1  --b 2 ", &["--a=1", "--b", "2"]);
        check("--a='x y' --b=\"it's\" ''", &["--a=x y", "--b=it's", ""]);
        assert!(split_command_line("--a='x").is_err());
    }
}

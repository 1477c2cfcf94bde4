//! The choice of what adds and removes nodes in a replay: an autoscaler, the recording, or nothing.

use std::sync::Arc;

use anyhow::bail;
use calibration::{NodeGroupsOrigin, NodesDecidedBy};
use model::Moment;
use query::autoscaler_choice::{
    AutoscalerChoice, AutoscalerOptions, AutoscalerSettingsSource, NodeGroupsSource,
};
use query::{AsOf, ConfigRoot, OpenHistory, count_noun};

use crate::report::{Caveat, CaveatTopic};

/// What adds and removes nodes in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeScaling {
    /// A simulated autoscaler.
    Autoscaled,
    /// The recording.
    AsRecorded,
    /// Nothing: node groups keep their initial nodes.
    Fixed,
}

/// The value of `--autoscaler`: a keyword, or flags.
pub enum AutoscalerOption<'a> {
    Recorded,
    Off,
    Flags(&'a str),
}

// === impl NodeScaling ===

impl NodeScaling {
    /// Its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            NodeScaling::Autoscaled => "autoscaler",
            NodeScaling::AsRecorded => "record",
            NodeScaling::Fixed => "nobody",
        }
    }

    /// Decides what adds and removes nodes. Contradictory settings are refused.
    pub fn decide(
        options: &crate::plan::ReplayOptions,
        option: &AutoscalerOption<'_>,
        choice: &AutoscalerChoice,
        caveats: &mut Vec<Caveat>,
    ) -> anyhow::Result<NodeScaling> {
        let names = options.names;
        let find_edit = |root: ConfigRoot| options.set.iter().find(|edit| edit.root == root);
        let mut add_caveat = |text: String| caveats.push(Caveat::new(CaveatTopic::Autoscaler, text));
        let groups = count_noun(choice.groups.len() as u64, "node group");
        if let AutoscalerOption::Off = option {
            if let Some(version) = options.autoscaler_version {
                bail!(
                    "{}=off conflicts with {}={version}: remove one",
                    names.autoscaler,
                    names.autoscaler_version
                );
            }
            if let Some(edit) = find_edit(ConfigRoot::Autoscaler) {
                bail!("{}=off conflicts with {} {edit}: remove one", names.autoscaler, names.set);
            }
            if choice.groups.is_empty() {
                bail!(
                    "{}=off requires node groups, and the history has none: specify them with {}",
                    names.autoscaler,
                    names.node_groups
                );
            }
            if !choice.has_known_groups() {
                add_caveat(guessed_groups_text(&groups));
            }
            return Ok(NodeScaling::Fixed);
        }
        let is_requested = options.node_groups.is_some()
            || options.autoscaler_version.is_some()
            || matches!(option, AutoscalerOption::Flags(_))
            || find_edit(ConfigRoot::Autoscaler).is_some()
            || find_edit(ConfigRoot::NodeGroups).is_some();
        if choice.groups.is_empty() {
            if is_requested {
                bail!("the history has no node groups: specify them with {}", names.node_groups);
            }
            add_caveat("the history has no node groups: nodes are added and removed as recorded".to_owned());
            return Ok(NodeScaling::AsRecorded);
        }
        match (&choice.replay_nodes, is_requested) {
            (Some(NodesDecidedBy::Recording), false) => {
                add_caveat(
                    "nodes are added and removed as recorded, as in the replay that wrote the history"
                        .to_owned(),
                );
                return Ok(NodeScaling::AsRecorded);
            }
            (Some(NodesDecidedBy::Nothing), false) => return Ok(NodeScaling::Fixed),
            (Some(NodesDecidedBy::Recording | NodesDecidedBy::Nothing), true)
            | (Some(NodesDecidedBy::Autoscaler { .. }) | None, _) => {}
        }
        if !has_known_autoscaler(choice) && !is_requested {
            add_caveat(match choice.groups_source {
                NodeGroupsSource::History(NodeGroupsOrigin::Nodes) => format!(
                    "{}; nodes are added and removed as recorded: specify node groups with {}",
                    guessed_groups_text(&groups),
                    names.node_groups
                ),
                _ => format!(
                    "the history has {groups} but no flags of an autoscaler; nodes are added and removed as recorded: \
                     specify its flags with {}",
                    names.autoscaler
                ),
            });
            return Ok(NodeScaling::AsRecorded);
        }
        if !choice.has_known_groups() {
            add_caveat(guessed_groups_text(&groups));
        }
        if choice.settings_source == AutoscalerSettingsSource::Defaults {
            add_caveat("no flags of the autoscaler were recorded: its defaults are assumed".to_owned());
        }
        Ok(NodeScaling::Autoscaled)
    }
}

// === impl AutoscalerOption ===

impl AutoscalerOption<'_> {
    /// Parses the value of the option of that name.
    pub fn parse<'a>(text: &'a str, name: &str) -> anyhow::Result<AutoscalerOption<'a>> {
        Ok(match text.trim() {
            "recorded" => AutoscalerOption::Recorded,
            "off" => AutoscalerOption::Off,
            "" => bail!("{name} must be recorded, off, or flags such as '--expander=least-waste'"),
            flags => AutoscalerOption::Flags(flags),
        })
    }
}

fn guessed_groups_text(groups: &str) -> String {
    format!("the {groups} are guessed from node labels")
}

/// Returns the autoscaler's settings as of the beginning, or as of the end if nothing was recorded of it before.
pub(crate) fn choose_autoscaler(
    options: &crate::plan::ReplayOptions,
    option: &AutoscalerOption<'_>,
    open_history: &OpenHistory,
    source: &Arc<str>,
    from: Moment,
    end: Moment,
) -> anyhow::Result<AutoscalerChoice> {
    let autoscaler_options = AutoscalerOptions {
        node_groups: options.node_groups.as_deref(),
        flags: match option {
            AutoscalerOption::Recorded | AutoscalerOption::Off => None,
            AutoscalerOption::Flags(flags) => Some(flags),
        },
        version: options.autoscaler_version,
        edits: &options.set,
        names: options.names,
    };
    // Overrides may name groups that are recorded only later.
    let without_edits = AutoscalerOptions { edits: &[], ..autoscaler_options.clone() };
    let is_complete = |choice: &AutoscalerChoice| {
        has_known_autoscaler(choice) && choice.settings_source != AutoscalerSettingsSource::Defaults
    };
    let early = AutoscalerChoice::resolve(open_history, source, AsOf::At(from), &without_edits)?;
    let is_late = !is_complete(&early) && {
        let late = AutoscalerChoice::resolve(open_history, source, AsOf::At(end), &without_edits)?;
        is_complete(&late)
            || (has_known_autoscaler(&late) && !has_known_autoscaler(&early))
            || early.groups.is_empty()
    };
    AutoscalerChoice::resolve(
        open_history,
        source,
        AsOf::At(if is_late { end } else { from }),
        &autoscaler_options,
    )
}

/// Whether an autoscaler is known to be at work, on node groups that are not guessed.
fn has_known_autoscaler(choice: &AutoscalerChoice) -> bool {
    match choice.groups_source {
        NodeGroupsSource::File(_)
        | NodeGroupsSource::Replay
        | NodeGroupsSource::History(NodeGroupsOrigin::Kwok | NodeGroupsOrigin::Status) => true,
        NodeGroupsSource::NoGroups | NodeGroupsSource::History(NodeGroupsOrigin::Nodes) => false,
        NodeGroupsSource::History(NodeGroupsOrigin::MachineDeployments | NodeGroupsOrigin::NodePools) => {
            choice.settings_source != AutoscalerSettingsSource::Defaults
        }
    }
}

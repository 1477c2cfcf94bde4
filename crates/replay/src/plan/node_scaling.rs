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
        word: &AutoscalerOption<'_>,
        setup: &AutoscalerChoice,
        reservations: &mut Vec<Caveat>,
    ) -> anyhow::Result<NodeScaling> {
        let sets = |root: ConfigRoot| options.set.iter().find(|edit| edit.root == root);
        let mut say = |text: String| reservations.push(Caveat::new(CaveatTopic::Autoscaler, text));
        let groups = count_noun(setup.groups.len() as u64, "node group");
        if let AutoscalerOption::Off = word {
            if let Some(version) = options.autoscaler_version {
                bail!(
                    "--autoscaler off and --autoscaler-version {version} contradict each other: leave one out"
                );
            }
            if let Some(edit) = sets(ConfigRoot::Autoscaler) {
                bail!("--autoscaler off and --set {edit} contradict each other: leave one out");
            }
            if setup.groups.is_empty() {
                bail!(
                    "nothing tells of node groups, so --autoscaler off cannot tell which nodes an autoscaler made: say \
                     with --node-groups FILE which groups there are"
                );
            }
            if !setup.has_known_groups() {
                say(format!("the {groups} are a guess by the labels of nodes"));
            }
            return Ok(NodeScaling::Fixed);
        }
        let is_asked = options.node_groups.is_some()
            || options.autoscaler_version.is_some()
            || matches!(word, AutoscalerOption::Flags(_))
            || sets(ConfigRoot::Autoscaler).is_some()
            || sets(ConfigRoot::NodeGroups).is_some();
        if setup.groups.is_empty() {
            if is_asked {
                bail!("nothing tells of node groups: say with --node-groups FILE which there are");
            }
            say("nothing tells of node groups: nodes come and go as recorded".to_owned());
            return Ok(NodeScaling::AsRecorded);
        }
        match (&setup.replay_nodes, is_asked) {
            (Some(NodesDecidedBy::Recording), false) => {
                say(
                    "the replay that made the history had nodes come and go as recorded, and so has this one"
                        .to_owned(),
                );
                return Ok(NodeScaling::AsRecorded);
            }
            (Some(NodesDecidedBy::Nothing), false) => return Ok(NodeScaling::Fixed),
            (Some(NodesDecidedBy::Recording | NodesDecidedBy::Nothing), true)
            | (Some(NodesDecidedBy::Autoscaler { .. }) | None, _) => {}
        }
        if !has_known_autoscaler(setup) && !is_asked {
            say(match setup.groups_source {
                NodeGroupsSource::History(NodeGroupsOrigin::Nodes) => format!(
                    "the {groups} are a guess by the labels of nodes, so nodes come and go as recorded: say with \
                     --node-groups FILE which there are"
                ),
                _ => format!(
                    "the history tells of {groups} but not how an autoscaler is set, so nodes come and go as recorded: \
                     give its flags with --autoscaler"
                ),
            });
            return Ok(NodeScaling::AsRecorded);
        }
        if !setup.has_known_groups() {
            say(format!("the {groups} are a guess by the labels of nodes"));
        }
        if setup.settings_source == AutoscalerSettingsSource::Defaults {
            say("nothing tells how the autoscaler is set: it has its defaults".to_owned());
        }
        Ok(NodeScaling::Autoscaled)
    }
}

// === impl AutoscalerOption ===

impl AutoscalerOption<'_> {
    pub fn parse(text: &str) -> anyhow::Result<AutoscalerOption<'_>> {
        Ok(match text.trim() {
            "recorded" => AutoscalerOption::Recorded,
            "off" => AutoscalerOption::Off,
            "" => bail!("--autoscaler takes recorded, off, or flags such as '--expander=least-waste'"),
            flags => AutoscalerOption::Flags(flags),
        })
    }
}

/// Returns the autoscaler's settings as of the beginning, or as of the end if nothing was recorded of it before.
pub(crate) fn choose_autoscaler(
    options: &crate::plan::ReplayOptions,
    word: &AutoscalerOption<'_>,
    open_history: &OpenHistory,
    source: &Arc<str>,
    from: Moment,
    end: Moment,
) -> anyhow::Result<AutoscalerChoice> {
    let says = AutoscalerOptions {
        node_groups: options.node_groups.as_deref(),
        flags: match word {
            AutoscalerOption::Recorded | AutoscalerOption::Off => None,
            AutoscalerOption::Flags(flags) => Some(flags),
        },
        flags_origin: "--autoscaler",
        version: options.autoscaler_version,
        edits: &options.set,
    };
    // Overrides may name groups that are recorded only later.
    let plain = AutoscalerOptions { edits: &[], ..says.clone() };
    let is_whole = |setup: &AutoscalerChoice| {
        has_known_autoscaler(setup) && setup.settings_source != AutoscalerSettingsSource::Defaults
    };
    let early = AutoscalerChoice::resolve(open_history, source, AsOf::At(from), &plain)?;
    let is_late = !is_whole(&early) && {
        let late = AutoscalerChoice::resolve(open_history, source, AsOf::At(end), &plain)?;
        is_whole(&late)
            || (has_known_autoscaler(&late) && !has_known_autoscaler(&early))
            || early.groups.is_empty()
    };
    AutoscalerChoice::resolve(open_history, source, AsOf::At(if is_late { end } else { from }), &says)
}

/// Whether an autoscaler is known to be at work, on node groups that are not guessed.
fn has_known_autoscaler(setup: &AutoscalerChoice) -> bool {
    match setup.groups_source {
        NodeGroupsSource::File(_)
        | NodeGroupsSource::Replay
        | NodeGroupsSource::History(NodeGroupsOrigin::Kwok | NodeGroupsOrigin::Status) => true,
        NodeGroupsSource::NoGroups | NodeGroupsSource::History(NodeGroupsOrigin::Nodes) => false,
        NodeGroupsSource::History(NodeGroupsOrigin::MachineDeployments | NodeGroupsOrigin::NodePools) => {
            setup.settings_source != AutoscalerSettingsSource::Defaults
        }
    }
}

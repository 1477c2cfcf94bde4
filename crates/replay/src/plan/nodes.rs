//! Who makes nodes come and go: an autoscaler, the record, or nobody.

use std::sync::Arc;

use anyhow::bail;
use calibration::{NodesBy, ToldBy};
use model::Moment;
use query::autoscaler_setup::{Asked, GroupsBy, SettingsBy, Setup};
use query::{AsOf, Chosen, Root, counted};

use crate::report::{About, Reservation};

/// Who makes nodes come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// An autoscaler.
    Autoscaled,
    /// It is as recorded.
    AsRecorded,
    /// Nobody: those of groups stay as they were.
    Stay,
}

/// What a user says of the autoscaler in one word, or flags for it.
pub enum Word<'a> {
    Recorded,
    Off,
    Flags(&'a str),
}

// === impl Nodes ===

impl Nodes {
    /// What it is called in reports.
    pub fn word(self) -> &'static str {
        match self {
            Nodes::Autoscaled => "autoscaler",
            Nodes::AsRecorded => "record",
            Nodes::Stay => "nobody",
        }
    }

    /// Who makes nodes come and go. Settings that contradict each other are refused.
    pub fn decide(
        asked: &crate::plan::ReplayOptions,
        word: &Word<'_>,
        setup: &Setup,
        reservations: &mut Vec<Reservation>,
    ) -> anyhow::Result<Nodes> {
        let sets = |root: Root| asked.set.iter().find(|edit| edit.root == root);
        let mut say = |text: String| reservations.push(Reservation::new(About::Autoscaler, text));
        let groups = counted(setup.groups.len() as u64, "node group");
        if let Word::Off = word {
            if let Some(version) = asked.autoscaler_version {
                bail!(
                    "--autoscaler off and --autoscaler-version {version} contradict each other: leave one out"
                );
            }
            if let Some(edit) = sets(Root::Autoscaler) {
                bail!("--autoscaler off and --set {edit} contradict each other: leave one out");
            }
            if setup.groups.is_empty() {
                bail!(
                    "nothing tells of node groups, so --autoscaler off cannot tell which nodes an autoscaler made: say \
                     with --node-groups FILE which groups there are"
                );
            }
            if !setup.is_known() {
                say(format!("the {groups} are a guess by the labels of nodes"));
            }
            return Ok(Nodes::Stay);
        }
        let is_asked = asked.node_groups.is_some()
            || asked.autoscaler_version.is_some()
            || matches!(word, Word::Flags(_))
            || sets(Root::Autoscaler).is_some()
            || sets(Root::NodeGroups).is_some();
        if setup.groups.is_empty() {
            if is_asked {
                bail!("nothing tells of node groups: say with --node-groups FILE which there are");
            }
            say("nothing tells of node groups: nodes come and go as recorded".to_owned());
            return Ok(Nodes::AsRecorded);
        }
        match (&setup.nodes_by, is_asked) {
            (Some(NodesBy::Record), false) => {
                say(
                    "the replay that made the history had nodes come and go as recorded, and so has this one"
                        .to_owned(),
                );
                return Ok(Nodes::AsRecorded);
            }
            (Some(NodesBy::Nobody), false) => return Ok(Nodes::Stay),
            (Some(NodesBy::Record | NodesBy::Nobody), true)
            | (Some(NodesBy::Autoscaler { .. }) | None, _) => {}
        }
        if !tells(setup) && !is_asked {
            say(match setup.groups_by {
                GroupsBy::History(ToldBy::Nodes) => format!(
                    "the {groups} are a guess by the labels of nodes, so nodes come and go as recorded: say with \
                     --node-groups FILE which there are"
                ),
                _ => format!(
                    "the history tells of {groups} but not how an autoscaler is set, so nodes come and go as recorded: \
                     give its flags with --autoscaler"
                ),
            });
            return Ok(Nodes::AsRecorded);
        }
        if !setup.is_known() {
            say(format!("the {groups} are a guess by the labels of nodes"));
        }
        if setup.settings_by == SettingsBy::Nobody {
            say("nothing tells how the autoscaler is set: it has its defaults".to_owned());
        }
        Ok(Nodes::Autoscaled)
    }
}

// === impl Word ===

impl Word<'_> {
    pub fn read(text: &str) -> anyhow::Result<Word<'_>> {
        Ok(match text.trim() {
            "recorded" => Word::Recorded,
            "off" => Word::Off,
            "" => bail!("--autoscaler takes recorded, off, or flags such as '--expander=least-waste'"),
            flags => Word::Flags(flags),
        })
    }
}

/// The autoscaler as of the beginning, or of the end if nothing was told of it before.
pub(crate) fn choose(
    asked: &crate::plan::ReplayOptions,
    word: &Word<'_>,
    chosen: &Chosen,
    source: &Arc<str>,
    from: Moment,
    end: Moment,
) -> anyhow::Result<Setup> {
    let says = Asked {
        node_groups: asked.node_groups.as_deref(),
        flags: match word {
            Word::Recorded | Word::Off => None,
            Word::Flags(flags) => Some(flags),
        },
        flags_by: "--autoscaler",
        version: asked.autoscaler_version,
        edits: &asked.set,
    };
    // Groups that are told of later can be set otherwise too.
    let plain = Asked { edits: &[], ..says.clone() };
    let is_whole = |setup: &Setup| tells(setup) && setup.settings_by != SettingsBy::Nobody;
    let early = Setup::choose(chosen, source, AsOf::At(from), &plain)?;
    let is_late = !is_whole(&early) && {
        let late = Setup::choose(chosen, source, AsOf::At(end), &plain)?;
        is_whole(&late) || (tells(&late) && !tells(&early)) || early.groups.is_empty()
    };
    Setup::choose(chosen, source, AsOf::At(if is_late { end } else { from }), &says)
}

/// Whether an autoscaler is known to be at work, on groups that are more than a guess.
fn tells(setup: &Setup) -> bool {
    match setup.groups_by {
        GroupsBy::File(_) | GroupsBy::Replay | GroupsBy::History(ToldBy::Kwok | ToldBy::Status) => true,
        GroupsBy::Nobody | GroupsBy::History(ToldBy::Nodes) => false,
        GroupsBy::History(ToldBy::MachineDeployments | ToldBy::NodePools) => {
            setup.settings_by != SettingsBy::Nobody
        }
    }
}

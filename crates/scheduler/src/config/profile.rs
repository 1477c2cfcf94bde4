//! The profiles of a configuration, each with its plugins and their arguments.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::BadConfiguration;
use super::args;
use super::node::{Fields, Node};
use super::plugins::{self, PluginSet, Plugins};
use super::resources::{GivenFit, balanced};
use super::values::in_range;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::settings::{Profile, Version};

/// What all profiles of a configuration share.
pub(super) struct Profiles<'e> {
    /// Whose defaults fill them up.
    pub(super) version: Version,
    /// The resources that extenders want NodeResourcesFit to ignore.
    pub(super) ignored: &'e [Arc<str>],
}

/// A profile, and what other profiles must have in common with it.
struct ReadProfile<'v> {
    profile: Profile,
    queue_sort: PluginSet<'v>,
    queue_sort_args: Option<&'v Value>,
}

// === impl Profiles ===

impl Profiles<'_> {
    /// Reads them all; none given is one with defaults. What they ask for in vain is told in `left_out`.
    pub(super) fn read(
        &self,
        list: &Node<'_>,
        left_out: &mut Vec<String>,
    ) -> Result<Vec<Profile>, BadConfiguration> {
        let mut nodes = list.list()?;
        if nodes.is_empty() {
            nodes.push(Fields::NONE.get("profiles[0]"));
        }
        let mut profiles: Vec<ReadProfile<'_>> = Vec::new();
        let mut names = BTreeSet::new();
        for node in &nodes {
            let default_name = if nodes.len() == 1 { "default-scheduler" } else { "" };
            let read = self.read_one(node, default_name, left_out)?;
            if let Some(first) = profiles.first() {
                check_queue_sort(node, first, &read)?;
            }
            let name = &read.profile.scheduler_name;
            if !names.insert(name.clone()) {
                let why = format!("two profiles are called {name:?}; each needs a name of its own");
                return Err(BadConfiguration::new(&format!("{}.schedulerName", node.place()), why));
            }
            profiles.push(read);
        }
        Ok(profiles.into_iter().map(|read| read.profile).collect())
    }

    fn read_one<'v>(
        &self,
        node: &Node<'v>,
        default_name: &'v str,
        left_out: &mut Vec<String>,
    ) -> Result<ReadProfile<'v>, BadConfiguration> {
        let fields =
            node.fields(&["schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"])?;
        let name_node = fields.get("schedulerName");
        let name = name_node.text()?.unwrap_or(default_name);
        if name.is_empty() {
            return Err(name_node.bad("a profile needs the name that pods call it by"));
        }
        let plugins = Plugins::read(&fields.get("plugins"), self.version)?;
        let args = PluginArgs::read(&fields.get("pluginConfig"), left_out)?;
        let fit = args.of(Plugin::NodeResourcesFit);
        if !self.ignored.is_empty() && fit.is_none() && !plugins.used.contains(&Plugin::NodeResourcesFit) {
            return Err(node.bad(
                "extenders manage resources that the scheduler is to ignore, which takes NodeResourcesFit: enable it",
            ));
        }
        let absent = Fields::NONE.get("");
        let or_absent = |plugin: Plugin| args.of(plugin).unwrap_or(&absent);
        let mut fit = GivenFit::read(or_absent(Plugin::NodeResourcesFit))?;
        if !plugins.used.contains(&Plugin::NodeResourcesFit) {
            fit = GivenFit::read(&absent)?;
        }
        args::check_volume_binding(or_absent(Plugin::VolumeBinding))?;
        args::check_dynamic_resources(or_absent(Plugin::DynamicResources))?;
        let profile = Profile {
            scheduler_name: name.into(),
            percentage_of_nodes_to_score: percentage(&fields)?,
            pre_enqueue: plugins.at(ExtensionPoint::PreEnqueue),
            pre_filter: plugins.at(ExtensionPoint::PreFilter),
            filter: plugins.at(ExtensionPoint::Filter),
            post_filter: plugins.at(ExtensionPoint::PostFilter),
            pre_score: plugins.at(ExtensionPoint::PreScore),
            score: plugins.scores(),
            reserve: plugins.at(ExtensionPoint::Reserve),
            added_affinity: args::added_affinity(or_absent(Plugin::NodeAffinity))?,
            fit: fit.check(self.ignored, self.version)?,
            balanced: balanced(or_absent(Plugin::NodeResourcesBalancedAllocation))?,
            spread: args::spread(or_absent(Plugin::PodTopologySpread))?,
            inter_pod_affinity: args::inter_pod_affinity(or_absent(Plugin::InterPodAffinity))?,
            preemption: args::preemption(or_absent(Plugin::DefaultPreemption))?,
        };
        let queue_sort_args = args.of(Plugin::PrioritySort).and_then(Node::given);
        Ok(ReadProfile { profile, queue_sort: plugins.queue_sort, queue_sort_args })
    }
}

/// The arguments that a profile has for its plugins.
struct PluginArgs<'v>(Vec<(Plugin, Node<'v>)>);

impl<'v> PluginArgs<'v> {
    /// Arguments for plugins that kube-scheduler does not have are no error: it passes them by, too.
    fn read(list: &Node<'v>, left_out: &mut Vec<String>) -> Result<PluginArgs<'v>, BadConfiguration> {
        let mut args = PluginArgs(Vec::new());
        let mut names = BTreeSet::new();
        for entry in list.list()? {
            let fields = entry.fields(&["name", "args"])?;
            let node = fields.get("name");
            let name = node.text()?.unwrap_or_default();
            if !names.insert(name) {
                return Err(node.bad(format!("{name:?} has arguments already; give them once")));
            }
            if plugins::REMOVED.contains(&name) {
                return Err(
                    node.bad(format!("{name} was removed from kube-scheduler: leave its arguments out"))
                );
            }
            match plugins::named(name) {
                Some(plugin) => args.0.push((plugin, fields.get("args"))),
                None => {
                    let place = node.place();
                    left_out.push(format!(
                        "{name:?} is not a plugin that is simulated: its arguments have no effect ({place})"
                    ));
                }
            }
        }
        Ok(args)
    }

    fn of(&self, plugin: Plugin) -> Option<&Node<'v>> {
        self.0.iter().find(|(other, _)| *other == plugin).map(|(_, args)| args)
    }
}

/// There is one queue, so that profiles cannot differ in how they order it.
fn check_queue_sort(
    node: &Node<'_>,
    first: &ReadProfile<'_>,
    read: &ReadProfile<'_>,
) -> Result<(), BadConfiguration> {
    let place = node.place();
    if read.queue_sort != first.queue_sort {
        let why = "must be the same in all profiles: there is one queue";
        return Err(BadConfiguration::new(&format!("{place}.plugins.queueSort"), why));
    }
    if read.queue_sort_args != first.queue_sort_args {
        let why = "the arguments of PrioritySort must be the same in all profiles: there is one queue";
        return Err(BadConfiguration::new(&format!("{place}.pluginConfig"), why));
    }
    Ok(())
}

/// `percentageOfNodesToScore` of a configuration or a profile.
pub(super) fn percentage(fields: &Fields<'_>) -> Result<Option<i32>, BadConfiguration> {
    let node = fields.get("percentageOfNodesToScore");
    node.int32()?.map(|percentage| in_range(&node, percentage, 0..=100)).transpose()
}

//! The profiles of a configuration, each with its plugins and their arguments.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::BadConfiguration;
use super::args;
use super::config_value::{ConfigFields, ConfigValue};
use super::plugins::{self, PluginSet, ProfilePlugins};
use super::resources::{UncheckedFitArgs, balanced};
use super::values::in_range;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::settings::{Profile, Version};

/// Reads the profiles of a configuration.
pub(super) struct ProfileReader<'e> {
    /// The version whose defaults apply.
    pub(super) version: Version,
    /// The resources that extenders want NodeResourcesFit to ignore.
    pub(super) ignored_resources: &'e [Arc<str>],
}

/// A profile, and the settings that all profiles must share.
struct ReadProfile<'v> {
    profile: Profile,
    queue_sort: PluginSet<'v>,
    queue_sort_args: Option<&'v Value>,
}

// === impl ProfileReader ===

impl ProfileReader<'_> {
    /// Reads all profiles; without any there is one with defaults. Settings that are not simulated are added to
    /// `unsupported_features`.
    pub(super) fn read(
        &self,
        list: &ConfigValue<'_>,
        unsupported_features: &mut Vec<String>,
    ) -> Result<Vec<Profile>, BadConfiguration> {
        let mut values = list.list()?;
        if values.is_empty() {
            values.push(ConfigFields::NONE.get("profiles[0]"));
        }
        let mut profiles: Vec<ReadProfile<'_>> = Vec::new();
        let mut names = BTreeSet::new();
        for value in &values {
            let default_name = if values.len() == 1 { "default-scheduler" } else { "" };
            let read = self.read_one(value, default_name, unsupported_features)?;
            if let Some(first) = profiles.first() {
                check_queue_sort(value, first, &read)?;
            }
            let name = &read.profile.scheduler_name;
            if !names.insert(name.clone()) {
                let reason = format!("duplicate schedulerName {name:?}");
                return Err(BadConfiguration::new(&format!("{}.schedulerName", value.path()), reason));
            }
            profiles.push(read);
        }
        Ok(profiles.into_iter().map(|read| read.profile).collect())
    }

    fn read_one<'v>(
        &self,
        value: &ConfigValue<'v>,
        default_name: &'v str,
        unsupported_features: &mut Vec<String>,
    ) -> Result<ReadProfile<'v>, BadConfiguration> {
        let fields =
            value.fields(&["schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"])?;
        let name_value = fields.get("schedulerName");
        let name = name_value.text()?.unwrap_or(default_name);
        if name.is_empty() {
            return Err(name_value.bad("must not be empty"));
        }
        let plugins = ProfilePlugins::read(&fields.get("plugins"), self.version)?;
        let args = PluginArgs::read(&fields.get("pluginConfig"), unsupported_features)?;
        let fit = args.of(Plugin::NodeResourcesFit);
        if !self.ignored_resources.is_empty()
            && fit.is_none()
            && !plugins.used.contains(&Plugin::NodeResourcesFit)
        {
            return Err(value.bad(
                "NodeResourcesFit must be enabled, because extenders have resources with ignoredByScheduler",
            ));
        }
        let absent = ConfigFields::NONE.get("");
        let or_absent = |plugin: Plugin| args.of(plugin).unwrap_or(&absent);
        let mut fit = UncheckedFitArgs::read(or_absent(Plugin::NodeResourcesFit))?;
        if !plugins.used.contains(&Plugin::NodeResourcesFit) {
            fit = UncheckedFitArgs::read(&absent)?;
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
            fit: fit.check(self.ignored_resources, self.version)?,
            balanced_resources: balanced(or_absent(Plugin::NodeResourcesBalancedAllocation))?,
            spread: args::spread(or_absent(Plugin::PodTopologySpread))?,
            inter_pod_affinity: args::inter_pod_affinity(or_absent(Plugin::InterPodAffinity))?,
            preemption: args::preemption(or_absent(Plugin::DefaultPreemption))?,
        };
        let queue_sort_args = args.of(Plugin::PrioritySort).and_then(ConfigValue::non_null);
        Ok(ReadProfile { profile, queue_sort: plugins.queue_sort, queue_sort_args })
    }
}

/// `pluginConfig`: the arguments of a profile's plugins.
struct PluginArgs<'v>(Vec<(Plugin, ConfigValue<'v>)>);

impl<'v> PluginArgs<'v> {
    /// Arguments of unknown plugins are ignored, as in kube-scheduler.
    fn read(
        list: &ConfigValue<'v>,
        unsupported_features: &mut Vec<String>,
    ) -> Result<PluginArgs<'v>, BadConfiguration> {
        let mut args = PluginArgs(Vec::new());
        let mut names = BTreeSet::new();
        for entry in list.list()? {
            let fields = entry.fields(&["name", "args"])?;
            let value = fields.get("name");
            let name = value.text()?.unwrap_or_default();
            if !names.insert(name) {
                return Err(value.bad(format!("duplicate arguments for {name:?}")));
            }
            if plugins::REMOVED.contains(&name) {
                return Err(value.bad(format!("{name} was removed from kube-scheduler")));
            }
            match plugins::plugin_by_name(name) {
                Some(plugin) => args.0.push((plugin, fields.get("args"))),
                None => {
                    let path = value.path();
                    unsupported_features.push(format!(
                        "plugin {name:?} is not simulated: its arguments are ignored ({path})"
                    ));
                }
            }
        }
        Ok(args)
    }

    fn of(&self, plugin: Plugin) -> Option<&ConfigValue<'v>> {
        self.0.iter().find(|(other, _)| *other == plugin).map(|(_, args)| args)
    }
}

/// There is one queue, so all profiles must have the same QueueSort.
fn check_queue_sort(
    value: &ConfigValue<'_>,
    first: &ReadProfile<'_>,
    read: &ReadProfile<'_>,
) -> Result<(), BadConfiguration> {
    let path = value.path();
    if read.queue_sort != first.queue_sort {
        let reason = "must be the same in all profiles: there is one queue";
        return Err(BadConfiguration::new(&format!("{path}.plugins.queueSort"), reason));
    }
    if read.queue_sort_args != first.queue_sort_args {
        let reason = "the arguments of PrioritySort must be the same in all profiles: there is one queue";
        return Err(BadConfiguration::new(&format!("{path}.pluginConfig"), reason));
    }
    Ok(())
}

/// `percentageOfNodesToScore` of a configuration or a profile.
pub(super) fn percentage(fields: &ConfigFields<'_>) -> Result<Option<i32>, BadConfiguration> {
    let value = fields.get("percentageOfNodesToScore");
    value.int32()?.map(|percentage| in_range(&value, percentage, 0..=100)).transpose()
}

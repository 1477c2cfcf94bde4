//! The plugins of a profile by extension point: kube-scheduler's defaults, the profile's changes, and the expansion of
//! `multiPoint`.

use std::collections::BTreeSet;

use super::BadConfiguration;
use super::config_value::{ConfigFields, ConfigValue};
use crate::plugin::{ExtensionPoint, Plugin};
use crate::settings::Version;

/// The plugins of a profile, by extension point.
pub(super) struct ProfilePlugins<'v> {
    /// In the order of [`ExtensionPoint::ALL`].
    lists: Vec<Vec<Plugin>>,
    weights: Vec<(Plugin, i32)>,
    /// All enabled plugins, even if every extension point disables them.
    pub(super) used: BTreeSet<Plugin>,
    /// The profile's `queueSort`, which must be the same in all profiles.
    pub(super) queue_sort: PluginSet<'v>,
}

/// The enabled and disabled plugins of one extension point.
#[derive(Default, PartialEq)]
pub(super) struct PluginSet<'v> {
    /// With their weights; zero if none is given.
    enabled: Vec<(Plugin, i32)>,
    disabled: Vec<&'v str>,
}

/// Plugins that were removed from kube-scheduler.
pub(super) const REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// Plugins of kube-scheduler behind an alpha feature gate.
const ALPHA: [&str; 3] = ["GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"];

// === impl ProfilePlugins ===

impl<'v> ProfilePlugins<'v> {
    /// Reads the `plugins` of a profile.
    pub(super) fn read(
        value: &ConfigValue<'v>,
        version: Version,
    ) -> Result<ProfilePlugins<'v>, BadConfiguration> {
        let names: Vec<&str> =
            ExtensionPoint::ALL.iter().map(|point| point.name()).chain(["multiPoint"]).collect();
        let fields = value.fields(&names)?;
        let multi_point = fields.get("multiPoint");
        let multi = merged_with_defaults(PluginSet::read(&multi_point, version)?, version);

        let mut plugins = ProfilePlugins {
            lists: Vec::new(),
            weights: Vec::new(),
            used: multi.iter().map(|(plugin, _)| *plugin).collect(),
            queue_sort: PluginSet::default(),
        };
        for point in ExtensionPoint::ALL {
            let set = PluginSet::read_at(point, &fields, version)?;
            plugins.used.extend(set.enabled.iter().map(|(plugin, _)| *plugin));
            let list = expanded(point, &set, &multi, version)
                .map_err(|duplicate| multi_point.bad(format!("{duplicate} is enabled twice")))?;
            plugins.lists.push(list);
            match point {
                ExtensionPoint::Score => plugins.weights = set.enabled,
                ExtensionPoint::QueueSort => plugins.queue_sort = set,
                _ => {}
            }
        }
        plugins.weights.extend(multi);
        plugins.check_weights(value, version)?;

        for (point, name, role) in [
            (ExtensionPoint::QueueSort, Plugin::PrioritySort, "sorts the queue"),
            (ExtensionPoint::Bind, Plugin::DefaultBinder, "binds pods"),
        ] {
            if plugins.at(point).is_empty() {
                let point = point.name();
                return Err(value.bad(format!("no plugin {role}: enable {name} at {point} or multiPoint")));
            }
        }
        Ok(plugins)
    }

    /// kube-scheduler sums the weights of `score`, then those of `multiPoint`, and reports an overflow if the sum is
    /// negative before another is added.
    fn check_weights(&self, value: &ConfigValue<'_>, version: Version) -> Result<(), BadConfiguration> {
        let mut seen = BTreeSet::new();
        let mut total: i64 = 0;
        for (plugin, _) in &self.weights {
            if !plugin.extension_points(version).contains(&ExtensionPoint::Score) || !seen.insert(*plugin) {
                continue;
            }
            if total < 0 {
                let why = format!("the sum of the weights before {plugin} is negative");
                return Err(value.bad(why));
            }
            total += self.weight(*plugin);
        }
        Ok(())
    }

    /// The plugins of an extension point, in order.
    pub(super) fn at(&self, point: ExtensionPoint) -> Vec<Plugin> {
        self.lists[point as usize].clone()
    }

    /// The Score plugins, in order, with their weights.
    pub(super) fn scores(&self) -> Vec<(Plugin, i64)> {
        self.at(ExtensionPoint::Score).into_iter().map(|plugin| (plugin, self.weight(plugin))).collect()
    }

    /// The weight in `score`, else that in `multiPoint`; zero defaults to one.
    fn weight(&self, plugin: Plugin) -> i64 {
        let configured_weight =
            self.weights.iter().find(|(other, _)| *other == plugin).map_or(0, |(_, weight)| *weight);
        if configured_weight == 0 { 1 } else { i64::from(configured_weight) }
    }
}

// === impl PluginSet ===

impl<'v> PluginSet<'v> {
    fn read(value: &ConfigValue<'v>, version: Version) -> Result<PluginSet<'v>, BadConfiguration> {
        let fields = value.fields(&["enabled", "disabled"])?;
        let mut set = PluginSet::default();
        for entry in fields.get("enabled").list()? {
            let (name, weight) = read_entry(&entry)?;
            set.enabled.push((find_supported(&name, version)?, weight));
        }
        for entry in fields.get("disabled").list()? {
            let (name, _) = read_entry(&entry)?;
            set.disabled.push(name.text()?.unwrap_or_default());
        }
        Ok(set)
    }

    fn read_at(
        point: ExtensionPoint,
        fields: &ConfigFields<'v>,
        version: Version,
    ) -> Result<PluginSet<'v>, BadConfiguration> {
        let value = fields.get(point.name());
        let set = PluginSet::read(&value, version)?;
        for (index, (plugin, _)) in set.enabled.iter().enumerate() {
            let bad =
                |reason| BadConfiguration::new(&format!("{}.enabled[{index}].name", value.path()), reason);
            if !plugin.extension_points(version).contains(&point) {
                let names: Vec<_> =
                    plugin.extension_points(version).iter().map(|point| point.name()).collect();
                return Err(bad(format!(
                    "{plugin} does not implement {}, only {}",
                    point.name(),
                    names.join(", ")
                )));
            }
            if set.enabled[..index].iter().any(|(other, _)| other == plugin) {
                return Err(bad(format!("{plugin} is enabled twice")));
            }
        }
        Ok(set)
    }

    fn disables(&self, name: &str) -> bool {
        self.disabled.contains(&name)
    }
}

// === impl ExtensionPoint ===

impl ExtensionPoint {
    const ALL: [ExtensionPoint; 14] = [
        ExtensionPoint::PreEnqueue,
        ExtensionPoint::QueueSort,
        ExtensionPoint::PreFilter,
        ExtensionPoint::Filter,
        ExtensionPoint::PostFilter,
        ExtensionPoint::PreScore,
        ExtensionPoint::Score,
        ExtensionPoint::Reserve,
        ExtensionPoint::Permit,
        ExtensionPoint::PreBind,
        ExtensionPoint::Bind,
        ExtensionPoint::PostBind,
        ExtensionPoint::PlacementGenerate,
        ExtensionPoint::PlacementScore,
    ];

    const fn name(self) -> &'static str {
        match self {
            ExtensionPoint::PreEnqueue => "preEnqueue",
            ExtensionPoint::QueueSort => "queueSort",
            ExtensionPoint::PreFilter => "preFilter",
            ExtensionPoint::Filter => "filter",
            ExtensionPoint::PostFilter => "postFilter",
            ExtensionPoint::PreScore => "preScore",
            ExtensionPoint::Score => "score",
            ExtensionPoint::Reserve => "reserve",
            ExtensionPoint::Permit => "permit",
            ExtensionPoint::PreBind => "preBind",
            ExtensionPoint::Bind => "bind",
            ExtensionPoint::PostBind => "postBind",
            ExtensionPoint::PlacementGenerate => "placementGenerate",
            ExtensionPoint::PlacementScore => "placementScore",
        }
    }
}

/// The plugin of that name, if it is one of kube-scheduler's.
pub(super) fn plugin_by_name(name: &str) -> Option<Plugin> {
    Plugin::ALL.into_iter().find(|plugin| plugin.name() == name)
}

/// The name and weight of an entry of `enabled` or `disabled`.
fn read_entry<'v>(entry: &ConfigValue<'v>) -> Result<(ConfigValue<'v>, i32), BadConfiguration> {
    let fields = entry.fields(&["name", "weight"])?;
    Ok((fields.get("name"), fields.get("weight").int32()?.unwrap_or(0)))
}

fn find_supported(value: &ConfigValue<'_>, version: Version) -> Result<Plugin, BadConfiguration> {
    let name = value.text()?.unwrap_or_default();
    match plugin_by_name(name) {
        Some(plugin) if version < plugin.registration().since => {
            let since = plugin.registration().since;
            Err(value.bad(format!("{name} requires Kubernetes {since}; this is {version}")))
        }
        Some(plugin) => Ok(plugin),
        None if ALPHA.contains(&name) => Err(value.bad(format!("the alpha plugin {name} is not simulated"))),
        None if REMOVED.contains(&name) => {
            Err(value.bad(format!("{name} was removed from kube-scheduler: use NodeVolumeLimits")))
        }
        None => {
            let names: Vec<_> = Plugin::ALL.iter().map(|plugin| plugin.name()).collect();
            Err(value.bad(format!(
                "unknown plugin {name:?}: only kube-scheduler's own are simulated: {}",
                names.join(", ")
            )))
        }
    }
}

/// The default plugins that are not disabled, with the last weight given, then the other enabled plugins.
fn merged_with_defaults(set: PluginSet<'_>, version: Version) -> Vec<(Plugin, i32)> {
    let is_in_profile = |plugin: Plugin| version >= plugin.registration().default_since;
    let is_kept =
        |plugin: Plugin| is_in_profile(plugin) && !set.disables("*") && !set.disables(plugin.name());
    let mut overridden_indices = BTreeSet::new();
    let mut merged = Vec::new();
    for plugin in Plugin::ALL.into_iter().filter(|plugin| is_kept(*plugin)) {
        match set.enabled.iter().rposition(|(other, _)| *other == plugin) {
            Some(index) => {
                overridden_indices.insert(index);
                merged.push(set.enabled[index]);
            }
            None => merged.push((plugin, plugin.registration().weight)),
        }
    }
    let rest = set.enabled.iter().enumerate().filter(|(index, _)| !overridden_indices.contains(index));
    merged.extend(rest.map(|(_, entry)| *entry));
    merged
}

/// The plugins of an extension point: first those that both it and `multiPoint` enable, in the point's order; then the
/// others of `multiPoint`; then the point's own. Fails with a plugin that `multiPoint` enables twice.
///
/// A plugin that the point both disables and enables counts as its own.
fn expanded(
    point: ExtensionPoint,
    set: &PluginSet<'_>,
    multi: &[(Plugin, i32)],
    version: Version,
) -> Result<Vec<Plugin>, Plugin> {
    let own = || set.enabled.iter().map(|(plugin, _)| *plugin);
    if set.disables("*") {
        return Ok(own().collect());
    }
    let (mut overridden, mut others) = (BTreeSet::new(), Vec::new());
    for (plugin, _) in multi {
        if !plugin.extension_points(version).contains(&point) || set.disables(plugin.name()) {
            continue;
        }
        if own().any(|other| other == *plugin) {
            overridden.insert(*plugin);
        } else if others.contains(plugin) {
            return Err(*plugin);
        } else {
            others.push(*plugin);
        }
    }
    let first = own().filter(|plugin| overridden.contains(plugin));
    let last = own().filter(|plugin| !overridden.contains(plugin));
    Ok(first.chain(others.iter().copied()).chain(last).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Reads `a,-b,c=3`: the plugins enabled, disabled after a minus, and their weights.
    fn set(words: &str) -> Value {
        let (disabled, enabled): (Vec<&str>, Vec<&str>) =
            words.split(',').filter(|word| !word.is_empty()).partition(|word| word.starts_with('-'));
        let entry = |word: &str| match word.split_once('=') {
            Some((name, weight)) => json!({"name": name, "weight": weight.parse::<i32>().unwrap()}),
            None => json!({"name": word.trim_start_matches('-')}),
        };
        let entries = |words: Vec<&str>| words.into_iter().map(entry).collect::<Vec<Value>>();
        json!({"enabled": entries(enabled), "disabled": entries(disabled)})
    }

    fn scores(multi: &str, score: &str) -> Result<String, BadConfiguration> {
        let document = json!({"multiPoint": set(multi), "score": set(score)});
        let plugins = ProfilePlugins::read(&ConfigValue::root(&document), Version::V1_36)?;
        let words = plugins.scores().into_iter().map(|(plugin, weight)| format!("{plugin}={weight}"));
        Ok(words.collect::<Vec<_>>().join(" "))
    }

    const FEW: &str = "-*,PrioritySort,DefaultBinder,NodeAffinity=4,ImageLocality,InterPodAffinity=9";

    #[test]
    fn plugins_of_multi_point_score_in_its_order_and_with_its_weights() {
        assert_eq!(scores(FEW, "").unwrap(), "NodeAffinity=4 ImageLocality=1 InterPodAffinity=9");
    }

    #[test]
    fn a_plugin_that_the_point_enables_too_comes_first_with_the_weight_given_there() {
        assert_eq!(
            scores(FEW, "InterPodAffinity=2").unwrap(),
            "InterPodAffinity=2 NodeAffinity=4 ImageLocality=1"
        );
        assert_eq!(
            scores(FEW, "InterPodAffinity").unwrap(),
            "InterPodAffinity=1 NodeAffinity=4 ImageLocality=1"
        );
    }

    #[test]
    fn a_plugin_that_only_the_point_enables_comes_last() {
        assert_eq!(
            scores(FEW, "TaintToleration=7,ImageLocality").unwrap(),
            "ImageLocality=1 NodeAffinity=4 InterPodAffinity=9 TaintToleration=7"
        );
    }

    #[test]
    fn a_plugin_that_the_point_disables_and_enables_comes_last() {
        assert_eq!(
            scores(FEW, "-NodeAffinity,NodeAffinity=3").unwrap(),
            "ImageLocality=1 InterPodAffinity=9 NodeAffinity=3"
        );
    }

    #[test]
    fn a_star_leaves_what_the_point_enables() {
        assert_eq!(scores(FEW, "-*,TaintToleration=2").unwrap(), "TaintToleration=2");
    }

    #[test]
    fn a_default_that_is_enabled_again_keeps_its_place() {
        let standard = scores("", "").unwrap();
        assert!(standard.starts_with("TaintToleration=3 NodeAffinity=2 "), "{standard}");
        assert_eq!(
            scores("NodeAffinity=7", "").unwrap(),
            standard.replacen("NodeAffinity=2", "NodeAffinity=7", 1)
        );
    }

    #[test]
    fn a_default_that_is_disabled_and_enabled_again_moves_to_the_end() {
        let scores = scores("-NodeAffinity,NodeAffinity=7", "").unwrap();
        assert!(scores.ends_with("ImageLocality=1 NodeAffinity=7"), "{scores}");
    }

    #[test]
    fn weights_below_zero_are_refused_once_they_outweigh_those_before() {
        assert!(scores("NodeAffinity=-3", "").is_ok());
        let error = scores("NodeAffinity=-4", "").unwrap_err();
        assert!(error.reason.contains("before NodeResourcesFit"), "{error}");
        assert!(scores("-*,PrioritySort,DefaultBinder,ImageLocality=-9", "").is_ok());
    }

    #[test]
    fn a_profile_needs_a_queue_sort_and_a_bind_plugin() {
        assert!(scores("-PrioritySort", "").unwrap_err().reason.contains("enable PrioritySort"));
        assert!(scores("-DefaultBinder", "").unwrap_err().reason.contains("enable DefaultBinder"));
    }

    #[test]
    fn a_plugin_that_multi_point_enables_twice_is_refused_where_it_would_run_twice() {
        assert!(scores("ImageLocality,ImageLocality", "").is_err());
        assert!(scores("ImageLocality,ImageLocality", "ImageLocality").is_ok());
        assert!(scores("ImageLocality,ImageLocality", "-ImageLocality").is_ok());
    }
}

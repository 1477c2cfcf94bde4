//! Scores of the nodes that take a pod.

use super::cards::{Card, Cards, ShapeCards};
use super::ids::NodeId;
use super::look::Look;
use super::plugin::Plugin;
use super::plugins::{image_locality, inter_pod_affinity, node_affinity, pod_topology_spread};

/// The best opinion there is; the worst is zero.
const MOST: i64 = 100;

/// Every scoring plugin's opinion of every node, and their sums. Kept from pod to pod, to use its room again.
#[derive(Clone, Debug, Default)]
pub(super) struct Scores {
    /// In the profile's order; those that have nothing to say are left out.
    pub plugins: Vec<PluginScores>,
    /// By node, as given.
    pub totals: Vec<i64>,
    spare: Vec<PluginScores>,
    cards: Vec<Card>,
    crowds: Vec<Option<i64>>,
    marks: pod_topology_spread::Marks,
}

/// One plugin's opinion of every node.
#[derive(Clone, Debug)]
pub(super) struct PluginScores {
    pub plugin: Plugin,
    pub weight: i64,
    pub raw: Vec<i64>,
    pub normalised: Vec<i64>,
}

/// Scores nodes; an error if a plugin is asked that could not prepare, or has an impossible opinion.
pub(super) fn score(
    look: &Look<'_>,
    nodes: &[NodeId],
    cards: &mut ShapeCards,
    refusals: &mut Cards,
    scores: &mut Scores,
) -> Result<(), String> {
    let profile = &look.rules.profile;
    scores.spare.append(&mut scores.plugins);
    scores.totals.clear();
    scores.totals.resize(nodes.len(), 0);
    scores.cards.clear();
    scores.cards.extend(nodes.iter().map(|node| *look.card(cards, *node, refusals)));
    let mut in_range = true;
    for &(plugin, weight) in &profile.score {
        if is_skipped(look, plugin)? {
            continue;
        }
        let mut own = scores.spare.pop().unwrap_or_else(|| PluginScores {
            plugin,
            weight,
            raw: Vec::new(),
            normalised: Vec::new(),
        });
        (own.plugin, own.weight) = (plugin, weight);
        own.raw.clear();
        own.normalised.clear();
        opinion(look, nodes, &scores.cards, &mut own, &mut scores.crowds, &mut scores.marks);
        for (total, normalised) in scores.totals.iter_mut().zip(&own.normalised) {
            in_range &= (0..=MOST).contains(normalised);
            *total = total.wrapping_add(normalised.wrapping_mul(weight));
        }
        scores.plugins.push(own);
    }
    if in_range { Ok(()) } else { Err(out_of_range(&scores.plugins)) }
}

/// What is said of the first node of which a plugin has an impossible opinion: absurd amounts lead to that.
fn out_of_range(plugins: &[PluginScores]) -> String {
    let nodes = 0..plugins.first().map_or(0, |plugin| plugin.normalised.len());
    let mut opinions =
        nodes.flat_map(|node| plugins.iter().map(move |own| (own.plugin, own.normalised[node])));
    let (plugin, score) =
        opinions.find(|(_, score)| !(0..=MOST).contains(score)).expect("one was seen to be out of range");
    format!(
        "applying score defaultWeights on Score plugins: plugin {:?} returns an invalid score {score}, it should in the range of [0, {MOST}] after normalizing",
        plugin.name()
    )
}

/// Whether a plugin has nothing to say of any node.
fn is_skipped(look: &Look<'_>, plugin: Plugin) -> Result<bool, String> {
    let profile = &look.rules.profile;
    let prepares = profile.pre_score.contains(&plugin);
    let added = &profile.added_affinity;
    match plugin {
        Plugin::NodeAffinity => Ok(prepares && node_affinity::is_indifferent(&look.pod.shape, added)),
        Plugin::NodeResourcesBalancedAllocation => {
            Ok(prepares && look.rules.balance.is_skipped(&look.pod.shape))
        }
        // It scores only by a feature that is off.
        Plugin::VolumeBinding => Ok(prepares),
        Plugin::TaintToleration | Plugin::PodTopologySpread | Plugin::InterPodAffinity if !prepares => {
            Err(format!("failed to read \"PreScore{plugin}\" from cycleState: not found"))
        }
        Plugin::PodTopologySpread => Ok(look.plan.soft.is_empty()),
        Plugin::InterPodAffinity => Ok(look.plan.affinity.is_indifferent(look.world)),
        // These have something to say of every pod. The others do not score.
        Plugin::TaintToleration
        | Plugin::NodeResourcesFit
        | Plugin::ImageLocality
        | Plugin::DynamicResources => Ok(false),
        Plugin::SchedulingGates
        | Plugin::PrioritySort
        | Plugin::NodeUnschedulable
        | Plugin::NodeName
        | Plugin::NodePorts
        | Plugin::VolumeRestrictions
        | Plugin::NodeVolumeLimits
        | Plugin::VolumeZone
        | Plugin::DefaultPreemption
        | Plugin::DefaultBinder
        | Plugin::NodeDeclaredFeatures
        | Plugin::Unreadable => Ok(true),
    }
}

fn opinion(
    look: &Look<'_>,
    nodes: &[NodeId],
    cards: &[Card],
    own: &mut PluginScores,
    crowds: &mut Vec<Option<i64>>,
    marks: &mut pod_topology_spread::Marks,
) {
    let PluginScores { raw, normalised, .. } = own;
    match own.plugin {
        Plugin::TaintToleration => {
            raw.extend(cards.iter().map(|card| card.taints));
            normalise(raw, normalised, true);
        }
        Plugin::NodeAffinity => {
            raw.extend(cards.iter().map(|card| card.affinity));
            normalise(raw, normalised, false);
        }
        Plugin::NodeResourcesFit => {
            raw.extend(cards.iter().map(|card| card.fit));
            normalised.extend_from_slice(raw);
        }
        Plugin::NodeResourcesBalancedAllocation => {
            raw.extend(cards.iter().map(|card| card.balance));
            normalised.extend_from_slice(raw);
        }
        Plugin::ImageLocality => {
            let (count, version) = (look.world.nodes.order().len(), look.rules.version);
            raw.extend(nodes.iter().zip(cards).map(|(node, card)| {
                if !card.has_images {
                    return 0;
                }
                image_locality::score(&look.pod.shape, look.world.nodes.images(*node), count, version)
            }));
            normalised.extend_from_slice(raw);
        }
        Plugin::PodTopologySpread => {
            look.plan.soft.score(look.world, nodes, marks, crowds);
            raw.extend(crowds.iter().map(|crowd| crowd.unwrap_or(0)));
            normalised.resize(nodes.len(), 0);
            pod_topology_spread::normalise(crowds, normalised);
        }
        Plugin::InterPodAffinity => {
            raw.resize(nodes.len(), 0);
            look.plan.affinity.score(look.world, nodes, raw);
            normalised.resize(nodes.len(), 0);
            inter_pod_affinity::normalise(raw, normalised);
        }
        // Devices are not simulated, and volumes are scored only by a feature that is off. The others do not score.
        Plugin::SchedulingGates
        | Plugin::PrioritySort
        | Plugin::NodeUnschedulable
        | Plugin::NodeName
        | Plugin::NodePorts
        | Plugin::VolumeRestrictions
        | Plugin::NodeVolumeLimits
        | Plugin::VolumeBinding
        | Plugin::VolumeZone
        | Plugin::DynamicResources
        | Plugin::DefaultPreemption
        | Plugin::DefaultBinder
        | Plugin::NodeDeclaredFeatures
        | Plugin::Unreadable => {
            raw.resize(nodes.len(), 0);
            normalised.resize(nodes.len(), 0);
        }
    }
}

/// Raises the highest to 100 and the others with it; reversed, the lowest is the best.
fn normalise(raw: &[i64], normalised: &mut Vec<i64>, reverse: bool) {
    // The original looks for more than zero: weights below that are not meant to be.
    let most = raw.iter().copied().max().unwrap_or(0).max(0);
    if most == 0 {
        normalised.extend(raw.iter().map(|score| if reverse { 100 } else { *score }));
        return;
    }
    let scaled = raw.iter().map(|score| 100_i64.wrapping_mul(*score) / most);
    normalised.extend(scaled.map(|score| if reverse { 100 - score } else { score }));
}

//! Template node infos: the node and pods expected of a group's next node, from a live node or the cloud provider.

mod daemon_set_pods;
mod sanitized;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kubernetes::amounts::ScalarResourceNames;
use kubernetes::objects::{NodeView, PodView};
use kubernetes::time::after;
use model::Moment;
use scheduler::ids::NodeId;

use super::clock::LoopClock;
use super::cloud::{CloudProvider, GroupId};
use super::groups::NodeGroup;
use super::informer_cache::InformerCache;
use super::node_eligibility::{NodeEligibilities, NodeEligibility};
use super::pod::Pod;
use super::settings::Settings;
use super::snapshot::ClusterSnapshot;
use daemon_set_pods::DaemonSetPods;
use scheduler::node::Node;

/// A template node and the pods that run on it from the beginning.
#[derive(Clone, Debug)]
pub(crate) struct TemplateNodeInfo {
    pub node: Arc<Node>,
    pub pods: Vec<Arc<Pod>>,
}

/// The templates of all groups.
#[derive(Debug, Default)]
pub(crate) struct TemplateNodeInfoProvider {
    groups: Vec<GroupTemplate>,
    daemon_set_pods: DaemonSetPods,
    /// The nodes that templates are built from, as of a node revision.
    example_nodes: Option<(u64, ExampleNodes)>,
    /// The number of templates built. Each has a unique name: a hint to an upcoming node of the last loop therefore
    /// never matches, except for cached templates.
    built_count: u64,
}

/// The template of one group, with its sources.
#[derive(Debug, Default)]
struct GroupTemplate {
    current: Option<Arc<NamedTemplate>>,
    /// The template of its last good node, and when that was seen.
    cached: Option<(Arc<NamedTemplate>, Moment)>,
    /// The cloud provider's template, once read; `None` inside if it cannot be parsed.
    provider_template: Option<Option<ExampleNode>>,
    last_built: Option<BuiltTemplate>,
}

/// A node that a template is built from.
#[derive(Clone, Debug)]
struct ExampleNode {
    node: Arc<Node>,
    /// The pods that a new node has too: DaemonSet pods and mirror pods.
    pods: Vec<Arc<Pod>>,
}

/// The template as last built, reused as long as its inputs are the same.
#[derive(Debug)]
struct BuiltTemplate {
    example: ExampleNode,
    source: TemplateSource,
    /// The revision of the DaemonSets.
    revision: u64,
    template: Arc<TemplateNodeInfo>,
}

/// A template with a unique name, which is applied when the template is first read.
#[derive(Debug)]
struct NamedTemplate {
    unnamed: Arc<TemplateNodeInfo>,
    /// The group's name.
    group: Arc<str>,
    number: u64,
    template: OnceLock<Arc<TemplateNodeInfo>>,
}

/// The source of an example node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TemplateSource {
    LiveNode,
    CloudProvider,
}

/// How long a node must have been ready to be a good example node.
const STABILIZATION_DELAY: Duration = Duration::from_secs(60);

// === impl TemplateNodeInfoProvider ===

impl TemplateNodeInfoProvider {
    /// The template of a group.
    pub(crate) fn get(&self, group: GroupId) -> Option<&Arc<TemplateNodeInfo>> {
        self.groups.get(group.index())?.current.as_deref().map(NamedTemplate::template)
    }

    /// Whether a group has a template.
    pub(crate) fn has(&self, group: GroupId) -> bool {
        self.groups.get(group.index()).is_some_and(|group| group.current.is_some())
    }

    /// Recomputes all templates, at the beginning of a loop.
    pub(crate) fn recompute(
        &mut self,
        clock: &LoopClock,
        settings: &Settings,
        cloud: &dyn CloudProvider,
        cluster: &mut InformerCache,
        node_eligibilities: &NodeEligibilities,
    ) {
        self.groups.resize_with(cloud.groups().len(), GroupTemplate::default);
        self.daemon_set_pods.update(&cluster.daemon_sets, cluster.snapshot.filter_snapshot.scalars());
        let cached_examples = self.example_nodes.take().filter(|(revision, cached_examples)| {
            *revision == node_eligibilities.revision && cached_examples.is_stable()
        });
        let examples = cached_examples.map_or_else(
            || ExampleNodes::find(clock, cloud, cluster, node_eligibilities),
            |(_, cached_examples)| cached_examples,
        );
        for (index, node_group) in cloud.groups().iter().enumerate() {
            self.groups[index].current = None;
            if let Some(id) = examples.good[index] {
                let example = ExampleNode::from_live_node(&cluster.snapshot, id);
                let template = self.build(index, node_group, settings, example, TemplateSource::LiveNode);
                self.groups[index].cached = Some((template.clone(), clock.now()));
                self.groups[index].current = Some(template);
                continue;
            }
            let group = &mut self.groups[index];
            let ttl = settings.node_info_cache_expire_time;
            if group.cached.take_if(|(_, since)| clock.is_past(after(*since, ttl))).is_some() {
                clock.prevent_repeat();
            }
            if let Some((template, _)) = &group.cached {
                group.current = Some(template.clone());
                continue;
            }
            let scalars = cluster.snapshot.filter_snapshot.scalars();
            let provider_example = group
                .provider_template
                .get_or_insert_with(|| ExampleNode::from_provider_template(node_group, scalars))
                .clone();
            let unready_example = examples.bad[index]
                .map(|id| (ExampleNode::from_live_node(&cluster.snapshot, id), TemplateSource::LiveNode));
            if let Some((example, source)) =
                provider_example.map(|example| (example, TemplateSource::CloudProvider)).or(unready_example)
            {
                self.groups[index].current = Some(self.build(index, node_group, settings, example, source));
            }
        }
        self.example_nodes = Some((node_eligibilities.revision, examples));
    }

    /// Records a repeated loop, which would have built the same templates with new names.
    pub(crate) fn repeat_recompute(&mut self, last: Moment, now: Moment, made: u64) {
        self.built_count += made;
        for (_, since) in self.groups.iter_mut().filter_map(|group| group.cached.as_mut()) {
            if *since == last {
                *since = now;
            }
        }
    }

    /// The number of templates built so far.
    pub(crate) fn built_count(&self) -> u64 {
        self.built_count
    }

    /// Builds a template with a unique name.
    fn build(
        &mut self,
        index: usize,
        group: &NodeGroup,
        settings: &Settings,
        example: ExampleNode,
        source: TemplateSource,
    ) -> Arc<NamedTemplate> {
        self.built_count += 1;
        let number = self.built_count;
        let name_template = |built_template: &Arc<TemplateNodeInfo>| {
            let (built_template, group) = (built_template.clone(), group.name.clone());
            Arc::new(NamedTemplate { unnamed: built_template, group, number, template: OnceLock::new() })
        };
        let revision = self.daemon_set_pods.revision();
        if let Some(built_template) = &self.groups[index].last_built
            && built_template.source == source
            && built_template.revision == revision
            && built_template.example.is_same(&example)
        {
            return name_template(&built_template.template);
        }
        let suffix = number.to_string();
        let mut node = sanitized::node(&example.node, settings);
        sanitized::rename(&mut node, template_name(&group.name, number));
        let mut pods: Vec<_> =
            example.pods.iter().map(|pod| sanitized::pod(pod, &suffix, &node.name)).collect();
        let forced_daemon_sets = settings.force_ds || source == TemplateSource::CloudProvider;
        let missing = self.daemon_set_pods.missing_pods(&example.pods, &node);
        let missing =
            missing.filter(|pod| forced_daemon_sets || daemon_set_pods::is_critical_and_may_preempt(pod));
        pods.extend(missing.map(|pod| sanitized::pod(pod, &suffix, &node.name)));
        sanitized::add_labels(&mut node, source == TemplateSource::CloudProvider);

        let template = Arc::new(TemplateNodeInfo { node: Arc::new(node), pods });
        self.groups[index].last_built =
            Some(BuiltTemplate { example, source, revision, template: template.clone() });
        name_template(&template)
    }
}

// === impl NamedTemplate ===

impl NamedTemplate {
    fn template(&self) -> &Arc<TemplateNodeInfo> {
        self.template.get_or_init(|| {
            let mut node = (*self.unnamed.node).clone();
            sanitized::rename(&mut node, template_name(&self.group, self.number));
            Arc::new(TemplateNodeInfo { node: Arc::new(node), pods: self.unnamed.pods.clone() })
        })
    }
}

/// The name of a template node.
fn template_name(group: &str, number: u64) -> Arc<str> {
    format!("template-node-for-{group}-{number}").into()
}

// === impl TemplateNodeInfo ===

impl TemplateNodeInfo {
    /// A copy with other names for the node and its pods.
    pub(crate) fn copy(&self, suffix: &str) -> TemplateNodeInfo {
        let mut node = (*self.node).clone();
        sanitized::rename(&mut node, format!("{}-{suffix}", self.node.name).into());
        let pods = self.pods.iter().map(|pod| sanitized::pod(pod, suffix, &node.name)).collect();
        TemplateNodeInfo { node: Arc::new(node), pods }
    }
}

// === impl ExampleNode ===

impl ExampleNode {
    fn from_live_node(snapshot: &ClusterSnapshot, id: NodeId) -> ExampleNode {
        let pods = snapshot.pods_on_where(id, runs_on_new_nodes);
        ExampleNode {
            node: snapshot.node(id).clone(),
            pods: pods.into_iter().map(|pod| snapshot.pod(pod).clone()).collect(),
        }
    }

    fn from_provider_template(group: &NodeGroup, scalars: &mut ScalarResourceNames) -> Option<ExampleNode> {
        let node = Node::new(Arc::new(NodeView::parse(&group.template)), scalars);
        if node.read_error.is_some() {
            return None;
        }
        let pods = group.pods.iter().chain(&group.template_pods);
        let pods = pods.map(|pod| Arc::new(Pod::new(Arc::new(PodView::parse(pod)), scalars)));
        Some(ExampleNode { node: Arc::new(node), pods: pods.filter(|pod| runs_on_new_nodes(pod)).collect() })
    }

    /// Whether it has the same node and pods, unchanged.
    fn is_same(&self, other: &ExampleNode) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
            && self.pods.len() == other.pods.len()
            && self.pods.iter().zip(&other.pods).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

/// Whether a new node has a copy of this pod.
fn runs_on_new_nodes(pod: &Pod) -> bool {
    pod.deletion_timestamp.is_none() && (pod.is_mirror() || pod.is_daemon_set_pod())
}

/// The first good example node of each group, and the first bad one.
#[derive(Debug)]
struct ExampleNodes {
    good: Vec<Option<NodeId>>,
    bad: Vec<Option<NodeId>>,
}

impl ExampleNodes {
    /// Whether they stay the same as time passes: no bad node can become a good one.
    fn is_stable(&self) -> bool {
        self.bad.iter().all(Option::is_none)
    }

    fn find(
        clock: &LoopClock,
        cloud: &dyn CloudProvider,
        cluster: &mut InformerCache,
        node_eligibilities: &NodeEligibilities,
    ) -> ExampleNodes {
        let count = cloud.groups().len();
        let mut examples = ExampleNodes { good: vec![None; count], bad: vec![None; count] };
        for id in cluster.node_order() {
            let Some(eligibility) = node_eligibilities.get(*id) else { continue };
            let Some(group) = eligibility.group else { continue };
            // Once there is a good one, the others and their readiness do not matter.
            if examples.good[group.index()].is_some() {
                continue;
            }
            let slots =
                if is_good_example(eligibility, clock) { &mut examples.good } else { &mut examples.bad };
            slots[group.index()].get_or_insert(*id);
        }
        examples
    }
}

fn is_good_example(eligibility: &NodeEligibility, clock: &LoopClock) -> bool {
    eligibility.is_ready_and_schedulable()
        && !eligibility.is_being_deleted
        && clock.is_past(after(eligibility.readiness.last_transition, STABILIZATION_DELAY))
}

#[cfg(test)]
impl TemplateNodeInfoProvider {
    /// With these templates, by group.
    pub(crate) fn with_templates(templates: Vec<Option<Arc<TemplateNodeInfo>>>) -> TemplateNodeInfoProvider {
        let with_name = |template: Arc<TemplateNodeInfo>| {
            let (built_template, template) = (template.clone(), OnceLock::from(template));
            Arc::new(NamedTemplate { unnamed: built_template, group: Arc::from(""), number: 0, template })
        };
        let group = |template: Option<_>| GroupTemplate {
            current: template.map(with_name),
            ..GroupTemplate::default()
        };
        let groups = templates.into_iter().map(group).collect();
        TemplateNodeInfoProvider { groups, ..TemplateNodeInfoProvider::default() }
    }
}

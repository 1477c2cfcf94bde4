//! What a new node of a group would be like: a node that it has or had, or else what the cloud says.

mod daemons;
mod sanitized;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kubernetes::amounts::ScalarNames;
use kubernetes::time::after;
use model::Moment;
use scheduler::ids::NodeId;

use super::clock::Clock;
use super::cloud::{Cloud, GroupId};
use super::cluster::Cluster;
use super::groups::NodeGroup;
use super::node::Node;
use super::pod::Pod;
use super::settings::Settings;
use super::snapshot::Snapshot;
use super::standing::{Standing, Standings};
use daemons::Daemons;

/// A new node, and the pods that would be on it from the beginning.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub node: Arc<Node>,
    pub pods: Vec<Arc<Pod>>,
}

/// The templates of all groups.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    groups: Vec<Group>,
    daemons: Daemons,
    /// The nodes that templates are made after, as of a revision of nodes.
    examples: Option<(u64, Examples)>,
    /// How many templates were made. Each has a name of its own: a pod that would have gone to a node that is still to
    /// come is not sent to the same one again in the next loop, but for those whose template is remembered.
    made: u64,
}

/// What is known for one group.
#[derive(Debug, Default)]
struct Group {
    current: Option<Arc<Named>>,
    /// What its last good node was like, and when.
    remembered: Option<(Arc<Named>, Moment)>,
    /// What the cloud says, once it was asked; `None` inside if that makes no sense.
    offered: Option<Option<Example>>,
    draft: Option<Draft>,
}

/// A node that a template is made after.
#[derive(Clone, Debug)]
struct Example {
    node: Arc<Node>,
    /// Those that a new node would have as well: of DaemonSets, and mirrors.
    pods: Vec<Arc<Pod>>,
}

/// A template as it was last made, to be used again as long as it would come out the same.
#[derive(Debug)]
struct Draft {
    of: Example,
    source: Source,
    /// Of the DaemonSets.
    revision: u64,
    template: Arc<Template>,
}

/// A template with a name of its own, which it gets when somebody asks for it.
#[derive(Debug)]
struct Named {
    draft: Arc<Template>,
    /// The group's.
    group: Arc<str>,
    number: u64,
    template: OnceLock<Arc<Template>>,
}

/// Where an example comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Node,
    Cloud,
}

/// How long a node must have been ready to be a good example.
const STABLE_AFTER: Duration = Duration::from_secs(60);

// === impl Templates ===

impl Templates {
    /// What a new node of a group would be like.
    pub(crate) fn get(&self, group: GroupId) -> Option<&Arc<Template>> {
        self.groups.get(group.index())?.current.as_deref().map(Named::template)
    }

    /// Whether it is known what a new node of a group would be like.
    pub(crate) fn has(&self, group: GroupId) -> bool {
        self.groups.get(group.index()).is_some_and(|group| group.current.is_some())
    }

    /// Looks at the cluster anew, at the beginning of a loop.
    pub(crate) fn recompute(
        &mut self,
        clock: &Clock,
        settings: &Settings,
        cloud: &dyn Cloud,
        cluster: &mut Cluster,
        standings: &Standings,
    ) {
        self.groups.resize_with(cloud.groups().len(), Group::default);
        self.daemons.update(&cluster.daemon_sets, cluster.snapshot.trial.scalars());
        let known = self.examples.take().filter(|(of, known)| *of == standings.revision && known.hold());
        let examples =
            known.map_or_else(|| Examples::find(clock, cloud, cluster, standings), |(_, known)| known);
        for (index, offer) in cloud.groups().iter().enumerate() {
            self.groups[index].current = None;
            if let Some(id) = examples.good[index] {
                let example = Example::live(&cluster.snapshot, id);
                let template = self.make(index, offer, settings, example, Source::Node);
                self.groups[index].remembered = Some((template.clone(), clock.now()));
                self.groups[index].current = Some(template);
                continue;
            }
            let group = &mut self.groups[index];
            let kept = settings.node_info_cache_expire_time;
            if group.remembered.take_if(|(_, since)| clock.is_past(after(*since, kept))).is_some() {
                clock.disturb();
            }
            if let Some((template, _)) = &group.remembered {
                group.current = Some(template.clone());
                continue;
            }
            let scalars = cluster.snapshot.trial.scalars();
            let offered = group.offered.get_or_insert_with(|| Example::offered(offer, scalars)).clone();
            let bad = examples.bad[index].map(|id| (Example::live(&cluster.snapshot, id), Source::Node));
            if let Some((example, source)) = offered.map(|example| (example, Source::Cloud)).or(bad) {
                self.groups[index].current = Some(self.make(index, offer, settings, example, source));
            }
        }
        self.examples = Some((standings.revision, examples));
    }

    /// A loop at that moment would have made the same templates again, under names of their own.
    pub(crate) fn made_again(&mut self, last: Moment, now: Moment, made: u64) {
        self.made += made;
        for (_, since) in self.groups.iter_mut().filter_map(|group| group.remembered.as_mut()) {
            if *since == last {
                *since = now;
            }
        }
    }

    /// How many templates were made.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// A template with a name of its own.
    fn make(
        &mut self,
        index: usize,
        group: &NodeGroup,
        settings: &Settings,
        example: Example,
        source: Source,
    ) -> Arc<Named> {
        self.made += 1;
        let number = self.made;
        let named = |draft: &Arc<Template>| {
            let (draft, group) = (draft.clone(), group.name.clone());
            Arc::new(Named { draft, group, number, template: OnceLock::new() })
        };
        let revision = self.daemons.revision();
        if let Some(draft) = &self.groups[index].draft
            && draft.source == source
            && draft.revision == revision
            && draft.of.is(&example)
        {
            return named(&draft.template);
        }
        let suffix = number.to_string();
        let mut node = sanitized::node(&example.node, settings);
        sanitized::rename(&mut node, name_of(&group.name, number));
        let mut pods: Vec<_> =
            example.pods.iter().map(|pod| sanitized::pod(pod, &suffix, &node.name)).collect();
        let forced = settings.force_ds || source == Source::Cloud;
        let missing = self.daemons.missing(&example.pods, &node);
        let missing = missing.filter(|pod| forced || daemons::makes_room_for_itself(pod));
        pods.extend(missing.map(|pod| sanitized::pod(pod, &suffix, &node.name)));
        sanitized::add_labels(&mut node, source == Source::Cloud);

        let template = Arc::new(Template { node: Arc::new(node), pods });
        self.groups[index].draft = Some(Draft { of: example, source, revision, template: template.clone() });
        named(&template)
    }
}

// === impl Named ===

impl Named {
    fn template(&self) -> &Arc<Template> {
        self.template.get_or_init(|| {
            let mut node = (*self.draft.node).clone();
            sanitized::rename(&mut node, name_of(&self.group, self.number));
            Arc::new(Template { node: Arc::new(node), pods: self.draft.pods.clone() })
        })
    }
}

/// What a template of a group is called.
fn name_of(group: &str, number: u64) -> Arc<str> {
    format!("template-node-for-{group}-{number}").into()
}

// === impl Template ===

impl Template {
    /// Another node like it, with other names for it and for its pods.
    pub(crate) fn copy(&self, suffix: &str) -> Template {
        let mut node = (*self.node).clone();
        sanitized::rename(&mut node, format!("{}-{suffix}", self.node.name).into());
        let pods = self.pods.iter().map(|pod| sanitized::pod(pod, suffix, &node.name)).collect();
        Template { node: Arc::new(node), pods }
    }
}

// === impl Example ===

impl Example {
    fn live(snapshot: &Snapshot, id: NodeId) -> Example {
        let pods = snapshot.pods_on(id).into_iter().map(|pod| snapshot.pod(pod).clone());
        Example { node: snapshot.node(id).clone(), pods: pods.filter(|pod| is_on_new_nodes(pod)).collect() }
    }

    fn offered(group: &NodeGroup, scalars: &mut ScalarNames) -> Option<Example> {
        let node = Node::read(&group.template, scalars);
        if node.spec.trouble.is_some() {
            return None;
        }
        let pods = group.pods.iter().chain(&group.believed).map(|pod| Arc::new(Pod::read(pod, scalars)));
        Some(Example { node: Arc::new(node), pods: pods.filter(|pod| is_on_new_nodes(pod)).collect() })
    }

    /// Whether it is the same, unchanged.
    fn is(&self, other: &Example) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
            && self.pods.len() == other.pods.len()
            && self.pods.iter().zip(&other.pods).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

/// Whether a new node would have a pod like this one.
fn is_on_new_nodes(pod: &Pod) -> bool {
    pod.deleted.is_none() && (pod.is_mirror() || pod.is_of_daemon_set())
}

/// The first node of each group that is a good example, and the first that is not.
#[derive(Debug)]
struct Examples {
    good: Vec<Option<NodeId>>,
    bad: Vec<Option<NodeId>>,
}

impl Examples {
    /// Whether they are the same at any later moment: no node has yet to become a good one.
    fn hold(&self) -> bool {
        self.bad.iter().all(Option::is_none)
    }

    fn find(clock: &Clock, cloud: &dyn Cloud, cluster: &mut Cluster, standings: &Standings) -> Examples {
        let count = cloud.groups().len();
        let mut found = Examples { good: vec![None; count], bad: vec![None; count] };
        for id in cluster.order() {
            let Some(standing) = standings.get(*id) else { continue };
            let Some(group) = standing.group else { continue };
            // Once there is a good one, nothing depends on the others, nor on how long they have been ready.
            if found.good[group.index()].is_some() {
                continue;
            }
            let place = if is_good_example(standing, clock) { &mut found.good } else { &mut found.bad };
            place[group.index()].get_or_insert(*id);
        }
        found
    }
}

fn is_good_example(standing: &Standing, clock: &Clock) -> bool {
    standing.is_open() && !standing.going && clock.is_past(after(standing.readiness.changed, STABLE_AFTER))
}

#[cfg(test)]
impl Templates {
    /// These, by group.
    pub(crate) fn these(templates: Vec<Option<Arc<Template>>>) -> Templates {
        let named = |template: Arc<Template>| {
            let (draft, template) = (template.clone(), OnceLock::from(template));
            Arc::new(Named { draft, group: Arc::from(""), number: 0, template })
        };
        let group = |template: Option<_>| Group { current: template.map(named), ..Group::default() };
        let groups = templates.into_iter().map(group).collect();
        Templates { groups, ..Templates::default() }
    }
}

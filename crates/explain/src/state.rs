//! The cluster at a moment, told to a scheduler in the order in which a real one would have learnt of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use history::Selection;
use model::{Key, Kind, Moment, Object, What, Window};
use query::{AsOf, Chosen, objects};
use scheduler::{KINDS, Scheduler};

use super::seen::Seen;

/// A scheduler counts on a place from when it decides; others see the pod there once it is bound, so much later. On
/// recordings of real schedulers, most that differed without it agree with it.
const BINDING: i64 = 50_000_000;

/// The cluster as of a moment.
pub struct State {
    objects: BTreeMap<Key, Object>,
    /// When the nodes came.
    came: HashMap<Key, Moment>,
}

// === impl State ===

impl State {
    /// The cluster as a scheduler knew it that was about to decide on the pod `key`.
    pub fn read(chosen: &Chosen, source: &Arc<str>, as_of: AsOf, key: &Key) -> anyhow::Result<State> {
        let kinds = KINDS.iter().map(|(group, kind)| Kind::new(group, kind)).collect();
        let selection =
            Selection { kinds: Some(kinds), source: Some(source.clone()), ..Selection::default() };
        let mut objects = objects(chosen, &selection, as_of)?;
        if let AsOf::At(at) = as_of {
            let soon = Window { from: at.plus_nanos(1), to: at.plus_nanos(BINDING) };
            let pods = Selection { kinds: Some(vec![Kind::new("", "Pod")]), ..selection.clone() };
            for change in chosen.history.between(soon, &pods)? {
                let change = change?;
                let waited = objects.get(&change.key).is_some_and(waits);
                if let What::Modified(object) = change.what
                    && change.key != *key
                    && waited
                    && !waits(&object)
                {
                    objects.insert(change.key, object);
                }
            }
        }
        let nodes = Selection { kinds: Some(vec![Kind::new("", "Node")]), ..selection };
        let came = chosen.history.came(as_of.moment(), &nodes)?;
        Ok(State { objects, came })
    }

    /// Puts an object in its place, or in that of another.
    pub fn put(&mut self, key: &Key, object: Object) {
        self.objects.insert(key.clone(), object);
    }

    /// Tells a scheduler all of it.
    ///
    /// The order decides between nodes that are equally good, and between pods on one that are. Nodes stand in the order
    /// of their creation: that is known to the second, and within it by when the history first saw them. Pods stand in
    /// the order in which they were bound, as far as their conditions tell, and those that wait behind them.
    pub fn feed(&self, scheduler: &mut Scheduler, now: Moment) {
        let mut nodes = Vec::new();
        let mut pods = Vec::new();
        for (key, object) in &self.objects {
            match (&*key.kind.group, &*key.kind.kind) {
                ("", "Node") => {
                    let created = Seen::read(object).metadata.creation_timestamp;
                    nodes.push(((created, self.came.get(key).copied()), object));
                }
                ("", "Pod") => {
                    let Seen { metadata, spec, status } = Seen::read(object);
                    let bound = status.bound().map(str::to_owned);
                    let waits = spec.node().is_none();
                    pods.push(((waits, bound, metadata.creation_timestamp), object));
                }
                _ => scheduler.apply(now, &What::Added(object.clone())),
            }
        }
        nodes.sort_by(|(a, _), (b, _)| a.cmp(b));
        pods.sort_by(|(a, _), (b, _)| a.cmp(b));
        let rest = nodes.into_iter().map(|(_, node)| node).chain(pods.into_iter().map(|(_, pod)| pod));
        for object in rest {
            scheduler.apply(now, &What::Added(object.clone()));
        }
    }

    /// Whether no node was ever seen.
    pub fn is_before_nodes(&self) -> bool {
        self.came.is_empty() && self.nodes() == 0
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.objects.keys().filter(|key| key.kind.group.is_empty() && &*key.kind.kind == "Node").count()
    }

    /// The priority of a pod.
    pub fn priority(&self, key: &Key) -> i64 {
        let pod = self.objects.get(key).and_then(|pod| pod.value().ok());
        pod.and_then(|pod| pod["spec"]["priority"].as_i64()).unwrap_or(0)
    }

    /// The schedulerName of a pod.
    pub fn scheduler_of(&self, key: &Key) -> String {
        let pod = self.objects.get(key).and_then(|pod| pod.value().ok());
        let name = pod.and_then(|pod| pod["spec"]["schedulerName"].as_str().map(str::to_owned));
        name.filter(|name| !name.is_empty()).unwrap_or_else(|| "default-scheduler".to_owned())
    }
}

/// When the first node was seen.
pub(crate) fn first_node(chosen: &Chosen, source: &Arc<str>) -> anyhow::Result<Option<Moment>> {
    let selection = Selection {
        kinds: Some(vec![Kind::new("", "Node")]),
        source: Some(source.clone()),
        ..Selection::default()
    };
    let first = chosen.history.between(Window::ALL, &selection)?.next().transpose()?;
    Ok(first.map(|change| change.at))
}

/// Whether a pod has no node yet.
fn waits(pod: &Object) -> bool {
    Seen::read(pod).spec.node().is_none()
}

//! The inputs of a replay, in order: a recording read a second time, with its demands known.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use calibration::observed::{OwnerKind, ParsedPod};
use history::Changes;
use kubernetes::objects::NodeView;
use kubernetes::well_known::{REGION, ZONE};
use model::{Change, JsonCursor, Moment, Object, What};
use rustc_hash::{FxHashMap, FxHasher};
use simulation::{DemandId, InitialPodState, Input, PodDemand, RecreatePolicy};

use crate::demands::objects::is_being_removed;
use crate::demands::{DemandAction, IncarnationReader, RecordedDemands};
use crate::error::Error;

/// Kinds that no component of a replay reads.
pub(crate) const IGNORED_KINDS: [&str; 2] = ["Event", "Lease"];

/// Turns recorded changes into inputs of a replay.
///
/// It assigns pods to demands by their order: it must be given the pods that the extractor was given, in the same order.
pub struct InputStream<'a> {
    demands: &'a RecordedDemands,
    /// Whether a node belongs to a group that the replay scales.
    is_in_scaled_group: &'a (dyn Fn(&NodeView) -> bool + Sync),
    incarnations: IncarnationReader<'a>,
    pods: FxHashMap<Arc<str>, InputPod>,
    /// Demands whose first pod has scheduling gates.
    gated: FxHashMap<Arc<str>, DemandId>,
    /// Nodes that were input.
    nodes: BTreeSet<Arc<str>>,
    /// Actions on demands that are still due.
    due_actions: BinaryHeap<Reverse<(Moment, DemandId, DemandAction)>>,
    window_began: bool,
}

/// An existing recorded pod and its demand.
struct InputPod {
    demand: DemandId,
    /// A hash of the fields that users may change.
    fields_hash: u64,
}

/// Labels that a pod gets from its node when it is bound (PodTopologyLabels admission).
const LABELS_FROM_NODE: [&str; 2] = [ZONE, REGION];

impl<'a> InputStream<'a> {
    /// Creates a stream of these demands.
    pub fn new(
        demands: &'a RecordedDemands,
        is_in_scaled_group: &'a (dyn Fn(&NodeView) -> bool + Sync),
    ) -> InputStream<'a> {
        InputStream {
            demands,
            is_in_scaled_group,
            incarnations: demands.incarnations(),
            pods: FxHashMap::default(),
            gated: FxHashMap::default(),
            nodes: BTreeSet::new(),
            due_actions: BinaryHeap::new(),
            window_began: false,
        }
    }

    /// Returns the input for an object that exists when the window begins.
    pub fn initial_input(&mut self, from: Moment, object: Object) -> Result<Option<Input>, Error> {
        self.input_for(from, What::Added(object))
    }

    /// Returns the inputs for changes after the beginning and for actions on demands until a moment, in order.
    pub(crate) fn into_inputs(
        mut self,
        mut changes: Changes,
        until: Moment,
    ) -> impl Iterator<Item = Result<(Moment, Input), Error>> + use<'a> {
        self.window_began = true;
        let mut next: Option<Change> = None;
        std::iter::from_fn(move || {
            loop {
                if next.is_none() {
                    next = match changes.next().transpose() {
                        Ok(change) => change,
                        Err(error) => return Some(Err(error.into())),
                    };
                }
                if let Some(due_input) = self.next_due_action(next.as_ref().map_or(until, |change| change.at))
                {
                    return Some(Ok(due_input));
                }
                let Change { at, what, .. } = next.take()?;
                if let Some(input) = self.input_for(at, what).transpose() {
                    return Some(input.map(|input| (at, input)));
                }
            }
        })
    }

    /// Returns the next action on a demand before a moment.
    fn next_due_action(&mut self, before: Moment) -> Option<(Moment, Input)> {
        self.due_actions.peek().filter(|Reverse((at, ..))| *at < before)?;
        let Reverse((at, demand, action)) = self.due_actions.pop()?;
        let input = match action {
            DemandAction::Withdrawn => Input::Withdrawn(demand),
            DemandAction::Deleted => Input::PodDeleted(demand),
            DemandAction::CleanedUp => Input::CleanedUp(demand),
        };
        Some((at, input))
    }

    fn input_for(&mut self, at: Moment, what: What) -> Result<Option<Input>, Error> {
        let meta = what.object().meta();
        match (&*meta.api_version, &*meta.kind) {
            ("v1", "Pod") => {
                let uid: Arc<str> = match meta.uid.as_ref().filter(|uid| !uid.is_empty()) {
                    Some(uid) => (**uid).into(),
                    None => format!("{}/{}", meta.namespace, meta.name).into(),
                };
                match &what {
                    What::Deleted(_) => {
                        self.pods.remove(&uid);
                        self.gated.remove(&uid);
                        Ok(None)
                    }
                    What::Added(pod) | What::Modified(pod) if self.gated.contains_key(&uid) => {
                        let ungated = ParsedPod::parse(pod).filter(|parsed| !parsed.is_gated);
                        match ungated.and_then(|parsed| Some((parsed, self.gated.remove(&uid)?))) {
                            Some((parsed, demand)) => self.demand_input(at, demand, pod, parsed),
                            None => Ok(None),
                        }
                    }
                    What::Added(pod) | What::Modified(pod) => match self.pods.get_mut(&uid) {
                        Some(input_pod) => {
                            let previous_hash =
                                std::mem::replace(&mut input_pod.fields_hash, mutable_fields_hash(pod));
                            let changed = previous_hash != input_pod.fields_hash;
                            Ok(changed.then(|| Input::PodChanged(input_pod.demand, pod.clone())))
                        }
                        None => self.pod_first_seen(at, uid, pod),
                    },
                }
            }
            ("v1", "Node") => {
                let name: Arc<str> = (*meta.name).into();
                Ok(self.node_input(name, what))
            }
            (_, kind) if IGNORED_KINDS.contains(&kind) => Ok(None),
            _ => Ok(if self.window_began && self.is_controller_object(what.object())? {
                None
            } else {
                Some(Input::Object(what))
            }),
        }
    }

    fn pod_first_seen(&mut self, at: Moment, uid: Arc<str>, pod: &Object) -> Result<Option<Input>, Error> {
        let Some(parsed) = ParsedPod::parse(pod) else { return Ok(None) };
        let (demand, is_first) = self.incarnations.next().map_err(Error::temp_file)?;
        self.pods.insert(uid.clone(), InputPod { demand, fields_hash: mutable_fields_hash(pod) });
        if !is_first {
            // Further incarnations are decided by the replay.
            return Ok(None);
        }
        if parsed.is_gated {
            // It becomes input when its gates are removed.
            self.gated.insert(uid, demand);
            return Ok(None);
        }
        self.demand_input(at, demand, pod, parsed)
    }

    /// Whether a controller of the replay creates such an object.
    fn is_controller_object(&self, object: &Object) -> Result<bool, Error> {
        self.demands.controller_pods.creates(object).map_err(Error::temp_file)
    }

    fn demand_input(
        &mut self,
        at: Moment,
        id: DemandId,
        pod: &Object,
        parsed: ParsedPod,
    ) -> Result<Option<Input>, Error> {
        let has_ended = !self.window_began && parsed.is_finished();
        if has_ended {
            return Ok(None);
        }
        let recorded = self.demands.get(id).map_err(Error::temp_file)?;
        // The actions of its owner are decided by the owner's controller, if the replay has that.
        let is_controller_pod = self.is_controller_object(pod)?;
        for (due_at, action) in recorded
            .actions
            .iter()
            .filter(|(_, action)| !is_controller_pod || *action == DemandAction::Deleted)
        {
            self.due_actions.push(Reverse((*due_at, id, *action)));
        }
        if is_controller_pod && self.window_began {
            return Ok(None);
        }
        let comes_with_node = self.window_began && parsed.comes_with_node;
        if comes_with_node && parsed.node.as_ref().is_none_or(|node| !self.nodes.contains(node)) {
            // It is created with a node that the replay decides about.
            return Ok(None);
        }
        let initial_state = (!self.window_began || comes_with_node).then(|| InitialPodState {
            created: parsed.created.map_or(at, |created| created.min(at)),
            node: parsed.node,
            nominated: parsed.nominated_node,
            unschedulable: parsed
                .not_scheduled
                .and_then(|condition| Some((condition.message?, condition.since?))),
            started: parsed.started,
            is_terminating: parsed.is_terminating,
        });
        let input = Input::parse_demand(PodDemand {
            id,
            pod: pod.clone(),
            after: recorded.after,
            initial_state,
            recreate: if is_controller_pod { RecreatePolicy::Never } else { recorded.recreate },
            replica_set: parsed
                .owner
                .filter(|owner| owner.kind == OwnerKind::ReplicaSet)
                .map(|owner| owner.uid),
            exit: recorded.exit,
            incarnations: recorded.incarnations,
            not_recreated_for: recorded.not_recreated_for,
        })?;
        Ok(Some(input))
    }

    fn node_input(&mut self, name: Arc<str>, what: What) -> Option<Input> {
        match what {
            What::Deleted(node) => {
                let view = NodeView::parse(&node);
                let is_autoscaler_removal = (self.is_in_scaled_group)(&view) && is_being_removed(&view);
                (self.nodes.remove(&name) && !is_autoscaler_removal)
                    .then_some(Input::Object(What::Deleted(node)))
            }
            What::Added(node) | What::Modified(node) => {
                let view = NodeView::parse(&node);
                if self.nodes.contains(&name) {
                    // Changes by an autoscaler to a node that it removes are decided by the replay.
                    let is_autoscaler_removal =
                        self.window_began && is_being_removed(&view) && (self.is_in_scaled_group)(&view);
                    return (!is_autoscaler_removal).then_some(Input::Object(What::Modified(node)));
                }
                if self.window_began && (self.is_in_scaled_group)(&view) {
                    return None;
                }
                self.nodes.insert(name);
                Some(Input::Object(What::Added(node)))
            }
        }
    }
}

/// A hash of the fields of a pod that users may change and that affect decisions: its labels and tolerations.
fn mutable_fields_hash(pod: &Object) -> u64 {
    let mut cursor = JsonCursor::new(pod.as_str());
    let (mut labels, mut tolerations) = (Vec::new(), None);
    // Most of the text follows after both: a pod's status is last.
    let (mut has_metadata, mut has_spec) = (false, false);
    cursor.enter();
    while !(has_metadata && has_spec) && cursor.has_next() {
        let member = cursor.key();
        let is_spec = member == "spec";
        if (!is_spec && member != "metadata") || cursor.peek() != b'{' {
            cursor.skip();
            continue;
        }
        has_spec |= is_spec;
        has_metadata |= !is_spec;
        cursor.enter();
        while cursor.has_next() {
            match &*cursor.key() {
                "labels" if !is_spec && cursor.peek() == b'{' => labels = labels_at(&mut cursor),
                "tolerations" if is_spec => {
                    let start = cursor.at();
                    cursor.skip();
                    tolerations = Some(cursor.since(start)).filter(|json| *json != "null");
                }
                _ => cursor.skip(),
            }
        }
    }
    let mut hasher = FxHasher::default();
    (labels, tolerations).hash(&mut hasher);
    hasher.finish()
}

/// Reads the labels at the cursor, without those from the node. They are sorted by name, with their values as JSON.
fn labels_at<'j>(cursor: &mut JsonCursor<'j>) -> Vec<(Cow<'j, str>, &'j str)> {
    let mut labels = Vec::new();
    cursor.enter();
    while cursor.has_next() {
        let name = cursor.key();
        let start = cursor.at();
        cursor.skip();
        if !LABELS_FROM_NODE.contains(&&*name) {
            labels.push((name, cursor.since(start)));
        }
    }
    labels.sort_unstable();
    labels
}

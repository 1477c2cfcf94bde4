//! The script of the day: the changes that users make to the cluster, and the failure of a node.

use std::collections::BTreeMap;

use model::{Key, Kind, Moment, Object, What};
use serde_json::Value;

use super::inventory::{BROKEN_SERVICE, STOREFRONT, WEB, disk_affinity};
use super::nodes::{self, GENERAL, POOL, parse_object};
use super::recorder::ShopRecorder;
use super::{DayHighlights, SOURCE, load};
use crate::objects::SECOND;
use crate::rng::SeededRng;

/// The scripted actions of the day, and the objects worth showing.
pub(super) struct DayScript {
    midnight: Moment,
    agenda: BTreeMap<Moment, Vec<ScriptedAction>>,
    /// The number of visitors of each service today, relative to the usual number.
    daily_factors: Vec<f64>,
    lost_node: Option<Key>,
    unmatched_pod: Option<Key>,
    waiting_pod: Option<Key>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScriptedAction {
    /// Scales the services to their number of visitors.
    ScaleToVisitors,
    /// Rolls out a good version.
    Rollout,
    /// Rolls out a version that requires a disk that no node has.
    BadRollout,
    /// Rolls out the same version with the right disk.
    FixRollout,
    /// A node becomes unreachable.
    FailNode,
    /// The unreachable node is deleted.
    RemoveNode,
    /// Picks the pods to show.
    PickPods,
}

const MINUTE: i64 = 60 * SECOND;
/// The interval between two adjustments of replicas.
const SCALING_INTERVAL: i64 = 3 * MINUTE;
/// The relative difference between desired and actual replicas below which nothing is changed.
const TOLERANCE: f64 = 0.06;

/// The times of the single events: hour, minute and second.
const ROLLOUT: [i64; 3] = [10, 15, 0];
const BAD_ROLLOUT: [i64; 3] = [13, 25, 0];
const SALE: [i64; 3] = [14, 0, 0];
const NODE_LOST: [i64; 3] = [14, 10, 0];
const NODE_REMOVED: [i64; 3] = [14, 11, 40];
const BAD_MOMENT: [i64; 3] = [14, 20, 0];
const ROLLOUT_FIXED: [i64; 3] = [14, 30, 0];
const SALE_OVER: [i64; 3] = [15, 0, 0];
/// How long the sale's visitors take to arrive and to leave.
const SALE_ARRIVAL: i64 = 6 * MINUTE;
const SALE_DEPARTURE: i64 = 12 * MINUTE;

// === impl DayScript ===

impl DayScript {
    /// The script of the day that begins at seven o'clock.
    pub(super) fn new(seven: Moment, mut rng: SeededRng) -> DayScript {
        let midnight = seven.plus_nanos(-time_of_day_nanos([7, 0, 0]));
        let mut agenda: BTreeMap<Moment, Vec<ScriptedAction>> = BTreeMap::new();
        let mut put = |at: i64, deed| agenda.entry(midnight.plus_nanos(at)).or_default().push(deed);
        let first = time_of_day_nanos([6, 10, 0]);
        for look in (0..)
            .map(|count| first + count * SCALING_INTERVAL)
            .take_while(|at| *at < time_of_day_nanos([24, 0, 0]))
        {
            put(look, ScriptedAction::ScaleToVisitors);
        }
        for (at, deed) in [
            (ROLLOUT, ScriptedAction::Rollout),
            (BAD_ROLLOUT, ScriptedAction::BadRollout),
            (NODE_LOST, ScriptedAction::FailNode),
            (NODE_REMOVED, ScriptedAction::RemoveNode),
            (BAD_MOMENT, ScriptedAction::PickPods),
            (ROLLOUT_FIXED, ScriptedAction::FixRollout),
        ] {
            put(time_of_day_nanos(at), deed);
        }
        let factor = load::scaled_services().map(|_| rng.between(97..=103) as f64 / 100.0).collect();
        DayScript {
            midnight,
            agenda,
            daily_factors: factor,
            lost_node: None,
            unmatched_pod: None,
            waiting_pod: None,
        }
    }

    /// The time of the next action.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.agenda.keys().next().copied()
    }

    /// Takes the actions due at a moment and returns the changes they make.
    pub(super) fn run_due(&mut self, at: Moment, recorder: &ShopRecorder) -> Vec<What> {
        let actions = self.agenda.remove(&at).unwrap_or_default();
        let mut changes = Vec::new();
        for action in actions {
            match action {
                ScriptedAction::ScaleToVisitors => changes.extend(self.scale_to_visitors(at, recorder)),
                ScriptedAction::Rollout => changes.extend(roll_out(recorder, "catalog", "4.5.0", |_| ())),
                ScriptedAction::BadRollout => {
                    changes.extend(roll_out(recorder, BROKEN_SERVICE, "0.28.0", |pod| {
                        pod["affinity"] = disk_affinity("nmve")
                    }));
                }
                ScriptedAction::FixRollout => {
                    changes.extend(roll_out(recorder, BROKEN_SERVICE, "0.28.1", |pod| {
                        pod["affinity"] = disk_affinity("nvme")
                    }));
                }
                ScriptedAction::FailNode => changes.extend(self.fail_node(at, recorder)),
                ScriptedAction::RemoveNode => {
                    let node = self.lost_node.as_ref().and_then(|key| recorder.get(&key.kind, "", &key.name));
                    changes.extend(node.cloned().map(What::Deleted));
                }
                ScriptedAction::PickPods => self.pick_pods(recorder),
            }
        }
        changes
    }

    /// The moments and objects to show, after the day is over.
    pub(super) fn highlights(self, begin: Moment, end: Moment, recorder: &ShopRecorder) -> DayHighlights {
        let at = |time| self.midnight.plus_nanos(time_of_day_nanos(time));
        DayHighlights {
            begin,
            end,
            bad_rollout: at(BAD_ROLLOUT),
            sale: at(SALE),
            node_lost: at(NODE_LOST),
            bad_moment: at(BAD_MOMENT),
            rollout_fixed: at(ROLLOUT_FIXED),
            sale_over: at(SALE_OVER),
            broken_deployment: Key {
                source: SOURCE.into(),
                kind: deployment_kind(),
                namespace: WEB.into(),
                name: BROKEN_SERVICE.into(),
            },
            preempted_pod: recorder.first_preempted(at(SALE)).cloned(),
            unmatched_pod: self.unmatched_pod,
            waiting_pod: self.waiting_pod,
            lost_node: self.lost_node,
        }
    }

    fn scale_to_visitors(&self, at: Moment, recorder: &ShopRecorder) -> Vec<What> {
        let since_midnight = at.nanos_since(self.midnight);
        let sale = sale_progress(since_midnight);
        let mut changes = Vec::new();
        for ((service, feels), luck) in load::scaled_services().zip(&self.daily_factors) {
            let wanted = load::needed_replicas(service, feels, since_midnight, sale, *luck);
            let Some(mut known) =
                recorder.get(&deployment_kind(), WEB, service.name).and_then(|it| it.value().ok())
            else {
                continue;
            };
            let has = known["spec"]["replicas"].as_i64().unwrap_or(0);
            if ((wanted - has) as f64).abs() > TOLERANCE * has as f64 {
                known["spec"]["replicas"] = wanted.into();
                changes.push(What::Modified(with_next_generation(known)));
            }
        }
        changes
    }

    /// Makes the node with the most of the shop's pods unreachable.
    fn fail_node(&mut self, at: Moment, recorder: &ShopRecorder) -> Option<What> {
        let mut pods: BTreeMap<String, usize> = BTreeMap::new();
        for (key, pod) in recorder.objects_of_kind(Kind::new("", "Pod")) {
            let node = pod.value().ok()?["spec"]["nodeName"].as_str().map(str::to_owned);
            if let Some(node) = node.filter(|_| &*key.namespace == WEB) {
                *pods.entry(node).or_default() += 1;
            }
        }
        // One of the initial nodes, so that its age is like that of the others.
        let is_old = |node: &Value| node["metadata"]["creationTimestamp"].as_str() < Some("2026-10");
        let nodes = recorder.objects_of_kind(Kind::new("", "Node")).filter(|(_, node)| {
            node.value().is_ok_and(|node| node["metadata"]["labels"][POOL] == GENERAL && is_old(&node))
        });
        let (key, node) = nodes.max_by_key(|(key, _)| pods.get(&*key.name))?;
        self.lost_node = Some(key.clone());
        nodes::mark_unreachable(node, at).map(What::Modified)
    }

    /// Picks a pod whose affinity matches no node, and one for which no node has free resources.
    fn pick_pods(&mut self, recorder: &ShopRecorder) {
        for (key, pod) in
            recorder.objects_of_kind(Kind::new("", "Pod")).filter(|(key, _)| &*key.namespace == WEB)
        {
            let Ok(pod) = pod.value() else { continue };
            if !is_unschedulable(&pod) {
                continue;
            }
            let found = match pod["metadata"]["labels"]["app"].as_str() {
                Some(BROKEN_SERVICE) => &mut self.unmatched_pod,
                Some(STOREFRONT) => &mut self.waiting_pod,
                _ => continue,
            };
            found.get_or_insert_with(|| key.clone());
        }
    }
}

/// The share of the sale's visitors at a time of day, from 0 to 1.
fn sale_progress(since_midnight: i64) -> f64 {
    let come = (since_midnight - time_of_day_nanos(SALE)) as f64 / SALE_ARRIVAL as f64;
    let gone = (since_midnight - time_of_day_nanos(SALE_OVER)) as f64 / SALE_DEPARTURE as f64;
    come.clamp(0.0, 1.0) - gone.clamp(0.0, 1.0)
}

/// Rolls out a new version of a service.
fn roll_out(
    recorder: &ShopRecorder,
    name: &str,
    version: &str,
    change: impl FnOnce(&mut Value),
) -> Option<What> {
    let mut known = recorder.get(&deployment_kind(), WEB, name)?.value().ok()?;
    let pod = &mut known["spec"]["template"]["spec"];
    pod["containers"][0]["image"] = format!("registry.example/shop/{name}:{version}").into();
    change(pod);
    Some(What::Modified(with_next_generation(known)))
}

/// The object with its generation incremented, as after a change of its spec.
fn with_next_generation(mut value: Value) -> Object {
    let generation = value["metadata"]["generation"].as_i64().unwrap_or(0);
    value["metadata"]["generation"] = (generation + 1).into();
    parse_object(&value)
}

/// Whether the scheduler marked a pod unschedulable.
fn is_unschedulable(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "PodScheduled" && it["reason"] == "Unschedulable")
}

fn deployment_kind() -> Kind {
    Kind::new("apps", "Deployment")
}

fn time_of_day_nanos([hour, minute, second]: [i64; 3]) -> i64 {
    ((hour * 60 + minute) * 60 + second) * SECOND
}

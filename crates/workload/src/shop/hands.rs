//! The script of the day: the changes that users make to the cluster, and the failure of a node.

use std::collections::BTreeMap;

use model::{Key, Kind, Moment, Object, What};
use serde_json::Value;

use super::film::Film;
use super::inventory::{BROKEN, FRONT, WEB, affinity};
use super::nodes::{self, GENERAL, POOL, object};
use super::{SOURCE, Story, load};
use crate::chance::Chance;
use crate::objects::SECOND;

/// The scripted actions of the day, and the objects worth showing.
pub(super) struct Hands {
    midnight: Moment,
    agenda: BTreeMap<Moment, Vec<Deed>>,
    /// The number of visitors of each service today, relative to the usual number.
    luck: Vec<f64>,
    lost_node: Option<Key>,
    misplaced_pod: Option<Key>,
    waiting_pod: Option<Key>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    /// Scales the services to their number of visitors.
    FollowVisitors,
    /// Rolls out a good version.
    Rollout,
    /// Rolls out a version that requires a disk that no node has.
    BadRollout,
    /// Rolls out the same version with the right disk.
    Mend,
    /// A node becomes unreachable.
    LoseNode,
    /// The unreachable node is deleted.
    RemoveNode,
    /// Picks the pods to show.
    Look,
}

const MINUTE: i64 = 60 * SECOND;
/// The interval between two adjustments of replicas.
const LOOKS: i64 = 3 * MINUTE;
/// The relative difference between desired and actual replicas below which nothing is changed.
const TOLERANCE: f64 = 0.06;

/// Hour, minute and second of the single events.
const ROLLOUT: [i64; 3] = [10, 15, 0];
const BAD_ROLLOUT: [i64; 3] = [13, 25, 0];
const SALE: [i64; 3] = [14, 0, 0];
const NODE_LOST: [i64; 3] = [14, 10, 0];
const NODE_REMOVED: [i64; 3] = [14, 11, 40];
const BAD_MOMENT: [i64; 3] = [14, 20, 0];
const MENDED: [i64; 3] = [14, 30, 0];
const SALE_OVER: [i64; 3] = [15, 0, 0];
/// How long the sale's visitors take to arrive and to leave.
const SALE_BEGINS_IN: i64 = 6 * MINUTE;
const SALE_ENDS_IN: i64 = 12 * MINUTE;

// === impl Hands ===

impl Hands {
    /// The script of the day that begins at seven o'clock.
    pub(super) fn new(seven: Moment, mut chance: Chance) -> Hands {
        let midnight = seven.plus_nanos(-nanos([7, 0, 0]));
        let mut agenda: BTreeMap<Moment, Vec<Deed>> = BTreeMap::new();
        let mut put = |at: i64, deed| agenda.entry(midnight.plus_nanos(at)).or_default().push(deed);
        let first = nanos([6, 10, 0]);
        for look in (0..).map(|count| first + count * LOOKS).take_while(|at| *at < nanos([24, 0, 0])) {
            put(look, Deed::FollowVisitors);
        }
        for (at, deed) in [
            (ROLLOUT, Deed::Rollout),
            (BAD_ROLLOUT, Deed::BadRollout),
            (NODE_LOST, Deed::LoseNode),
            (NODE_REMOVED, Deed::RemoveNode),
            (BAD_MOMENT, Deed::Look),
            (MENDED, Deed::Mend),
        ] {
            put(nanos(at), deed);
        }
        let luck = load::followers().map(|_| chance.between(97..=103) as f64 / 100.0).collect();
        Hands { midnight, agenda, luck, lost_node: None, misplaced_pod: None, waiting_pod: None }
    }

    /// The time of the next action.
    pub(super) fn next(&self) -> Option<Moment> {
        self.agenda.keys().next().copied()
    }

    /// Takes the actions due at a moment and returns the changes they make.
    pub(super) fn work(&mut self, at: Moment, film: &Film) -> Vec<What> {
        let deeds = self.agenda.remove(&at).unwrap_or_default();
        let mut done = Vec::new();
        for deed in deeds {
            match deed {
                Deed::FollowVisitors => done.extend(self.follow_visitors(at, film)),
                Deed::Rollout => done.extend(roll_out(film, "catalog", "4.5.0", |_| ())),
                Deed::BadRollout => {
                    done.extend(roll_out(film, BROKEN, "0.28.0", |pod| pod["affinity"] = affinity("nmve")));
                }
                Deed::Mend => {
                    done.extend(roll_out(film, BROKEN, "0.28.1", |pod| pod["affinity"] = affinity("nvme")));
                }
                Deed::LoseNode => done.extend(self.lose_node(at, film)),
                Deed::RemoveNode => {
                    let node = self.lost_node.as_ref().and_then(|key| film.get(&key.kind, "", &key.name));
                    done.extend(node.cloned().map(What::Deleted));
                }
                Deed::Look => self.look(film),
            }
        }
        done
    }

    /// The moments and objects to show, after the day is over.
    pub(super) fn story(self, begin: Moment, end: Moment, film: &Film) -> Story {
        let at = |time| self.midnight.plus_nanos(nanos(time));
        Story {
            begin,
            end,
            bad_rollout: at(BAD_ROLLOUT),
            sale: at(SALE),
            node_lost: at(NODE_LOST),
            bad_moment: at(BAD_MOMENT),
            mended: at(MENDED),
            sale_over: at(SALE_OVER),
            broken_deployment: Key {
                source: SOURCE.into(),
                kind: deployment(),
                namespace: WEB.into(),
                name: BROKEN.into(),
            },
            preempted_pod: film.preempted_after(at(SALE)).cloned(),
            misplaced_pod: self.misplaced_pod,
            waiting_pod: self.waiting_pod,
            lost_node: self.lost_node,
        }
    }

    fn follow_visitors(&self, at: Moment, film: &Film) -> Vec<What> {
        let since_midnight = at.nanos_since(self.midnight);
        let sale = sale(since_midnight);
        let mut done = Vec::new();
        for ((service, feels), luck) in load::followers().zip(&self.luck) {
            let wanted = load::replicas(service, feels, since_midnight, sale, *luck);
            let Some(mut known) = film.get(&deployment(), WEB, service.name).and_then(|it| it.value().ok())
            else {
                continue;
            };
            let has = known["spec"]["replicas"].as_i64().unwrap_or(0);
            if ((wanted - has) as f64).abs() > TOLERANCE * has as f64 {
                known["spec"]["replicas"] = wanted.into();
                done.push(What::Modified(edited(known)));
            }
        }
        done
    }

    /// Makes the node with the most of the shop's pods unreachable.
    fn lose_node(&mut self, at: Moment, film: &Film) -> Option<What> {
        let mut pods: BTreeMap<String, usize> = BTreeMap::new();
        for (key, pod) in film.all(Kind::new("", "Pod")) {
            let node = pod.value().ok()?["spec"]["nodeName"].as_str().map(str::to_owned);
            if let Some(node) = node.filter(|_| &*key.namespace == WEB) {
                *pods.entry(node).or_default() += 1;
            }
        }
        // One of the initial nodes, so that its age is like that of the others.
        let is_old = |node: &Value| node["metadata"]["creationTimestamp"].as_str() < Some("2026-10");
        let nodes = film.all(Kind::new("", "Node")).filter(|(_, node)| {
            node.value().is_ok_and(|node| node["metadata"]["labels"][POOL] == GENERAL && is_old(&node))
        });
        let (key, node) = nodes.max_by_key(|(key, _)| pods.get(&*key.name))?;
        self.lost_node = Some(key.clone());
        nodes::lost(node, at).map(What::Modified)
    }

    /// Picks a pod whose affinity matches no node, and one for which no node has free resources.
    fn look(&mut self, film: &Film) {
        for (key, pod) in film.all(Kind::new("", "Pod")).filter(|(key, _)| &*key.namespace == WEB) {
            let Ok(pod) = pod.value() else { continue };
            if !waits(&pod) {
                continue;
            }
            let found = match pod["metadata"]["labels"]["app"].as_str() {
                Some(BROKEN) => &mut self.misplaced_pod,
                Some(FRONT) => &mut self.waiting_pod,
                _ => continue,
            };
            found.get_or_insert_with(|| key.clone());
        }
    }
}

/// The share of the sale's visitors at a time of day, from 0 to 1.
fn sale(since_midnight: i64) -> f64 {
    let come = (since_midnight - nanos(SALE)) as f64 / SALE_BEGINS_IN as f64;
    let gone = (since_midnight - nanos(SALE_OVER)) as f64 / SALE_ENDS_IN as f64;
    come.clamp(0.0, 1.0) - gone.clamp(0.0, 1.0)
}

/// Rolls out a new version of a service.
fn roll_out(film: &Film, name: &str, version: &str, change: impl FnOnce(&mut Value)) -> Option<What> {
    let mut known = film.get(&deployment(), WEB, name)?.value().ok()?;
    let pod = &mut known["spec"]["template"]["spec"];
    pod["containers"][0]["image"] = format!("registry.example/shop/{name}:{version}").into();
    change(pod);
    Some(What::Modified(edited(known)))
}

/// The object with its generation incremented, as after a change of its spec.
fn edited(mut value: Value) -> Object {
    let generation = value["metadata"]["generation"].as_i64().unwrap_or(0);
    value["metadata"]["generation"] = (generation + 1).into();
    object(&value)
}

/// Whether the scheduler marked a pod unschedulable.
fn waits(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "PodScheduled" && it["reason"] == "Unschedulable")
}

fn deployment() -> Kind {
    Kind::new("apps", "Deployment")
}

fn nanos([hour, minute, second]: [i64; 3]) -> i64 {
    ((hour * 60 + minute) * 60 + second) * SECOND
}

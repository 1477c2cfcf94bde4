//! Who gets a place: least loaded first, with kube-scheduler's verdicts, words and preemption.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::Moment;

use crate::objects::SECOND;
use crate::objects::event::Reporter;
use crate::objects::node::ALLOCATABLE;
use crate::objects::pod::{Disruption, Pod, Scheduled};
use crate::objects::template::Shape;

use super::cluster::{Cluster, Due, Life, MILLI, PodId};
use super::nodes::ZONES;

/// What a node says to a pod.
enum Verdict {
    Fits,
    /// Nothing that could be preempted would help.
    Never(&'static str),
    /// Too little of something is left.
    Short(Vec<&'static str>),
}

/// A node that would do without some pods.
struct Candidate {
    node: usize,
    /// The most important first.
    victims: Vec<PodId>,
}

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const PREEMPTED: &str = "PreemptionByScheduler";

impl Cluster {
    /// One attempt to find a place for a pod.
    pub(super) fn schedule(&mut self, id: PodId) {
        let Some(life) = self.pods.get(&id) else { return };
        let pod = &life.pod;
        if pod.node.is_some() || pod.is_deleting() {
            return;
        }
        let verdicts = self.verdicts(id, pod);
        let fitting: Vec<usize> = verdicts
            .iter()
            .filter(|(_, verdict)| matches!(verdict, Verdict::Fits))
            .map(|(node, _)| *node)
            .collect();
        let nominated = pod.nominated.as_deref().and_then(|name| self.node(name));
        match nominated.filter(|node| fitting.contains(node)).or_else(|| self.least_loaded(pod, &fitting)) {
            Some(node) => self.bind(id, node),
            None => self.refuse(id, &verdicts),
        }
    }

    /// Lets waiting pods be tried again after room was made, on one node or somewhere.
    pub(super) fn wake(&mut self, node: Option<&Arc<str>>) {
        let waiting: Vec<(PodId, u32, bool, i64)> = self
            .pods
            .iter()
            .filter(|(_, life)| life.refusals > 0 && life.pod.node.is_none())
            .map(|(id, life)| {
                let nominated = life.pod.nominated.is_some() && life.pod.nominated.as_ref() == node;
                (*id, life.refusals, nominated, life.pod.template.outline.class.value)
            })
            .collect();
        for (id, refusals, nominated, priority) in waiting {
            // Backing off doubles from one second to ten; the important are taken off the queue first.
            let back_off = if nominated { 0 } else { (SECOND << (refusals - 1).min(4)).min(10 * SECOND) };
            let turn = match priority {
                10_000.. => 5 * MILLI,
                0..10_000 => 80 * MILLI,
                _ => 160 * MILLI,
            };
            let jitter = self.log.millis(1, 30);
            self.after(back_off + turn + jitter, Due::Schedule(id));
        }
    }

    fn verdicts(&self, id: PodId, pod: &Pod) -> Vec<(usize, Verdict)> {
        let alive = (0..self.nodes.len()).filter(|index| !self.nodes[*index].gone);
        alive.map(|node| (node, self.verdict(id, pod, node, &[]))).collect()
    }

    /// The first objection, in the order in which kube-scheduler's plugins look; `without` are pods thought away.
    fn verdict(&self, id: PodId, pod: &Pod, node: usize, without: &[PodId]) -> Verdict {
        let outline = &pod.template.outline;
        let it = &self.nodes[node].it.node;
        let name = &it.meta.key.name;
        let everywhere = outline.shape == Shape::OnEveryNode;
        if it.unschedulable && !everywhere {
            return Verdict::Never("node(s) were unschedulable");
        }
        let repelled = it.taints.iter().any(|taint| {
            taint.effect != "PreferNoSchedule"
                && !(taint.key == "dedicated" && outline.tolerates == Some(&taint.value))
        });
        if repelled && !everywhere {
            return Verdict::Never("node(s) had untolerated taint(s)");
        }
        if pod.pinned.as_ref().is_some_and(|pinned| pinned != name) {
            return Verdict::Never("node(s) didn't match Pod's node affinity/selector");
        }
        let (mut cpu, mut memory) = (outline.milli_cpu, outline.mebibytes);
        let taken = self.pods.iter().filter(|(other, life)| {
            let placed = life.pod.node.as_ref() == Some(name) && !life.pod.is_finished();
            let promised = life.pod.node.is_none()
                && life.pod.nominated.as_ref() == Some(name)
                && life.pod.template.outline.class.value >= outline.class.value;
            (placed || promised) && **other != id && !without.contains(other)
        });
        for (_, life) in taken {
            cpu += life.pod.template.outline.milli_cpu;
            memory += life.pod.template.outline.mebibytes;
        }
        let mut short = Vec::new();
        if cpu > ALLOCATABLE.0 {
            short.push("Insufficient cpu");
        }
        if memory > ALLOCATABLE.1 {
            short.push("Insufficient memory");
        }
        if !short.is_empty() {
            return Verdict::Short(short);
        }
        if pod.host.as_ref().is_some_and(|(host, _)| disk_zone(host) != it.zone) {
            return Verdict::Never("node(s) didn't match PersistentVolume's node affinity");
        }
        Verdict::Fits
    }

    /// The node with most room, as few of the same app as possible coming first.
    fn least_loaded(&self, pod: &Pod, nodes: &[usize]) -> Option<usize> {
        let app = &pod.template.outline.app;
        nodes.iter().copied().min_by_key(|node| {
            let it = &self.nodes[*node].it.node;
            let soft = it.taints.iter().any(|taint| taint.effect == "PreferNoSchedule");
            let (mut alike, mut cpu) = (0, 0);
            for (_, life) in self.pods_on(&it.meta.key.name) {
                let outline = &life.pod.template.outline;
                alike += i64::from(outline.app == *app);
                cpu += outline.milli_cpu;
            }
            // One more of the same app weighs as much as three quarters of a processor.
            (soft, cpu + 750 * alike, *node)
        })
    }

    fn bind(&mut self, id: PodId, node: usize) {
        let NodeName { name, zone, ip } = NodeName::of(self, node);
        let Some(life) = self.pods.get_mut(&id) else { return };
        self.notes.placed(life, self.log.now);
        let pod = &mut life.pod;
        pod.node = Some(name.clone());
        pod.host_ip = ip;
        pod.nominated = None;
        pod.scheduled = Scheduled::Done { since: self.log.now };
        // The API server copies the node's topology to the pod; these keys sort last.
        pod.labels.pop();
        pod.labels.push_str(&format!(
            r#","topology.kubernetes.io/region":"north","topology.kubernetes.io/zone":"{zone}"}}"#
        ));
        let note =
            format!("Successfully assigned {}/{} to {name}", pod.meta.key.namespace, pod.meta.key.name);
        self.changed(id);
        self.say_of_pod(id, Reporter::Scheduler { action: "Binding" }, false, "Scheduled", note);
        let nanos = self.log.millis(60, 400);
        self.after(nanos, Due::Seen(id));
    }

    fn refuse(&mut self, id: PodId, verdicts: &[(usize, Verdict)]) {
        let Some(life) = self.pods.get(&id) else { return };
        let waits_for_victims = life.pod.nominated.as_ref().is_some_and(|node| {
            self.pods_on(node).any(|(_, other)| {
                other.pod.is_deleting() && other.pod.disruption.is_some_and(|it| it.reason == PREEMPTED)
            })
        });
        let total = verdicts.len();
        let mut reasons = BTreeMap::new();
        for (_, verdict) in verdicts {
            match verdict {
                Verdict::Fits => {}
                Verdict::Never(reason) => *reasons.entry(*reason).or_insert(0) += 1,
                Verdict::Short(short) => {
                    short.iter().for_each(|reason| *reasons.entry(*reason).or_insert(0) += 1);
                }
            }
        }
        let mut message = histogram(total, &reasons);
        let (mut dry_runs, mut candidates) = (BTreeMap::new(), Vec::new());
        if !life.pod.template.outline.class.preempts {
            message +=
                " no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.";
        } else if waits_for_victims {
            message += " no new claims to deallocate, preemption: not eligible due to a terminating pod on the nominated node.";
        } else {
            for (node, verdict) in verdicts {
                match verdict {
                    Verdict::Short(_) => match self.dry_run(id, &life.pod, *node) {
                        Ok(candidate) => candidates.push(candidate),
                        Err(why) => {
                            why.iter().for_each(|reason| *dry_runs.entry(*reason).or_insert(0) += 1);
                        }
                    },
                    Verdict::Never(_) | Verdict::Fits => *dry_runs.entry(NOT_HELPFUL).or_insert(0) += 1,
                }
            }
            if candidates.is_empty() {
                message += " no new claims to deallocate, preemption: ";
                message += &histogram(total, &dry_runs);
            }
        }
        let chosen = self.cheapest(candidates);
        self.refused_with(id, message, chosen.as_ref().map(|it| it.node), waits_for_victims);
        if let Some(Candidate { node, victims }) = chosen {
            self.preempt(id, node, &victims);
        }
    }

    /// Tells a pod why it was refused, and which node it is promised.
    fn refused_with(&mut self, id: PodId, message: String, node: Option<usize>, keep: bool) {
        let promised = node.map(|node| self.nodes[node].it.node.meta.key.name.clone());
        let Some(life) = self.pods.get_mut(&id) else { return };
        life.refusals += 1;
        self.notes.refused(life, self.log.now);
        let pod = &mut life.pod;
        let nominated = if keep { pod.nominated.clone() } else { promised };
        let (since, same) = match &pod.scheduled {
            Scheduled::Failed { since, message: old } => (*since, *old == message),
            Scheduled::Untried | Scheduled::Done { .. } => (self.log.now, false),
        };
        let same = same && pod.nominated == nominated;
        pod.nominated = nominated;
        pod.scheduled = Scheduled::Failed { since, message: message.clone() };
        if !same {
            self.changed(id);
        }
        let by = Reporter::Scheduler { action: "Scheduling" };
        self.say_of_pod(id, by, true, "FailedScheduling", message);
        // Nothing is left waiting for longer than this, whatever happens in the cluster.
        self.after(300 * SECOND, Due::Schedule(id));
    }

    /// The pods to remove from a node for `pod` to fit, or why that would not do.
    fn dry_run(&self, id: PodId, pod: &Pod, node: usize) -> Result<Candidate, Vec<&'static str>> {
        let name = &self.nodes[node].it.node.meta.key.name;
        let priority = pod.template.outline.class.value;
        let mut lower: Vec<(i64, Moment, PodId)> = self
            .pods_on(name)
            .filter(|(_, life)| life.pod.template.outline.class.value < priority)
            .map(|(id, life)| {
                let start = life.pod.running.as_ref().map_or(self.log.now, |running| running.start);
                (life.pod.template.outline.class.value, start, id)
            })
            .collect();
        if lower.is_empty() {
            return Err(vec![NO_VICTIMS]);
        }
        lower.sort_by_key(|(priority, start, id)| (Reverse(*priority), *start, *id));
        let mut without: Vec<PodId> = lower.iter().map(|(_, _, id)| *id).collect();
        match self.verdict(id, pod, node, &without) {
            Verdict::Fits => {}
            Verdict::Never(reason) => return Err(vec![reason]),
            Verdict::Short(reasons) => return Err(reasons),
        }
        for (_, _, spared) in &lower {
            let fewer: Vec<PodId> = without.iter().copied().filter(|id| id != spared).collect();
            if matches!(self.verdict(id, pod, node, &fewer), Verdict::Fits) {
                without = fewer;
            }
        }
        Ok(Candidate { node, victims: without })
    }

    /// The candidate whose victims matter least. No pod that could be one has a budget.
    fn cheapest(&self, candidates: Vec<Candidate>) -> Option<Candidate> {
        candidates.into_iter().min_by_key(|Candidate { node, victims }| {
            let lives = || victims.iter().filter_map(|id| self.pods.get(id));
            let priority = |life: &Life| life.pod.template.outline.class.value;
            let highest = lives().map(priority).max().unwrap_or(i64::MIN);
            let sum: i64 = lives().map(|life| priority(life) + (1 << 31)).sum();
            let earliest = lives()
                .filter(|life| priority(life) == highest)
                .filter_map(|life| life.pod.running.as_ref().map(|running| running.start))
                .min();
            (highest, sum, victims.len(), Reverse(earliest), *node)
        })
    }

    fn preempt(&mut self, id: PodId, node: usize, victims: &[PodId]) {
        let Some(uid) = self.pods.get(&id).map(|life| life.pod.meta.uid.clone()) else { return };
        let note = format!("Preempted by pod {uid} on node {}", self.nodes[node].it.node.meta.key.name);
        for victim in victims {
            let Some(life) = self.pods.get_mut(victim) else { continue };
            if life.pod.is_deleting() {
                continue;
            }
            life.pod.disruption = Some(Disruption {
                since: self.log.now,
                reason: PREEMPTED,
                message: "default-scheduler: preempting to accommodate a higher priority pod",
            });
            self.changed(*victim);
            let by = Reporter::Scheduler { action: "Preempting" };
            self.say_of_pod(*victim, by, false, "Preempted", note.clone());
            self.delete_pod(*victim);
        }
    }
}

/// What a pod learns of its node.
struct NodeName {
    name: Arc<str>,
    zone: &'static str,
    ip: Arc<str>,
}

// === impl NodeName ===

impl NodeName {
    fn of(cluster: &Cluster, node: usize) -> NodeName {
        let it = &cluster.nodes[node].it.node;
        NodeName { name: it.meta.key.name.clone(), zone: it.zone, ip: it.ip.clone() }
    }
}

/// The zone of a database pod's disk: the first has the first, and so on.
fn disk_zone(host: &str) -> &'static str {
    let ordinal = host.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse::<usize>().ok());
    ZONES[ordinal.unwrap_or(0) % ZONES.len()]
}

/// `0/6 nodes are available: 1 …, 5 …`, sorted as text, as kube-scheduler does.
fn histogram(total: usize, reasons: &BTreeMap<&'static str, usize>) -> String {
    let mut counted: Vec<String> =
        reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    counted.sort_unstable();
    format!("0/{total} nodes are available: {}.", counted.join(", "))
}

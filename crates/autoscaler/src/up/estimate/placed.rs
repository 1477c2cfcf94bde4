//! New nodes in the snapshot: each pod is tried.

use rustc_hash::FxHashSet;
use scheduler::ids::NodeId;

use super::super::super::settings::Version;
use super::super::super::snapshot::Snapshot;
use super::super::super::templates::Template;
use super::super::pods::PodGroup;
use super::NewNodes;

/// New nodes in the snapshot.
pub(super) struct Placed<'a> {
    snapshot: &'a mut Snapshot,
    template: &'a Template,
    groups: &'a [PodGroup],
    version: Version,
    new: FxHashSet<NodeId>,
    last: Option<NodeId>,
    /// With a pod. A node that was there before is one of them if a pod that was put elsewhere went there.
    used: FxHashSet<NodeId>,
    /// The last pod that the last node refused was one too many of a kind.
    too_many: bool,
}

const HOSTNAME: &str = "kubernetes.io/hostname";
const TOO_MANY_OF_A_KIND: &str = "node(s) didn't match pod topology spread constraints";

impl<'a> Placed<'a> {
    /// Whoever calls this takes back what is done to the snapshot.
    pub(super) fn new(
        snapshot: &'a mut Snapshot,
        template: &'a Template,
        groups: &'a [PodGroup],
        version: Version,
    ) -> Placed<'a> {
        Placed {
            snapshot,
            template,
            groups,
            version,
            new: FxHashSet::default(),
            last: None,
            used: FxHashSet::default(),
            too_many: false,
        }
    }
}

impl NewNodes for Placed<'_> {
    fn fill(&mut self, group: usize) -> usize {
        if self.new.is_empty() {
            return 0;
        }
        let pods = &self.groups[group].pods;
        for (put, pod) in pods.iter().enumerate() {
            match self.snapshot.schedule_anywhere(*pod, |id| self.new.contains(&id)) {
                Some(node) => drop(self.used.insert(node)),
                None => return put,
            }
        }
        pods.len()
    }

    fn add(&mut self) {
        let copy = self.template.copy(&format!("e-{}", self.new.len()));
        let id = self.snapshot.add_node(copy.node, &copy.pods);
        self.new.insert(id);
        self.last = Some(id);
    }

    fn last_is_used(&self) -> Option<bool> {
        self.last.map(|last| self.used.contains(&last))
    }

    fn put_on_last(&mut self, group: usize, from: usize) -> usize {
        let Some(last) = self.last else { return 0 };
        let pods = &self.groups[group].pods[from..];
        for (put, pod) in pods.iter().enumerate() {
            if let Err(refused) = self.snapshot.schedule(*pod, last) {
                self.too_many = refused.reasons.iter().any(|reason| reason == TOO_MANY_OF_A_KIND);
                return put;
            }
            self.used.insert(last);
        }
        pods.len()
    }

    fn put_elsewhere(&mut self, group: usize, pod: usize) -> bool {
        let id = self.groups[group].pods[pod];
        let is_by_host =
            || self.snapshot.trial.pod(id).shape.spread.iter().any(|spread| &*spread.key == HOSTNAME);
        if self.version < Version::V1_33 || !self.too_many || !is_by_host() {
            return false;
        }
        let last = self.last;
        let found = self.snapshot.schedule_anywhere(id, |node| Some(node) != last);
        found.is_some_and(|node| {
            self.used.insert(node);
            true
        })
    }

    fn used(&self) -> i64 {
        self.used.len() as i64
    }
}

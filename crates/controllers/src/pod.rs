//! Pods in the informer cache.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use kubernetes::objects::{ConditionStatus, ContainerStatus, PodConditionType, PodView};
use model::{Moment, NamespacedName};

/// All pods, by name.
#[derive(Debug, Default)]
pub(super) struct PodTable {
    all: BTreeMap<NamespacedName, Arc<Pod>>,
}

/// A pod: its view, with what controllers derive from it.
#[derive(Debug)]
pub(super) struct Pod {
    view: Arc<PodView>,
    pub(super) ready: bool,
    /// When its condition `Ready` last changed.
    pub(super) ready_transition: Option<Moment>,
    /// The highest restart count of its containers.
    pub(super) max_restarts: i64,
    /// The highest restart count of its sidecars.
    pub(super) max_sidecar_restarts: i64,
    /// The sum of the restart counts of all its containers.
    pub(super) total_restarts: i64,
    /// When its last container terminated, if all have.
    pub(super) containers_finished_at: Option<Moment>,
}

// === impl PodTable ===

impl PodTable {
    pub(super) fn get(&self, name: &NamespacedName) -> Option<&Arc<Pod>> {
        self.all.get(name)
    }

    pub(super) fn contains(&self, name: &NamespacedName) -> bool {
        self.all.contains_key(name)
    }

    /// The pods of a namespace.
    pub(super) fn in_namespace(&self, namespace: &Arc<str>) -> impl Iterator<Item = &Arc<Pod>> {
        let first = NamespacedName { namespace: namespace.clone(), name: "".into() };
        let pods = self.all.range(first..).take_while(|(name, _)| name.namespace == *namespace);
        pods.map(|(_, pod)| pod)
    }

    /// Sets or removes a pod. Returns the previous one.
    pub(super) fn set(&mut self, name: &NamespacedName, pod: Option<Arc<Pod>>) -> Option<Arc<Pod>> {
        match pod {
            Some(pod) => self.all.insert(name.clone(), pod),
            None => self.all.remove(name),
        }
    }
}

// === impl Pod ===

impl Pod {
    pub(super) fn new(view: Arc<PodView>) -> Pod {
        let status = &view.status;
        let is_sidecar = |status: &&ContainerStatus| {
            let mut containers = view.spec.init_containers.iter();
            containers.any(|container| container.name == status.name && container.is_sidecar())
        };
        let sidecars: Vec<_> = status.init_container_statuses.iter().filter(is_sidecar).collect();
        let max_count = |restarts: &mut dyn Iterator<Item = i64>| restarts.max().unwrap_or(0).max(0);
        let all = status.container_statuses.iter().chain(&*status.init_container_statuses);
        let ready = status.condition(PodConditionType::Ready);
        Pod {
            ready: ready.is_some_and(|ready| ready.status == ConditionStatus::True),
            ready_transition: ready.and_then(|ready| ready.last_transition_time),
            max_restarts: max_count(
                &mut status.container_statuses.iter().map(|container| container.restart_count),
            ),
            max_sidecar_restarts: max_count(&mut sidecars.iter().map(|container| container.restart_count)),
            total_restarts: all.map(|container| container.restart_count).fold(0, i64::saturating_add),
            containers_finished_at: last_finish(status.container_statuses.iter().chain(sidecars)),
            view,
        }
    }

    /// Whether it is neither finished nor terminating.
    pub(super) fn is_active(&self) -> bool {
        !self.is_finished() && !self.view.is_terminating()
    }

    /// Whether it has a deletion timestamp, finished or not.
    pub(super) fn is_deleting(&self) -> bool {
        self.view.is_terminating()
    }

    /// Whether it has a deletion timestamp and has not finished.
    pub(super) fn is_terminating(&self) -> bool {
        self.is_deleting() && !self.is_finished()
    }

    /// The node it is bound to, or the node that a DaemonSet created it for.
    pub(super) fn target_node(&self) -> Option<Arc<str>> {
        let affinity = self.spec.affinity.node_affinity.required.as_ref();
        self.node_name.clone().or_else(|| affinity.and_then(|terms| terms.single_name()).map(Arc::from))
    }

    /// Whether it has been ready for at least `min_ready_seconds`.
    pub(super) fn is_available(&self, min_ready_seconds: i64, now: Moment) -> bool {
        self.available_at(min_ready_seconds).is_some_and(|at| at <= now)
    }

    /// When it becomes, or became, available; `None` if it is not ready.
    pub(super) fn available_at(&self, min_ready_seconds: i64) -> Option<Moment> {
        match (self.ready, min_ready_seconds) {
            (false, _) => None,
            (true, 0) => Some(Moment::MIN),
            (true, seconds) => {
                self.ready_transition.map(|at| at.plus_nanos(seconds.saturating_mul(1_000_000_000)))
            }
        }
    }
}

impl Deref for Pod {
    type Target = PodView;

    fn deref(&self) -> &PodView {
        &self.view
    }
}

/// When the last of these containers terminated, if all have.
fn last_finish<'c>(statuses: impl Iterator<Item = &'c ContainerStatus>) -> Option<Moment> {
    let mut last = None;
    for status in statuses {
        last = last.max(Some(status.finished_at?));
    }
    last
}

#[cfg(test)]
mod tests {
    use model::Object;

    use super::*;

    fn parse(json: &str) -> Pod {
        Pod::new(Arc::new(PodView::parse(&Object::parse(json).unwrap())))
    }

    #[test]
    fn a_pod_has_its_controller_and_target_node() {
        let pod = parse(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n","uid":"u",
                "ownerReferences":[{"kind":"A","name":"a","uid":"1"},{"kind":"DaemonSet","name":"d","uid":"2",
                "controller":true}]},"spec":{"affinity":{"nodeAffinity":{
                "requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[
                {"key":"metadata.name","operator":"In","values":["node-1"]}]}]}}},"initContainers":[
                {"name":"s","restartPolicy":"Always"},{"name":"i"}]},"status":{"phase":"Running","conditions":[
                {"type":"Ready","status":"True","lastTransitionTime":"2026-11-15T00:00:00Z"}],"containerStatuses":[
                {"name":"c","restartCount":2}],"initContainerStatuses":[{"name":"s","restartCount":1},
                {"name":"i","restartCount":9}]}}"#,
        );
        assert_eq!(pod.owner_references.len(), 2);
        assert_eq!(pod.controller().map(|owner| &*owner.uid), Some("2"));
        assert_eq!((pod.node_name.as_deref(), pod.target_node().as_deref()), (None, Some("node-1")));
        assert_eq!((pod.max_restarts, pod.max_sidecar_restarts, pod.total_restarts), (2, 1, 12));
        let at = |seconds: i64| Moment::from_nanos(1_794_700_800_000_000_000 + seconds * 1_000_000_000);
        assert!(
            pod.is_available(10, at(10)) && !pod.is_available(10, at(9)) && pod.is_available(0, Moment::MIN)
        );
    }

    #[test]
    fn an_invalid_pod_is_not_ready() {
        let pod = parse(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","ownerReferences":7},"status":{"phase":[]}}"#,
        );
        assert!(pod.owner_references.is_empty() && !pod.ready);
    }
}

//! Event registrations and queueing hints, compared with those of kube-scheduler's plugins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::objects::{NodeView, PodView};
use model::{Moment, Object, What};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::super::node::Node;
use super::super::super::pod::Pod;
use super::super::super::{Plugin, Scheduler, Settings};
use super::super::QueueContext;
use super::super::hints::evaluate_hint;
use crate::events::{
    ClusterEvent, EventObjects, HintInputs, HintVolumes, ObservedEvent, TrackedObject, TrackedObjectKind,
    node_scheduling_properties_change, pod_scheduling_properties_change,
};

const HINTS: &str = include_str!("../../../../../testdata/scheduler/queue_hints.jsonl");

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    old: Option<&'a RawValue>,
    #[serde(borrow)]
    new: Option<&'a RawValue>,
    event: &'a str,
    #[serde(default)]
    queues: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    skips: BTreeMap<String, Vec<String>>,
}

/// kube-scheduler's label of an event.
fn label(cluster_event: ClusterEvent, is_assigned: bool) -> String {
    let pod = |what: &str| format!("{}Pod{what}", if is_assigned { "Assigned" } else { "Unschedulable" });
    let kind = |kind: TrackedObjectKind| match kind {
        TrackedObjectKind::PersistentVolumeClaim => "PersistentVolumeClaim",
        TrackedObjectKind::PersistentVolume => "PersistentVolume",
        TrackedObjectKind::StorageClass => "storage.k8s.io/StorageClass",
        TrackedObjectKind::CsiNode => "storage.k8s.io/CSINode",
        TrackedObjectKind::CsiDriver => "storage.k8s.io/CSIDriver",
        TrackedObjectKind::CsiStorageCapacity => "storage.k8s.io/CSIStorageCapacity",
        TrackedObjectKind::VolumeAttachment => "storage.k8s.io/VolumeAttachment",
        TrackedObjectKind::DeviceClass => "resource.k8s.io/DeviceClass",
        TrackedObjectKind::ResourceClaim => "resource.k8s.io/ResourceClaim",
        TrackedObjectKind::ResourceSlice => "resource.k8s.io/ResourceSlice",
    };
    match cluster_event {
        ClusterEvent::NodeAdd => "NodeAdd".to_owned(),
        ClusterEvent::NodeDelete => "NodeDelete".to_owned(),
        ClusterEvent::UpdateNodeAllocatable => "NodeUpdateNodeAllocatable".to_owned(),
        ClusterEvent::UpdateNodeLabel => "NodeUpdateNodeLabel".to_owned(),
        ClusterEvent::UpdateNodeTaint => "NodeUpdateNodeTaint".to_owned(),
        ClusterEvent::UpdateNodeCondition => "NodeUpdateNodeCondition".to_owned(),
        ClusterEvent::UpdateNodeAnnotation => "NodeUpdateNodeAnnotation".to_owned(),
        ClusterEvent::UpdateNodeDeclaredFeature => "NodeUpdateNodeDeclaredFeature".to_owned(),
        ClusterEvent::AssignedPodAdd => "AssignedPodAdd".to_owned(),
        ClusterEvent::AssignedPodDelete => "AssignedPodDelete".to_owned(),
        ClusterEvent::UpdatePodLabel => pod("UpdatePodLabel"),
        ClusterEvent::UpdatePodScaleDown => pod("UpdatePodScaleDown"),
        ClusterEvent::UpdatePodSchedulingGatesEliminated => pod("UpdatePodSchedulingGatesEliminated"),
        ClusterEvent::UpdatePodToleration => pod("UpdatePodToleration"),
        ClusterEvent::UpdatePodGeneratedResourceClaim => pod("UpdatePodGeneratedResourceClaim"),
        ClusterEvent::UpdatePod => pod("Update"),
        ClusterEvent::Add(tracked_kind) => format!("{}Add", kind(tracked_kind)),
        ClusterEvent::Update(tracked_kind) => format!("{}Update", kind(tracked_kind)),
        ClusterEvent::Delete(tracked_kind) => format!("{}Delete", kind(tracked_kind)),
    }
}

/// For each event of a change: the hint by plugin and pod.
type HintsByEvent = Vec<(String, BTreeMap<&'static str, BTreeMap<String, bool>>)>;

fn evaluate_hints(
    pods: &BTreeMap<String, Object>,
    old: Option<&Object>,
    new: Option<&Object>,
) -> HintsByEvent {
    let mut answers: HintsByEvent = Vec::new();
    for (pod_name, pod) in pods {
        let mut scheduler = Scheduler::new(Settings::default());
        let objects = new.or(old).unwrap();
        let meta = objects.meta();
        if meta.kind == "DeviceClass" {
            new.into_iter().for_each(|new| scheduler.apply(Moment::MIN, &What::Added(new.clone())));
        }
        scheduler.apply(Moment::MIN, &What::Added(pod.clone()));
        let id = scheduler.cache.find_pod("d", "p").unwrap();
        let scalars = &mut scheduler.cache.scalars;
        let mut node = |object: Option<&Object>| {
            object.map(|object| Node::new(Arc::new(NodeView::parse(object)), scalars))
        };
        let nodes = (meta.kind == "Node").then(|| (node(old), node(new)));
        let mut read =
            |object: Option<&Object>| object.map(|object| Pod::new(&PodView::parse(object), scalars));
        let pod_versions = (meta.kind == "Pod").then(|| (read(old), read(new)));
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        let kind = TrackedObjectKind::of(group, &meta.kind);
        let tracked =
            |object: Option<&Object>| object.map(|object| TrackedObject::read(kind.unwrap(), object));
        let tracked_versions = kind.map(|_| (tracked(old), tracked(new)));
        let deleted_pod = old.filter(|_| meta.kind == "Pod" && new.is_none());
        let volumes = deleted_pod.map(|pod| HintVolumes::new(&PodView::parse(pod)));
        let (cluster_events, objects, is_assigned) = match (&nodes, &pod_versions, &tracked_versions) {
            (Some((old, new)), ..) => {
                let cluster_events = match (old, new) {
                    (None, _) => vec![ClusterEvent::NodeAdd],
                    (_, None) => vec![ClusterEvent::NodeDelete],
                    (Some(old), Some(new)) => node_scheduling_properties_change(old, new),
                };
                (cluster_events, EventObjects::Node { old: old.as_ref(), new: new.as_ref() }, false)
            }
            (_, Some((before, after)), _) => {
                let cluster_events = match (before, after) {
                    (None, _) => vec![ClusterEvent::AssignedPodAdd],
                    (_, None) => vec![ClusterEvent::AssignedPodDelete],
                    (Some(before), Some(after)) => {
                        let inputs = |object: &Object| HintInputs::new(&PodView::parse(object));
                        let hint_inputs = (inputs(old.unwrap()), inputs(new.unwrap()));
                        pod_scheduling_properties_change(
                            before,
                            after,
                            Some((&hint_inputs.0, &hint_inputs.1)),
                        )
                    }
                };
                let is_assigned = after.as_ref().is_some_and(|pod| pod.node_name.is_some());
                let objects = EventObjects::Pod {
                    old: before.as_ref(),
                    new: after.as_ref(),
                    volumes: volumes.as_ref(),
                };
                (cluster_events, objects, is_assigned)
            }
            (_, _, Some((old, new))) => {
                let kind = kind.unwrap();
                let cluster_event = match (old, new) {
                    (None, _) => ClusterEvent::Add(kind),
                    (_, None) => ClusterEvent::Delete(kind),
                    _ => ClusterEvent::Update(kind),
                };
                (vec![cluster_event], EventObjects::Tracked { old: old.as_ref(), new: new.as_ref() }, false)
            }
            _ => panic!("{objects:?}"),
        };
        let context = QueueContext { cache: &scheduler.cache, profiles: &scheduler.profiles };
        for (number, cluster_event) in cluster_events.into_iter().enumerate() {
            if answers.len() == number {
                answers.push((label(cluster_event, is_assigned), BTreeMap::new()));
            }
            for plugin in Plugin::ALL.into_iter().filter(|plugin| plugin.is_registered_for(cluster_event)) {
                let queues = evaluate_hint(
                    plugin,
                    context,
                    id,
                    &scheduler.queue.entries[&id],
                    &ObservedEvent { cluster_event, objects },
                );
                let by_plugin = answers[number].1.entry(plugin.name()).or_default();
                by_plugin.insert(pod_name.clone(), queues);
            }
        }
    }
    answers
}

#[test]
fn queueing_hints_decide_as_in_kube_scheduler() {
    let mut lines = HINTS.lines();
    let pods: BTreeMap<String, Box<RawValue>> = serde_json::from_str(lines.next().unwrap()).unwrap();
    let pods: BTreeMap<String, Object> =
        pods.into_iter().map(|(name, pod)| (name, Object::parse(pod.get()).unwrap())).collect();
    let object = |raw: Option<&RawValue>| raw.map(|raw| Object::parse(raw.get()).unwrap());
    // Both answers of each plugin to each event.
    let mut covered: BTreeSet<(String, String, bool)> = BTreeSet::new();
    let mut before: Option<(String, usize)> = None;
    for line in lines {
        let expected: Line<'_> = serde_json::from_str(line).unwrap();
        let change = format!("{:?} {:?}", expected.old, expected.new);
        // A change that makes several events has as many lines.
        let number = match &before {
            Some((same, number)) if *same == change => number + 1,
            _ => 0,
        };
        before = Some((change, number));
        let evaluated_pods: BTreeSet<&String> =
            expected.queues.values().chain(expected.skips.values()).flatten().collect();
        let evaluated_pods: BTreeMap<String, Object> =
            evaluated_pods.iter().map(|name| ((*name).clone(), pods[*name].clone())).collect();
        if evaluated_pods.is_empty() {
            // No plugin is registered for it.
            let answers = evaluate_hints(&pods, object(expected.old).as_ref(), object(expected.new).as_ref());
            assert!(answers[number].1.is_empty(), "{line}");
            continue;
        }
        let answers =
            evaluate_hints(&evaluated_pods, object(expected.old).as_ref(), object(expected.new).as_ref());
        let (event, answers) = &answers[number];
        assert_eq!(event, expected.event, "{line}");
        let mut expected_hints: BTreeMap<&str, BTreeMap<String, bool>> = BTreeMap::new();
        for (verdict, list) in [(true, &expected.queues), (false, &expected.skips)] {
            for (plugin, pods) in list.iter().filter(|(plugin, _)| *plugin != "GangScheduling") {
                covered.insert((plugin.clone(), event.clone(), verdict));
                let by_plugin = expected_hints.entry(plugin).or_default();
                by_plugin.extend(pods.iter().map(|pod| (pod.clone(), verdict)));
            }
        }
        for (plugin, expected) in &expected_hints {
            for (pod, verdict) in expected {
                let ours = answers.get(plugin).and_then(|answers| answers.get(pod));
                assert_eq!(ours, Some(verdict), "{plugin} {pod} {:?}\n{line}", pods[pod]);
            }
        }
        let ours: BTreeSet<&str> = answers.keys().copied().collect();
        assert_eq!(ours, expected_hints.keys().copied().collect(), "{line}");
    }
    assert!(covered.len() > 90, "{}", covered.len());
}

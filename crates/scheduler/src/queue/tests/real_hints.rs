//! What the real plugins say to events: which they ask for, and which may help whom.

use std::collections::{BTreeMap, BTreeSet};

use model::{Moment, Object, What};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::super::node::NodeSpec;
use super::super::super::pod::Pod;
use super::super::super::{Plugin, Scheduler, Settings};
use super::super::Known;
use super::super::hints::is_helped;
use crate::events::{About, Event, Extras, Sort, Thing, ThingKind, Volumes, node_changes, pod_changes};

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

/// What the original calls it.
fn label(sort: Sort, is_assigned: bool) -> String {
    let pod = |what: &str| format!("{}Pod{what}", if is_assigned { "Assigned" } else { "Unschedulable" });
    let kind = |kind: ThingKind| match kind {
        ThingKind::Claim => "PersistentVolumeClaim",
        ThingKind::Volume => "PersistentVolume",
        ThingKind::StorageClass => "storage.k8s.io/StorageClass",
        ThingKind::CsiNode => "storage.k8s.io/CSINode",
        ThingKind::CsiDriver => "storage.k8s.io/CSIDriver",
        ThingKind::CsiStorageCapacity => "storage.k8s.io/CSIStorageCapacity",
        ThingKind::VolumeAttachment => "storage.k8s.io/VolumeAttachment",
        ThingKind::DeviceClass => "resource.k8s.io/DeviceClass",
        ThingKind::ResourceClaim => "resource.k8s.io/ResourceClaim",
        ThingKind::ResourceSlice => "resource.k8s.io/ResourceSlice",
    };
    match sort {
        Sort::NodeAdded => "NodeAdd".to_owned(),
        Sort::NodeDeleted => "NodeDelete".to_owned(),
        Sort::NodeAllocatable => "NodeUpdateNodeAllocatable".to_owned(),
        Sort::NodeLabels => "NodeUpdateNodeLabel".to_owned(),
        Sort::NodeTaints => "NodeUpdateNodeTaint".to_owned(),
        Sort::NodeConditions => "NodeUpdateNodeCondition".to_owned(),
        Sort::NodeAnnotations => "NodeUpdateNodeAnnotation".to_owned(),
        Sort::NodeFeatures => "NodeUpdateNodeDeclaredFeature".to_owned(),
        Sort::PodAdded => "AssignedPodAdd".to_owned(),
        Sort::PodDeleted => "AssignedPodDelete".to_owned(),
        Sort::PodLabels => pod("UpdatePodLabel"),
        Sort::PodScaledDown => pod("UpdatePodScaleDown"),
        Sort::PodGatesGone => pod("UpdatePodSchedulingGatesEliminated"),
        Sort::PodTolerations => pod("UpdatePodToleration"),
        Sort::PodClaims => pod("UpdatePodGeneratedResourceClaim"),
        Sort::PodOther => pod("Update"),
        Sort::Added(thing) => format!("{}Add", kind(thing)),
        Sort::Changed(thing) => format!("{}Update", kind(thing)),
        Sort::Deleted(thing) => format!("{}Delete", kind(thing)),
    }
}

/// Who is helped against whom by a change, for each event that it makes.
type Answers = Vec<(String, BTreeMap<&'static str, BTreeMap<String, bool>>)>;

fn answers(pods: &BTreeMap<String, Object>, old: Option<&Object>, new: Option<&Object>) -> Answers {
    let mut answers: Answers = Vec::new();
    for (pod_name, pod) in pods {
        let mut scheduler = Scheduler::new(Settings::default());
        let about = new.or(old).unwrap();
        let meta = about.meta();
        if meta.kind == "DeviceClass" {
            new.into_iter().for_each(|new| scheduler.apply(Moment::MIN, &What::Added(new.clone())));
        }
        scheduler.apply(Moment::MIN, &What::Added(pod.clone()));
        let id = scheduler.world.find("d", "p").unwrap();
        let scalars = &mut scheduler.world.scalars;
        let mut node = |object: Option<&Object>| object.map(|object| NodeSpec::read(object, scalars));
        let nodes = (meta.kind == "Node").then(|| (node(old), node(new)));
        let mut read = |object: Option<&Object>| object.map(|object| Pod::read(object, scalars));
        let seen = (meta.kind == "Pod").then(|| (read(old), read(new)));
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        let kind = ThingKind::of(group, &meta.kind);
        let thing = |object: Option<&Object>| object.map(|object| Thing::read(kind.unwrap(), object));
        let things = kind.map(|_| (thing(old), thing(new)));
        let volumes = old.filter(|_| meta.kind == "Pod" && new.is_none()).and_then(Volumes::read);
        let (sorts, about, is_assigned) = match (&nodes, &seen, &things) {
            (Some((old, new)), ..) => {
                let sorts = match (old, new) {
                    (None, _) => vec![Sort::NodeAdded],
                    (_, None) => vec![Sort::NodeDeleted],
                    (Some(old), Some(new)) => node_changes(old, new),
                };
                (sorts, About::Node { old: old.as_ref(), new: new.as_ref() }, false)
            }
            (_, Some((before, after)), _) => {
                let sorts = match (before, after) {
                    (None, _) => vec![Sort::PodAdded],
                    (_, None) => vec![Sort::PodDeleted],
                    (Some(before), Some(after)) => {
                        let extras = (Extras::read(old.unwrap()), Extras::read(new.unwrap()));
                        pod_changes(before, after, Some((&extras.0, &extras.1)))
                    }
                };
                let is_assigned = after.as_ref().is_some_and(|pod| pod.node_name.is_some());
                let about =
                    About::Pod { old: before.as_ref(), new: after.as_ref(), volumes: volumes.as_ref() };
                (sorts, about, is_assigned)
            }
            (_, _, Some((old, new))) => {
                let kind = kind.unwrap();
                let sort = match (old, new) {
                    (None, _) => Sort::Added(kind),
                    (_, None) => Sort::Deleted(kind),
                    _ => Sort::Changed(kind),
                };
                (vec![sort], About::Thing { old: old.as_ref(), new: new.as_ref() }, false)
            }
            _ => panic!("{about:?}"),
        };
        let known = Known { world: &scheduler.world, profiles: &scheduler.profiles };
        for (number, sort) in sorts.into_iter().enumerate() {
            if answers.len() == number {
                answers.push((label(sort, is_assigned), BTreeMap::new()));
            }
            for plugin in Plugin::DEFAULT.into_iter().filter(|plugin| plugin.asks(sort)) {
                let helped =
                    is_helped(plugin, known, id, &scheduler.queue.entries[&id], &Event { sort, about });
                let by_plugin = answers[number].1.entry(plugin.name()).or_default();
                by_plugin.insert(pod_name.clone(), helped);
            }
        }
    }
    answers
}

#[test]
fn the_same_events_help_the_same_pods() {
    let mut lines = HINTS.lines();
    let pods: BTreeMap<String, Box<RawValue>> = serde_json::from_str(lines.next().unwrap()).unwrap();
    let pods: BTreeMap<String, Object> =
        pods.into_iter().map(|(name, pod)| (name, Object::parse(pod.get()).unwrap())).collect();
    let object = |raw: Option<&RawValue>| raw.map(|raw| Object::parse(raw.get()).unwrap());
    // Both answers of each plugin to each event.
    let mut seen: BTreeSet<(String, String, bool)> = BTreeSet::new();
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
        let asked: BTreeSet<&String> =
            expected.queues.values().chain(expected.skips.values()).flatten().collect();
        let asked: BTreeMap<String, Object> =
            asked.iter().map(|name| ((*name).clone(), pods[*name].clone())).collect();
        if asked.is_empty() {
            // Nobody asks for it.
            let answers = answers(&pods, object(expected.old).as_ref(), object(expected.new).as_ref());
            assert!(answers[number].1.is_empty(), "{line}");
            continue;
        }
        let answers = answers(&asked, object(expected.old).as_ref(), object(expected.new).as_ref());
        let (event, answers) = &answers[number];
        assert_eq!(event, expected.event, "{line}");
        let mut wanted: BTreeMap<&str, BTreeMap<String, bool>> = BTreeMap::new();
        for (verdict, list) in [(true, &expected.queues), (false, &expected.skips)] {
            for (plugin, pods) in list.iter().filter(|(plugin, _)| *plugin != "GangScheduling") {
                seen.insert((plugin.clone(), event.clone(), verdict));
                let by_plugin = wanted.entry(plugin).or_default();
                by_plugin.extend(pods.iter().map(|pod| (pod.clone(), verdict)));
            }
        }
        for (plugin, expected) in &wanted {
            for (pod, verdict) in expected {
                let ours = answers.get(plugin).and_then(|answers| answers.get(pod));
                assert_eq!(ours, Some(verdict), "{plugin} {pod} {:?}\n{line}", pods[pod]);
            }
        }
        let ours: BTreeSet<&str> = answers.keys().copied().collect();
        assert_eq!(ours, wanted.keys().copied().collect(), "{line}");
    }
    assert!(seen.len() > 90, "{}", seen.len());
}

//! Property tests of the autoscaler in random clusters: its decisions are reproducible and do not depend on the order
//! of informer events, and no event makes it panic.

use std::fmt::Write;
use std::time::Duration;

use autoscaler::{
    Autoscaler, Delay, Expander, GroupId, Membership, NodeGroup, ObservedCloud, Provisioning, Settings,
    Version,
};
use model::{Moment, What};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use scheduler::FirstFit;
use serde_json::json;
use simulation::{CloudChange, SimulatedCloud};
use testobjects::random_cluster::{RandomCluster, object};

const WRITES: &str = "a string takes whatever is written to it";
const SECOND: i64 = 1_000_000_000;

fn groups() -> Vec<NodeGroup> {
    let group = |(index, (cpu, memory)): (usize, (&str, &str))| {
        let resources = json!({"cpu": cpu, "memory": memory, "pods": "20", "ephemeral-storage": "50Gi"});
        let name = format!("group-{index}");
        NodeGroup {
            name: name.as_str().into(),
            min: 0,
            max: 6,
            target: None,
            members: Membership::ProviderIdPrefix(format!("town://{name}/").into()),
            template: object(&json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": format!("{name}-template"), "labels": {"zone": format!("z{index}")}},
                "status": {"capacity": resources, "allocatable": resources},
            })),
            pods: Vec::new(),
            template_pods: Vec::new(),
            price: Some(1.0),
            options: None,
            provisioning: Provisioning {
                registers_after: Delay::Samples(vec![Duration::from_secs(20), Duration::from_secs(45)]),
                ready_after: Delay::Constant(Duration::from_secs(5)),
            },
            failures: Vec::new(),
        }
    };
    [("2", "4Gi"), ("8", "32Gi"), ("16", "16Gi")].into_iter().enumerate().map(group).collect()
}

fn settings(version: Version) -> Settings {
    let mut settings = Settings::for_version(version);
    settings.expander = vec![Expander::MostPods, Expander::Random];
    settings.seed = 7;
    // No scheduler marks pods as unschedulable here.
    settings.bypassed_scheduler_names = vec!["default-scheduler".into()];
    settings.balance_similar_node_groups = true;
    settings.group_defaults.scale_down_unneeded_time = Duration::from_secs(30);
    settings.scale_down_delay_after_add = Duration::from_secs(20);
    settings
}

/// All results of an autoscaler in the random cluster of a seed, in which changes happen between any two loops and pods
/// are bound where they fit. The initial objects may be delivered in another order.
fn decision_log(seed: u64, version: Version, shuffled_by: Option<u64>) -> String {
    let mut cluster = RandomCluster::new(seed);
    let mut cloud = SimulatedCloud::new(groups(), seed);
    let mut autoscaler = Autoscaler::new(settings(version), Moment::from_nanos(0));
    let mut fit = FirstFit::new(&Default::default());
    let mut log = String::new();
    let mut initial = cluster.initial_changes(4);
    if let Some(shuffle) = shuffled_by {
        initial.shuffle(&mut Pcg64::seed_from_u64(shuffle));
    }
    let mut changes = initial;
    for number in 1..=25 {
        let now = Moment::from_nanos(number * 10 * SECOND);
        for change in cloud.advance(now) {
            match change {
                CloudChange::Registered { node, .. } => changes.push(What::Added(node)),
                CloudChange::Ready { .. } | CloudChange::Deleted { .. } => {}
            }
        }
        changes.extend((0..12).map(|_| cluster.next_change()));
        for what in changes.drain(..) {
            autoscaler.apply(&what);
            fit.apply(&what);
        }
        for _ in 0..8 {
            let Some((namespace, name)) = cluster.pick_pending_pod() else { break };
            match fit.find_node(&namespace, &name) {
                Some(node) => cluster.mark_placed(&namespace, &name, &node),
                None => changes.extend(cluster.mark_unschedulable(&namespace, &name)),
            }
        }
        writeln!(log, "{:?}", autoscaler.background(now, &mut cloud)).expect(WRITES);
        writeln!(log, "{:?}", autoscaler.run_once(now, &mut cloud)).expect(WRITES);
    }
    log
}

#[test]
fn decisions_are_reproducible_in_any_order_of_events() {
    for seed in 1..=12 {
        let right = decision_log(seed, Version::V1_36, None);
        assert_eq!(decision_log(seed, Version::V1_36, None), right, "seed {seed}");
        assert_eq!(decision_log(seed, Version::V1_36, Some(seed)), right, "seed {seed}, shuffled");
        assert!(right.contains("TriggeredScaleUp"), "seed {seed}: nothing happens in this cluster");
    }
}

#[test]
fn every_version_scales_up() {
    for version in [Version::V1_32, Version::V1_33, Version::V1_34, Version::V1_35, Version::V1_37] {
        for seed in 20..=23 {
            assert!(decision_log(seed, version, None).contains("ScaleUp"), "{version}, seed {seed}");
        }
    }
}

#[test]
fn a_node_without_provider_id_is_not_unregistered() {
    let mut groups = groups();
    groups.truncate(1);
    groups[0].min = 1;
    groups[0].members = Membership::Label { key: "pool".into(), value: "own".into() };
    let node = object(&json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "here", "labels": {"pool": "own"}, "creationTimestamp": "1970-01-01T00:00:00Z"},
        "status": {
            "capacity": {"cpu": "2", "memory": "4Gi", "pods": "20"},
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "20"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}],
        },
    }));
    let mut cloud = SimulatedCloud::new(groups, 0);
    cloud.adopt(&kubernetes::objects::NodeView::parse(&node)).expect("the node is in the group");
    let mut autoscaler = Autoscaler::new(settings(Version::V1_36), Moment::from_nanos(0));
    autoscaler.apply(&What::Added(node));
    // Longer than the maximum node provision time.
    for number in 1..=120 {
        let now = Moment::from_nanos(number * 10 * SECOND);
        autoscaler.background(now, &mut cloud);
        let loop_result = autoscaler.run_once(now, &mut cloud);
        assert_eq!(loop_result.events, [], "at {now}");
        assert_eq!((loop_result.groups[0].target, loop_result.groups[0].healthy), (1, true), "at {now}");
    }
}

/// Nodes that another component requested have registered. A later request that has not been fulfilled is no failure of
/// theirs.
#[test]
fn an_observing_autoscaler_knows_when_a_scale_up_is_fulfilled() {
    let mut cloud = ObservedCloud::new(vec![groups().swap_remove(0)], None, "gpu".into());
    let mut autoscaler = Autoscaler::new(Settings::for_version(Version::V1_36), Moment::from_nanos(0));
    let come = |name: &str, autoscaler: &mut Autoscaler, cloud: &mut ObservedCloud| {
        let resources = json!({"cpu": "2", "memory": "4Gi", "pods": "20"});
        let node = What::Added(object(&json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"providerID": format!("town://group-0/{name}")},
            "status": {"capacity": resources, "allocatable": resources,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}]},
        })));
        cloud.apply(&node);
        autoscaler.apply(&node);
    };
    let watch = |second: i64, autoscaler: &mut Autoscaler, cloud: &mut ObservedCloud| {
        let now = Moment::from_nanos(second * SECOND);
        cloud.begin_loop();
        autoscaler.background(now, cloud);
        let loop_result = autoscaler.dry_run_once(now, cloud);
        (loop_result.groups[0].upcoming, loop_result.groups[0].backed_off)
    };
    come("a", &mut autoscaler, &mut cloud);
    cloud.set_target("group-0", 2);
    autoscaler.observe_scale_up(Moment::from_nanos(10 * SECOND), GroupId(0), 1, &cloud);
    assert_eq!(watch(20, &mut autoscaler, &mut cloud), (1, false));
    come("b", &mut autoscaler, &mut cloud);
    assert_eq!(watch(60, &mut autoscaler, &mut cloud), (0, false));
    cloud.set_target("group-0", 3);
    // No scale-up was observed, so no node is upcoming; and the old request has not failed.
    assert_eq!(watch(1_200, &mut autoscaler, &mut cloud), (0, false));
}

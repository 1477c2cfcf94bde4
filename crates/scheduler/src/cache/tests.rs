//! Tests that the cache frees what nothing uses any more, and that evicted counts are computed again.

use std::sync::Arc;

use model::{Moment, Object, What};
use serde_json::json;
use testobjects::{PodBuilder, node, pod};

use crate::ids::PodId;
use crate::pre_filter_state::PreFilterState;
use crate::{Decision, Scheduler, Settings};

const NOW: Moment = Moment::from_nanos(0);

/// A scheduler with two nodes in one zone.
fn scheduler() -> Scheduler {
    let mut scheduler = Scheduler::new(Settings::default());
    for name in ["n1", "n2"] {
        let node = node(name).label("zone", "z").allocatable("cpu", "9").allocatable("pods", "9");
        scheduler.apply(NOW, &node.added());
    }
    scheduler
}

/// Spreads a pod over the values of a node label, among pods with its own label `app`.
fn spread_by(pod: PodBuilder, key: &str, app: &str) -> PodBuilder {
    let constraint = json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}}});
    pod.label("app", app).set("spec.topologySpreadConstraints", json!([constraint]))
}

/// Adds a pod, attempts to schedule it, and deletes it.
fn come_and_go(scheduler: &mut Scheduler, pod: PodBuilder) -> Decision {
    let pod = pod.object();
    let decision = attempt(scheduler, &pod);
    scheduler.apply(NOW, &What::Deleted(pod));
    decision
}

fn attempt(scheduler: &mut Scheduler, pod: &Object) -> Decision {
    scheduler.apply(NOW, &What::Added(pod.clone()));
    let meta = pod.meta();
    scheduler.attempt(NOW, &meta.namespace, &meta.name).expect("the pod was added")
}

fn message(decision: &Decision) -> &str {
    match decision {
        Decision::Unschedulable(rejection) => &rejection.message,
        other => panic!("the pod should be unschedulable: {other:?}"),
    }
}

fn state(scheduler: &mut Scheduler, id: PodId) -> Arc<PreFilterState> {
    scheduler.pre_filter_states.get_or_compute(&mut scheduler.cache, &scheduler.profiles[0], id)
}

#[test]
fn topology_keys_that_no_pod_uses_are_freed() {
    let mut scheduler = scheduler();
    let keeper = spread_by(pod("keeper"), "zone", "kept");
    assert!(matches!(attempt(&mut scheduler, &keeper.object()), Decision::Scheduled(_)));
    for index in 0..500 {
        let retired = spread_by(pod("retired"), &format!("key-{index}"), "retired");
        let decision = come_and_go(&mut scheduler, retired);
        assert!(message(&decision).contains("missing required label"), "{decision:?}");
        let term = json!({"topologyKey": format!("affinity-{index}"),
            "labelSelector": {"matchLabels": {"app": "kept"}}});
        let retired = pod("retired")
            .set("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution", json!([term]));
        come_and_go(&mut scheduler, retired);
    }
    let keys = scheduler.cache.topology.key_count();
    assert!(keys <= 64, "{keys} topology keys are left");
    let next = spread_by(pod("next"), "zone", "kept");
    assert!(matches!(attempt(&mut scheduler, &next.object()), Decision::Scheduled(_)));
}

#[test]
fn scalar_resources_that_nothing_uses_are_freed() {
    let mut scheduler = scheduler();
    scheduler.apply(NOW, &node("n3").allocatable("pods", "9").allocatable("example.com/kept", "1").added());
    for index in 0..2_000 {
        let name = format!("example.com/retired-{index}");
        let retired = pod("retired").request(&name, "1");
        let decision = come_and_go(&mut scheduler, retired);
        assert!(message(&decision).contains(&format!("3 Insufficient {name}")), "{decision:?}");
        let on_node = pod("running").request(&name, "1").on("n1").object();
        scheduler.apply(NOW, &What::Added(on_node.clone()));
        scheduler.apply(NOW, &What::Deleted(on_node));
    }
    let names = scheduler.cache.scalars.len();
    assert!(names <= 600, "{names} resource names are left");
    let scalars_on_node: usize = scheduler
        .cache
        .nodes
        .present()
        .map(|(id, _)| scheduler.cache.nodes.usage(id).requested.scalars.len())
        .sum();
    assert!(scalars_on_node <= 600, "{scalars_on_node} resources are left on nodes");
    let taker = pod("taker").request("example.com/kept", "1");
    assert!(matches!(attempt(&mut scheduler, &taker.object()), Decision::Scheduled(_)));
    let decision = attempt(&mut scheduler, &pod("other").request("example.com/kept", "1").object());
    assert!(message(&decision).contains("3 Insufficient example.com/kept"), "{decision:?}");
}

#[test]
fn eviction_of_counts_keeps_the_states_of_others() {
    let mut scheduler = scheduler();
    for name in ["keeper", "forgotten"] {
        scheduler.apply(NOW, &spread_by(pod(name), "zone", name).added());
    }
    let [keeper, forgotten] =
        ["keeper", "forgotten"].map(|name| scheduler.cache.find_pod("default", name).expect("it was added"));
    let (kept_state, forgotten_state) = (state(&mut scheduler, keeper), state(&mut scheduler, forgotten));
    for index in 0..1_500 {
        come_and_go(&mut scheduler, spread_by(pod("retired"), "zone", &format!("app-{index}")));
        assert!(Arc::ptr_eq(&kept_state, &state(&mut scheduler, keeper)), "the state is in use");
    }
    let counts = scheduler.cache.counts_len();
    assert!(counts <= 1_100, "{counts} counts are kept");
    assert!(!Arc::ptr_eq(&forgotten_state, &state(&mut scheduler, forgotten)), "its counts were evicted");
}

#[test]
fn counts_after_an_eviction_are_those_without_a_cache() {
    let [mut cached, mut uncached] = [scheduler(), scheduler()];
    uncached.disable_caches();
    let apply = |cached: &mut Scheduler, uncached: &mut Scheduler, what: &What| {
        cached.apply(NOW, what);
        uncached.apply(NOW, what);
    };
    for index in 0..6 {
        let app = format!("app-{}", index % 3);
        let running = pod(&format!("running-{index}")).label("app", &app).on(["n1", "n2"][index % 2]);
        apply(&mut cached, &mut uncached, &running.added());
    }
    for round in 0..3_000 {
        let waiting = spread_by(pod("waiting"), "zone", &format!("app-{}", round % 1_500)).object();
        apply(&mut cached, &mut uncached, &What::Added(waiting.clone()));
        if round % 1_500 < 5 {
            let explanations =
                [&mut cached, &mut uncached].map(|scheduler| scheduler.explain(NOW, "default", "waiting"));
            assert_eq!(explanations[0], explanations[1], "round {round}");
        } else {
            cached.attempt(NOW, "default", "waiting");
        }
        apply(&mut cached, &mut uncached, &What::Deleted(waiting));
    }
}

//! Tests that a pod's status update agrees with its object.

use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::pod_template::{PodState, PodTemplate};

/// An owned pod state.
#[derive(Clone, Debug)]
struct OwnedPodState {
    bound: Option<Moment>,
    nominated: bool,
    unschedulable: Option<Moment>,
    started: Option<Moment>,
    finished: Option<(Moment, bool)>,
    deletion: Option<(Moment, i64)>,
    eviction: Option<(EvictionCause, Moment)>,
    withdrawn: bool,
}

impl OwnedPodState {
    fn as_pod_state(&self) -> PodState<'_> {
        PodState {
            name: "a",
            uid: "uid-a",
            created: at(1_500),
            node: self.bound.map(|_| "n1"),
            nominated: self.nominated.then_some("n2"),
            bound_at: self.bound,
            unschedulable: self.unschedulable.map(|since| ("0/2 nodes are available", since)),
            started: self.started,
            finished: self.finished,
            deletion: self.deletion,
            withdrawn: self.withdrawn,
            disruption: self.eviction.as_ref().map(|(cause, at)| (cause, *at)),
            has_finalizers: false,
        }
    }
}

fn moment() -> impl Strategy<Value = Moment> {
    (0..100_000i64).prop_map(at)
}

fn eviction_cause() -> impl Strategy<Value = EvictionCause> {
    let preemptor = NamespacedName { namespace: "shop".into(), name: "b".into() };
    prop_oneof![
        Just(EvictionCause::Preemption(preemptor)),
        Just(EvictionCause::ScaleDown),
        Just(EvictionCause::Taint("gone".into())),
        Just(EvictionCause::NodeDeleted)
    ]
}

prop_compose! {
    fn pod_state()(
        (bound, unschedulable, started) in (option::of(moment()), option::of(moment()), option::of(moment())),
        finished in option::of((moment(), any::<bool>())),
        deletion in option::of((moment(), 0..100i64)),
        eviction in option::of((eviction_cause(), moment())),
        (nominated, withdrawn) in (any::<bool>(), any::<bool>()),
    ) -> OwnedPodState {
        OwnedPodState { bound, nominated, unschedulable, started, finished, deletion, eviction, withdrawn }
    }
}

proptest! {
    #[test]
    fn a_status_update_transforms_the_earlier_object_into_the_later(before in pod_state(), after in pod_state()) {
        let template = PodTemplate::of(&demand(1, "a", "500m", 7).pod, None).unwrap();
        let object = |state: &OwnedPodState| template.object(&state.as_pod_state());
        prop_assert!(after.as_pod_state().status_update().transforms(&object(&before), &object(&after)));
    }
}

#[test]
fn preemption_prefers_victims_that_started_later() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    let starting = |millis, demand: PodDemand| {
        let start_duration =
            Some(ObservedDuration { duration: Duration::from_millis(millis), is_lower_bound: false });
        let name = demand.incarnations[0].name.clone();
        PodDemand {
            incarnations: vec![PodIncarnation { name, start_duration, ..PodIncarnation::default() }],
            ..demand
        }
    };
    demand_pod(&mut run, 100, starting(5_000, demand(1, "created-first", "400m", 0)));
    demand_pod(&mut run, 200, starting(100, demand(2, "started-first", "400m", 0)));
    demand_pod(&mut run, 9_000, demand(3, "strong", "500m", 100));
    run.advance(at(12_000));
    assert_eq!(evictions(run.observer()), [(9_030, "created-first evicted, PreemptionByScheduler")]);
}

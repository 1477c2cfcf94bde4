//! Tests that a pod's status update agrees with its object.

use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::pod_template::{PodState, PodTemplate};

/// An owned pod state.
#[derive(Clone, Debug)]
struct Fared {
    bound: Option<Moment>,
    nominated: bool,
    refused: Option<Moment>,
    started: Option<Moment>,
    ended: Option<(Moment, bool)>,
    leaving: Option<(Moment, i64)>,
    lost: Option<(EvictionCause, Moment)>,
    withdrawn: bool,
}

impl Fared {
    fn now(&self) -> PodState<'_> {
        PodState {
            name: "a",
            uid: "uid-a",
            created: at(1_500),
            node: self.bound.map(|_| "n1"),
            nominated: self.nominated.then_some("n2"),
            bound_at: self.bound,
            unschedulable: self.refused.map(|since| ("0/2 nodes are available", since)),
            started: self.started,
            finished: self.ended,
            deletion: self.leaving,
            withdrawn: self.withdrawn,
            disruption: self.lost.as_ref().map(|(cause, at)| (cause, *at)),
            has_finalizers: false,
        }
    }
}

fn moment() -> impl Strategy<Value = Moment> {
    (0..100_000i64).prop_map(at)
}

fn lost_to() -> impl Strategy<Value = EvictionCause> {
    let preemptor = NamespacedName { namespace: "shop".into(), name: "b".into() };
    prop_oneof![
        Just(EvictionCause::Preemption(preemptor)),
        Just(EvictionCause::ScaleDown),
        Just(EvictionCause::Taint("gone".into())),
        Just(EvictionCause::NodeDeleted)
    ]
}

prop_compose! {
    fn fared()(
        (bound, refused, started) in (option::of(moment()), option::of(moment()), option::of(moment())),
        ended in option::of((moment(), any::<bool>())),
        leaving in option::of((moment(), 0..100i64)),
        lost in option::of((lost_to(), moment())),
        (nominated, withdrawn) in (any::<bool>(), any::<bool>()),
    ) -> Fared {
        Fared { bound, nominated, refused, started, ended, leaving, lost, withdrawn }
    }
}

proptest! {
    #[test]
    fn a_fate_is_what_the_text_says(before in fared(), after in fared()) {
        let template = PodTemplate::of(&demand(1, "a", "500m", 7).pod, None).unwrap();
        let text = |fared: &Fared| template.object(&fared.now());
        prop_assert!(after.now().status_update().transforms(&text(&before), &text(&after)));
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
    demand_pod(&mut run, 100, starting(5_000, demand(1, "came-first", "400m", 0)));
    demand_pod(&mut run, 200, starting(100, demand(2, "ran-first", "400m", 0)));
    demand_pod(&mut run, 9_000, demand(3, "strong", "500m", 100));
    run.advance(at(12_000));
    assert_eq!(evictions(run.observer()), [(9_030, "came-first lost, PreemptionByScheduler")]);
}

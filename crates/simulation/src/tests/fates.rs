//! What is told of a pod without its text is what the text says.

use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::pod_template::{PodState, PodTemplate};

/// What became of a pod, owned.
#[derive(Clone, Debug)]
struct Fared {
    bound: Option<Moment>,
    nominated: bool,
    refused: Option<Moment>,
    started: Option<Moment>,
    ended: Option<(Moment, bool)>,
    leaving: Option<(Moment, i64)>,
    lost: Option<(LostTo, Moment)>,
    withdrawn: bool,
}

impl Fared {
    fn now(&self) -> PodState<'_> {
        PodState {
            name: "a",
            uid: "uid-a",
            came: at(1_500),
            node: self.bound.map(|_| "n1"),
            nominated: self.nominated.then_some("n2"),
            bound: self.bound,
            refused: self.refused.map(|since| ("0/2 nodes are available", since)),
            started: self.started,
            ended: self.ended,
            leaving: self.leaving,
            withdrawn: self.withdrawn,
            lost: self.lost.as_ref().map(|(to, at)| (to, *at)),
            is_tracked: false,
        }
    }
}

fn moment() -> impl Strategy<Value = Moment> {
    (0..100_000i64).prop_map(at)
}

fn lost_to() -> impl Strategy<Value = LostTo> {
    let by = NamespacedName { namespace: "shop".into(), name: "b".into() };
    prop_oneof![
        Just(LostTo::Preemption(by)),
        Just(LostTo::ScaleDown),
        Just(LostTo::Taint("gone".into())),
        Just(LostTo::NodeGone)
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
        let body = PodTemplate::of(&demand(1, "a", "500m", 7).pod, None).unwrap();
        let text = |fared: &Fared| body.object(&fared.now());
        prop_assert!(after.now().fate().leads(&text(&before), &text(&after)));
    }
}

#[test]
fn who_has_run_longer_stays_when_room_is_made() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    let starting = |millis, demand: Demand| {
        let start = Some(Took { time: Duration::from_millis(millis), longer: false });
        let name = demand.lives[0].name.clone();
        Demand { lives: vec![Life { name, start, ..Life::default() }], ..demand }
    };
    ask(&mut run, 100, starting(5_000, demand(1, "came-first", "400m", 0)));
    ask(&mut run, 200, starting(100, demand(2, "ran-first", "400m", 0)));
    ask(&mut run, 9_000, demand(3, "strong", "500m", 100));
    run.advance(at(12_000));
    assert_eq!(lost(run.observer()), [(9_030, "came-first lost, PreemptionByScheduler")]);
}

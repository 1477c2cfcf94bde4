//! Tests that the view of a pod agrees with its object.

use std::sync::Arc;

use kubernetes::objects::PodView;
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
    names: Names,
}

/// The texts of a pod state.
#[derive(Clone, Debug)]
struct Names {
    pod: NamespacedName,
    uid: Arc<str>,
    node: Arc<str>,
    nominated: Arc<str>,
    message: Arc<str>,
}

impl Default for Names {
    fn default() -> Names {
        Names {
            pod: NamespacedName { namespace: "shop".into(), name: "a".into() },
            uid: "uid-a".into(),
            node: "n1".into(),
            nominated: "n2".into(),
            message: "0/2 nodes are available".into(),
        }
    }
}

impl OwnedPodState {
    fn as_pod_state(&self) -> PodState<'_> {
        PodState {
            name: &self.names.pod,
            uid: &self.names.uid,
            created: at(1_500),
            node: self.bound.map(|_| &self.names.node),
            nominated: self.nominated.then_some(&self.names.nominated),
            bound_at: self.bound,
            unschedulable: self.unschedulable.map(|since| (&self.names.message, since)),
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
        let names = Names::default();
        OwnedPodState { bound, nominated, unschedulable, started, finished, deletion, eviction, withdrawn, names }
    }
}

proptest! {
    #[test]
    fn the_view_of_a_pod_is_its_object_parsed(state in pod_state()) {
        let annotation = DemandAnnotation { demand: DemandId(7), after: None };
        let template = PodTemplate::of(&demand(1, "a", "500m", 7).pod, Some(annotation)).unwrap();
        let (view, object) = (template.view(&state.as_pod_state()), template.object(&state.as_pod_state()));
        let parsed = PodView::parse(&object);
        prop_assert_eq!(&parsed.read_error, &None);
        // The text of the spec has the node only in the object.
        let spec = |view: &PodView| {
            let mut spec = (*view.spec).clone();
            spec.json = "".into();
            format!("{spec:?}")
        };
        prop_assert_eq!(spec(&view), spec(&parsed));
        let rest = |view: PodView| format!("{:?}", PodView { spec: Arc::default(), ..view });
        prop_assert_eq!(rest(view), rest(parsed));
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

use rand::SeedableRng;
use rand_pcg::Pcg64;
use scheduler::ids::PodId;
use serde_json::{Value, json};
use testobjects::resource;

use super::super::super::groups::PodPricing;
use super::super::super::settings::Expander;
use super::super::super::testing::Harness;
use super::super::tests::{add_pods, harness, node, pod};
use super::*;

/// Groups by name, with CPU and memory (MiB) of a node, and an option for each: nodes, and the number of pods helped.
struct Case {
    harness: Harness,
    groups: Vec<PodEquivalenceGroup>,
    candidates: Vec<ExpansionOption>,
}

impl Case {
    fn new(options: &[(&str, i64, i64, i64, usize)], pods: &[(i64, i64)]) -> Case {
        let groups: Vec<_> = options
            .iter()
            .map(|(name, cpu, memory, ..)| (*name, 0, 10, node(name, *cpu, *memory, 10)))
            .collect();
        let mut harness = harness(&groups);
        for (n, (cpu, memory)) in pods.iter().enumerate() {
            add_pods(&mut harness, [pod(&format!("p{n}"), &format!("c{n}"), *cpu, *memory)]);
        }
        let ids: Vec<PodId> = harness.state.cluster.unscheduled_pods().collect();
        let groups = PodEquivalenceGroup::build_groups(&harness.state.cluster.snapshot, &ids);
        let candidates = (0..).zip(options).map(|(index, (name, _, _, nodes, helped))| ExpansionOption {
            group: GroupId(index),
            name: (*name).into(),
            nodes: *nodes,
            helped_pods: (0..*helped).map(|pods| (pods, 1)).collect(),
            similar_groups: Vec::new(),
        });
        Case { candidates: candidates.collect(), harness, groups }
    }

    fn choose(&mut self, expanders: &[Expander]) -> (Option<String>, Vec<ExpanderChoice>) {
        self.harness.state.settings.expander = expanders.to_vec();
        self.harness.state.rng = Pcg64::seed_from_u64(0);
        let Case { harness, groups, candidates } = self;
        let (best, choices) = harness.with(|context| best_option(context, groups, candidates));
        (best.map(|index| self.candidates[index].name.to_string()), choices)
    }

    /// The groups that remain after one expander.
    fn remaining_groups(&mut self, expander: Expander) -> Vec<Arc<str>> {
        self.choose(&[expander]).1[0].remaining_groups.clone()
    }
}

/// TestLeastWaste of cluster-autoscaler.
#[test]
fn the_option_with_the_least_waste_is_chosen() {
    let (balanced, high) = (("balanced", 8000, 16_000, 1, 1), ("highmem", 8000, 32_000, 1, 1));
    let mut case = Case::new(&[balanced, high], &[(500, 1000)]);
    assert_eq!(case.choose(&[Expander::LeastWaste]).0.as_deref(), Some("balanced"));
    let mut case = Case::new(&[balanced, high, ("lowcpu", 4000, 16_000, 1, 1)], &[(500, 1000)]);
    let (best, choices) = case.choose(&[Expander::LeastWaste]);
    assert_eq!(best.as_deref(), Some("lowcpu"));
    assert_eq!(choices[0].scores[0], ("balanced".into(), 15.0 / 16.0 + 15.0 / 16.0));
}

/// Without capacity of a resource its waste is NaN: such an option is kept if it is the first.
#[test]
fn waste_without_capacity_is_nan() {
    let mut case = Case::new(&[("none", 0, 16_000, 1, 1), ("some", 8000, 16_000, 1, 1)], &[(0, 0)]);
    assert_eq!(case.remaining_groups(Expander::LeastWaste), ["none".into()]);
    let mut case = Case::new(&[("some", 8000, 16_000, 1, 1), ("none", 0, 16_000, 1, 1)], &[(0, 0)]);
    assert_eq!(case.remaining_groups(Expander::LeastWaste), ["some".into()]);
}

#[test]
fn most_pods_and_least_nodes_keep_ties() {
    let options = [("c", 1, 1, 2, 2), ("b", 1, 1, 3, 2), ("a", 1, 1, 2, 1)];
    let mut case = Case::new(&options, &[(1, 1), (1, 1)]);
    assert_eq!(case.remaining_groups(Expander::MostPods), ["c".into(), "b".into()]);
    assert_eq!(case.remaining_groups(Expander::LeastNodes), ["c".into(), "a".into()]);
    let (best, choices) = case.choose(&[Expander::MostPods, Expander::LeastNodes]);
    assert_eq!((best.as_deref(), choices.len(), choices[1].is_tie), (Some("c"), 2, false));
    // A tie at the end: the first by name is chosen, and `is_tie` is set.
    let (best, choices) = case.choose(&[Expander::LeastNodes]);
    assert_eq!((best.as_deref(), choices[0].is_tie), (Some("a"), true));
}

#[test]
fn the_random_choice_is_seeded_and_ends_the_chain() {
    let mut case = Case::new(&[("a", 1, 1, 1, 1), ("b", 1, 1, 1, 1)], &[(1, 1)]);
    let (best, choices) = case.choose(&[Expander::MostPods, Expander::Random]);
    assert!(best.is_some() && !choices[1].is_tie && choices[1].remaining_groups.len() == 1);
    assert_eq!(case.choose(&[Expander::MostPods, Expander::Random]).0, best);
}

/// Cases of TestPriceExpander of cluster-autoscaler, with prices in the same proportion.
#[test]
fn the_best_price_ratio_wins() {
    // A core costs 20, so p1 costs 20, p2 10 and the stabilization pod 10.
    let pricing = PodPricing { cpu: 20.0, memory_gib: 0.0 };
    let check = |nodes: [i64; 2], helped: [usize; 2], prices: [f64; 2], node_count: usize, expected: &str| {
        let options = [("ng1", 1000, 1000, nodes[0], helped[0]), ("ng2", 4000, 1000, nodes[1], helped[1])];
        let mut case = Case::new(&options, &[(1000, 0), (500, 0)]);
        for n in 0..node_count {
            case.harness.apply(node(&format!("n{n}"), 1, 1, 1).added());
        }
        case.harness.cloud.pricing = Some(pricing);
        for (group, price) in case.harness.cloud.groups.iter_mut().zip(prices) {
            group.price = Some(price);
        }
        assert_eq!(case.choose(&[Expander::Price]).0.as_deref(), Some(expected));
    };
    // With three to six nodes two cores are preferred, with seven to twenty four.
    check([2, 1], [2, 2], [20.0, 200.0], 3, "ng1");
    check([2, 1], [2, 2], [50.0, 200.0], 7, "ng2");
    check([80, 40], [2, 2], [20.0, 200.0], 7, "ng1");
    check([2, 1], [2, 2], [200.0, 100.0], 3, "ng2");
    check([2, 1], [1, 2], [200.0, 200.0], 3, "ng2");
}

#[test]
fn groups_without_a_price_are_dropped() {
    let mut case = Case::new(&[("a", 1000, 1000, 1, 1), ("b", 1000, 1000, 1, 1)], &[(1, 1)]);
    case.harness.cloud.pricing = Some(PodPricing { cpu: 1.0, memory_gib: 1.0 });
    assert_eq!(case.choose(&[Expander::Price]).0, None);
    case.harness.cloud.groups[1].price = Some(9.0);
    assert_eq!(case.choose(&[Expander::Price]).0.as_deref(), Some("b"));
}

const MICRO: &str = "my-asg.t2.micro";
const LARGE: &str = "my-asg.t2.large";
const LARGE3: &str = "my-asg.t3.large";
const XLARGE: &str = "my-asg.m4.4xlarge";
const CONFIG: &str = "5:\n  - \".*t2\\\\.micro.*\"\n10: \n  - \".*t2\\\\.large.*\"\n  - \".*t3\\\\.large.*\"\n\
                      50: \n  - \".*m4\\\\.4xlarge.*\"\n";

/// Checks the remaining groups and the events for a ConfigMap.
#[track_caller]
fn check_priority(data: Option<Value>, groups: &[&str], left: &[&str], events: &[&str]) {
    let options: Vec<_> = groups.iter().map(|name| (*name, 1, 1, 1, 1)).collect();
    let mut case = Case::new(&options, &[(1, 1)]);
    if let Some(data) = data {
        let map = resource("v1", "ConfigMap", "cluster-autoscaler-priority-expander");
        case.harness.apply(map.namespace("kube-system").set("data", data).added());
    }
    let remaining = case.remaining_groups(Expander::Priority);
    assert_eq!(remaining.iter().map(|name| &**name).collect::<Vec<_>>(), left);
    let emitted_events: Vec<String> =
        case.harness.events.iter().map(|event| format!("{} {}", event.reason, event.message)).collect();
    assert_eq!(emitted_events, events);
    assert!(case.harness.events.iter().all(|event| event.is_warning));
}

/// Cases of TestPriorityExpander… of cluster-autoscaler.
#[test]
fn the_highest_priority_wins() {
    let config = |text: &str| Some(json!({"priorities": text}));
    check_priority(config(CONFIG), &[LARGE], &[LARGE], &[]);
    check_priority(config(CONFIG), &[LARGE, MICRO, XLARGE], &[XLARGE], &[]);
    check_priority(config(CONFIG), &[LARGE, LARGE3, MICRO], &[LARGE, LARGE3], &[]);
    check_priority(config("5:\n  - \".*\"\n10:\n  - \".t2\\\\.large.*\"\n"), &[LARGE, MICRO], &[LARGE], &[]);
    let unknown = |group: &str| {
        format!(
            "PriorityConfigMapNotMatchedGroup Priority expander: node group {group} not found in priority \
             expander configuration. The group won't be used."
        )
    };
    let one = config("10: \n  - \".*t2\\\\.large.*\"\n");
    check_priority(one.clone(), &[LARGE, LARGE3, XLARGE], &[LARGE], &[&unknown(LARGE3), &unknown(XLARGE)]);
    let unmatched = "PriorityConfigMapNoGroupMatched Priority expander: no priorities info found for any of the \
                  expansion options. No options filtered.";
    check_priority(
        one,
        &[LARGE3, XLARGE],
        &[LARGE3, XLARGE],
        &[&unknown(LARGE3), &unknown(XLARGE), unmatched],
    );
    // A priority of -1 counts, lower ones do not.
    check_priority(config("-1: [a]\n-2: [b]\n"), &["a", "b"], &["a"], &[]);
    check_priority(config("-2: [b]\n"), &["b"], &["b"], &[unmatched]);
}

/// The messages are those that cluster-autoscaler 1.36.1 printed for the vectors, or those of its tests.
#[test]
fn an_invalid_config_map_is_reported_and_ignored() {
    check_priority(None, &["a", "b"], &["a", "b"], &[]);
    let check = |data: Value, event: &str| {
        check_priority(Some(data), &["a", "b"], &["a", "b"], &[&format!("PriorityConfigMapInvalid {event}")]);
    };
    check(
        json!({"other": ""}),
        "Wrong configmap for priority expander, doesn't contain priorities key. Ignoring update.",
    );
    check(
        json!({"priorities": ""}),
        "Wrong configuration for priority expander: priority configuration in \
         cluster-autoscaler-priority-expander configmap is empty; please provide valid configuration. \
         Ignoring update.",
    );
    check(
        json!({"priorities": "10:\n- \"(\"\n"}),
        "Wrong configuration for priority expander: Can't compile regexp rule for priority 10 and rule (: \
         error parsing regexp: missing closing ): `(`. Ignoring update.",
    );
    check(
        json!({"priorities": "not a map"}),
        "Wrong configuration for priority expander: Can't parse YAML with priorities in the configmap: error \
         unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go value of type \
         map[int][]string. Ignoring update.",
    );
}

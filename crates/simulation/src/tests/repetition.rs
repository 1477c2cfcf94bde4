//! Loops that come to the same are not worked out again: everybody hears what he would hear if they were.

use autoscaler::{Expander, Settings, Version};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

const HOUR: i64 = 3_600_000;
/// Between two looks from outside; no multiple of the scan interval.
const LOOK: i64 = 3_700;

/// Writes down everything, each loop with all that it says.
#[derive(Default)]
struct Protocol(Vec<String>);

impl Observer for Protocol {
    fn wants_changes(&self) -> bool {
        true
    }

    fn changed(&mut self, at: Moment, what: What) {
        self.0.push(format!("{at} {} {}", what.word(), what.object().as_str()));
    }

    fn decided(&mut self, at: Moment, decided: &Decided<'_>) {
        self.0.push(match decided {
            // What is told of a loop. What the autoscaler remembers of having worked is its own business.
            Decided::Looped { done, autoscaler } => format!("{at} {done:?} {:?}", autoscaler.status()),
            decided => format!("{at} {decided:?}"),
        });
    }
}

/// Three groups of which one has bad times, one is never empty, and one is wanted whole.
fn groups(dice: &mut Pcg64) -> Vec<autoscaler::NodeGroup> {
    let kinds = ["increaseError", "createError", "neverRegister", "noInstance"];
    let kind = kinds[dice.random_range(0..kinds.len())];
    let whole = dice.random_bool(0.3);
    let text = format!(
        "groups:
- name: small
  min: 0
  max: 6
  template: {{cpu: 2, memory: 4Gi, pods: 10}}
  provisioning: {{registersAfter: 40s, readyAfter: 10s}}
  failures: [{{from: '1970-01-01T00:10:00Z', to: '1970-01-01T00:25:00Z', kind: {kind}}}]
- name: large
  min: 1
  max: 4
  template: {{cpu: 8, memory: 16Gi, pods: 20}}
  provisioning: {{registersAfter: 70s}}
- name: other
  min: 0
  max: 3
  template: {{cpu: 2, memory: 4Gi, pods: 10}}
  options: {{zero-or-max-node-scaling: {whole}}}
"
    );
    NodeGroups::parse(&text).unwrap().groups
}

/// Short times, so that all of them come to their end.
fn settings(dice: &mut Pcg64) -> Settings {
    let versions = [Version::V1_32, Version::V1_34, Version::V1_35, Version::V1_36, Version::V1_37];
    let mut settings = Settings::for_version(versions[dice.random_range(0..versions.len())]);
    let mut seconds = |from, to| Duration::from_secs(dice.random_range(from..to));
    settings.scale_down_delay_after_add = seconds(10, 120);
    settings.scale_down_delay_after_delete = seconds(0, 30);
    settings.unremovable_node_recheck_timeout = seconds(30, 200);
    settings.initial_node_group_backoff_duration = seconds(20, 90);
    settings.max_node_group_backoff_duration = seconds(90, 200);
    settings.node_group_backoff_reset_timeout = seconds(200, 400);
    settings.node_info_cache_expire_time = seconds(100, 900);
    settings.new_pod_scale_up_delay = seconds(0, 30);
    settings.blocking_system_pod_disruption_timeout = seconds(300, 900);
    settings.group_defaults.scale_down_unneeded_time = seconds(20, 300);
    settings.group_defaults.scale_down_unready_time = seconds(20, 300);
    settings.group_defaults.max_node_provision_time = seconds(60, 300);
    settings.group_defaults.max_node_startup_time = seconds(60, 300);
    settings.scale_down_delay_type_local = dice.random_bool(0.3);
    settings.enforce_node_group_min_size = dice.random_bool(0.5);
    settings.balance_similar_node_groups = dice.random_bool(0.5);
    settings.max_bulk_soft_taint_count = dice.random_range(0..3);
    settings.expander = vec![if dice.random_bool(0.5) { Expander::Random } else { Expander::LeastWaste }];
    settings.seed = dice.random();
    settings
}

/// A pod of an owner; some go nowhere, some stand in the way of a node's removal, some keep their distance.
fn wish(id: u64, dice: &mut Pcg64) -> Demand {
    let cpu = ["200m", "700m", "1500m", "3", "30"][dice.random_range(0..5)];
    let mut demand = demand(id, &format!("p{id}"), cpu, [0, 0, 0, 10, -20][dice.random_range(0..5)]);
    let mut pod = demand.pod.value().unwrap();
    match dice.random_range(0..6) {
        0 => {
            pod["metadata"]["annotations"] =
                json!({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
        }
        1 => pod["metadata"]["namespace"] = json!("kube-system"),
        2 => {
            pod["metadata"]["labels"] = json!({"app": "web"});
            pod["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]);
        }
        3 => demand.again = Again::Never,
        _ => {}
    }
    demand.pod = object(&pod);
    if dice.random_bool(0.3) {
        let lasting = Duration::from_secs(dice.random_range(60..600));
        demand.runs = Some(Runs { lasting, fails: false });
    }
    demand
}

/// An hour and a half in which something is asked for now and then. Tells what was heard, and at how many looks the next
/// loop could be a repetition.
fn story(seed: u64, repeats: bool) -> (Vec<String>, usize) {
    let mut dice = Pcg64::seed_from_u64(seed);
    let loops: Vec<Duration> = (0..9).map(|_| Duration::from_millis(dice.random_range(5..400))).collect();
    let slow = dice.random_bool(0.2).then(|| Duration::from_secs(25));
    let pace = pace().with(Step::Loop, Delay::Measured(loops.into_iter().chain(slow).collect()));
    let cloud = SimulatedCloud::new(groups(&mut dice), seed);
    let autoscaler = Some(AutoscalerSetup { settings: settings(&mut dice), cloud, start: at(0) });
    let scheduler = scheduler::Settings::default();
    let mut run = Run::new(Setup { start: at(0), scheduler, autoscaler, pace, seed }, Protocol::default());
    let mut given: Vec<(i64, Given)> = vec![
        (0, Given::Object(What::Added(node("n1", &json!([]))))),
        (5, Given::Object(What::Added(node("n2", &json!([]))))),
        (dice.random_range(0..HOUR), Given::Object(What::Deleted(node("n2", &json!([]))))),
    ];
    for id in 0..24 {
        let from = dice.random_range(0..HOUR);
        given.push((from, Given::asked(wish(id, &mut dice)).unwrap()));
        given.push((from + dice.random_range(0..HOUR), Given::Withdrawn(DemandId(id))));
    }
    given.sort_by_key(|(at, _)| *at);
    let mut given = given.into_iter().peekable();
    let mut rests = 0;
    for look in 0..(HOUR + HOUR / 2) / LOOK {
        while let Some((when, what)) = given.next_if(|(at, _)| *at < look * LOOK) {
            run.advance(at(when));
            run.give(at(when), what).unwrap();
        }
        run.advance(at(look * LOOK));
        let looped = run.autoscaler_mut().unwrap();
        rests += usize::from(looped.autoscaler().may_repeat());
        let status = format!("{:?}", looped.autoscaler().status());
        if !repeats {
            looped.forget_last();
        }
        run.observer_mut().0.push(status);
    }
    (run.into_observer().0, rests)
}

#[test]
fn a_loop_that_is_repeated_comes_to_what_it_would_come_to() {
    let mut rests = 0;
    for seed in 0..60 {
        let (heard, rested) = story(seed, true);
        rests += rested;
        let (right, _) = story(seed, false);
        for (heard, right) in heard.iter().zip(&right) {
            assert_eq!(heard, right, "seed {seed}");
        }
        assert_eq!(heard.len(), right.len(), "seed {seed}");
    }
    let looks = 60 * (HOUR + HOUR / 2) / LOOK;
    assert!(rests > looks as usize / 3, "at {rests} of {looks} looks the next loop may be a repetition");
}

//! Tests that a repeated autoscaler loop has the same result as one that is computed again.

use autoscaler::{Expander, Settings, Version};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

const HOUR: i64 = 3_600_000;
/// The time between two checks; no multiple of the scan interval.
const CHECK_INTERVAL: i64 = 3_700;

/// Logs everything, each loop with its whole result.
#[derive(Default)]
struct EventLog(Vec<String>);

impl Observer for EventLog {
    fn wants_changes(&self) -> bool {
        true
    }

    fn on_change(&mut self, at: Moment, what: What) {
        self.0.push(format!("{at} {} {}", what.event_type(), what.object().as_str()));
    }

    fn on_event(&mut self, at: Moment, event: &SimulationEvent<'_>) {
        self.0.push(match event {
            // The result of a loop and the status; the autoscaler's internal state may differ.
            SimulationEvent::LoopFinished { result: loop_result, autoscaler } => {
                format!("{at} {loop_result:?} {:?}", autoscaler.status())
            }
            decided => format!("{at} {decided:?}"),
        });
    }
}

/// Three groups: one has failures, one is never empty, and one scales to zero or its maximum.
fn groups(rng: &mut Pcg64) -> Vec<autoscaler::NodeGroup> {
    let kinds = ["increaseError", "createError", "neverRegister", "noInstance"];
    let kind = kinds[rng.random_range(0..kinds.len())];
    let whole = rng.random_bool(0.3);
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

/// Short times, so that all of them expire.
fn settings(rng: &mut Pcg64) -> Settings {
    let versions = [Version::V1_32, Version::V1_34, Version::V1_35, Version::V1_36, Version::V1_37];
    let mut settings = Settings::for_version(versions[rng.random_range(0..versions.len())]);
    let mut seconds = |from, to| Duration::from_secs(rng.random_range(from..to));
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
    settings.scale_down_delay_type_local = rng.random_bool(0.3);
    settings.enforce_node_group_min_size = rng.random_bool(0.5);
    settings.balance_similar_node_groups = rng.random_bool(0.5);
    settings.max_bulk_soft_taint_count = rng.random_range(0..3);
    settings.expander = vec![if rng.random_bool(0.5) { Expander::Random } else { Expander::LeastWaste }];
    settings.seed = rng.random();
    settings
}

/// A random pod: some fit no node, some block scale-down, some have a spread constraint.
fn random_demand(id: u64, rng: &mut Pcg64) -> PodDemand {
    let cpu = ["200m", "700m", "1500m", "3", "30"][rng.random_range(0..5)];
    let mut demand = demand(id, &format!("p{id}"), cpu, [0, 0, 0, 10, -20][rng.random_range(0..5)]);
    let mut pod = demand.pod.value().unwrap();
    match rng.random_range(0..6) {
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
        3 => demand.recreate = RecreatePolicy::Never,
        _ => {}
    }
    demand.pod = object(&pod);
    if rng.random_bool(0.3) {
        let run_time = Duration::from_secs(rng.random_range(60..600));
        demand.exit = Some(ContainerExit { after: run_time, fails: false });
    }
    demand
}

/// An hour and a half with demands now and then. Returns the log, and at how many checks the next loop could be a
/// repetition.
fn run_log(seed: u64, repeats: bool) -> (Vec<String>, usize) {
    let mut rng = Pcg64::seed_from_u64(seed);
    let loops: Vec<Duration> = (0..9).map(|_| Duration::from_millis(rng.random_range(5..400))).collect();
    let slow = rng.random_bool(0.2).then(|| Duration::from_secs(25));
    let latencies = distinct_latencies()
        .with(LatencyKind::AutoscalerLoop, Delay::Samples(loops.into_iter().chain(slow).collect()));
    let cloud = SimulatedCloud::new(groups(&mut rng), seed);
    let autoscaler = Some(AutoscalerSetup { settings: settings(&mut rng), cloud, start: at(0) });
    let scheduler = scheduler::Settings::default();
    let mut run =
        Run::new(RunSetup { start: at(0), scheduler, autoscaler, latencies, seed }, EventLog::default());
    let mut inputs: Vec<(i64, Input)> = vec![
        (0, Input::Object(What::Added(node("n1", &json!([]))))),
        (5, Input::Object(What::Added(node("n2", &json!([]))))),
        (rng.random_range(0..HOUR), Input::Object(What::Deleted(node("n2", &json!([]))))),
    ];
    for id in 0..24 {
        let from = rng.random_range(0..HOUR);
        inputs.push((from, Input::parse_demand(random_demand(id, &mut rng)).unwrap()));
        inputs.push((from + rng.random_range(0..HOUR), Input::Withdrawn(DemandId(id))));
    }
    inputs.sort_by_key(|(at, _)| *at);
    let mut inputs = inputs.into_iter().peekable();
    let mut repeatable_count = 0;
    for check_number in 0..(HOUR + HOUR / 2) / CHECK_INTERVAL {
        while let Some((when, what)) = inputs.next_if(|(at, _)| *at < check_number * CHECK_INTERVAL) {
            run.advance(at(when));
            run.apply_input(at(when), what).unwrap();
        }
        run.advance(at(check_number * CHECK_INTERVAL));
        let simulated_autoscaler = run.autoscaler_mut().unwrap();
        repeatable_count += usize::from(simulated_autoscaler.autoscaler().may_repeat());
        let status = format!("{:?}", simulated_autoscaler.autoscaler().status());
        if !repeats {
            simulated_autoscaler.forget_last_result();
        }
        run.observer_mut().0.push(status);
    }
    (run.into_observer().0, repeatable_count)
}

#[test]
fn a_repeated_loop_has_the_result_of_a_computed_one() {
    let mut repeatable_count = 0;
    for seed in 0..60 {
        let (log, count) = run_log(seed, true);
        repeatable_count += count;
        let (expected, _) = run_log(seed, false);
        for (log, expected) in log.iter().zip(&expected) {
            assert_eq!(log, expected, "seed {seed}");
        }
        assert_eq!(log.len(), expected.len(), "seed {seed}");
    }
    let checks = 60 * (HOUR + HOUR / 2) / CHECK_INTERVAL;
    assert!(
        repeatable_count > checks as usize / 3,
        "at {repeatable_count} of {checks} checks the next loop may be a repetition"
    );
}

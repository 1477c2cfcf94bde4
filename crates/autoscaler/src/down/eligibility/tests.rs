//! Cases of cluster-autoscaler's own test of eligibility: nodes of 2 cores.

use UnremovableReason::{
    CurrentlyBeingDeleted, NotUnderutilized, ScaleDownDisabledAnnotation, ScaleDownUnreadyDisabled,
    UnexpectedError,
};
use serde_json::{Value, json};

use super::super::super::TO_BE_DELETED;
use super::super::super::settings::Settings;
use super::super::tests::{Fixture, START, pod};
use super::*;

#[track_caller]
fn check(
    settings: &Settings,
    node: impl FnOnce(&mut Value),
    pods: &[(&str, bool)],
    expected: Option<UnremovableReason>,
) {
    let mut fixture = Fixture::new(settings.clone(), &[("g", 0)]);
    let id = fixture.node("g", "n", node);
    for (number, (cpu, of_daemon_set)) in pods.iter().enumerate() {
        let mut pod = pod(&format!("p{number}"), "n", cpu, "0");
        if *of_daemon_set {
            pod["metadata"]["ownerReferences"][0]["kind"] = json!("DaemonSet");
        }
        fixture.apply(pod);
    }
    let candidate = Candidate { node: id, group: super::super::GroupId(0) };
    let (reason, _) = fixture.with(|context| {
        let groups = Groups::of(context);
        eligibility(context, &groups, &mut Summaries::default(), candidate)
    });
    assert_eq!(reason, expected);
}

#[test]
fn nodes_are_left_alone_for_a_reason() {
    let default = Settings::default();
    let now = START.nanos() / 1_000_000_000;
    let marked = |ago: i64| {
        move |node: &mut Value| {
            let value = (now - ago).to_string();
            node["spec"]["taints"] = json!([{"key": TO_BE_DELETED, "value": value, "effect": "NoSchedule"}]);
        }
    };
    let unready = |node: &mut Value| node["status"]["conditions"][0]["status"] = json!("False");
    check(&default, |_| (), &[], None);
    check(&default, marked(30), &[], Some(CurrentlyBeingDeleted));
    check(&default, marked(299), &[], Some(CurrentlyBeingDeleted));
    check(&default, marked(300), &[], None);
    let disabled = |node: &mut Value| node["metadata"]["annotations"][DISABLED] = json!("true");
    check(&default, disabled, &[], Some(ScaleDownDisabledAnnotation));
    check(&default, |_| (), &[("1200m", false)], Some(NotUnderutilized));
    check(&default, |_| (), &[("1", false)], None);
    check(&default, |_| (), &[("200m", false)], None);
    let broken = |node: &mut Value| node["status"]["allocatable"] = json!({"cpu": "0", "memory": "0"});
    check(&default, broken, &[("200m", false)], Some(UnexpectedError));
    check(&default, unready, &[], None);
    let picky = Settings { scale_down_unready_enabled: false, ..default };
    check(&picky, unready, &[], Some(ScaleDownUnreadyDisabled));
}

#[test]
fn daemon_sets_count_unless_they_are_ignored() {
    let mut settings = Settings::default();
    let pods = [("200m", false), ("1", true)];
    check(&settings, |_| (), &pods, Some(NotUnderutilized));
    settings.group_defaults.ignore_daemonsets_utilization = true;
    check(&settings, |_| (), &pods, None);
    settings.group_defaults.scale_down_utilization_threshold = 0.0;
    check(&settings, |_| (), &[("1", true)], None);
}

//! Cases of cluster-autoscaler's own test of eligibility: nodes of 2 cores.

use UnremovableReason::{
    CurrentlyBeingDeleted, NotUnderutilized, ScaleDownDisabledAnnotation, ScaleDownUnreadyDisabled,
    UnexpectedError,
};
use kubernetes::well_known::TO_BE_DELETED;
use serde_json::json;
use testobjects::NodeBuilder;

use super::super::super::settings::Settings;
use super::super::tests::{START, harness, node, pod};
use super::*;

#[track_caller]
fn check(settings: &Settings, node: NodeBuilder, pods: &[(&str, bool)], expected: Option<UnremovableReason>) {
    let mut harness = harness(settings.clone(), 0);
    let id = harness.add_node("g", node);
    for (number, (cpu, of_daemon_set)) in pods.iter().enumerate() {
        let pod = pod(&format!("p{number}"), "n", cpu, "0");
        let pod = if *of_daemon_set { pod.owner("DaemonSet", "web") } else { pod };
        harness.apply(pod.added());
    }
    let candidate = ScaleDownCandidate { node: id, group: super::super::GroupId(0) };
    let (reason, _) = harness.with(|context| {
        let groups = ScaleDownGroups::of(context);
        unremovable_reason_and_utilization(context, &groups, &mut NodeDetailsCache::default(), candidate)
    });
    assert_eq!(reason, expected);
}

#[test]
fn nodes_are_unremovable_for_a_reason() {
    let default = Settings::default();
    let now = START.nanos() / 1_000_000_000;
    let plain = || node("g", "n");
    let marked = |ago: i64| plain().taint(&format!("{TO_BE_DELETED}={}:NoSchedule", now - ago));
    let unready = || plain().not_ready_since("2025-12-31T00:00:00Z");
    check(&default, plain(), &[], None);
    check(&default, marked(30), &[], Some(CurrentlyBeingDeleted));
    check(&default, marked(299), &[], Some(CurrentlyBeingDeleted));
    check(&default, marked(300), &[], None);
    let disabled = plain().annotation(super::super::node_markers::SCALE_DOWN_DISABLED_ANNOTATION, "true");
    check(&default, disabled, &[], Some(ScaleDownDisabledAnnotation));
    check(&default, plain(), &[("1200m", false)], Some(NotUnderutilized));
    check(&default, plain(), &[("1", false)], None);
    check(&default, plain(), &[("200m", false)], None);
    let broken = plain().set("status.allocatable", json!({"cpu": "0", "memory": "0"}));
    check(&default, broken, &[("200m", false)], Some(UnexpectedError));
    check(&default, unready(), &[], None);
    let without_unready = Settings { scale_down_unready_enabled: false, ..default };
    check(&without_unready, unready(), &[], Some(ScaleDownUnreadyDisabled));
}

#[test]
fn daemon_sets_count_unless_they_are_ignored() {
    let mut settings = Settings::default();
    let pods = [("200m", false), ("1", true)];
    check(&settings, node("g", "n"), &pods, Some(NotUnderutilized));
    settings.group_defaults.ignore_daemonsets_utilization = true;
    check(&settings, node("g", "n"), &pods, None);
    settings.group_defaults.scale_down_utilization_threshold = 0.0;
    check(&settings, node("g", "n"), &[("1", true)], None);
}

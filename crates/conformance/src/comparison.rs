//! Comparison of our scheduler with the real one on one case.

use std::fmt;
use std::sync::Arc;

use kubernetes::objects::{PodEvent, PodView};
use model::{Moment, NamespacedName, Object, What};
use scheduler::{Decision, Scheduler, Settings};
use serde::Deserialize;

use crate::outcome::OutcomeFacts;
use crate::{SchedulerCase, SchedulingOutcome};

/// One of our decisions compared with the real one. They are equal if there is no difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionComparison {
    /// Namespace and name.
    pub pod: String,
    /// The facts that are not equal.
    pub differences: Vec<DecisionDifference>,
}

/// A fact that differs between our scheduler and the real one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionDifference {
    /// The case.
    pub case: Arc<str>,
    /// Namespace and name of the pod.
    pub pod: String,
    /// The node, if the fact concerns one.
    pub node: Option<String>,
    /// The name of the fact, as vectors have it.
    pub what: String,
    /// Our value; `None` if there is none.
    pub ours: Option<String>,
    /// The real value; `None` if there is none.
    pub theirs: Option<String>,
}

/// The time of every attempt, after all times in the cases. Pods without a start time count as started now.
const NOW: Moment = Moment::from_nanos(1_893_456_000_000_000_000);

/// Runs a case with our scheduler, as the oracle runs it with the real one, and compares.
pub fn compare_scheduler_case(case: &SchedulerCase) -> Vec<DecisionComparison> {
    let id: Arc<str> = case.id.as_str().into();
    let difference = |pod: &str, node, what: &str, ours, theirs| DecisionDifference {
        case: id.clone(),
        pod: pod.to_owned(),
        node,
        what: what.to_owned(),
        ours,
        theirs,
    };
    let settings = match case.config.as_ref().map(Settings::read).transpose() {
        Ok(settings) => settings.unwrap_or_default(),
        Err(error) => {
            let rejected = |theirs: &SchedulingOutcome| {
                let (ours, theirs_value) = (format!("rejected: {error}"), "accepted".to_owned());
                let difference = difference(&theirs.pod, None, "config", Some(ours), Some(theirs_value));
                DecisionComparison { pod: theirs.pod.clone(), differences: vec![difference] }
            };
            return case.expect.iter().map(rejected).collect();
        }
    };
    let mut scheduler = Scheduler::new(settings);
    scheduler.set_clears_nominations(case.clears_nominations);
    for object in in_oracle_order(case) {
        scheduler.apply(NOW, &What::Added(object.clone()));
    }
    let attempts = case.pending.iter().zip(&case.expect);
    // A pod that was placed is never attempted again, not even after it was preempted.
    let mut placed: Vec<&str> = Vec::new();
    let comparisons = attempts.map(|(pod, theirs)| {
        let meta = pod.meta();
        if placed.contains(&theirs.pod.as_str()) {
            let ours = SchedulingOutcome {
                skipped: Some("placed already".to_owned()),
                ..SchedulingOutcome::default()
            };
            let differing = differing_facts(ours.facts(), theirs.facts()).into_iter();
            let differences = differing
                .map(|((node, what), ours, value)| difference(&theirs.pod, node, &what, ours, value));
            return DecisionComparison { pod: theirs.pod.clone(), differences: differences.collect() };
        }
        // The explanation first: the attempt changes the scheduler's state.
        let explanation = scheduler.explain(NOW, &meta.namespace, &meta.name);
        let decision = scheduler.attempt(NOW, &meta.namespace, &meta.name);
        let mut differences = Vec::new();
        let ours = match (&explanation, &decision) {
            (Some(explanation), Some(decision)) => {
                if explanation.decision != *decision {
                    let (explained, attempted) =
                        (format!("{:?}", explanation.decision), format!("{decision:?}"));
                    let what = "our decision when explained (ours) and when attempted (theirs)";
                    differences.push(difference(&theirs.pod, None, what, Some(explained), Some(attempted)));
                }
                SchedulingOutcome::of(explanation, decision).facts()
            }
            _ => {
                let missing = format!(
                    "explain {}, attempt {}",
                    if explanation.is_some() { "found it" } else { "did not find it" },
                    if decision.is_some() { "found it" } else { "did not find it" },
                );
                differences.push(difference(
                    &theirs.pod,
                    None,
                    "pod",
                    Some(missing),
                    Some("found".to_owned()),
                ));
                OutcomeFacts::new()
            }
        };
        for ((node, what), ours, theirs_value) in differing_facts(ours, theirs.facts()) {
            differences.push(difference(&theirs.pod, node, &what, ours, theirs_value));
        }
        match &decision {
            Some(Decision::Scheduled(placement)) => {
                placed.push(&theirs.pod);
                let mut bound = PodView::parse(pod);
                bound.node_name = Some(placement.node.clone());
                bound.status.nominated_node_name = None;
                scheduler.apply_pod(NOW, &PodEvent::Modified(Arc::new(bound)));
            }
            Some(Decision::Unschedulable(rejection)) => {
                for victim in &rejection.victims {
                    let deleted =
                        pods(case).find(|pod| is_named(pod, victim)).expect("victims are pods of the case");
                    scheduler.apply(NOW, &What::Deleted(deleted.clone()));
                }
            }
            _ => {}
        }
        DecisionComparison { pod: theirs.pod.clone(), differences }
    });
    comparisons.collect()
}

fn pods(case: &SchedulerCase) -> impl Iterator<Item = &Object> {
    case.objects.iter().chain(&case.pending).filter(|object| object.meta().kind == "Pod")
}

fn is_named(pod: &Object, name: &NamespacedName) -> bool {
    let meta = pod.meta();
    *meta.namespace == *name.namespace && *meta.name == *name.name
}

/// The objects in the oracle's order: first those that informers list, including each pending pod once; then the nodes,
/// then the pods bound to them.
fn in_oracle_order(case: &SchedulerCase) -> Vec<&Object> {
    let (mut listed, mut nodes, mut bound) = (Vec::new(), Vec::new(), Vec::new());
    for object in &case.objects {
        let meta = object.meta();
        match (&*meta.api_version, &*meta.kind) {
            ("v1", "Node") => nodes.push(object),
            ("v1", "Pod") if is_bound(object) => bound.push(object),
            _ => listed.push(object),
        }
    }
    let mut seen_uids = Vec::new();
    for pod in &case.pending {
        let uid = pod.meta().uid.unwrap_or_default().into_owned();
        if !seen_uids.contains(&uid) {
            seen_uids.push(uid);
            listed.push(pod);
        }
    }
    listed.into_iter().chain(nodes).chain(bound).collect()
}

fn is_bound(pod: &Object) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        node_name: String,
    }
    #[derive(Deserialize)]
    struct Pod {
        #[serde(default)]
        spec: Spec,
    }
    pod.view::<Pod>().is_ok_and(|pod| !pod.spec.node_name.is_empty())
}

type DifferingFact = ((Option<String>, String), Option<String>, Option<String>);

/// The facts that differ.
fn differing_facts(ours: OutcomeFacts, mut theirs: OutcomeFacts) -> Vec<DifferingFact> {
    let mut differing = Vec::new();
    for (fact, value) in ours {
        let theirs = theirs.remove(&fact);
        if theirs.as_ref() != Some(&value) {
            differing.push((fact, Some(value), theirs));
        }
    }
    differing.extend(theirs.into_iter().map(|(fact, value)| (fact, None, Some(value))));
    differing.sort();
    differing
}

// === impl DecisionDifference ===

impl fmt::Display for DecisionDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.case, self.pod)?;
        if let Some(node) = &self.node {
            write!(f, " on {node}")?;
        }
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "(nothing)".to_owned());
        write!(f, ": {}\n  ours    {}\n  theirs  {}", self.what, text(&self.ours), text(&self.theirs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(json: &str) -> OutcomeFacts {
        serde_json::from_str::<SchedulingOutcome>(json).unwrap().facts()
    }

    /// Checks the facts that differ, and their order.
    #[track_caller]
    fn check(ours: &str, theirs: &str, expected: &[&str]) {
        let differing = differing_facts(outcome(ours), outcome(theirs));
        let differing: Vec<String> = differing
            .into_iter()
            .map(|((node, what), ours, theirs)| {
                let [node, ours, theirs] = [node, ours, theirs].map(|text| text.unwrap_or("-".to_owned()));
                format!("{node} {what}: {ours} {theirs}")
            })
            .collect();
        assert_eq!(differing, expected);
    }

    #[test]
    fn all_fields_of_a_vector_are_compared() {
        check(r#"{"pod":"a","node":"n"}"#, r#"{"pod":"a","node":"n"}"#, &[]);
        check(
            r#"{"pod":"a","node":"n","victims":["x"],"postFilter":""}"#,
            r#"{"pod":"a","message":"m","nominatedNode":"k","clearedNominations":["a"],"preFilterNodes":["n"]}"#,
            &[
                r#"- clearedNominations: - ["a"]"#,
                "- message: - m",
                "- node: n -",
                "- nominatedNode: - k",
                r#"- preFilterNodes: - ["n"]"#,
                r#"- victims: ["x"] -"#,
            ],
        );
        check(
            r#"{"pod":"a","preEnqueue":{"plugin":"P","code":"C","reasons":["r"]}}"#,
            r#"{"pod":"a","preFilter":{"plugin":"P","code":"C"}}"#,
            &[
                "- preEnqueue code: C -",
                "- preEnqueue considered: yes -",
                "- preEnqueue plugin: P -",
                r#"- preEnqueue reasons: ["r"] -"#,
                "- preFilter code: - C",
                "- preFilter considered: - yes",
                "- preFilter plugin: - P",
            ],
        );
        check(
            r#"{"pod":"a","nodes":{"n":{"scores":{"A":1,"B":0},"total":1},"m":{"code":"C"}}}"#,
            r#"{"pod":"a","nodes":{"n":{"scores":{"A":2},"total":1}}}"#,
            &["m code: C -", "m considered: yes -", "n score of A: 1 2", "n score of B: 0 -"],
        );
    }

    #[test]
    fn the_event_recorders_prefix_is_ignored() {
        check(
            r#"{"pod":"a","skipped":"skip it"}"#,
            r#"{"pod":"a","skipped":"Warning FailedScheduling skip it"}"#,
            &[],
        );
    }
}

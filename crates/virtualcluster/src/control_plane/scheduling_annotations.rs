//! Scheduling results as kube-scheduler-simulator writes them: annotations of the pod with every node's verdicts and
//! scores, within the size that an API server accepts.

use std::collections::BTreeMap;

use scheduler::{Decision, EvaluatedNode, Explanation, NodeVerdict, Plugin, Profile};
use serde_json::{Map, Value, json};

/// The prefix of the keys.
const PREFIX: &str = "kube-scheduler-simulator.sigs.k8s.io/";
/// The attempts before, oldest first, and this one.
const HISTORY: &str = "result-history";
/// What was left out.
const CUT: &str = "kinescope.io/scheduling-results-cut";
/// The most bytes that the keys and values of all annotations of an object may have.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// The texts of an attempt, by key without prefix.
type AttemptResults = BTreeMap<&'static str, String>;

/// The annotations of a pod with the results of an attempt. `None` if it has them already.
pub(super) fn with_results(
    annotations: &Map<String, Value>,
    explanation: &Explanation,
    profile: &Profile,
) -> Option<Map<String, Value>> {
    let is_ours = |key: &str| key.starts_with(PREFIX) || key == CUT;
    let mut others: Map<String, Value> = annotations.clone();
    others.retain(|key, _| !is_ours(key));
    let budget = MAX_ANNOTATION_BYTES.saturating_sub(byte_count(&others));
    let nodes = by_importance(explanation);
    let (results, kept_nodes) = largest_within(nodes, budget, explanation, profile);
    let is_unchanged = results.iter().all(|(key, text)| {
        let known = annotations.get(&format!("{PREFIX}{key}"));
        known.and_then(Value::as_str) == Some(text)
    });
    if is_unchanged {
        return None;
    }
    let mut cuts: Vec<String> = Vec::new();
    if kept_nodes < explanation.nodes.len() {
        cuts.push(format!("{kept_nodes} of {} nodes", explanation.nodes.len()));
    }
    let mut written = others;
    for (key, text) in &results {
        written.insert(format!("{PREFIX}{key}"), text.as_str().into());
    }
    add_history(&mut written, annotations, &results, &mut cuts);
    if !cuts.is_empty() {
        written.insert(CUT.to_owned(), format!("kept {}", cuts.join(", and ")).into());
    }
    Some(written)
}

/// Adds the attempts so far, as many of the last ones as there is space for.
fn add_history(
    written: &mut Map<String, Value>,
    annotations: &Map<String, Value>,
    results: &AttemptResults,
    cuts: &mut Vec<String>,
) {
    let key = format!("{PREFIX}{HISTORY}");
    let before = annotations.get(&key).and_then(Value::as_str);
    let before: Option<Vec<Value>> = before.and_then(|text| serde_json::from_str(text).ok());
    let mut attempts = before.unwrap_or_default();
    attempts.push(results.iter().map(|(key, text)| (format!("{PREFIX}{key}"), json!(text))).collect());
    let count = attempts.len();
    // A sentence about what is missing must fit, too.
    let space = MAX_ANNOTATION_BYTES.saturating_sub(byte_count(written) + key.len() + MAX_CUT_BYTES);
    let mut kept = 0;
    let mut bytes = "[]".len();
    for attempt in attempts.iter().rev() {
        bytes += attempt.to_string().len() + 1;
        if bytes > space {
            break;
        }
        kept += 1;
    }
    if kept > 0 {
        let history: Value = attempts.split_off(count - kept).into();
        written.insert(key, history.to_string().into());
    }
    if kept < count {
        cuts.push(format!("the last {kept} of {count} attempts in {HISTORY}"));
    }
}

/// The most bytes of the annotation about what is missing.
const MAX_CUT_BYTES: usize = 200;

fn byte_count(annotations: &Map<String, Value>) -> usize {
    annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}

/// The nodes: the chosen one, the other feasible ones by score, and the rejected ones.
fn by_importance(explanation: &Explanation) -> Vec<&EvaluatedNode> {
    let chosen = match &explanation.decision {
        Decision::Scheduled(result) => Some(&result.node),
        Decision::Unschedulable(rejection) => rejection.nominated_node.as_ref(),
        Decision::Skipped(_) | Decision::Gated(_) | Decision::Failed(_) => None,
    };
    let mut nodes: Vec<&EvaluatedNode> = explanation.nodes.iter().collect();
    nodes.sort_by_key(|node| {
        let total = match &node.verdict {
            NodeVerdict::Feasible { total, .. } => Some(*total),
            NodeVerdict::Rejected(_) => None,
        };
        std::cmp::Reverse((Some(&node.node) == chosen, total))
    });
    nodes
}

/// The results with as many nodes as there is space for, and their number.
fn largest_within(
    nodes: Vec<&EvaluatedNode>,
    budget: usize,
    explanation: &Explanation,
    profile: &Profile,
) -> (AttemptResults, usize) {
    let results_of = |count: usize| results(&nodes[..count], explanation, profile);
    let fits = |results: &AttemptResults| {
        let bytes: usize = results.iter().map(|(key, text)| PREFIX.len() + key.len() + text.len()).sum();
        bytes + MAX_CUT_BYTES + CUT.len() <= budget
    };
    let all = results_of(nodes.len());
    if fits(&all) {
        return (all, nodes.len());
    }
    // The size grows with the number of nodes.
    let (mut fitting, mut too_many) = (0, nodes.len());
    while too_many - fitting > 1 {
        let middle = fitting + (too_many - fitting) / 2;
        if fits(&results_of(middle)) { fitting = middle } else { too_many = middle }
    }
    (results_of(fitting), fitting)
}

/// The results of an attempt, for these nodes.
fn results(nodes: &[&EvaluatedNode], explanation: &Explanation, profile: &Profile) -> AttemptResults {
    let scheduled = match &explanation.decision {
        Decision::Scheduled(result) => Some(result),
        Decision::Unschedulable(_) | Decision::Skipped(_) | Decision::Gated(_) | Decision::Failed(_) => None,
    };
    // A single feasible node is chosen without scores.
    let is_scored = scheduled.is_some_and(|result| result.feasible_nodes > 1);
    let success = |plugins: &[Plugin]| -> Value {
        let plugins = plugins.iter().filter(|_| scheduled.is_some());
        plugins.map(|plugin| (plugin.to_string(), json!("success"))).collect()
    };
    let texts: [(&'static str, Value); 11] = [
        ("prefilter-result-status", pre_filter_statuses(explanation, profile)),
        ("prefilter-result", pre_filter_nodes(explanation)),
        ("filter-result", filter_results(nodes, explanation)),
        ("postfilter-result", post_filter_results(nodes, explanation, profile)),
        ("prescore-result", if is_scored { pre_score_statuses(explanation, profile) } else { json!({}) }),
        ("score-result", if is_scored { scores(nodes, |score| score.raw) } else { json!({}) }),
        ("finalscore-result", if is_scored { scores(nodes, |score| score.weighted) } else { json!({}) }),
        ("reserve-result", success(&profile.reserve)),
        ("permit-result", json!({})),
        ("permit-result-timeout", json!({})),
        // The plugins that reserve something prepare the binding, too.
        ("prebind-result", success(&profile.reserve)),
    ];
    let mut results: AttemptResults =
        texts.into_iter().map(|(key, value)| (key, value.to_string())).collect();
    results.insert("bind-result", success(&[Plugin::DefaultBinder]).to_string());
    results.insert("selected-node", scheduled.map(|result| result.node.to_string()).unwrap_or_default());
    results
}

/// `success`, nothing for a plugin that skips the pod, or the message of the one that rejects it.
fn pre_filter_statuses(explanation: &Explanation, profile: &Profile) -> Value {
    let mut statuses = Map::new();
    for plugin in &profile.pre_filter {
        let rejection = explanation.pre_filter_status.as_ref().filter(|status| status.plugin == *plugin);
        let text = match rejection {
            Some(status) => status.message(),
            None if explanation.filters.contains(plugin) => "success".to_owned(),
            None => String::new(),
        };
        statuses.insert(plugin.to_string(), text.into());
        if rejection.is_some() {
            break;
        }
    }
    statuses.into()
}

/// The nodes that a PreFilter plugin restricts the pod to. Only NodeAffinity does.
fn pre_filter_nodes(explanation: &Explanation) -> Value {
    match &explanation.pre_filter_node_names {
        Some(names) => {
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            json!({(Plugin::NodeAffinity.to_string()): names})
        }
        None => json!({}),
    }
}

/// `passed` for each plugin up to the first that rejects the node, whose message follows.
fn filter_results(nodes: &[&EvaluatedNode], explanation: &Explanation) -> Value {
    let of_node = |node: &&EvaluatedNode| {
        let mut verdicts = Map::new();
        for plugin in &explanation.filters {
            match &node.verdict {
                NodeVerdict::Rejected(status) if status.plugin == *plugin => {
                    verdicts.insert(plugin.to_string(), status.message().into());
                    break;
                }
                NodeVerdict::Rejected(_) | NodeVerdict::Feasible { .. } => {
                    verdicts.insert(plugin.to_string(), "passed".into());
                }
            }
        }
        (node.node.to_string(), Value::Object(verdicts))
    };
    nodes.iter().map(of_node).collect()
}

/// The nodes that preemption considered, and the one that it nominated.
fn post_filter_results(nodes: &[&EvaluatedNode], explanation: &Explanation, profile: &Profile) -> Value {
    let Decision::Unschedulable(rejection) = &explanation.decision else { return json!({}) };
    if profile.post_filter.is_empty() {
        return json!({});
    }
    let of_node = |node: &&EvaluatedNode| {
        let is_nominated = rejection.nominated_node.as_ref() == Some(&node.node);
        let verdict = match is_nominated {
            true => json!({(Plugin::DefaultPreemption.to_string()): "preemption victim"}),
            false => json!({}),
        };
        (node.node.to_string(), verdict)
    };
    nodes.iter().map(of_node).collect()
}

/// `success`, or nothing for a plugin that skips the pod.
fn pre_score_statuses(explanation: &Explanation, profile: &Profile) -> Value {
    let scored = explanation.nodes.iter().find_map(|node| match &node.verdict {
        NodeVerdict::Feasible { scores, .. } => Some(scores),
        NodeVerdict::Rejected(_) => None,
    });
    let has_score =
        |plugin: &Plugin| scored.is_some_and(|scores| scores.iter().any(|score| score.plugin == *plugin));
    let status = |plugin: &Plugin| if has_score(plugin) { "success" } else { "" };
    profile.pre_score.iter().map(|plugin| (plugin.to_string(), json!(status(plugin)))).collect()
}

fn scores(nodes: &[&EvaluatedNode], of: impl Fn(&scheduler::PluginScore) -> i64) -> Value {
    let of_node = |node: &&EvaluatedNode| match &node.verdict {
        NodeVerdict::Feasible { scores, .. } => {
            let scores: Value =
                scores.iter().map(|score| (score.plugin.to_string(), json!(of(score).to_string()))).collect();
            Some((node.node.to_string(), scores))
        }
        NodeVerdict::Rejected(_) => None,
    };
    nodes.iter().filter_map(of_node).collect()
}

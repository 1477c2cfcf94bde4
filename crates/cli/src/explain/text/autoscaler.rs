//! The autoscaler's part of a pod's explanation: the scale-up considered for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use anstyle::Style;
use autoscaler::{ExpanderChoice, Increase, PodExplanation, ScaleUpOption, ScaleUpStatus};
use explain::{AutoscalerReplay, PodScaling, ScaleUpOutcome, ScaleUpSearch, TriggeredScaleUp};
use model::NamespacedName;
use query::autoscaler_choice::AutoscalerChoice;

use crate::lines::write_field;
use crate::output::{NEW, OLD, Printer, count_noun, group_digits};

/// The most node groups and assumptions shown without `-o wide`.
const MAX_SHOWN_GROUPS: usize = 8;
const MAX_SHOWN_ASSUMPTIONS: usize = 3;
/// Up to this many node groups are named in a sentence.
const MAX_NAMED_GROUPS: usize = 4;
/// cluster-autoscaler's reason for skipping a node group at its maximum size.
const MAX_SIZE_REACHED: &str = "max node group size reached";
const NO_GROUP_FITS: &str = "no node group fits";

/// Prints the autoscaler's decision about a pending pod; `wide` abbreviates nothing.
pub(super) fn write(
    out: &mut Printer,
    pod: &NamespacedName,
    scaling: &PodScaling,
    wide: bool,
) -> anyhow::Result<()> {
    let PodScaling { autoscaler: setup, replay, results } = scaling;
    let plain = Style::new();
    write_field(out, "Autoscaler", &setup.to_string(), plain)?;
    let Some(outcome) = &results.outcome else { return Ok(()) };
    let (text, style) = scale_up_text(outcome, setup, pod, results.search.as_ref());
    write_field(out, "Scale-up", &text, style)?;
    if let Some(search) = &results.search {
        self::write_search(
            out,
            pod,
            search,
            matches!(
                outcome,
                ScaleUpOutcome::NotConsidered(_) | ScaleUpOutcome::Unknown | ScaleUpOutcome::Scheduled
            ),
            wide,
        )?;
    }
    for TriggeredScaleUp { first, last, times, increases } in &results.triggered {
        let is_shown = results.search.as_ref().is_some_and(|search| search.at == *first);
        let again = match times {
            1 => String::new(),
            times => format!(", {} times until {last}", group_digits(*times)),
        };
        if !is_shown {
            write_field(
                out,
                "Earlier",
                &format!("{first}  triggered scale-up: {}{again}", increases_text(increases)),
                plain,
            )?;
        }
    }
    write_field(out, "Simulated", &self::simulated_text(replay), plain)?;
    write_assumptions(out, setup, wide)
}

/// Prints the assumptions made about node groups and settings.
pub(in crate::explain) fn write_assumptions(
    out: &mut Printer,
    setup: &AutoscalerChoice,
    wide: bool,
) -> anyhow::Result<()> {
    let most = if wide { setup.assumptions.len() } else { MAX_SHOWN_ASSUMPTIONS };
    let mut label = "Assumptions";
    for text in setup.assumptions.iter().take(most) {
        write_field(out, label, text, Style::new())?;
        label = "";
    }
    match setup.assumptions.len().saturating_sub(most) {
        0 => Ok(()),
        more => write_field(out, "", &format!("and {more} more (use -o wide)"), Style::new()),
    }
}

/// The number of loops that were simulated, and the span of time, as text.
pub(in crate::explain) fn simulated_text(replay: &AutoscalerReplay) -> String {
    let when = if replay.as_recorded { " at recorded times" } else { "" };
    format!("{}{when}, from {}", count_noun(replay.loops, "autoscaler loop"), replay.from)
}

/// 26.3 %
pub(in crate::explain) fn percent(share: f64) -> String {
    if !share.is_finite() {
        return "more than 100 %".to_owned();
    }
    let tenths = (share * 1000.0).round() / 10.0;
    format!("{tenths} %")
}

fn scale_up_text(
    outcome: &ScaleUpOutcome,
    setup: &AutoscalerChoice,
    pod: &NamespacedName,
    search: Option<&ScaleUpSearch>,
) -> (String, Style) {
    let text = match outcome {
        ScaleUpOutcome::Triggers(increases) => {
            return (format!("Triggered: {}", increases_text(increases)), NEW);
        }
        ScaleUpOutcome::NotConsidered(PodExplanation::Schedulable { node, upcoming }) => {
            let node_text = if *upcoming { "an upcoming node" } else { node };
            return (format!("Not needed: the pod fits on {node_text}"), NEW);
        }
        ScaleUpOutcome::Scheduled => {
            return ("Not needed: the pod fits on an existing node".to_owned(), NEW);
        }
        ScaleUpOutcome::OtherGroupChosen => {
            return ("Not yet: another node group was chosen first".to_owned(), NEW);
        }
        ScaleUpOutcome::NoGroupHelps => {
            let why = search.map(|search| no_group_text(&search.result, pod));
            return (format!("Not triggered: {}", why.unwrap_or_else(|| NO_GROUP_FITS.to_owned())), OLD);
        }
        ScaleUpOutcome::Unknown => "Not triggered: the autoscaler ignores the pod",
        ScaleUpOutcome::AllPodsYoung => "Not yet: all pending pods are too new",
        ScaleUpOutcome::MaxNodesTotal => {
            let most = setup.settings.max_nodes_total;
            return (
                format!("Not triggered: max total nodes in cluster reached (--max-nodes-total={most})"),
                OLD,
            );
        }
        ScaleUpOutcome::NotTried(why) => {
            return (format!("Not triggered: the loop ended before scale-up ({why})"), OLD);
        }
        ScaleUpOutcome::Failed(why) => return (format!("Failed: {why}"), OLD),
        ScaleUpOutcome::NotConsidered(PodExplanation::Scheduled) => {
            "Not triggered: the pod is already scheduled"
        }
        ScaleUpOutcome::NotConsidered(PodExplanation::BeingDeleted) => {
            "Not triggered: the pod is terminating"
        }
        ScaleUpOutcome::NotConsidered(PodExplanation::NotUnschedulable) => {
            "Not triggered: the pod is not marked Unschedulable"
        }
        ScaleUpOutcome::NotConsidered(PodExplanation::Expendable) => {
            let cutoff = setup.settings.expendable_pods_priority_cutoff;
            let flag = "--expendable-pods-priority-cutoff";
            return (format!("Not triggered: priority below the cutoff ({flag}={cutoff})"), OLD);
        }
        ScaleUpOutcome::NotConsidered(PodExplanation::DaemonSetPod) => {
            "Not triggered: pods of a DaemonSet do not trigger scale-up"
        }
        ScaleUpOutcome::NotConsidered(PodExplanation::Young { until }) => {
            return (format!("Not yet: scale-up delayed until {until}"), OLD);
        }
        ScaleUpOutcome::NotConsidered(PodExplanation::AwaitsScaleUp) => {
            "Not triggered: pending, but not processed in this loop"
        }
    };
    (text.to_owned(), OLD)
}

/// The node groups that were skipped, and why; if none was, those that the pod does not fit on.
fn no_group_text(status: &ScaleUpStatus, pod: &NamespacedName) -> String {
    let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (group, why) in &status.skipped_groups {
        by_reason.entry(why.join(", ")).or_default().push(group);
    }
    // First the groups at their maximum size, the most frequent reason.
    let mut skipped: Vec<(String, Vec<&str>)> = by_reason.into_iter().collect();
    skipped.sort_by_key(|(why, _)| why != MAX_SIZE_REACHED);
    if !skipped.is_empty() {
        let texts = skipped.iter().map(|(why, groups)| match why.as_str() {
            MAX_SIZE_REACHED => format!("{} at max size", group_names(groups)),
            why => format!("{}: {why}", group_names(groups)),
        });
        return texts.collect::<Vec<_>>().join("; ");
    }
    let rejected: Vec<&str> = rejection_reasons(status, pod).keys().map(|group| &**group).collect();
    match rejected.is_empty() {
        true => NO_GROUP_FITS.to_owned(),
        false => format!("the pod does not fit on a new node of {}", group_names(&rejected)),
    }
}

/// a, b and c
fn group_names(groups: &[&str]) -> String {
    match groups {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [others @ .., last] if groups.len() <= MAX_NAMED_GROUPS => {
            format!("{} and {last}", others.join(", "))
        }
        _ => count_noun(groups.len() as u64, "node group"),
    }
}

/// Prints the scale-up attempt that considered the pod: the one of the last loop or, if `before`, of an earlier one.
fn write_search(
    out: &mut Printer,
    pod: &NamespacedName,
    search: &ScaleUpSearch,
    before: bool,
    wide: bool,
) -> anyhow::Result<()> {
    let ScaleUpSearch { at, result: status } = search;
    let plain = Style::new();
    if before {
        let outcome = match &status.best_group {
            Some(_) if status.pods_triggered_scale_up.contains(pod) => {
                format!("triggered scale-up: {}", increases_text(&status.increases))
            }
            Some(best) => format!("{best} scaled up for other pods"),
            None => NO_GROUP_FITS.to_owned(),
        };
        write_field(out, "Earlier", &format!("{at}  {outcome}"), plain)?;
    }
    if status.best_group.is_some() {
        write_field(out, "Expander", &expanders_text(&status.expander_choices), plain)?;
    }
    let options: Vec<String> = status.options.iter().map(|option| option_text(option, pod)).collect();
    write_list(out, "Options", &options, wide)?;
    write_list(out, "Rejected", &reason_lines(rejection_reasons(status, pod)), wide)?;
    write_list(out, "Skipped", &reason_lines(&status.skipped_groups), wide)
}

fn option_text(option: &ScaleUpOption, pod: &NamespacedName) -> String {
    let nodes = count_noun(option.nodes.unsigned_abs(), "node");
    let pods = count_noun(option.pods.len() as u64, "pod");
    let own = if option.pods.iter().any(|other| other == pod) { "" } else { ", not this pod" };
    let similar: Vec<&str> = option.similar_groups.iter().map(|group| &**group).collect();
    let shared =
        if similar.is_empty() { String::new() } else { format!(", balanced with {}", similar.join(", ")) };
    format!("{}: {nodes} for {pods}{own}{shared}", option.group)
}

fn rejection_reasons<'a>(
    status: &'a ScaleUpStatus,
    pod: &NamespacedName,
) -> &'a BTreeMap<Arc<str>, Vec<String>> {
    static NONE: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::new();
    let equivalence_group = status
        .equivalence_groups
        .iter()
        .find(|equivalence_group| equivalence_group.pods.iter().any(|other| other == pod));
    equivalence_group.map_or(&NONE, |equivalence_group| &equivalence_group.rejected_groups)
}

fn reason_lines(reasons: &BTreeMap<Arc<str>, Vec<String>>) -> Vec<String> {
    reasons.iter().map(|(group, why)| format!("{group}: {}", why.join(", "))).collect()
}

fn write_list(out: &mut Printer, label: &str, lines: &[String], wide: bool) -> anyhow::Result<()> {
    let most = if wide { lines.len() } else { MAX_SHOWN_GROUPS };
    let mut label = label;
    for text in lines.iter().take(most) {
        write_field(out, label, text, Style::new())?;
        label = "";
    }
    match lines.len().saturating_sub(most) {
        0 => Ok(()),
        more => write_field(out, "", &format!("and {more} more (use -o wide)"), Style::new()),
    }
}

fn increases_text(increases: &[Increase]) -> String {
    let increase_text = |increase: &Increase| {
        let Increase { group, from, to, max } = increase;
        format!("{group} {from} -> {to} (max {max})")
    };
    increases.iter().map(increase_text).collect::<Vec<_>>().join(", ")
}

/// The expanders in order, with their scores by node group.
fn expanders_text(choices: &[ExpanderChoice]) -> String {
    let choice_text = |choice: &ExpanderChoice| {
        let scores = choice
            .scores
            .iter()
            .take(MAX_SHOWN_GROUPS)
            .map(|(group, score)| format!("{group} {}", rounded(*score)));
        let scores: Vec<String> = scores.collect();
        let scores = if scores.is_empty() { String::new() } else { format!(" ({})", scores.join(", ")) };
        let tie = if choice.is_tie { ", tie: first by name" } else { "" };
        format!("{}{scores}{tie}", choice.expander)
    };
    choices.iter().map(choice_text).collect::<Vec<_>>().join(", then ")
}

/// A score rounded to three decimals.
fn rounded(score: f64) -> String {
    format!("{}", (score * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_scores_have_few_digits() {
        assert_eq!(percent(0.2625), "26.3 %");
        assert_eq!(percent(0.5), "50 %");
        assert_eq!(percent(f64::INFINITY), "more than 100 %");
        assert_eq!(rounded(0.123_456), "0.123");
        assert_eq!(rounded(12.0), "12");
    }

    #[test]
    fn a_few_groups_are_named() {
        assert_eq!(group_names(&["general"]), "general");
        assert_eq!(group_names(&["general", "memory"]), "general and memory");
        assert_eq!(group_names(&["a", "b", "c"]), "a, b and c");
        assert_eq!(group_names(&["a", "b", "c", "d", "e"]), "5 node groups");
    }
}

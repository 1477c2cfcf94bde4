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

/// Prints the autoscaler's decision about a pending pod; `wide` abbreviates nothing.
pub(super) fn write(
    out: &mut Printer,
    pod: &NamespacedName,
    scaling: &PodScaling,
    wide: bool,
) -> anyhow::Result<()> {
    let PodScaling { autoscaler: setup, replay: played, results: seen } = scaling;
    let plain = Style::new();
    write_field(out, "Autoscaler", &setup.to_string(), plain)?;
    let Some(outcome) = &seen.outcome else { return Ok(()) };
    let (text, style) = scale_up_text(outcome, setup);
    write_field(out, "Scale-up", &text, style)?;
    if let Some(search) = &seen.search {
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
    for TriggeredScaleUp { first, last, times, increases } in &seen.triggered {
        let is_told = seen.search.as_ref().is_some_and(|search| search.at == *first);
        let again = match times {
            1 => String::new(),
            times => format!(", {} times until {last}", group_digits(*times)),
        };
        if !is_told {
            write_field(
                out,
                "Before",
                &format!("{first}  it triggered one: {}{again}", increases_text(increases)),
                plain,
            )?;
        }
    }
    write_field(out, "Played", &self::simulated_text(played), plain)?;
    write_assumptions(out, setup, wide)
}

/// Prints the assumptions made about node groups and settings.
pub(in crate::explain) fn write_assumptions(
    out: &mut Printer,
    setup: &AutoscalerChoice,
    wide: bool,
) -> anyhow::Result<()> {
    let most = if wide { setup.assumptions.len() } else { MAX_SHOWN_ASSUMPTIONS };
    let mut label = "Assumed";
    for text in setup.assumptions.iter().take(most) {
        write_field(out, label, text, Style::new())?;
        label = "";
    }
    match setup.assumptions.len().saturating_sub(most) {
        0 => Ok(()),
        more => write_field(out, "", &format!("and {more} more, which -o wide shows"), Style::new()),
    }
}

/// The span of time and the number of loops that were simulated, as text.
pub(in crate::explain) fn simulated_text(played: &AutoscalerReplay) -> String {
    let when = if played.as_recorded { ", when the recorded ones ran" } else { "" };
    format!("from {}, {}{when}", played.from, count_noun(played.loops, "loop"))
}

/// 26.3%
pub(in crate::explain) fn percent(share: f64) -> String {
    if !share.is_finite() {
        return "more than 100%".to_owned();
    }
    let tenths = (share * 1000.0).round() / 10.0;
    format!("{tenths}%")
}

fn scale_up_text(outcome: &ScaleUpOutcome, setup: &AutoscalerChoice) -> (String, Style) {
    let text = match outcome {
        ScaleUpOutcome::Triggers(increases) => {
            return (format!("it triggers one: {}", increases_text(increases)), NEW);
        }
        ScaleUpOutcome::NotConsidered(PodExplanation::Schedulable { node, upcoming }) => {
            let place =
                if *upcoming { "on a node that is still to come".to_owned() } else { format!("on {node}") };
            return (format!("none is needed: there is room for it {place}"), NEW);
        }
        ScaleUpOutcome::Scheduled => return ("none is needed: the scheduler places it".to_owned(), NEW),
        ScaleUpOutcome::OtherGroupChosen => {
            return (
                "not for it yet: a group could help it, and another one is chosen first".to_owned(),
                NEW,
            );
        }
        ScaleUpOutcome::NoGroupHelps => "none: no group helps it",
        ScaleUpOutcome::Unknown => "none: the autoscaler does not look at it",
        ScaleUpOutcome::AllPodsYoung => "none yet: the pods that wait are only just there",
        ScaleUpOutcome::MaxNodesTotal => {
            let most = setup.settings.max_nodes_total;
            return (format!("none: there are as many nodes as may be (--max-nodes-total={most})"), OLD);
        }
        ScaleUpOutcome::NotTried(why) => return (format!("none: the loop does not get to it: {why}"), OLD),
        ScaleUpOutcome::Failed(why) => return (format!("one was tried and failed: {why}"), OLD),
        ScaleUpOutcome::NotConsidered(PodExplanation::Scheduled) => "none: it has a node",
        ScaleUpOutcome::NotConsidered(PodExplanation::BeingDeleted) => "none: it is being deleted",
        ScaleUpOutcome::NotConsidered(PodExplanation::NotUnschedulable) => {
            "none: no scheduler has said yet that no node takes it"
        }
        ScaleUpOutcome::NotConsidered(PodExplanation::Expendable) => {
            let cutoff = setup.settings.expendable_pods_priority_cutoff;
            return (format!("none: its priority is below {cutoff}, and nothing is done for such pods"), OLD);
        }
        ScaleUpOutcome::NotConsidered(PodExplanation::DaemonSetPod) => {
            "none: it belongs to a DaemonSet, which new nodes do not help"
        }
        ScaleUpOutcome::NotConsidered(PodExplanation::Young { until }) => {
            return (format!("none yet: it has to wait until {until}"), OLD);
        }
        ScaleUpOutcome::NotConsidered(PodExplanation::AwaitsScaleUp) => {
            "none: it waits, and is not among the pods that are looked at"
        }
    };
    (text.to_owned(), OLD)
}

/// Prints the scale-up attempt that considered the pod: the one of the last loop or, if `before`, of an earlier one.
fn write_search(
    out: &mut Printer,
    pod: &NamespacedName,
    search: &ScaleUpSearch,
    before: bool,
    wide: bool,
) -> anyhow::Result<()> {
    let ScaleUpSearch { at, result: found } = search;
    let plain = Style::new();
    if before {
        let came = match &found.best_group {
            Some(_) if found.pods_triggered_scale_up.contains(pod) => {
                format!("it triggered one: {}", increases_text(&found.increases))
            }
            Some(best) => format!("{best} was chosen, for other pods"),
            None => "no group helped it".to_owned(),
        };
        write_field(out, "Before", &format!("{at}  {came}"), plain)?;
    }
    if found.best_group.is_some() {
        write_field(out, "Chosen by", &expanders_text(&found.expander_choices), plain)?;
    }
    let options: Vec<String> = found.options.iter().map(|option| option_text(option, pod)).collect();
    write_list(out, "Options", &options, wide)?;
    write_list(out, "Rejected", &reason_lines(rejection_reasons(found, pod)), wide)?;
    write_list(out, "Skipped", &reason_lines(&found.skipped_groups), wide)
}

fn option_text(option: &ScaleUpOption, pod: &NamespacedName) -> String {
    let nodes = count_noun(option.nodes.unsigned_abs(), "node");
    let pods = count_noun(option.pods.len() as u64, "pod");
    let own = if option.pods.iter().any(|other| other == pod) { "" } else { ", not this one" };
    let similar: Vec<&str> = option.similar_groups.iter().map(|group| &**group).collect();
    let shared =
        if similar.is_empty() { String::new() } else { format!(", shared with {}", similar.join(", ")) };
    format!("{}: {nodes} for {pods}{own}{shared}", option.group)
}

fn rejection_reasons<'a>(
    found: &'a ScaleUpStatus,
    pod: &NamespacedName,
) -> &'a BTreeMap<Arc<str>, Vec<String>> {
    static NONE: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::new();
    let same = found.equivalence_groups.iter().find(|same| same.pods.iter().any(|other| other == pod));
    same.map_or(&NONE, |same| &same.rejected_groups)
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
        more => write_field(out, "", &format!("and {more} more, which -o wide shows"), Style::new()),
    }
}

fn increases_text(increases: &[Increase]) -> String {
    let one = |increase: &Increase| {
        let Increase { group, from, to, max } = increase;
        format!("{group} {from} -> {to} (max {max})")
    };
    increases.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The expanders in order, with their scores by node group.
fn expanders_text(choices: &[ExpanderChoice]) -> String {
    let one = |choice: &ExpanderChoice| {
        let scores = choice
            .scores
            .iter()
            .take(MAX_SHOWN_GROUPS)
            .map(|(group, score)| format!("{group} {}", rounded(*score)));
        let scores: Vec<String> = scores.collect();
        let scores = if scores.is_empty() { String::new() } else { format!(" ({})", scores.join(", ")) };
        let tie = if choice.is_tie { ", of equals the first by name" } else { "" };
        format!("{}{scores}{tie}", choice.expander)
    };
    choices.iter().map(one).collect::<Vec<_>>().join(", then ")
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
        assert_eq!(percent(0.2625), "26.3%");
        assert_eq!(percent(0.5), "50%");
        assert_eq!(percent(f64::INFINITY), "more than 100%");
        assert_eq!(rounded(0.123_456), "0.123");
        assert_eq!(rounded(12.0), "12");
    }
}

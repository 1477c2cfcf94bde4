//! The autoscaler's part of an explanation: what it would do for a pod that waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use anstyle::Style;
use autoscaler::{Choice, Increase, PodView, ScaleUp, ScaleUpOption};
use explain::{Outcome, Played, Scaling, Search, Triggered};
use model::NamespacedName;
use query::autoscaler_setup::Setup;

use crate::lines::line;
use crate::output::{NEW, OLD, Out, counted, grouped};

/// So many groups, and so much of what was assumed, are shown.
const FEW: usize = 8;
const FEW_ASSUMED: usize = 3;

/// Writes what the autoscaler makes of a pod; `wide` leaves nothing out.
pub(super) fn write(
    out: &mut Out,
    pod: &NamespacedName,
    scaling: &Scaling,
    wide: bool,
) -> anyhow::Result<()> {
    let Scaling { setup, played, seen } = scaling;
    let plain = Style::new();
    line(out, "Autoscaler", &setup.to_string(), plain)?;
    let Some(outcome) = &seen.outcome else { return Ok(()) };
    let (text, style) = in_words(outcome, setup);
    line(out, "Scale-up", &text, style)?;
    if let Some(search) = &seen.search {
        self::search(
            out,
            pod,
            search,
            matches!(outcome, Outcome::Stands(_) | Outcome::Unknown | Outcome::Scheduled),
            wide,
        )?;
    }
    for Triggered { first, last, times, increases } in &seen.triggered {
        let is_told = seen.search.as_ref().is_some_and(|search| search.at == *first);
        let again = match times {
            1 => String::new(),
            times => format!(", {} times until {last}", grouped(*times)),
        };
        if !is_told {
            line(out, "Before", &format!("{first}  it triggered one: {}{again}", grown(increases)), plain)?;
        }
    }
    line(out, "Played", &self::played(played), plain)?;
    assumed(out, setup, wide)
}

/// What was taken for granted.
pub(in crate::explain) fn assumed(out: &mut Out, setup: &Setup, wide: bool) -> anyhow::Result<()> {
    let most = if wide { setup.assumed.len() } else { FEW_ASSUMED };
    let mut label = "Assumed";
    for text in setup.assumed.iter().take(most) {
        line(out, label, text, Style::new())?;
        label = "";
    }
    match setup.assumed.len().saturating_sub(most) {
        0 => Ok(()),
        more => line(out, "", &format!("and {more} more, which -o wide shows"), Style::new()),
    }
}

/// What was played, in words.
pub(in crate::explain) fn played(played: &Played) -> String {
    let when = if played.as_recorded { ", when the recorded ones ran" } else { "" };
    format!("from {}, {}{when}", played.from, counted(played.loops, "loop"))
}

/// 26.3%
pub(in crate::explain) fn share(share: f64) -> String {
    if !share.is_finite() {
        return "more than 100%".to_owned();
    }
    let tenths = (share * 1000.0).round() / 10.0;
    format!("{tenths}%")
}

fn in_words(outcome: &Outcome, setup: &Setup) -> (String, Style) {
    let text = match outcome {
        Outcome::Triggers(increases) => return (format!("it triggers one: {}", grown(increases)), NEW),
        Outcome::Stands(PodView::FindsRoom { node, upcoming }) => {
            let place =
                if *upcoming { "on a node that is still to come".to_owned() } else { format!("on {node}") };
            return (format!("none is needed: there is room for it {place}"), NEW);
        }
        Outcome::Scheduled => return ("none is needed: the scheduler places it".to_owned(), NEW),
        Outcome::Awaits => {
            return (
                "not for it yet: a group could help it, and another one is chosen first".to_owned(),
                NEW,
            );
        }
        Outcome::Refused => "none: no group helps it",
        Outcome::Unknown => "none: the autoscaler does not look at it",
        Outcome::AllYoung => "none yet: the pods that wait are only just there",
        Outcome::MaxNodesTotal => {
            let most = setup.settings.max_nodes_total;
            return (format!("none: there are as many nodes as may be (--max-nodes-total={most})"), OLD);
        }
        Outcome::NotTried(why) => return (format!("none: the loop does not get to it: {why}"), OLD),
        Outcome::Failed(why) => return (format!("one was tried and failed: {why}"), OLD),
        Outcome::Stands(PodView::Placed) => "none: it has a node",
        Outcome::Stands(PodView::Deleted) => "none: it is being deleted",
        Outcome::Stands(PodView::NotRefused) => "none: no scheduler has said yet that no node takes it",
        Outcome::Stands(PodView::Expendable) => {
            let cutoff = setup.settings.expendable_pods_priority_cutoff;
            return (format!("none: its priority is below {cutoff}, and nothing is done for such pods"), OLD);
        }
        Outcome::Stands(PodView::OfDaemonSet) => {
            "none: it belongs to a DaemonSet, which new nodes do not help"
        }
        Outcome::Stands(PodView::Young { until }) => {
            return (format!("none yet: it has to wait until {until}"), OLD);
        }
        Outcome::Stands(PodView::Waits) => "none: it waits, and is not among the pods that are looked at",
    };
    (text.to_owned(), OLD)
}

/// The search in which the pod took part: in the last loop, or `before`.
fn search(
    out: &mut Out,
    pod: &NamespacedName,
    search: &Search,
    before: bool,
    wide: bool,
) -> anyhow::Result<()> {
    let Search { at, found } = search;
    let plain = Style::new();
    if before {
        let came = match &found.best {
            Some(_) if found.triggered.contains(pod) => {
                format!("it triggered one: {}", grown(&found.increases))
            }
            Some(best) => format!("{best} was chosen, for other pods"),
            None => "no group helped it".to_owned(),
        };
        line(out, "Before", &format!("{at}  {came}"), plain)?;
    }
    if found.best.is_some() {
        line(out, "Chosen by", &chosen(&found.choice), plain)?;
    }
    let options: Vec<String> = found.options.iter().map(|option| in_short(option, pod)).collect();
    listed(out, "Options", &options, wide)?;
    listed(out, "Rejected", &reasons(rejected(found, pod)), wide)?;
    listed(out, "Skipped", &reasons(&found.skipped), wide)
}

fn in_short(option: &ScaleUpOption, pod: &NamespacedName) -> String {
    let nodes = counted(option.nodes.unsigned_abs(), "node");
    let pods = counted(option.pods.len() as u64, "pod");
    let own = if option.pods.iter().any(|other| other == pod) { "" } else { ", not this one" };
    let similar: Vec<&str> = option.similar.iter().map(|group| &**group).collect();
    let shared =
        if similar.is_empty() { String::new() } else { format!(", shared with {}", similar.join(", ")) };
    format!("{}: {nodes} for {pods}{own}{shared}", option.group)
}

fn rejected<'a>(found: &'a ScaleUp, pod: &NamespacedName) -> &'a BTreeMap<Arc<str>, Vec<String>> {
    static NONE: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::new();
    let same = found.looked_at.iter().find(|same| same.pods.iter().any(|other| other == pod));
    same.map_or(&NONE, |same| &same.rejected)
}

fn reasons(reasons: &BTreeMap<Arc<str>, Vec<String>>) -> Vec<String> {
    reasons.iter().map(|(group, why)| format!("{group}: {}", why.join(", "))).collect()
}

fn listed(out: &mut Out, label: &str, lines: &[String], wide: bool) -> anyhow::Result<()> {
    let most = if wide { lines.len() } else { FEW };
    let mut label = label;
    for text in lines.iter().take(most) {
        line(out, label, text, Style::new())?;
        label = "";
    }
    match lines.len().saturating_sub(most) {
        0 => Ok(()),
        more => line(out, "", &format!("and {more} more, which -o wide shows"), Style::new()),
    }
}

fn grown(increases: &[Increase]) -> String {
    let one = |increase: &Increase| {
        let Increase { group, from, to, max } = increase;
        format!("{group} {from} -> {to} (max {max})")
    };
    increases.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Expander by expander: what it makes of each group, and whom it leaves.
fn chosen(choices: &[Choice]) -> String {
    let one = |choice: &Choice| {
        let scores =
            choice.scores.iter().take(FEW).map(|(group, score)| format!("{group} {}", rounded(*score)));
        let scores: Vec<String> = scores.collect();
        let scores = if scores.is_empty() { String::new() } else { format!(" ({})", scores.join(", ")) };
        let tie = if choice.tie { ", of equals the first by name" } else { "" };
        format!("{}{scores}{tie}", choice.expander)
    };
    choices.iter().map(one).collect::<Vec<_>>().join(", then ")
}

/// A score in few digits.
fn rounded(score: f64) -> String {
    format!("{}", (score * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_scores_have_few_digits() {
        assert_eq!(share(0.2625), "26.3%");
        assert_eq!(share(0.5), "50%");
        assert_eq!(share(f64::INFINITY), "more than 100%");
        assert_eq!(rounded(0.123_456), "0.123");
        assert_eq!(rounded(12.0), "12");
    }
}

//! The nodes of a pod's explanation: feasible ones with their scores, rejected ones with the reasons.

use std::collections::BTreeMap;
use std::io::Write;

use explain::ExplainedPod;
use scheduler::{NodeVerdict, Plugin, PluginScore, Status};

use super::{FeasibleNode, signed};
use crate::lines::{escape_line, wrap_text};
use crate::output::{HEADING, NEW, Printer, count_noun, group_digits};

/// With more nodes than this only the best are listed individually.
const MAX_LISTED_NODES: usize = 20;
/// The number of best nodes listed then.
const BEST_NODES_SHOWN: usize = 10;
/// Groups of up to this many nodes are listed with their names.
const MAX_NAMED_NODES: usize = 3;
/// The space between columns.
const COLUMN_GAP: &str = "   ";

pub(super) fn write(
    out: &mut Printer,
    told: &ExplainedPod,
    candidates: &[FeasibleNode<'_>],
    wide: bool,
    all_nodes: bool,
) -> anyhow::Result<()> {
    if let Some(only) = &told.explanation.only_nodes {
        let names: Vec<&str> = only.iter().map(|name| &**name).collect();
        writeln!(out)?;
        write_wrapped(out, 2, &format!("no other nodes are considered than: {}", names.join(", ")))?;
    }
    let one_by_one = all_nodes || told.explanation.nodes.len() <= MAX_LISTED_NODES;
    let is_shown = |place: usize, candidate: &FeasibleNode<'_>| {
        one_by_one
            || place < BEST_NODES_SHOWN
            || candidate.is_chosen
            || told.recorded_node() == Some(candidate.name)
    };
    let shown = candidates.iter().enumerate().filter(|(place, candidate)| is_shown(*place, candidate));
    let shown: Vec<&FeasibleNode<'_>> = shown.map(|(_, candidate)| candidate).collect();
    write_scores(out, &shown, candidates)?;
    if wide && !shown.is_empty() {
        write_score_details(out, told, &shown)?;
    }
    let refused: Vec<(&str, &Status)> = told
        .explanation
        .nodes
        .iter()
        .filter_map(|answer| match &answer.verdict {
            NodeVerdict::Rejected(refusal) => Some((&*answer.node, refusal)),
            NodeVerdict::Feasible { .. } => None,
        })
        .collect();
    if one_by_one { write_rejected_nodes(out, &refused) } else { write_rejection_groups(out, told, &refused) }
}

/// The number of nodes that each plugin rejects, the largest first.
pub(super) fn rejections_by_plugin(told: &ExplainedPod) -> String {
    let mut plugins: BTreeMap<Plugin, u64> = BTreeMap::new();
    for answer in &told.explanation.nodes {
        if let NodeVerdict::Rejected(refusal) = &answer.verdict {
            *plugins.entry(refusal.plugin).or_default() += 1;
        }
    }
    let mut plugins: Vec<(Plugin, u64)> = plugins.into_iter().collect();
    plugins.sort_by_key(|(plugin, count)| (std::cmp::Reverse(*count), *plugin));
    let said = plugins.iter().map(|(plugin, count)| format!("{plugin} on {}", count_noun(*count, "node")));
    said.collect::<Vec<_>>().join(", ")
}

/// One line per node: its total score, and the scores of the plugins whose scores differ between nodes.
fn write_scores(
    out: &mut Printer,
    shown: &[&FeasibleNode<'_>],
    all: &[FeasibleNode<'_>],
) -> anyhow::Result<()> {
    let Some(first) = all.first() else { return Ok(()) };
    let same = |at: usize| all.iter().all(|other| other.scores[at].weighted == first.scores[at].weighted);
    let (alike, telling): (Vec<usize>, Vec<usize>) =
        (0..first.scores.len()).partition(|at| all.len() > 1 && same(*at));
    let mut rows: Vec<Vec<String>> = vec![vec!["NODE".to_owned(), "TOTAL".to_owned()]];
    rows[0].extend(telling.iter().map(|at| short_plugin_name(first.scores[*at].plugin).to_owned()));
    for candidate in shown {
        let mut row = vec![escape_line(candidate.name), signed(candidate.total)];
        row.extend(telling.iter().map(|at| signed(candidate.scores[*at].weighted)));
        rows.push(row);
    }
    writeln!(out)?;
    let widths = column_widths(&rows);
    for (index, row) in rows.iter().enumerate() {
        let is_chosen = index > 0 && shown[index - 1].is_chosen;
        let style = match index {
            0 => HEADING,
            _ if is_chosen => NEW,
            _ => anstyle::Style::new(),
        };
        let mark = if is_chosen { "*" } else { " " };
        let cells =
            row.iter().zip(&widths).skip(1).map(|(cell, width)| format!("{COLUMN_GAP}{cell:>width$}"));
        let cells: String = cells.collect();
        writeln!(out, "{style}{mark} {:<width$}{cells}{style:#}", row[0], width = widths[0])?;
    }
    if let Some(last) = all.last().filter(|_| shown.len() < all.len()) {
        let more = count_noun((all.len() - shown.len()) as u64, "more node");
        writeln!(out, "  and {more}, down to a total of {} (--nodes lists them)", signed(last.total))?;
    }
    if !alike.is_empty() {
        let said = alike.iter().map(|at| {
            let PluginScore { plugin, weighted, .. } = first.scores[*at];
            format!("{plugin} {}", signed(weighted))
        });
        let text = format!("the same for all: {}", said.collect::<Vec<_>>().join(", "));
        write_wrapped(out, 2, &text)?;
    }
    Ok(())
}

/// Prints raw score, normalized score and weight for each plugin.
fn write_score_details(
    out: &mut Printer,
    told: &ExplainedPod,
    shown: &[&FeasibleNode<'_>],
) -> anyhow::Result<()> {
    let weights = told.profile().map_or(&[][..], |profile| &profile.score);
    let mut rows =
        vec![["NODE", "PLUGIN", "RAW", "NORMALISED", "WEIGHT", "SCORE"].map(str::to_owned).to_vec()];
    for candidate in shown {
        let mut name = candidate.name;
        for score in candidate.scores {
            let weight = weights.iter().find(|(plugin, _)| *plugin == score.plugin);
            rows.push(vec![
                escape_line(std::mem::take(&mut name)),
                score.plugin.name().to_owned(),
                signed(score.raw),
                signed(score.normalised),
                weight.map_or_else(String::new, |(_, weight)| format!("x {weight}")),
                signed(score.weighted),
            ]);
        }
    }
    writeln!(out)?;
    let widths = column_widths(&rows);
    for (index, row) in rows.iter().enumerate() {
        let style = if index == 0 { HEADING } else { anstyle::Style::new() };
        let numbers =
            row.iter().zip(&widths).skip(2).map(|(cell, width)| format!("{COLUMN_GAP}{cell:>width$}"));
        let numbers: String = numbers.collect();
        let (node, plugin) = (widths[0], widths[1]);
        writeln!(out, "{style}  {:<node$}{COLUMN_GAP}{:<plugin$}{numbers}{style:#}", row[0], row[1])?;
    }
    Ok(())
}

/// Prints one line per rejected node.
fn write_rejected_nodes(out: &mut Printer, refused: &[(&str, &Status)]) -> anyhow::Result<()> {
    if refused.is_empty() {
        return Ok(());
    }
    let mut rows = vec![["NODE", "REFUSED BY", "REASONS"].map(str::to_owned).to_vec()];
    for (node, refusal) in refused {
        rows.push(vec![escape_line(node), refusal.plugin.name().to_owned(), refusal.message()]);
    }
    writeln!(out)?;
    let widths = column_widths(&rows);
    let before = 2 + widths[0] + COLUMN_GAP.len() + widths[1] + COLUMN_GAP.len();
    for (index, row) in rows.iter().enumerate() {
        let style = if index == 0 { HEADING } else { anstyle::Style::new() };
        let (node, plugin) = (widths[0], widths[1]);
        write!(out, "{style}  {:<node$}{COLUMN_GAP}{:<plugin$}{COLUMN_GAP}", row[0], row[1])?;
        for (part, text) in wrap_text(&row[2], out.width(), before).iter().enumerate() {
            let indent = if part == 0 { 0 } else { before };
            writeln!(out, "{:indent$}{text}{style:#}", "")?;
        }
    }
    Ok(())
}

/// Prints one line per group of nodes rejected for the same reason, the largest group first. The node that the pod was
/// really bound to is named.
fn write_rejection_groups(
    out: &mut Printer,
    told: &ExplainedPod,
    refused: &[(&str, &Status)],
) -> anyhow::Result<()> {
    let mut groups: BTreeMap<(Plugin, String), Vec<&str>> = BTreeMap::new();
    for (node, refusal) in refused {
        groups.entry((refusal.plugin, refusal.message())).or_default().push(node);
    }
    let mut groups: Vec<((Plugin, String), Vec<&str>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    if !groups.is_empty() {
        writeln!(out, "\n{HEADING}  REFUSED{HEADING:#}")?;
    }
    let width = groups.first().map_or(0, |(_, nodes)| group_digits(nodes.len() as u64).len());
    for ((plugin, message), nodes) in groups {
        let names = match told.recorded_node().filter(|node| nodes.contains(node)) {
            _ if nodes.len() <= MAX_NAMED_NODES => format!(" ({})", nodes.join(", ")),
            Some(node) => format!(" ({node} among them)"),
            None => String::new(),
        };
        let indent = 2 + width - group_digits(nodes.len() as u64).len();
        let count = count_noun(nodes.len() as u64, "node");
        write_wrapped(out, indent, &format!("{count}{names}: {plugin}: {message}"))?;
    }
    Ok(())
}

fn write_wrapped(out: &mut Printer, indent: usize, text: &str) -> anyhow::Result<()> {
    for (index, part) in wrap_text(text, out.width(), indent + 4).iter().enumerate() {
        let indent = if index == 0 { indent } else { indent + 4 };
        writeln!(out, "{:indent$}{part}", "")?;
    }
    Ok(())
}

fn column_widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    (0..columns).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect()
}

/// An abbreviated plugin name: terminals have 80 columns.
fn short_plugin_name(plugin: Plugin) -> &'static str {
    match plugin {
        Plugin::TaintToleration => "TAINTS",
        Plugin::NodeAffinity => "AFFINITY",
        Plugin::PodTopologySpread => "SPREAD",
        Plugin::InterPodAffinity => "PODS",
        Plugin::NodeResourcesFit => "FIT",
        Plugin::NodeResourcesBalancedAllocation => "BALANCE",
        Plugin::ImageLocality => "IMAGES",
        Plugin::VolumeBinding => "VOLUMES",
        Plugin::DynamicResources => "CLAIMS",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_texts_have_characters() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(column_widths(&[row(["NODE", "TOTAL"]), row(["größe", "1"])]), [5, 5]);
        assert_eq!(column_widths(&[]), [0; 0]);
    }
}

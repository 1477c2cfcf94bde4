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
    explained_pod: &ExplainedPod,
    candidates: &[FeasibleNode<'_>],
    wide: bool,
    all_nodes: bool,
) -> anyhow::Result<()> {
    if let Some(only) = &explained_pod.explanation.pre_filter_node_names {
        let names: Vec<&str> = only.iter().map(|name| &**name).collect();
        writeln!(out)?;
        write_wrapped(out, 2, &format!("PreFilter limits the candidates to: {}", names.join(", ")))?;
    }
    let one_by_one = all_nodes || explained_pod.explanation.nodes.len() <= MAX_LISTED_NODES;
    let is_shown = |rank: usize, candidate: &FeasibleNode<'_>| {
        one_by_one
            || rank < BEST_NODES_SHOWN
            || candidate.is_chosen
            || explained_pod.recorded_node() == Some(candidate.name)
    };
    let shown = candidates.iter().enumerate().filter(|(rank, candidate)| is_shown(*rank, candidate));
    let shown: Vec<&FeasibleNode<'_>> = shown.map(|(_, candidate)| candidate).collect();
    write_scores(out, &shown, candidates)?;
    if wide && !shown.is_empty() {
        write_score_details(out, explained_pod, &shown)?;
    }
    let rejections: Vec<(&str, &Status)> = explained_pod
        .explanation
        .nodes
        .iter()
        .filter_map(|node_result| match &node_result.verdict {
            NodeVerdict::Rejected(status) => Some((&*node_result.node, status)),
            NodeVerdict::Feasible { .. } => None,
        })
        .collect();
    if one_by_one {
        write_rejected_nodes(out, &rejections)
    } else {
        write_rejection_groups(out, explained_pod, &rejections)
    }
}

/// The number of nodes that each plugin rejects, the largest first.
pub(super) fn rejections_by_plugin(explained_pod: &ExplainedPod) -> String {
    let mut plugins: BTreeMap<Plugin, u64> = BTreeMap::new();
    for node_result in &explained_pod.explanation.nodes {
        if let NodeVerdict::Rejected(status) = &node_result.verdict {
            *plugins.entry(status.plugin).or_default() += 1;
        }
    }
    let mut plugins: Vec<(Plugin, u64)> = plugins.into_iter().collect();
    plugins.sort_by_key(|(plugin, count)| (std::cmp::Reverse(*count), *plugin));
    let texts = plugins.iter().map(|(plugin, count)| format!("{plugin} on {}", count_noun(*count, "node")));
    texts.collect::<Vec<_>>().join(", ")
}

/// One line per node: its total score, and the scores of the plugins whose scores differ between nodes.
fn write_scores(
    out: &mut Printer,
    candidates: &[&FeasibleNode<'_>],
    all: &[FeasibleNode<'_>],
) -> anyhow::Result<()> {
    let Some(first) = all.first() else { return Ok(()) };
    let is_equal = |at: usize| all.iter().all(|other| other.scores[at].weighted == first.scores[at].weighted);
    let (equal_plugins, distinct_plugins): (Vec<usize>, Vec<usize>) =
        (0..first.scores.len()).partition(|at| all.len() > 1 && is_equal(*at));
    let mut rows: Vec<Vec<String>> = vec![vec!["NODE".to_owned(), "TOTAL".to_owned()]];
    rows[0].extend(distinct_plugins.iter().map(|at| short_plugin_name(first.scores[*at].plugin).to_owned()));
    for candidate in candidates {
        let mut row = vec![escape_line(candidate.name), signed(candidate.total)];
        row.extend(distinct_plugins.iter().map(|at| signed(candidate.scores[*at].weighted)));
        rows.push(row);
    }
    writeln!(out)?;
    let widths = column_widths(&rows);
    for (index, row) in rows.iter().enumerate() {
        let is_chosen = index > 0 && candidates[index - 1].is_chosen;
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
    if let Some(last) = all.last().filter(|_| candidates.len() < all.len()) {
        let more = count_noun((all.len() - candidates.len()) as u64, "more node");
        writeln!(out, "  and {more} with totals down to {} (use --nodes)", signed(last.total))?;
    }
    if !equal_plugins.is_empty() {
        let texts = equal_plugins.iter().map(|at| {
            let PluginScore { plugin, weighted, .. } = first.scores[*at];
            format!("{plugin} {}", signed(weighted))
        });
        let text = format!("same score on all nodes: {}", texts.collect::<Vec<_>>().join(", "));
        write_wrapped(out, 2, &text)?;
    }
    Ok(())
}

/// Prints raw score, normalized score and weight for each plugin.
fn write_score_details(
    out: &mut Printer,
    explained_pod: &ExplainedPod,
    candidates: &[&FeasibleNode<'_>],
) -> anyhow::Result<()> {
    let weights = explained_pod.profile().map_or(&[][..], |profile| &profile.score);
    let mut rows =
        vec![["NODE", "PLUGIN", "RAW", "NORMALIZED", "WEIGHT", "SCORE"].map(str::to_owned).to_vec()];
    for candidate in candidates {
        let mut name = candidate.name;
        for score in candidate.scores {
            let weight = weights.iter().find(|(plugin, _)| *plugin == score.plugin);
            rows.push(vec![
                escape_line(std::mem::take(&mut name)),
                score.plugin.name().to_owned(),
                signed(score.raw),
                signed(score.normalized),
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
fn write_rejected_nodes(out: &mut Printer, rejections: &[(&str, &Status)]) -> anyhow::Result<()> {
    if rejections.is_empty() {
        return Ok(());
    }
    let mut rows = vec![["NODE", "REJECTED BY", "REASONS"].map(str::to_owned).to_vec()];
    for (node, status) in rejections {
        rows.push(vec![escape_line(node), status.plugin.name().to_owned(), status.message()]);
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
    explained_pod: &ExplainedPod,
    rejections: &[(&str, &Status)],
) -> anyhow::Result<()> {
    let mut groups: BTreeMap<(Plugin, String), Vec<&str>> = BTreeMap::new();
    for (node, status) in rejections {
        groups.entry((status.plugin, status.message())).or_default().push(node);
    }
    let mut groups: Vec<((Plugin, String), Vec<&str>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    if !groups.is_empty() {
        writeln!(out, "\n{HEADING}  REJECTED{HEADING:#}")?;
    }
    let width = groups.first().map_or(0, |(_, nodes)| group_digits(nodes.len() as u64).len());
    for ((plugin, message), nodes) in groups {
        let names = match explained_pod.recorded_node().filter(|node| nodes.contains(node)) {
            _ if nodes.len() <= MAX_NAMED_NODES => format!(" ({})", nodes.join(", ")),
            Some(node) => format!(" (including {node})"),
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
        Plugin::InterPodAffinity => "INTERPOD",
        Plugin::NodeResourcesFit => "FIT",
        Plugin::NodeResourcesBalancedAllocation => "BALANCED",
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

//! The nodes of an explanation: those that fit with their scores, those that do not with the reasons.

use std::collections::BTreeMap;
use std::io::Write;

use explain::PodExplanation;
use scheduler::{NodeVerdict, Plugin, PluginScore, Refusal};

use super::{Candidate, signed};
use crate::lines::{folded, harmless};
use crate::output::{HEADING, NEW, Out, counted, grouped};

/// With more nodes than these, only the best are shown one by one.
const FEW: usize = 20;
/// The best.
const BEST: usize = 10;
/// A group of so many nodes is told by their names.
const NAMED: usize = 3;
/// Between columns.
const GAP: &str = "   ";

pub(super) fn write(
    out: &mut Out,
    told: &PodExplanation,
    candidates: &[Candidate<'_>],
    wide: bool,
    all_nodes: bool,
) -> anyhow::Result<()> {
    if let Some(only) = &told.explanation.only_nodes {
        let names: Vec<&str> = only.iter().map(|name| &**name).collect();
        writeln!(out)?;
        write_folded(out, 2, &format!("no other nodes are considered than: {}", names.join(", ")))?;
    }
    let one_by_one = all_nodes || told.explanation.nodes.len() <= FEW;
    let is_shown = |place: usize, candidate: &Candidate<'_>| {
        one_by_one || place < BEST || candidate.is_chosen || told.really_on() == Some(candidate.name)
    };
    let shown = candidates.iter().enumerate().filter(|(place, candidate)| is_shown(*place, candidate));
    let shown: Vec<&Candidate<'_>> = shown.map(|(_, candidate)| candidate).collect();
    write_scores(out, &shown, candidates)?;
    if wide && !shown.is_empty() {
        write_opinions(out, told, &shown)?;
    }
    let refused: Vec<(&str, &Refusal)> = told
        .explanation
        .nodes
        .iter()
        .filter_map(|answer| match &answer.verdict {
            NodeVerdict::Refused(refusal) => Some((&*answer.node, refusal)),
            NodeVerdict::Fits { .. } => None,
        })
        .collect();
    if one_by_one { write_refusals(out, &refused) } else { write_groups(out, told, &refused) }
}

/// How many nodes each plugin refuses, the busiest first.
pub(super) fn who_refuses(told: &PodExplanation) -> String {
    let mut plugins: BTreeMap<Plugin, u64> = BTreeMap::new();
    for answer in &told.explanation.nodes {
        if let NodeVerdict::Refused(refusal) = &answer.verdict {
            *plugins.entry(refusal.plugin).or_default() += 1;
        }
    }
    let mut plugins: Vec<(Plugin, u64)> = plugins.into_iter().collect();
    plugins.sort_by_key(|(plugin, count)| (std::cmp::Reverse(*count), *plugin));
    let said = plugins.iter().map(|(plugin, count)| format!("{plugin} on {}", counted(*count, "node")));
    said.collect::<Vec<_>>().join(", ")
}

/// A line a node: the total, and each plugin's part of it unless that is the same for all.
fn write_scores(out: &mut Out, shown: &[&Candidate<'_>], all: &[Candidate<'_>]) -> anyhow::Result<()> {
    let Some(first) = all.first() else { return Ok(()) };
    let same = |at: usize| all.iter().all(|other| other.scores[at].weighted == first.scores[at].weighted);
    let (alike, telling): (Vec<usize>, Vec<usize>) =
        (0..first.scores.len()).partition(|at| all.len() > 1 && same(*at));
    let mut rows: Vec<Vec<String>> = vec![vec!["NODE".to_owned(), "TOTAL".to_owned()]];
    rows[0].extend(telling.iter().map(|at| short(first.scores[*at].plugin).to_owned()));
    for candidate in shown {
        let mut row = vec![harmless(candidate.name), signed(candidate.total)];
        row.extend(telling.iter().map(|at| signed(candidate.scores[*at].weighted)));
        rows.push(row);
    }
    writeln!(out)?;
    let widths = widths(&rows);
    for (index, row) in rows.iter().enumerate() {
        let is_chosen = index > 0 && shown[index - 1].is_chosen;
        let style = match index {
            0 => HEADING,
            _ if is_chosen => NEW,
            _ => anstyle::Style::new(),
        };
        let mark = if is_chosen { "*" } else { " " };
        let cells = row.iter().zip(&widths).skip(1).map(|(cell, width)| format!("{GAP}{cell:>width$}"));
        let cells: String = cells.collect();
        writeln!(out, "{style}{mark} {:<width$}{cells}{style:#}", row[0], width = widths[0])?;
    }
    if let Some(last) = all.last().filter(|_| shown.len() < all.len()) {
        let more = counted((all.len() - shown.len()) as u64, "more node");
        writeln!(out, "  and {more}, down to a total of {} (--nodes lists them)", signed(last.total))?;
    }
    if !alike.is_empty() {
        let said = alike.iter().map(|at| {
            let PluginScore { plugin, weighted, .. } = first.scores[*at];
            format!("{plugin} {}", signed(weighted))
        });
        let text = format!("the same for all: {}", said.collect::<Vec<_>>().join(", "));
        write_folded(out, 2, &text)?;
    }
    Ok(())
}

/// How each plugin came to its score.
fn write_opinions(out: &mut Out, told: &PodExplanation, shown: &[&Candidate<'_>]) -> anyhow::Result<()> {
    let weights = told.profile().map_or(&[][..], |profile| &profile.score);
    let mut rows =
        vec![["NODE", "PLUGIN", "RAW", "NORMALISED", "WEIGHT", "SCORE"].map(str::to_owned).to_vec()];
    for candidate in shown {
        let mut name = candidate.name;
        for score in candidate.scores {
            let weight = weights.iter().find(|(plugin, _)| *plugin == score.plugin);
            rows.push(vec![
                harmless(std::mem::take(&mut name)),
                score.plugin.name().to_owned(),
                signed(score.raw),
                signed(score.normalised),
                weight.map_or_else(String::new, |(_, weight)| format!("x {weight}")),
                signed(score.weighted),
            ]);
        }
    }
    writeln!(out)?;
    let widths = widths(&rows);
    for (index, row) in rows.iter().enumerate() {
        let style = if index == 0 { HEADING } else { anstyle::Style::new() };
        let numbers = row.iter().zip(&widths).skip(2).map(|(cell, width)| format!("{GAP}{cell:>width$}"));
        let numbers: String = numbers.collect();
        let (node, plugin) = (widths[0], widths[1]);
        writeln!(out, "{style}  {:<node$}{GAP}{:<plugin$}{numbers}{style:#}", row[0], row[1])?;
    }
    Ok(())
}

/// A line a node.
fn write_refusals(out: &mut Out, refused: &[(&str, &Refusal)]) -> anyhow::Result<()> {
    if refused.is_empty() {
        return Ok(());
    }
    let mut rows = vec![["NODE", "REFUSED BY", "REASONS"].map(str::to_owned).to_vec()];
    for (node, refusal) in refused {
        rows.push(vec![harmless(node), refusal.plugin.name().to_owned(), refusal.message()]);
    }
    writeln!(out)?;
    let widths = widths(&rows);
    let before = 2 + widths[0] + GAP.len() + widths[1] + GAP.len();
    for (index, row) in rows.iter().enumerate() {
        let style = if index == 0 { HEADING } else { anstyle::Style::new() };
        let (node, plugin) = (widths[0], widths[1]);
        write!(out, "{style}  {:<node$}{GAP}{:<plugin$}{GAP}", row[0], row[1])?;
        for (part, text) in folded(&row[2], out.width(), before).iter().enumerate() {
            let indent = if part == 0 { 0 } else { before };
            writeln!(out, "{:indent$}{text}{style:#}", "")?;
        }
    }
    Ok(())
}

/// A line for all nodes that are refused alike, the biggest group first. The node that was really chosen is named.
fn write_groups(out: &mut Out, told: &PodExplanation, refused: &[(&str, &Refusal)]) -> anyhow::Result<()> {
    let mut groups: BTreeMap<(Plugin, String), Vec<&str>> = BTreeMap::new();
    for (node, refusal) in refused {
        groups.entry((refusal.plugin, refusal.message())).or_default().push(node);
    }
    let mut groups: Vec<((Plugin, String), Vec<&str>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    if !groups.is_empty() {
        writeln!(out, "\n{HEADING}  REFUSED{HEADING:#}")?;
    }
    let width = groups.first().map_or(0, |(_, nodes)| grouped(nodes.len() as u64).len());
    for ((plugin, message), nodes) in groups {
        let names = match told.really_on().filter(|node| nodes.contains(node)) {
            _ if nodes.len() <= NAMED => format!(" ({})", nodes.join(", ")),
            Some(node) => format!(" ({node} among them)"),
            None => String::new(),
        };
        let indent = 2 + width - grouped(nodes.len() as u64).len();
        let count = counted(nodes.len() as u64, "node");
        write_folded(out, indent, &format!("{count}{names}: {plugin}: {message}"))?;
    }
    Ok(())
}

fn write_folded(out: &mut Out, indent: usize, text: &str) -> anyhow::Result<()> {
    for (index, part) in folded(text, out.width(), indent + 4).iter().enumerate() {
        let indent = if index == 0 { indent } else { indent + 4 };
        writeln!(out, "{:indent$}{part}", "")?;
    }
    Ok(())
}

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    (0..columns).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect()
}

/// A plugin's name in few letters: terminals have 80 columns.
fn short(plugin: Plugin) -> &'static str {
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
        assert_eq!(widths(&[row(["NODE", "TOTAL"]), row(["größe", "1"])]), [5, 5]);
        assert_eq!(widths(&[]), [0; 0]);
    }
}

//! What was measured, and how it is shown.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::machine::Machine;

/// All figures of one run.
pub(crate) struct Figures {
    before: Machine,
    rows: Vec<Row>,
}

/// One figure.
pub(crate) struct Figure {
    what: String,
    value: f64,
    unit: Unit,
    budget: Option<f64>,
    /// Other values of the same measurement, each with its name.
    also: Vec<(&'static str, f64, Unit)>,
    /// The same of others, in the same unit.
    peers: Vec<Peer>,
    /// How many times better than every peer it should be.
    times: Option<f64>,
}

/// What another came to.
struct Peer {
    name: &'static str,
    theirs: f64,
    /// What is compared with it: the figure itself, or the same for a part of the work.
    ours: f64,
}

/// What is counted. Of rates and shares more is better, of everything else less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    ChangesPerSecond,
    PodsPerSecond,
    BytesPerSecond,
    BytesPerChange,
    Seconds,
    Bytes,
    /// A plain number, for what is said beside a figure.
    Count,
    /// So many times something else.
    Times,
    /// A part of a whole.
    Share,
}

enum Row {
    Measured(Figure),
    Skipped { what: String, why: &'static str },
}

// === impl Figures ===

impl Figures {
    pub(crate) fn new(before: Machine) -> Figures {
        Figures { before, rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, figure: Figure) {
        self.push(Row::Measured(figure));
    }

    /// Says what could not be measured here, and why.
    pub(crate) fn skip(&mut self, what: impl Into<String>, why: &'static str) {
        self.push(Row::Skipped { what: what.into(), why });
    }

    /// Some take minutes: each is told as soon as it is there, so that a run that is cut short was not for nothing.
    fn push(&mut self, row: Row) {
        let cells: Vec<String> = row.cells().into_iter().filter(|cell| !cell.is_empty()).collect();
        eprintln!("  {}", cells.join(" | "));
        self.rows.push(row);
    }

    /// The figures for people.
    pub(crate) fn table(&self, after: &Machine) -> String {
        let header = ["figure", "measured", "budget", "ratio to a peer", "verdict"].map(str::to_owned);
        let rows: Vec<[String; 5]> =
            std::iter::once(header).chain(self.rows.iter().map(Row::cells)).collect();
        let widths: [usize; 5] = std::array::from_fn(|column| {
            rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        });
        let mut text =
            format!("{}; load {} before, {} after\n\n", after.in_words(), self.before.load(), after.load());
        for (number, row) in rows.iter().enumerate() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                write!(line, "{cell:<width$} | ").expect("a string takes everything");
            }
            text.push_str(line.trim_end_matches([' ', '|']));
            text.push('\n');
            if number == 0 {
                text.push_str(&widths.map(|width| "-".repeat(width)).join("-+-"));
                text.push('\n');
            }
        }
        text
    }

    /// The figures for programs, in seconds, bytes and changes.
    pub(crate) fn json(&self, after: &Machine) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        json!({
            "machine": after.in_words(),
            "load": { "before": self.before.load(), "after": after.load() },
            "figures": rows,
        })
    }
}

// === impl Figure ===

impl Figure {
    pub(crate) fn new(what: impl Into<String>, value: f64, unit: Unit) -> Figure {
        Figure {
            what: what.into(),
            value,
            unit,
            budget: None,
            also: Vec::new(),
            peers: Vec::new(),
            times: None,
        }
    }

    /// What it should be at least, if it is a rate, or else at most.
    pub(crate) fn budget(mut self, budget: f64) -> Figure {
        self.budget = Some(budget);
        self
    }

    /// Another value of the same measurement.
    pub(crate) fn also(mut self, name: &'static str, value: f64, unit: Unit) -> Figure {
        self.also.push((name, value, unit));
        self
    }

    /// What a peer came to.
    pub(crate) fn peer(self, name: &'static str, value: f64) -> Figure {
        let ours = self.value;
        self.peer_on_part(name, value, ours)
    }

    /// What a peer came to on a part of the work, and what this did on the same part.
    pub(crate) fn peer_on_part(mut self, name: &'static str, theirs: f64, ours: f64) -> Figure {
        self.peers.push(Peer { name, theirs, ours });
        self
    }

    /// How many times better than every peer it should be.
    pub(crate) fn times_peers(mut self, times: f64) -> Figure {
        self.times = Some(times);
        self
    }

    fn is_met(&self) -> Option<bool> {
        let budget = self.budget.map(|budget| match self.unit.more_is_better() {
            true => self.value >= budget,
            false => self.value <= budget,
        });
        let times = self.times.map(|times| self.peers.iter().all(|peer| self.ratio(peer) >= times));
        match (budget, times) {
            (Some(budget), Some(times)) => Some(budget && times),
            (budget, times) => budget.or(times),
        }
    }

    /// How many times better than a peer.
    fn ratio(&self, peer: &Peer) -> f64 {
        match self.unit.more_is_better() {
            true => peer.ours / peer.theirs,
            false => peer.theirs / peer.ours,
        }
    }

    /// What it should be, in words.
    fn demand(&self) -> String {
        let sign = if self.unit.more_is_better() { "≥" } else { "≤" };
        let budget = self.budget.map(|budget| format!("{sign} {}", self.unit.show(budget)));
        let times = self.times.map(|times| format!("≥ {times:.0}× a peer"));
        [budget, times].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

// === impl Unit ===

impl Unit {
    fn more_is_better(self) -> bool {
        matches!(self, Unit::ChangesPerSecond | Unit::PodsPerSecond | Unit::BytesPerSecond | Unit::Share)
    }

    fn show(self, value: f64) -> String {
        match self {
            Unit::ChangesPerSecond => format!("{} changes/s", with_commas(value)),
            Unit::PodsPerSecond => format!("{} pods/s", with_commas(value)),
            Unit::BytesPerSecond => format!("{:.0} MB/s", value / 1e6),
            Unit::BytesPerChange if value < 1000.0 => format!("{value:.1} B/change"),
            Unit::BytesPerChange => format!("{} B/change", with_commas(value)),
            Unit::Seconds if value < 0.001 => format!("{:.0} µs", value * 1e6),
            Unit::Seconds if value < 1.0 => format!("{:.1} ms", value * 1e3),
            Unit::Seconds => format!("{value:.2} s"),
            Unit::Bytes => format!("{:.1} MB", value / 1e6),
            Unit::Count => with_commas(value),
            Unit::Times if value < 100.0 => format!("{value:.2}×"),
            Unit::Times => format!("{}×", with_commas(value)),
            Unit::Share => format!("{:.1} %", value * 100.0),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Unit::ChangesPerSecond => "changes/s",
            Unit::PodsPerSecond => "pods/s",
            Unit::BytesPerSecond => "bytes/s",
            Unit::BytesPerChange => "bytes/change",
            Unit::Seconds => "s",
            Unit::Bytes => "bytes",
            Unit::Count => "",
            Unit::Times => "times",
            Unit::Share => "share",
        }
    }
}

// === impl Row ===

impl Row {
    fn cells(&self) -> [String; 5] {
        match self {
            Row::Skipped { what, why } => {
                [what.clone(), format!("skipped: {why}"), String::new(), String::new(), String::new()]
            }
            Row::Measured(figure) => {
                let unit = figure.unit;
                let mut measured = unit.show(figure.value);
                if !figure.also.is_empty() {
                    let also: Vec<String> = figure
                        .also
                        .iter()
                        .map(|(name, value, unit)| format!("{name} {}", unit.show(*value)))
                        .collect();
                    write!(measured, " ({})", also.join(", ")).expect("a string takes everything");
                }
                let peers: Vec<String> = figure
                    .peers
                    .iter()
                    .map(|peer| format!("{:.2}× {}", figure.ratio(peer), peer.name))
                    .collect();
                let verdict = figure.is_met().map_or("", |met| if met { "met" } else { "MISSED" });
                [figure.what.clone(), measured, figure.demand(), peers.join(", "), verdict.to_owned()]
            }
        }
    }

    fn json(&self) -> Value {
        match self {
            Row::Skipped { what, why } => json!({ "figure": what, "skipped": why }),
            Row::Measured(figure) => {
                let also: serde_json::Map<String, Value> =
                    figure.also.iter().map(|(name, value, _)| ((*name).to_owned(), json!(value))).collect();
                let peers: Vec<Value> = figure
                    .peers
                    .iter()
                    .map(|peer| json!({ "name": peer.name, "value": peer.theirs, "ratio": figure.ratio(peer) }))
                    .collect();
                json!({
                    "figure": figure.what,
                    "value": figure.value,
                    "unit": figure.unit.name(),
                    "also": also,
                    "budget": figure.budget,
                    "times": figure.times,
                    "met": figure.is_met(),
                    "peers": peers,
                })
            }
        }
    }
}

/// A whole number with commas between thousands.
pub(crate) fn with_commas(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        let left = digits.len() - index;
        if index > 0 && left.is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned_and_judges() {
        let mut figures = Figures::new(Machine::default());
        figures.add(
            Figure::new("fast", 60_000.0, Unit::ChangesPerSecond).budget(50_000.0).peer("slow", 20_000.0),
        );
        figures.add(Figure::new("large", 0.25, Unit::Seconds).budget(0.05).also(
            "p50",
            0.0001,
            Unit::Seconds,
        ));
        figures.skip("films", "no films");
        let table = figures.table(&Machine::default());
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "figure | measured              | budget             | ratio to a peer | verdict",
                "-------+-----------------------+--------------------+-----------------+--------",
                "fast   | 60,000 changes/s      | ≥ 50,000 changes/s | 3.00× slow      | met",
                "large  | 250.0 ms (p50 100 µs) | ≤ 50.0 ms          |                 | MISSED",
                "films  | skipped: no films",
            ]
        );
    }

    #[test]
    fn json_has_bare_numbers_and_null_for_no_budget() {
        let mut figures = Figures::new(Machine::default());
        figures.add(Figure::new("small", 50.0, Unit::BytesPerChange).peer("zstd", 100.0));
        let json = figures.json(&Machine::default());
        let figure = &json["figures"][0];
        assert_eq!(figure["value"], 50.0);
        assert_eq!(figure["met"], Value::Null);
        assert_eq!(figure["peers"][0]["ratio"], 2.0);
    }

    #[test]
    fn thousands_have_commas() {
        for (value, text) in [
            (0.0, "0"),
            (999.4, "999"),
            (1_000.0, "1,000"),
            (1_234_567.0, "1,234,567"),
            (-123_456.0, "-123,456"),
        ] {
            assert_eq!(with_commas(value), text);
        }
    }
}

//! Results of benchmarks, as a table and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::machine::Machine;

/// All measurements of one run.
pub(crate) struct BenchResults {
    before: Machine,
    rows: Vec<ResultRow>,
}

/// A measurement.
pub(crate) struct Measurement {
    title: String,
    value: f64,
    unit: Unit,
    budget: Option<f64>,
    /// Further values of the same measurement, with their names.
    details: Vec<(String, f64, Unit)>,
    /// The baselines, in the same unit.
    baselines: Vec<Baseline>,
    /// The minimum ratio to every baseline.
    min_ratio: Option<f64>,
}

/// The same measurement of another implementation.
struct Baseline {
    name: &'static str,
    theirs: f64,
    /// Our value to compare: the measurement itself, or the same for a part of the work.
    ours: f64,
}

/// The unit of a measurement. For rates and shares more is better, for all others less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    ChangesPerSecond,
    PodsPerSecond,
    BytesPerSecond,
    BytesPerChange,
    Seconds,
    Bytes,
    /// A plain number, for details.
    Count,
    /// A ratio to something else.
    Times,
    /// A part of a whole.
    Share,
}

enum ResultRow {
    Measured(Measurement),
    Skipped { what: String, why: &'static str },
}

// === impl BenchResults ===

impl BenchResults {
    pub(crate) fn new(before: Machine) -> BenchResults {
        BenchResults { before, rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, measurement: Measurement) {
        self.push(ResultRow::Measured(measurement));
    }

    /// Records a measurement that could not be made, with the reason.
    pub(crate) fn skip(&mut self, what: impl Into<String>, why: &'static str) {
        self.push(ResultRow::Skipped { what: what.into(), why });
    }

    /// Adds a row and prints it at once: some benchmarks take minutes, and the run may be interrupted.
    fn push(&mut self, row: ResultRow) {
        let cells: Vec<String> = row.cells().into_iter().filter(|cell| !cell.is_empty()).collect();
        eprintln!("  {}", cells.join(" | "));
        self.rows.push(row);
    }

    /// The results as a table.
    pub(crate) fn table(&self, after: &Machine) -> String {
        let header = ["figure", "measured", "budget", "ratio to a peer", "verdict"].map(str::to_owned);
        let rows: Vec<[String; 5]> =
            std::iter::once(header).chain(self.rows.iter().map(ResultRow::cells)).collect();
        let widths: [usize; 5] = std::array::from_fn(|column| {
            rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        });
        let mut text = format!(
            "{}; load {} before, {} after\n\n",
            after.description(),
            self.before.load(),
            after.load()
        );
        for (number, row) in rows.iter().enumerate() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                write!(line, "{cell:<width$} | ").expect("writing to a String cannot fail");
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

    /// The results as JSON, in seconds, bytes and changes.
    pub(crate) fn json(&self, after: &Machine) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(ResultRow::json).collect();
        json!({
            "machine": after.description(),
            "load": { "before": self.before.load(), "after": after.load() },
            "figures": rows,
        })
    }
}

// === impl Measurement ===

impl Measurement {
    pub(crate) fn new(what: impl Into<String>, value: f64, unit: Unit) -> Measurement {
        Measurement {
            title: what.into(),
            value,
            unit,
            budget: None,
            details: Vec::new(),
            baselines: Vec::new(),
            min_ratio: None,
        }
    }

    /// Sets the budget: a minimum for rates and shares, else a maximum.
    pub(crate) fn budget(mut self, budget: f64) -> Measurement {
        self.budget = Some(budget);
        self
    }

    /// Adds another value of the same measurement.
    pub(crate) fn detail(mut self, name: impl Into<String>, value: f64, unit: Unit) -> Measurement {
        self.details.push((name.into(), value, unit));
        self
    }

    /// Adds a baseline.
    pub(crate) fn baseline(self, name: &'static str, value: f64) -> Measurement {
        let ours = self.value;
        self.baseline_on_part(name, value, ours)
    }

    /// Adds a baseline for a part of the work, with our value for the same part.
    pub(crate) fn baseline_on_part(mut self, name: &'static str, theirs: f64, ours: f64) -> Measurement {
        self.baselines.push(Baseline { name, theirs, ours });
        self
    }

    /// The minimum ratio to every baseline.
    pub(crate) fn min_ratio_to_baselines(mut self, times: f64) -> Measurement {
        self.min_ratio = Some(times);
        self
    }

    fn is_met(&self) -> Option<bool> {
        let budget = self.budget.map(|budget| match self.unit.more_is_better() {
            true => self.value >= budget,
            false => self.value <= budget,
        });
        let times =
            self.min_ratio.map(|times| self.baselines.iter().all(|baseline| self.ratio(baseline) >= times));
        match (budget, times) {
            (Some(budget), Some(times)) => Some(budget && times),
            (budget, times) => budget.or(times),
        }
    }

    /// How many times better the measurement is than a baseline.
    fn ratio(&self, baseline: &Baseline) -> f64 {
        match self.unit.more_is_better() {
            true => baseline.ours / baseline.theirs,
            false => baseline.theirs / baseline.ours,
        }
    }

    /// The budget and the minimum ratio, as text.
    fn budget_text(&self) -> String {
        let sign = if self.unit.more_is_better() { "≥" } else { "≤" };
        let budget = self.budget.map(|budget| format!("{sign} {}", self.unit.show(budget)));
        let times = self.min_ratio.map(|times| format!("≥ {times:.0}× a peer"));
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
            Unit::Bytes if value.abs() < 1e5 => format!("{} B", with_commas(value)),
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

// === impl ResultRow ===

impl ResultRow {
    fn cells(&self) -> [String; 5] {
        match self {
            ResultRow::Skipped { what, why } => {
                [what.clone(), format!("skipped: {why}"), String::new(), String::new(), String::new()]
            }
            ResultRow::Measured(measurement) => {
                let unit = measurement.unit;
                let mut measured = unit.show(measurement.value);
                if !measurement.details.is_empty() {
                    let also: Vec<String> = measurement
                        .details
                        .iter()
                        .map(|(name, value, unit)| format!("{name} {}", unit.show(*value)))
                        .collect();
                    write!(measured, " ({})", also.join(", ")).expect("writing to a String cannot fail");
                }
                let peers: Vec<String> = measurement
                    .baselines
                    .iter()
                    .map(|baseline| format!("{:.2}× {}", measurement.ratio(baseline), baseline.name))
                    .collect();
                let verdict = measurement.is_met().map_or("", |met| if met { "met" } else { "MISSED" });
                [
                    measurement.title.clone(),
                    measured,
                    measurement.budget_text(),
                    peers.join(", "),
                    verdict.to_owned(),
                ]
            }
        }
    }

    fn json(&self) -> Value {
        match self {
            ResultRow::Skipped { what, why } => json!({ "figure": what, "skipped": why }),
            ResultRow::Measured(measurement) => {
                let also: serde_json::Map<String, Value> =
                    measurement.details.iter().map(|(name, value, _)| (name.clone(), json!(value))).collect();
                let peers: Vec<Value> = measurement
                    .baselines
                    .iter()
                    .map(|baseline| json!({ "name": baseline.name, "value": baseline.theirs, "ratio": measurement.ratio(baseline) }))
                    .collect();
                json!({
                    "figure": measurement.title,
                    "value": measurement.value,
                    "unit": measurement.unit.name(),
                    "also": also,
                    "budget": measurement.budget,
                    "times": measurement.min_ratio,
                    "met": measurement.is_met(),
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
    fn the_table_is_aligned_and_has_verdicts() {
        let mut results = BenchResults::new(Machine::default());
        results.add(
            Measurement::new("fast", 60_000.0, Unit::ChangesPerSecond)
                .budget(50_000.0)
                .baseline("slow", 20_000.0),
        );
        results.add(Measurement::new("large", 0.25, Unit::Seconds).budget(0.05).detail(
            "p50",
            0.0001,
            Unit::Seconds,
        ));
        results.skip("films", "no films");
        let table = results.table(&Machine::default());
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
        let mut results = BenchResults::new(Machine::default());
        results.add(Measurement::new("small", 50.0, Unit::BytesPerChange).baseline("zstd", 100.0));
        let json = results.json(&Machine::default());
        let measurement = &json["figures"][0];
        assert_eq!(measurement["value"], 50.0);
        assert_eq!(measurement["met"], Value::Null);
        assert_eq!(measurement["peers"][0]["ratio"], 2.0);
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

//! Aligned columns, as kubectl prints them.

use std::io::Write;

use crate::lines::escape_line;
use crate::output::{HEADING, Printer, group_digits};

/// The most rows of a table that are shown.
pub(super) const MAX_ROWS: usize = 40;
const GAP: &str = "   ";

/// A row of a table.
pub(super) struct TableRow {
    cells: Vec<String>,
    is_heading: bool,
}

// === impl TableRow ===

impl TableRow {
    pub(super) fn heading<const N: usize>(cells: [&str; N]) -> TableRow {
        TableRow { cells: cells.map(str::to_owned).to_vec(), is_heading: true }
    }

    pub(super) fn of<const N: usize>(cells: [String; N]) -> TableRow {
        TableRow { cells: cells.map(|cell| escape_line(&cell)).to_vec(), is_heading: false }
    }
}

/// Prints rows; the columns in `numbers` are aligned to the right.
pub(super) fn write_rows(out: &mut Printer, rows: &[TableRow], numbers: &[usize]) -> anyhow::Result<()> {
    let columns = rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.cells.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (index, cell) in row.cells.iter().enumerate() {
            let width = widths[index];
            let gap = if index == 0 { "" } else { GAP };
            line.push_str(gap);
            match numbers.contains(&index) {
                true => line.push_str(&format!("{cell:>width$}")),
                false => line.push_str(&format!("{cell:<width$}")),
            }
        }
        let line = fitting(line.trim_end(), out.width());
        match row.is_heading {
            true => writeln!(out, "{HEADING}{line}{HEADING:#}")?,
            false => writeln!(out, "{line}")?,
        }
    }
    Ok(())
}

/// Says that a table has more rows.
pub(super) fn more_rows(out: &mut Printer, count: usize, shown: usize) -> anyhow::Result<()> {
    if count > shown {
        writeln!(out, "and {} more (use -o wide)", group_digits((count - shown) as u64))?;
    }
    Ok(())
}

/// A line cut to the width of the terminal.
fn fitting(line: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if line.chars().count() > width && width > 1 => {
            line.chars().take(width - 1).chain(['…']).collect()
        }
        _ => line.to_owned(),
    }
}

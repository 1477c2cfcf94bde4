//! Printing of tables, byte for byte as kubectl does it.

use super::selectors::labels;
use super::{Cell, Column, ColumnType, Table, TableRow};

/// Minimum width of a column, and the padding after each.
const MIN_WIDTH: usize = 6;
const PADDING: usize = 3;

/// Options for printing tables, after kubectl's `PrintOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrintOptions {
    /// `-o wide`: all columns.
    pub wide: bool,
    /// `--all-namespaces`: a namespace column, for namespaced kinds and those after them.
    pub with_namespace: bool,
    /// The kind before each name, as when several kinds are requested: `deployment.apps/web`.
    pub with_kind: bool,
    /// `--no-headers`
    pub no_headers: bool,
    /// `--show-labels`: a column with all labels.
    pub show_labels: bool,
    /// `--label-columns`: a column for each of these labels.
    pub column_labels: Vec<String>,
}

/// Prints the tables one after the other. A table without rows prints nothing.
pub fn render(tables: &[Table], style: &PrintOptions) -> String {
    let mut text = String::new();
    let mut with_namespace = false;
    for table in tables {
        // kubectl sets the option of all its printers when it comes to the first namespaced kind, even if it is empty.
        with_namespace |= style.with_namespace && table.namespaced;
        if table.rows.is_empty() {
            continue;
        }
        if !text.is_empty() && !style.no_headers {
            text.push('\n');
        }
        text += &align_columns(&tab_separated(table, with_namespace, style));
    }
    text
}

/// The table with tabs between cells.
fn tab_separated(table: &Table, with_namespace: bool, style: &PrintOptions) -> String {
    let is_shown = |column: &Column| style.wide || column.priority == 0;
    let is_name = |column: &Column| column.format == "name" && column.column_type == ColumnType::Text;
    let name = table.columns.iter().position(is_name).filter(|_| style.with_kind);
    let kind = table.kind.to_string().to_lowercase();
    let mut lines = Vec::new();
    if !style.no_headers {
        let label = |label: &String| label.rsplit('/').next().unwrap_or_default().to_uppercase();
        let mut header: Vec<String> = Vec::new();
        header.extend(with_namespace.then(|| "NAMESPACE".to_owned()));
        header.extend(
            table.columns.iter().filter(|column| is_shown(column)).map(|column| column.name.to_uppercase()),
        );
        header.extend(style.column_labels.iter().map(label));
        header.extend(style.show_labels.then(|| "LABELS".to_owned()));
        lines.push(header.join("\t"));
    }
    for row in &table.rows {
        let mut line: Vec<String> = Vec::new();
        line.extend(with_namespace.then(|| one_line(&row.namespace)));
        for (index, (column, cell)) in table.columns.iter().zip(&row.cells).enumerate() {
            if is_shown(column) {
                let prefixed = (name == Some(index)).then(|| Cell::Text(format!("{kind}/{cell}")));
                line.push(cell_text(prefixed.as_ref().unwrap_or(cell)));
            }
        }
        line.extend(style.column_labels.iter().map(|label| one_line(label_value(row, label))));
        line.extend(style.show_labels.then(|| {
            one_line(&labels(row.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))))
        }));
        lines.push(line.join("\t"));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn cell_text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => one_line(text),
        _ => cell.to_string(),
    }
}

/// The first line of a text, followed by `...` if there are more, with ESC made visible.
fn one_line(text: &str) -> String {
    let end = text.find(['\u{c}', '\n', '\r']);
    let mut line = text[..end.unwrap_or(text.len())].replace('\u{1b}', "^[");
    if end.is_some() {
        line += "...";
    }
    line
}

fn label_value<'a>(row: &'a TableRow, label: &str) -> &'a str {
    row.labels.iter().find(|(name, _)| name == label).map_or("", |(_, value)| value)
}

/// Aligns tab-separated cells as Go's tabwriter does: a cell is terminated by a tab, so the last text of a line is
/// not a cell; a column consists of adjacent lines that have such a cell, and is no narrower than the ones above it.
///
/// A tab inside a cell's text therefore makes a column of its own, in kubectl too.
fn align_columns(text: &str) -> String {
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(['\t', '\u{b}']).collect()).collect();
    let mut widths: Vec<Vec<usize>> = vec![Vec::new(); lines.len()];
    let mut column = 0;
    let mut with_cell: Vec<usize> = (0..lines.len()).collect();
    loop {
        with_cell.retain(|line| lines[*line].len() > column + 1);
        if with_cell.is_empty() {
            break;
        }
        let mut width = MIN_WIDTH;
        for block in with_cell.chunk_by(|above, below| above + 1 == *below) {
            let widest = block.iter().map(|line| lines[*line][column].chars().count() + PADDING).max();
            width = width.max(widest.unwrap_or(0));
            block.iter().for_each(|line| widths[*line].push(width));
        }
        column += 1;
    }
    let mut aligned = String::with_capacity(text.len() * 2);
    for (cells, widths) in lines.iter().zip(&widths) {
        for (cell, width) in cells.iter().zip(widths) {
            aligned.push_str(cell);
            aligned.extend(std::iter::repeat_n(' ', width - cell.chars().count()));
        }
        aligned.push_str(cells.last().unwrap_or(&""));
        aligned.push('\n');
    }
    aligned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_tabs_parts_the_columns_around_it() {
        assert_eq!(
            align_columns("a\tb\nlonger cell\tb\n\na\tb\n"),
            "a             b\nlonger cell   b\n\na             b\n"
        );
        assert_eq!(align_columns("a\tb\tc\nd\ne\tffffff\tg\n"), "a     b     c\nd\ne     ffffff   g\n");
    }

    #[test]
    fn a_cell_may_be_of_any_length() {
        let long = "x".repeat(100_000);
        assert_eq!(align_columns(&format!("{long}\ty\n")), format!("{long}   y\n"));
    }
}

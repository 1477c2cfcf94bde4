//! Labeled lines, as `kubectl describe` prints them, wrapped to the terminal's width.

use std::io::Write;

use anstyle::Style;
use kubernetes::change_filter::RuleDescription;

use super::escaping::escaped;
use super::output::{HEADING, Printer};

/// The column at which values begin.
const INDENT: usize = 13;

/// Prints a label and its value, wrapped to the terminal's width.
pub(super) fn write_field(out: &mut Printer, label: &str, text: &str, style: Style) -> anyhow::Result<()> {
    let label = if label.is_empty() { String::new() } else { format!("{label}:") };
    write!(out, "{HEADING}{label:<INDENT$}{HEADING:#}")?;
    for (index, part) in wrap_text(text, out.width(), INDENT).iter().enumerate() {
        let indent = if index == 0 { 0 } else { INDENT };
        writeln!(out, "{:indent$}{style}{part}{style:#}", "")?;
    }
    Ok(())
}

/// Prints the descriptions of rules, each with its reason.
pub(super) fn write_rules(out: &mut Printer, rules: &[RuleDescription]) -> anyhow::Result<()> {
    for RuleDescription { kind, field, effect, why } in rules {
        writeln!(out, "{kind}: {field}\n    {effect}: {why}")?;
    }
    Ok(())
}

/// A text as a single line, with control characters escaped.
pub(super) fn escape_line(text: &str) -> String {
    escaped(&text.replace(['\n', '\t'], " ")).into_owned()
}

/// Wraps a text into lines of at most `width` columns, of which `indent` are taken. Without a width it stays one line.
pub(super) fn wrap_text(text: &str, width: Option<usize>, indent: usize) -> Vec<String> {
    const MIN_WIDTH: usize = 20;
    let text = escape_line(text);
    let Some(width) = width else { return vec![text] };
    let line_width = width.saturating_sub(indent).max(MIN_WIDTH);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("the list starts with one line");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > line_width {
            lines.push(word.to_owned());
            continue;
        }
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_wrapped_between_words() {
        let text = "0/3 nodes are available: 3 Insufficient cpu.";
        assert_eq!(wrap_text(text, None, 13), [text]);
        assert_eq!(
            wrap_text(text, Some(38), 13),
            ["0/3 nodes are available:", "3 Insufficient cpu."],
            "25 columns are left"
        );
        assert_eq!(wrap_text("averyveryverylongwordindeed b", Some(10), 5).len(), 2);
        assert_eq!(wrap_text("a\x1b[2Jb\nc", None, 0), ["a^[[2Jb c"]);
        assert_eq!(escape_line("node\r\u{9b}1"), "node\\r<U+009B>1");
    }
}

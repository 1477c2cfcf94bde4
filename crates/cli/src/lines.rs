//! Labelled lines, for people.

use std::io::Write;

use anstyle::Style;
use kubernetes::rules::Description;

use super::escaping::escaped;
use super::output::{HEADING, Out};

/// The values begin here.
const INDENT: usize = 13;

/// A label and what there is to say, folded into the columns there are.
pub(super) fn line(out: &mut Out, label: &str, text: &str, style: Style) -> anyhow::Result<()> {
    let label = if label.is_empty() { String::new() } else { format!("{label}:") };
    write!(out, "{HEADING}{label:<INDENT$}{HEADING:#}")?;
    for (index, part) in folded(text, out.width(), INDENT).iter().enumerate() {
        let indent = if index == 0 { 0 } else { INDENT };
        writeln!(out, "{:indent$}{style}{part}{style:#}", "")?;
    }
    Ok(())
}

/// Rules in words, each with its reason.
pub(super) fn rules(out: &mut Out, rules: &[Description]) -> anyhow::Result<()> {
    for Description { kind, field, effect, why } in rules {
        writeln!(out, "{kind}: {field}\n    {effect}: {why}")?;
    }
    Ok(())
}

/// A text in one line, with control characters made visible.
pub(super) fn harmless(text: &str) -> String {
    escaped(&text.replace(['\n', '\t'], " ")).into_owned()
}

/// A text in lines of at most `width` columns, `indent` of which are taken. Without a width it stays in one.
pub(super) fn folded(text: &str, width: Option<usize>, indent: usize) -> Vec<String> {
    const LEAST: usize = 20;
    let text = harmless(text);
    let Some(width) = width else { return vec![text] };
    let room = width.saturating_sub(indent).max(LEAST);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one from the beginning");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > room {
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
    fn a_text_is_folded_between_words() {
        let text = "0/3 nodes are available: 3 Insufficient cpu.";
        assert_eq!(folded(text, None, 13), [text]);
        assert_eq!(
            folded(text, Some(38), 13),
            ["0/3 nodes are available:", "3 Insufficient cpu."],
            "25 columns are left"
        );
        assert_eq!(folded("averyveryverylongwordindeed b", Some(10), 5).len(), 2);
        assert_eq!(folded("a\x1b[2Jb\nc", None, 0), ["a^[[2Jb c"]);
        assert_eq!(harmless("node\r\u{9b}1"), "node\\r<U+009B>1");
    }
}

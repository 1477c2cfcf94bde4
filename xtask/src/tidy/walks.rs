//! Checks of the walks through the code at the end of ARCHITECTURE.md: every step names an existing file and symbol,
//! and is connected to an earlier step.

use std::fs;
use std::path::Path;

const HEADING: &str = "## Two walks through the code";

/// One step: the line it is on, its file and its symbol.
struct Step<'a> {
    line: usize,
    file: &'a str,
    symbol: &'a str,
}

/// The line and the problem of each step that cannot be followed.
pub(crate) fn check_walks(root: &Path, document: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut count = 0;
    for walk in walks(document) {
        let mut earlier: Vec<(&str, String)> = Vec::new();
        for step in walk {
            count += 1;
            let text = fs::read_to_string(root.join(step.file)).unwrap_or_default();
            if !defines(&text, step.symbol) {
                found.push((step.line, format!("{} does not define {}", step.file, step.symbol)));
            }
            let is_connected =
                |(symbol, other): &(&str, String)| mentions(other, step.symbol) || mentions(&text, symbol);
            if !earlier.is_empty() && !earlier.iter().any(is_connected) {
                found.push((step.line, format!("no earlier step leads to {} in {}", step.symbol, step.file)));
            }
            earlier.push((step.symbol, text));
        }
    }
    if count == 0 {
        found.push((0, format!("no steps under {HEADING:?}")));
    }
    found
}

/// The numbered lists under the heading.
fn walks(document: &str) -> Vec<Vec<Step<'_>>> {
    let mut walks: Vec<Vec<Step<'_>>> = Vec::new();
    let lines = (1..).zip(document.lines()).skip_while(|(_, line)| *line != HEADING);
    for (line, text) in lines {
        let Some((number, rest)) = text.split_once(". `") else { continue };
        let mut parts = rest.split('`');
        let (Some(file), _, Some(symbol)) = (parts.next(), parts.next(), parts.next()) else { continue };
        match number {
            "1" => walks.push(vec![Step { line, file, symbol }]),
            _ => walks.last_mut().into_iter().for_each(|walk| walk.push(Step { line, file, symbol })),
        }
    }
    walks
}

fn defines(text: &str, symbol: &str) -> bool {
    ["fn", "struct", "enum", "trait", "type"]
        .iter()
        .any(|keyword| mentions(text, &format!("{keyword} {symbol}")))
}

/// Whether a text contains these words, not as part of longer words.
fn mentions(text: &str, words: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(words)
        .any(|(at, _)| !text[..at].ends_with(is_word) && !text[at + words.len()..].starts_with(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(walk: &str, expected: &[&str]) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("a.rs"), "pub struct Alpha;\nfn call() { beta() }\n").expect("a file");
        fs::write(folder.path().join("b.rs"), "fn beta() {}\n").expect("a file");
        fs::write(folder.path().join("c.rs"), "fn gamma() {}\n").expect("a file");
        let found = check_walks(folder.path(), &format!("{HEADING}\n{walk}"));
        assert_eq!(found.iter().map(|(_, what)| &**what).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_walk_is_followed_from_symbol_to_symbol() {
        check("1. `a.rs` `Alpha`: begins\n2. `b.rs` `beta`: goes on\n", &[]);
        check("1. `a.rs` `Alph`: begins\n", &["a.rs does not define Alph"]);
        check("1. `gone.rs` `Alpha`: begins\n", &["gone.rs does not define Alpha"]);
        check(
            "1. `a.rs` `Alpha`: begins\n2. `c.rs` `gamma`: x\n",
            &["no earlier step leads to gamma in c.rs"],
        );
        check("", &["no steps under \"## Two walks through the code\""]);
    }
}

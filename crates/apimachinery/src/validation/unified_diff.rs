//! Unified diffs of texts, as Go's `difflib` prints them.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

const CONTEXT: usize = 3;
/// The search may take time in proportion to the square of the number of lines.
const MAX_LINES: usize = 3000;

/// The diff of two texts with three lines of context; empty if they are equal.
///
/// It finds the longest common block of lines, then those before and after it. In texts of 200 lines and
/// more, frequent lines do not begin a block. Texts of more than [`MAX_LINES`] lines are not searched: all
/// between the first and the last difference counts as replaced.
pub(super) fn unified_diff(from: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.split('\n').collect(), to.split('\n').collect());
    let mut text = String::new();
    for hunk in hunks(&edits(&from, &to)) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let (old, new) = (first.from.start..last.from.end, first.to.start..last.to.end);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "@@ -{} +{} @@", line_range(old), line_range(new));
        for edit in hunk {
            if edit.is_equal {
                add_lines(&mut text, ' ', &from[edit.from]);
            } else {
                add_lines(&mut text, '-', &from[edit.from]);
                add_lines(&mut text, '+', &to[edit.to]);
            }
        }
    }
    text
}

/// A range of lines that is kept or replaced.
#[derive(Clone)]
struct LineEdit {
    is_equal: bool,
    from: Range<usize>,
    to: Range<usize>,
}

/// Equal lines, `size` of them.
struct MatchingBlock {
    from: usize,
    to: usize,
    size: usize,
}

fn add_lines(text: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        text.extend([mark]);
        text.extend([line, "\n"]);
    }
}

fn line_range(range: Range<usize>) -> String {
    match range.len() {
        1 => (range.start + 1).to_string(),
        0 => format!("{},0", range.start),
        length => format!("{},{length}", range.start + 1),
    }
}

/// All lines of both texts, kept and replaced ones in turn.
fn edits(from: &[&str], to: &[&str]) -> Vec<LineEdit> {
    let mut blocks =
        if from.len().max(to.len()) > MAX_LINES { common_ends(from, to) } else { matching_blocks(from, to) };
    blocks.push(MatchingBlock { from: from.len(), to: to.len(), size: 0 });

    let (mut edits, mut from_end, mut to_end): (Vec<LineEdit>, usize, usize) = (Vec::new(), 0, 0);
    for block in blocks {
        if from_end < block.from || to_end < block.to {
            let (from, to) = (from_end..block.from, to_end..block.to);
            edits.push(LineEdit { is_equal: false, from, to });
        }
        (from_end, to_end) = (block.from + block.size, block.to + block.size);
        match edits.last_mut().filter(|last| last.is_equal) {
            Some(last) => (last.from.end, last.to.end) = (from_end, to_end),
            None if block.size > 0 => {
                let (from, to) = (block.from..from_end, block.to..to_end);
                edits.push(LineEdit { is_equal: true, from, to });
            }
            None => {}
        }
    }
    edits
}

/// The blocks before the first and after the last difference.
fn common_ends(from: &[&str], to: &[&str]) -> Vec<MatchingBlock> {
    let count =
        |equal: &dyn Fn(usize) -> bool, max: usize| (0..max).take_while(|index| equal(*index)).count();
    let shorter = from.len().min(to.len());
    let start = count(&|index| from[index] == to[index], shorter);
    let end = count(&|index| from[from.len() - 1 - index] == to[to.len() - 1 - index], shorter - start);
    vec![
        MatchingBlock { from: 0, to: 0, size: start },
        MatchingBlock { from: from.len() - end, to: to.len() - end, size: end },
    ]
}

/// All blocks of equal lines, in their order.
fn matching_blocks(from: &[&str], to: &[&str]) -> Vec<MatchingBlock> {
    let mut lines: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in to.iter().enumerate() {
        lines.entry(line).or_default().push(index);
    }
    if to.len() >= 200 {
        lines.retain(|_, indices| indices.len() <= to.len() / 100 + 1);
    }
    let mut blocks = Vec::new();
    let mut pending = vec![(0..from.len(), 0..to.len())];
    while let Some((from_range, to_range)) = pending.pop() {
        if from_range.is_empty() || to_range.is_empty() {
            continue;
        }
        let block = longest_match((from, from_range.clone()), (to, to_range.clone()), &lines);
        if block.size > 0 {
            pending.push((from_range.start..block.from, to_range.start..block.to));
            pending.push((block.from + block.size..from_range.end, block.to + block.size..to_range.end));
            blocks.push(block);
        }
    }
    blocks.sort_unstable_by_key(|block| block.from);
    blocks
}

/// The longest block of equal lines, the first one if there are several.
fn longest_match(
    (from, from_range): (&[&str], Range<usize>),
    (to, to_range): (&[&str], Range<usize>),
    lines: &HashMap<&str, Vec<usize>>,
) -> MatchingBlock {
    let mut best = MatchingBlock { from: from_range.start, to: to_range.start, size: 0 };
    // By line of `to`: the length of the block that ends there and at the previous line of `from`.
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for index in from_range.clone() {
        let mut new_lengths = HashMap::new();
        let indices = lines.get(from[index]).map(Vec::as_slice).unwrap_or_default();
        for &other in indices.iter().filter(|other| to_range.contains(other)) {
            let before = other.checked_sub(1).and_then(|before| lengths.get(&before));
            let size = before.copied().unwrap_or_default() + 1;
            new_lengths.insert(other, size);
            if size > best.size {
                best = MatchingBlock { from: index + 1 - size, to: other + 1 - size, size };
            }
        }
        lengths = new_lengths;
    }
    while best.from > from_range.start && best.to > to_range.start && from[best.from - 1] == to[best.to - 1] {
        best = MatchingBlock { from: best.from - 1, to: best.to - 1, size: best.size + 1 };
    }
    while best.from + best.size < from_range.end
        && best.to + best.size < to_range.end
        && from[best.from + best.size] == to[best.to + best.size]
    {
        best.size += 1;
    }
    best
}

/// Groups of edits with their context.
fn hunks(edits: &[LineEdit]) -> Vec<Vec<LineEdit>> {
    let (mut hunks, mut hunk) = (Vec::new(), Vec::new());
    for (index, edit) in edits.iter().enumerate() {
        if !edit.is_equal {
            hunk.push(edit.clone());
            continue;
        }
        let length = edit.from.len();
        let head = |count: usize| LineEdit {
            is_equal: true,
            from: edit.from.start..edit.from.start + count.min(length),
            to: edit.to.start..edit.to.start + count.min(length),
        };
        let tail = |count: usize| LineEdit {
            is_equal: true,
            from: edit.from.end - count.min(length)..edit.from.end,
            to: edit.to.end - count.min(length)..edit.to.end,
        };
        match (index == 0, index + 1 == edits.len()) {
            (true, true) => {}
            (true, false) => hunk.push(tail(CONTEXT)),
            (false, true) => hunk.push(head(CONTEXT)),
            (false, false) if length > 2 * CONTEXT => {
                hunk.push(head(CONTEXT));
                hunks.push(std::mem::take(&mut hunk));
                hunk.push(tail(CONTEXT));
            }
            (false, false) => hunk.push(edit.clone()),
        }
    }
    if hunk.iter().any(|edit| !edit.is_equal) {
        hunks.push(hunk);
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_shown_with_three_lines_around_them() {
        let from: Vec<String> = (1..=20).map(|number| number.to_string()).collect();
        let mut to = from.clone();
        to[4] = "five".to_owned();
        to.remove(16);
        let diff = unified_diff(&from.join("\n"), &to.join("\n"));
        let expected = [
            "@@ -2,7 +2,7 @@",
            " 2",
            " 3",
            " 4",
            "-5",
            "+five",
            " 6",
            " 7",
            " 8",
            "@@ -14,7 +14,6 @@",
            " 14",
            " 15",
            " 16",
            "-17",
            " 18",
            " 19",
            " 20",
            "",
        ];
        assert_eq!(diff, expected.join("\n"));
        assert_eq!(unified_diff("a\nb", "a\nb"), "");
    }

    #[test]
    fn long_texts_are_compared_at_once() {
        let from: Vec<String> = (0..200_000).map(|number| number.to_string()).collect();
        let to: Vec<String> = from
            .iter()
            .map(|line| if line.ends_with('5') { format!("{line}x") } else { line.clone() })
            .collect();
        let diff = unified_diff(&from.join("\n"), &to.join("\n"));
        assert!(diff.starts_with("@@ -3,199997 +3,199997 @@\n 2\n 3\n 4\n-5\n-6\n"), "{}", &diff[..80]);
        assert!(diff.ends_with("+199995x\n 199996\n 199997\n 199998\n"));
        assert_eq!(unified_diff(&from.join("\n"), &from.join("\n")), "");
    }
}

//! Suggestions for misspelled words.

/// The candidate that differs from a word by few slips of the fingers: letters that are wrong, missing, superfluous or
/// swapped.
pub fn similar<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let slips = |candidate: &&&str| slips_between(word, candidate);
    let closest = candidates.iter().min_by_key(slips)?;
    let allowed = (word.chars().count() / 3).max(1);
    (slips(&closest) <= allowed).then_some(*closest)
}

/// The number of slips between two words, where no letter is part of two.
fn slips_between(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, letter) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in b.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(letter != other);
            let mut slips = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *letter == b[j - 1] && a[i - 1] == *other {
                slips = slips.min(rows[i - 1][j - 1] + 1);
            }
            row.push(slips);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_fingers_are_recognized() {
        let words = ["reset", "dump", "advance"];
        for (word, expected) in [
            ("dmup", Some("dump")),
            ("dumpp", Some("dump")),
            ("rest", Some("reset")),
            ("restart", None),
            ("advnace", Some("advance")),
            ("advacne", Some("advance")),
            ("dump", Some("dump")),
            ("shop", None),
            ("demo", None),
            ("", None),
        ] {
            assert_eq!(similar(word, &words), expected, "{word}");
        }
    }
}

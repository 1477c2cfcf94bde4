//! Labels and label selectors as one line of text.

use super::field::JsonField;
use crate::selector::{LabelSelector, Selector};

/// `a=1,b=2`, or `<none>`.
pub(super) fn labels<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut parts: Vec<String> = labels.map(|(name, value)| format!("{name}={value}")).collect();
    // Sorted by the whole text: `a-b=1` comes before `a=1`.
    parts.sort_unstable();
    if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") }
}

/// `a=1,b in (x,y),!c`; empty if everything or nothing is selected, `None` if it is not a selector.
pub(super) fn selector(field: JsonField<'_>) -> Option<String> {
    let selector: Option<LabelSelector> = field.read();
    Selector::of(selector.as_ref()).ok().map(|selector| selector.to_string())
}

/// The selector as most kinds show it.
pub(super) fn shown(field: JsonField<'_>) -> String {
    match selector(field) {
        Some(text) if text.is_empty() => "<none>".to_owned(),
        Some(text) => text,
        None => "<error>".to_owned(),
    }
}

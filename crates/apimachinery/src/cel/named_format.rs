//! Formats of texts that have a name.

/// A format of texts.
#[derive(Debug)]
pub(super) struct NamedFormat {
    pub(super) name: &'static str,
    /// The length of an expression that it would take, for costs.
    pub(super) regex_length: u64,
    /// What is wrong with a text.
    pub(super) check: fn(&str) -> Vec<String>,
}

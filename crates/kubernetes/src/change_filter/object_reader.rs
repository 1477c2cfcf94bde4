//! Reading of received texts through the filter: one pass validates an object, finds its identifying fields and applies
//! the rules.

use model::{FilterMark, Kind, Meta, Object};

use super::rule_scan::RuleScan;
use super::{FilterOptions, KindRules, RedactKey};
use crate::kinds::is_secret;
use crate::recording::FIELD_RULES;

/// Reads the objects of one kind in the form in which a [`ChangeFilter`](super::ChangeFilter) with the same options
/// keeps them. The filter does not read them again.
#[derive(Clone, Debug)]
pub struct ObjectReader {
    rules: KindRules,
    redact: Option<RedactKey>,
}

// === impl ObjectReader ===

impl ObjectReader {
    /// The reader of a kind. `None` for ConfigMaps and Secrets: [`sanitize`](super::sanitize) must see them as they were
    /// received.
    pub fn new(kind: &Kind, options: &FilterOptions) -> Option<ObjectReader> {
        let is_config_map = (&*kind.group, &*kind.kind) == ("", "ConfigMap");
        if is_config_map || is_secret(kind) {
            return None;
        }
        Some(ObjectReader { rules: KindRules::of(kind, options), redact: options.redact.clone() })
    }

    /// The object of a text. `None` if the text is invalid or unlike what API servers write; [`Object::parse`] then says
    /// why, or reads it.
    pub fn read(&self, json: &str) -> Option<Object> {
        let mut scan = RuleScan::of(json, FIELD_RULES, self.rules.bits, self.redact.as_ref());
        let outline = scan.outline()?;
        Meta::of_outline(&outline, json).check().ok()?;
        let outline = outline.if_unchanged_before(scan.stored_edits.unchanged_bytes(json))?;
        let mark = FilterMark {
            rules: self.rules.id,
            fingerprint: scan.fingerprint(json),
            received_bytes: json.len(),
        };
        let outline = Some(outline.with_filter_mark(mark));
        Some(match scan.stored_edits.is_empty() {
            true => Object::from_trusted_outline(json, outline),
            false => Object::from_trusted_outline(scan.stored_edits.apply(json), outline),
        })
    }
}

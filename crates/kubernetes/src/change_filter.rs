//! Filter for recorded changes: removes fields from objects before they are stored, and drops changes that are
//! irrelevant to scheduling.
//!
//! The tables are in [`recording`](crate::recording). The filter works on the text: the bytes that are kept, and
//! their order, do not change.

mod json_edit;
mod object_reader;
mod redact;
mod rule_scan;

use std::collections::HashMap;

use model::{Key, Kind, Object, ObjectOutline, What};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::kinds::is_secret;
use crate::recording::{
    CONFIG_MAP_PREFIXES_WITH_DATA, CONFIG_MAPS_WITH_DATA, CONTAINER_LISTS, FIELD_RULES, FieldEffect,
    FieldRule, RulePurpose,
};
pub use object_reader::ObjectReader;
pub use redact::RedactKey;
use rule_scan::RuleScan;

/// The filter's decision about a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterVerdict {
    /// The change is relevant; this is the form to store.
    Keep(What),
    /// The change is irrelevant, for this reason.
    Drop(&'static str),
}

/// Options of the filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterOptions {
    /// Values of environment variables are replaced by tokens made with this key; without a key they are kept.
    pub redact: Option<RedactKey>,
}

/// Filters changes, in order.
///
/// It holds a fingerprint of the last stored version of each live object, so its memory follows the cluster and not
/// the number of changes.
pub struct ChangeFilter {
    options: FilterOptions,
    /// The keys are hashes already.
    fingerprints: HashMap<KeyHash, u64, FxBuildHasher>,
    /// The kind of the last change, and its rules: batches consist of changes of one kind.
    last_kind: Option<(Kind, KindRules)>,
}

/// The rules that a filter applies to a kind. ConfigMap data is removed earlier, by [`sanitize`].
#[derive(Clone, Copy, Debug)]
struct KindRules {
    /// A bit for each rule.
    bits: u32,
    /// A hash of the rules and of the redaction key.
    id: u64,
}

/// A 128-bit hash of a key: wide enough to rule out collisions, and a fifth of the key's own size.
#[derive(PartialEq, Eq, Hash)]
struct KeyHash(u128);

/// Description of one rule for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleDescription {
    /// The kind it is for: `Node`, `Lease.coordination.k8s.io`, `every kind`.
    pub kind: String,
    /// The field it applies to: `status.conditions[].lastHeartbeatTime`.
    pub field: String,
    /// The effect.
    pub effect: &'static str,
    /// Why.
    pub why: &'static str,
}

/// Descriptions of all rules.
pub fn describe_rules() -> Vec<RuleDescription> {
    let kind = |(group, kind): (&str, &str)| Kind::new(group, kind).to_string();
    let mut all: Vec<RuleDescription> = FIELD_RULES
        .iter()
        .map(|rule| RuleDescription {
            kind: rule.kind.map_or("all kinds".to_owned(), kind),
            field: rule.field(),
            effect: rule.effect.in_words(),
            why: rule.why,
        })
        .collect();
    all.push(RuleDescription {
        kind: "all kinds".to_owned(),
        field: format!("{{{}}}[].env[].value, anywhere in the object", CONTAINER_LISTS.join(",")),
        effect: "replaced by a token, unless redaction is off",
        why: "may contain passwords; equal values get equal tokens",
    });
    all.push(RuleDescription {
        kind: "Secret".to_owned(),
        field: "the whole object".to_owned(),
        effect: "never read",
        why: "contains passwords and keys",
    });
    all.push(RuleDescription {
        kind: "all kinds".to_owned(),
        field: "the whole object".to_owned(),
        effect: "dropped if unchanged since the last kept version; deletions are always kept",
        why: "watches resend objects; other changes are irrelevant to scheduling",
    });
    all
}

/// The object as a recorder may write it, to any destination; `None` if it must not be written.
///
/// Secrets are never written. The data of ConfigMaps is removed, unless they belong to an autoscaler. With a key, the
/// values of environment variables are replaced by tokens.
pub fn sanitize(object: Object, kind: &Kind, redact: Option<&RedactKey>) -> Option<Object> {
    if is_secret(kind) {
        return None;
    }
    let hides_data =
        (&*kind.group, &*kind.kind) == ("", "ConfigMap") && !is_autoscaler_config_map(&object.meta().name);
    if !hides_data && redact.is_none() {
        return Some(object);
    }
    let bits = rule_bits(FIELD_RULES, kind, |rule| match rule.purpose {
        RulePurpose::HideData => hides_data,
        RulePurpose::HideCopies => true,
        RulePurpose::Significance => false,
    });
    Some(RuleScan::of(object.as_str(), FIELD_RULES, bits, redact).stored_object(&object))
}

/// Whether an annotation contains a copy of its object, as `kubectl apply` leaves one.
pub fn is_object_copy(annotation: &str) -> bool {
    FIELD_RULES
        .iter()
        .any(|rule| rule.purpose == RulePurpose::HideCopies && rule.path.last() == Some(&annotation))
}

/// Whether a ConfigMap holds cluster-autoscaler's status, its priorities, or the nodes of its KWOK provider.
fn is_autoscaler_config_map(name: &str) -> bool {
    CONFIG_MAPS_WITH_DATA.contains(&name)
        || CONFIG_MAP_PREFIXES_WITH_DATA.iter().any(|prefix| name.starts_with(prefix))
}

/// A bit for each wanted rule that applies to a kind.
fn rule_bits(rules: &[FieldRule], kind: &Kind, is_wanted: impl Fn(&FieldRule) -> bool) -> u32 {
    debug_assert!(rules.len() <= 32);
    let selected_rules =
        rules.iter().enumerate().filter(|(_, rule)| rule.applies_to(kind) && is_wanted(rule));
    selected_rules.fold(0, |bits, (index, _)| bits | 1 << index)
}

// === impl ChangeFilter ===

impl ChangeFilter {
    /// A filter that has seen no object.
    pub fn new(rules: FilterOptions) -> ChangeFilter {
        ChangeFilter { options: rules, fingerprints: HashMap::default(), last_kind: None }
    }

    /// Registers a stored version of an object, which has passed this filter before.
    pub fn remember_stored(&mut self, key: &Key, stored: &Object) {
        let rules = self.rules_of(&key.kind);
        let scan = RuleScan::of(stored.as_str(), FIELD_RULES, rules.bits, None);
        self.fingerprints.insert(KeyHash::of(key), scan.fingerprint(stored.as_str()));
    }

    /// Filters the next change.
    pub fn filter(&mut self, key: &Key, what: &What) -> FilterVerdict {
        let object = what.object();
        let rules = self.rules_of(&key.kind);
        let mark =
            object.outline().and_then(ObjectOutline::filter_mark).filter(|mark| mark.rules == rules.id);
        let (fingerprint, stored) = match mark {
            Some(mark) => (mark.fingerprint, object.clone()),
            None => {
                let json = object.as_str();
                let scan = RuleScan::of(json, FIELD_RULES, rules.bits, self.options.redact.as_ref());
                (scan.fingerprint(json), scan.stored_object(object))
            }
        };
        let unchanged = match what {
            What::Added(_) => "already seen",
            What::Modified(_) => "no relevant change",
            What::Deleted(_) => {
                self.fingerprints.remove(&KeyHash::of(key));
                return FilterVerdict::Keep(what.with_object(stored));
            }
        };
        // The uid is part of the fingerprint: another incarnation of the name always differs.
        match self.fingerprints.insert(KeyHash::of(key), fingerprint) {
            Some(last) if last == fingerprint => FilterVerdict::Drop(unchanged),
            _ => FilterVerdict::Keep(what.with_object(stored)),
        }
    }

    fn rules_of(&mut self, kind: &Kind) -> KindRules {
        match &self.last_kind {
            Some((last, rules)) if last == kind => *rules,
            _ => {
                let rules = KindRules::of(kind, &self.options);
                self.last_kind = Some((kind.clone(), rules));
                rules
            }
        }
    }
}

// === impl KindRules ===

impl KindRules {
    fn of(kind: &Kind, options: &FilterOptions) -> KindRules {
        let bits = rule_bits(FIELD_RULES, kind, |rule| rule.purpose != RulePurpose::HideData);
        let key = options.redact.as_ref().map(|RedactKey(key)| &key[..]).unwrap_or_default();
        KindRules { bits, id: xxh3_64(&[&bits.to_le_bytes()[..], key].concat()) }
    }
}

// === impl KeyHash ===

impl KeyHash {
    fn of(key: &Key) -> KeyHash {
        let mut text: SmallVec<[u8; 256]> = SmallVec::new();
        for part in [&key.source, &key.kind.group, &key.kind.kind, &key.namespace, &key.name] {
            text.extend_from_slice(part.as_bytes());
            // No Kubernetes name contains a NUL.
            text.push(0);
        }
        KeyHash(xxh3_128(&text))
    }
}

// === impl FieldRule ===

impl FieldRule {
    fn applies_to(&self, kind: &Kind) -> bool {
        self.kind.is_none_or(|(group, name)| *kind.group == *group && *kind.kind == *name)
    }

    /// `status.conditions[].lastHeartbeatTime`
    fn field(&self) -> String {
        let mut path_text = String::new();
        for step in self.path {
            match *step {
                "[]" => path_text.push_str("[]"),
                step if step.contains('.') => path_text.push_str(&format!("['{step}']")),
                step if path_text.is_empty() => path_text.push_str(step),
                step => path_text.push_str(&format!(".{step}")),
            }
        }
        path_text
    }
}

// === impl FieldEffect ===

impl FieldEffect {
    fn in_words(self) -> &'static str {
        match self {
            FieldEffect::Remove => "removed",
            FieldEffect::IgnoreChanges => "kept, but changes of only this field are dropped",
            FieldEffect::Unordered => "kept, but changes of only its order are dropped",
        }
    }
}

#[cfg(test)]
mod tests;

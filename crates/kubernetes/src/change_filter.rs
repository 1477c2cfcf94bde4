//! Filter for recorded changes: removes fields from objects before they are stored, and drops changes that are
//! irrelevant to scheduling.
//!
//! The tables are in [`recording`](crate::recording). The filter works on the text: the bytes that are kept, and
//! their order, do not change.

mod json_edit;
mod redact;

use std::collections::HashMap;

use model::{Key, Kind, MAX_DEPTH, Object, What};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64, xxh3_128};

use crate::kinds::is_secret;
use crate::recording::{
    CONFIG_MAP_PREFIXES_WITH_DATA, CONFIG_MAPS_WITH_DATA, CONTAINER_LISTS, FIELD_RULES, FieldEffect,
    FieldRule, RulePurpose,
};
use json_edit::{JsonCursor, JsonEdits, MemberRemoval};
pub use redact::RedactKey;

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
    fingerprints: HashMap<KeyHash, u64>,
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
        ChangeFilter { options: rules, fingerprints: HashMap::new() }
    }

    /// Registers a stored version of an object, which has passed this filter before.
    pub fn remember_stored(&mut self, key: &Key, stored: &Object) {
        let scan = RuleScan::of(stored.as_str(), FIELD_RULES, filter_rule_bits(&key.kind), None);
        self.fingerprints.insert(KeyHash::of(key), scan.fingerprint(stored.as_str()));
    }

    /// Filters the next change.
    pub fn filter(&mut self, key: &Key, what: &What) -> FilterVerdict {
        let object = what.object();
        let (bits, redact) = (filter_rule_bits(&key.kind), self.options.redact.as_ref());
        let scan = RuleScan::of(object.as_str(), FIELD_RULES, bits, redact);
        let unchanged = match what {
            What::Added(_) => "already seen",
            What::Modified(_) => "no relevant change",
            What::Deleted(_) => {
                self.fingerprints.remove(&KeyHash::of(key));
                return FilterVerdict::Keep(what.with_object(scan.stored_object(object)));
            }
        };
        // The uid is part of the fingerprint: another incarnation of the name always differs.
        let fingerprint = scan.fingerprint(object.as_str());
        match self.fingerprints.insert(KeyHash::of(key), fingerprint) {
            Some(last) if last == fingerprint => FilterVerdict::Drop(unchanged),
            _ => FilterVerdict::Keep(what.with_object(scan.stored_object(object))),
        }
    }
}

/// The bits of the rules applied by the filter. ConfigMap data is removed earlier, by [`sanitize`].
fn filter_rule_bits(kind: &Kind) -> u32 {
    rule_bits(FIELD_RULES, kind, |rule| rule.purpose != RulePurpose::HideData)
}

// === impl KeyHash ===

impl KeyHash {
    fn of(key: &Key) -> KeyHash {
        let mut text = Vec::with_capacity(128);
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

/// One pass over an object's text that collects the effects of the rules.
struct RuleScan<'a> {
    cursor: JsonCursor<'a>,
    rules: &'a [FieldRule],
    redact: Option<&'a RedactKey>,
    /// Edits that turn the text into the stored form.
    stored_edits: JsonEdits,
    /// Edits that turn the text into the form that is fingerprinted.
    fingerprint_edits: JsonEdits,
}

/// A position in an object.
#[derive(Clone, Copy)]
struct JsonPosition {
    depth: usize,
    /// A bit for each rule whose path leads through here.
    rules: u32,
    role: EnvRole,
}

/// The role of a value on the path to an environment variable's value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EnvRole {
    Containers,
    Container,
    Variables,
    Variable,
    Value,
    Other,
}

// === impl RuleScan ===

impl<'a> RuleScan<'a> {
    /// Applies the rules whose bits are set.
    fn of(json: &'a str, rules: &'a [FieldRule], bits: u32, redact: Option<&'a RedactKey>) -> RuleScan<'a> {
        let (cursor, stored, meaning) = (JsonCursor::new(json), JsonEdits::default(), JsonEdits::default());
        let mut scan = RuleScan { cursor, rules, redact, stored_edits: stored, fingerprint_edits: meaning };
        scan.value(JsonPosition { depth: 0, rules: bits, role: EnvRole::Other });
        scan
    }

    /// The object in its stored form.
    fn stored_object(&self, object: &Object) -> Object {
        if self.stored_edits.is_empty() {
            return object.clone();
        }
        Object::from_trusted(self.stored_edits.apply(object.as_str()))
    }

    /// A fingerprint of the object without ignored fields.
    fn fingerprint(&self, json: &str) -> u64 {
        let mut hash = Xxh3Default::new();
        for piece in self.fingerprint_edits.pieces(json) {
            hash.update(piece.as_bytes());
        }
        hash.digest()
    }

    fn value(&mut self, position: JsonPosition) {
        let needs_scan = position.rules != 0 || self.redact.is_some();
        match self.cursor.peek() {
            _ if position.role == EnvRole::Value => self.redact_value(),
            b'{' if needs_scan && position.depth < MAX_DEPTH => self.map(position),
            b'[' if needs_scan && position.depth < MAX_DEPTH => self.list(position),
            _ => self.cursor.skip(),
        }
    }

    fn map(&mut self, position: JsonPosition) {
        let (mut stored, mut meaning) = (MemberRemoval::default(), MemberRemoval::default());
        self.cursor.enter();
        let mut before = self.cursor.at();
        while self.cursor.has_next() {
            let start = self.cursor.at();
            let name = self.cursor.key();
            let member_position = self.child(position, &name);
            let effect = self.effect(member_position);
            if effect != Some(FieldEffect::Remove) {
                self.stored_edits.keep(&mut stored, start);
                if effect != Some(FieldEffect::IgnoreChanges) {
                    self.fingerprint_edits.keep(&mut meaning, start);
                }
            }
            match effect {
                Some(FieldEffect::Remove | FieldEffect::IgnoreChanges) => self.cursor.skip(),
                Some(FieldEffect::Unordered) => self.unordered_list(),
                None => self.value(member_position),
            }
            let end = self.cursor.at();
            if effect == Some(FieldEffect::Remove) {
                self.stored_edits.remove(&mut stored, before, start, end);
            }
            if matches!(effect, Some(FieldEffect::Remove | FieldEffect::IgnoreChanges)) {
                self.fingerprint_edits.remove(&mut meaning, before, start, end);
            }
            before = end;
        }
        self.stored_edits.close(&mut stored, before);
        self.fingerprint_edits.close(&mut meaning, before);
    }

    fn list(&mut self, position: JsonPosition) {
        let entry_position = self.child(position, "[]");
        self.cursor.enter();
        while self.cursor.has_next() {
            self.value(entry_position);
        }
    }

    /// The position of a map member of that name, or of a list entry.
    fn child(&self, position: JsonPosition, name: &str) -> JsonPosition {
        let mut rules = 0;
        // Most positions are on no rule's path.
        if position.rules != 0 {
            for (index, rule) in self.rules.iter().enumerate() {
                let bit = 1 << index;
                if position.rules & bit != 0
                    && rule.path.get(position.depth).is_some_and(|step| *step == name)
                {
                    rules |= bit;
                }
            }
        }
        let role = match (position.role, name) {
            _ if self.redact.is_none() => EnvRole::Other,
            (EnvRole::Containers, "[]") => EnvRole::Container,
            (EnvRole::Container, "env") => EnvRole::Variables,
            (EnvRole::Variables, "[]") => EnvRole::Variable,
            (EnvRole::Variable, "value") => EnvRole::Value,
            _ if CONTAINER_LISTS.contains(&name) => EnvRole::Containers,
            _ => EnvRole::Other,
        };
        JsonPosition { depth: position.depth + 1, rules, role }
    }

    /// The effect of the rule whose path ends here.
    fn effect(&self, position: JsonPosition) -> Option<FieldEffect> {
        if position.rules == 0 {
            return None;
        }
        let ends_here = |(index, rule): &(usize, &FieldRule)| {
            position.rules & 1 << index != 0 && rule.path.len() == position.depth
        };
        self.rules.iter().enumerate().find(ends_here).map(|(_, rule)| rule.effect)
    }

    /// Reads a list; its fingerprint is the sum of its entries' fingerprints.
    fn unordered_list(&mut self) {
        let start = self.cursor.at();
        if self.cursor.peek() != b'[' {
            return self.cursor.skip();
        }
        self.cursor.enter();
        let mut sum = 0_u64;
        while self.cursor.has_next() {
            let from = self.cursor.at();
            self.cursor.skip();
            sum = sum.wrapping_add(xxh3_64(self.cursor.since(from).as_bytes()));
        }
        self.fingerprint_edits.replace(start, self.cursor.at(), format!("{sum:016x}"));
    }

    fn redact_value(&mut self) {
        let start = self.cursor.at();
        self.cursor.skip();
        let value = self.cursor.since(start);
        if let Some(token) = self.redact.and_then(|key| key.token(value)) {
            self.stored_edits.replace(start, self.cursor.at(), token.clone());
            self.fingerprint_edits.replace(start, self.cursor.at(), token);
        }
    }
}

#[cfg(test)]
mod tests;

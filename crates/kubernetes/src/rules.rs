//! What of a change matters to scheduling: what is cut out of objects before they are kept, and which changes are not
//! kept at all.
//!
//! The tables are in [`recording`](crate::recording). The rules work on the text: what stays keeps its bytes and their
//! order.

mod json_cut;
mod redact;

use std::collections::HashMap;

use model::{Key, Kind, MAX_DEPTH, Object, What};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64, xxh3_128};

use crate::kinds::is_secret;
use crate::recording::{
    CONFIG_MAP_PREFIXES_WITH_DATA, CONFIG_MAPS_WITH_DATA, CONTAINER_LISTS, Effect, FIELD_RULES, FieldRule,
    Purpose,
};
use json_cut::{Cursor, Cutting, Edits};
pub use redact::RedactKey;

/// What the rules did with a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It matters; this is what to keep of it.
    Keep(What),
    /// It does not matter, for this reason.
    Drop(&'static str),
}

/// What of the rules can be set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Values of environment variables are replaced by tokens made with this key; without a key they stay.
    pub redact: Option<RedactKey>,
}

/// Passes changes through the rules, in their order.
///
/// It remembers a fingerprint of what the last kept version of each live object meant, so its memory follows the
/// cluster and not the number of changes.
pub struct Sieve {
    rules: Rules,
    last: HashMap<Name, u64>,
}

/// 128 bits of a key: wide enough that no two will ever meet, and a fifth of what the key itself takes.
#[derive(PartialEq, Eq, Hash)]
struct Name(u128);

/// One rule in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The kind it is for: `Node`, `Lease.coordination.k8s.io`, `every kind`.
    pub kind: String,
    /// The field it is about: `status.conditions[].lastHeartbeatTime`.
    pub field: String,
    /// What is done.
    pub effect: &'static str,
    /// Why.
    pub why: &'static str,
}

/// All rules in words.
pub fn describe() -> Vec<Description> {
    let kind = |(group, kind): (&str, &str)| Kind::new(group, kind).to_string();
    let mut all: Vec<Description> = FIELD_RULES
        .iter()
        .map(|rule| Description {
            kind: rule.kind.map_or("every kind".to_owned(), kind),
            field: rule.field(),
            effect: rule.effect.in_words(),
            why: rule.why,
        })
        .collect();
    all.push(Description {
        kind: "every kind".to_owned(),
        field: format!("{{{}}}[].env[].value, wherever such lists stand", CONTAINER_LISTS.join(",")),
        effect: "replaced by a token, if there is a key to redact with",
        why: "environment variables hold passwords; equal values have equal tokens",
    });
    all.push(Description {
        kind: "Secret".to_owned(),
        field: "the whole object".to_owned(),
        effect: "never read",
        why: "it holds passwords and keys",
    });
    all.push(Description {
        kind: "every kind".to_owned(),
        field: "the whole object".to_owned(),
        effect: "dropped if it is as it was last kept; a delete is always kept",
        why: "watches repeat themselves, and a change of nothing that counts is none",
    });
    all
}

/// What a recorder may write of an object, to whatever place; `None` if it is nothing.
///
/// Nothing is left of Secrets, and of ConfigMaps all but their data, unless they are an autoscaler's. With a key the
/// values of environment variables become tokens.
pub fn disclosed(object: Object, kind: &Kind, redact: Option<&RedactKey>) -> Option<Object> {
    if is_secret(kind) {
        return None;
    }
    let hides_data =
        (&*kind.group, &*kind.kind) == ("", "ConfigMap") && !is_of_autoscalers(&object.meta().name);
    if !hides_data && redact.is_none() {
        return Some(object);
    }
    let bits = bits(FIELD_RULES, kind, |rule| match rule.purpose {
        Purpose::HideData => hides_data,
        Purpose::HideCopies => true,
        Purpose::Significance => false,
    });
    Some(Reading::of(object.as_str(), FIELD_RULES, bits, redact).kept(&object))
}

/// Whether an annotation holds a copy of its object, as `kubectl apply` leaves one.
pub fn is_copy(annotation: &str) -> bool {
    FIELD_RULES
        .iter()
        .any(|rule| rule.purpose == Purpose::HideCopies && rule.path.last() == Some(&annotation))
}

/// Whether a ConfigMap is one in which cluster-autoscaler reports, is told its priorities, or has its nodes described
/// for KWOK.
fn is_of_autoscalers(name: &str) -> bool {
    CONFIG_MAPS_WITH_DATA.contains(&name)
        || CONFIG_MAP_PREFIXES_WITH_DATA.iter().any(|prefix| name.starts_with(prefix))
}

/// A bit for each rule that is for a kind and is wanted.
fn bits(rules: &[FieldRule], kind: &Kind, is_wanted: impl Fn(&FieldRule) -> bool) -> u32 {
    debug_assert!(rules.len() <= 32);
    let chosen = rules.iter().enumerate().filter(|(_, rule)| rule.is_for(kind) && is_wanted(rule));
    chosen.fold(0, |bits, (index, _)| bits | 1 << index)
}

// === impl Sieve ===

impl Sieve {
    /// A sieve that has seen nothing yet.
    pub fn new(rules: Rules) -> Sieve {
        Sieve { rules, last: HashMap::new() }
    }

    /// Takes it that an object was kept like this: what was kept went through these rules already.
    pub fn know(&mut self, key: &Key, kept: &Object) {
        let reading = Reading::of(kept.as_str(), FIELD_RULES, sieve_bits(&key.kind), None);
        self.last.insert(Name::of(key), reading.meaning(kept.as_str()));
    }

    /// What to keep of the next change.
    pub fn pass(&mut self, key: &Key, what: &What) -> Verdict {
        let object = what.object();
        let (bits, redact) = (sieve_bits(&key.kind), self.rules.redact.as_ref());
        let reading = Reading::of(object.as_str(), FIELD_RULES, bits, redact);
        let unchanged = match what {
            What::Added(_) => "seen before",
            What::Modified(_) => "nothing that matters changed",
            What::Deleted(_) => {
                self.last.remove(&Name::of(key));
                return Verdict::Keep(what.with(reading.kept(object)));
            }
        };
        // The uid is part of the meaning: another life of the name is never the same.
        let meaning = reading.meaning(object.as_str());
        match self.last.insert(Name::of(key), meaning) {
            Some(last) if last == meaning => Verdict::Drop(unchanged),
            _ => Verdict::Keep(what.with(reading.kept(object))),
        }
    }
}

/// Data of ConfigMaps is hidden before, by [`disclosed`].
fn sieve_bits(kind: &Kind) -> u32 {
    bits(FIELD_RULES, kind, |rule| rule.purpose != Purpose::HideData)
}

// === impl Name ===

impl Name {
    fn of(key: &Key) -> Name {
        let mut text = Vec::with_capacity(128);
        for part in [&key.source, &key.kind.group, &key.kind.kind, &key.namespace, &key.name] {
            text.extend_from_slice(part.as_bytes());
            // No name of Kubernetes holds it.
            text.push(0);
        }
        Name(xxh3_128(&text))
    }
}

// === impl FieldRule ===

impl FieldRule {
    fn is_for(&self, kind: &Kind) -> bool {
        self.kind.is_none_or(|(group, name)| *kind.group == *group && *kind.kind == *name)
    }

    /// `status.conditions[].lastHeartbeatTime`
    fn field(&self) -> String {
        let mut words = String::new();
        for step in self.path {
            match *step {
                "[]" => words.push_str("[]"),
                step if step.contains('.') => words.push_str(&format!("['{step}']")),
                step if words.is_empty() => words.push_str(step),
                step => words.push_str(&format!(".{step}")),
            }
        }
        words
    }
}

// === impl Effect ===

impl Effect {
    fn in_words(self) -> &'static str {
        match self {
            Effect::Cut => "cut out",
            Effect::Mute => "kept, but a change of it alone is dropped",
            Effect::Unordered => "kept, but a change of its order alone is dropped",
        }
    }
}

/// What the rules find in one object's text.
struct Reading<'a> {
    cursor: Cursor<'a>,
    rules: &'a [FieldRule],
    redact: Option<&'a RedactKey>,
    /// What makes of the text what is kept.
    stored: Edits,
    /// What makes of the text what it means.
    meaning: Edits,
}

/// Where in an object a value stands.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    /// A bit for each rule whose path leads through here.
    rules: u32,
    role: Role,
}

/// What a value is on the way to the value of an environment variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Containers,
    Container,
    Variables,
    Variable,
    Value,
    Other,
}

// === impl Reading ===

impl<'a> Reading<'a> {
    /// By those rules whose bits are set.
    fn of(json: &'a str, rules: &'a [FieldRule], bits: u32, redact: Option<&'a RedactKey>) -> Reading<'a> {
        let (cursor, stored, meaning) = (Cursor::new(json), Edits::default(), Edits::default());
        let mut reading = Reading { cursor, rules, redact, stored, meaning };
        reading.value(Place { depth: 0, rules: bits, role: Role::Other });
        reading
    }

    /// The object as it is kept.
    fn kept(&self, object: &Object) -> Object {
        if self.stored.is_empty() {
            return object.clone();
        }
        Object::trusted(self.stored.apply(object.as_str()))
    }

    /// A fingerprint of what the object means.
    fn meaning(&self, json: &str) -> u64 {
        let mut hash = Xxh3Default::new();
        for piece in self.meaning.pieces(json) {
            hash.update(piece.as_bytes());
        }
        hash.digest()
    }

    fn value(&mut self, place: Place) {
        let concerns = place.rules != 0 || self.redact.is_some();
        match self.cursor.peek() {
            _ if place.role == Role::Value => self.redacted(),
            b'{' if concerns && place.depth < MAX_DEPTH => self.map(place),
            b'[' if concerns && place.depth < MAX_DEPTH => self.list(place),
            _ => self.cursor.skip(),
        }
    }

    fn map(&mut self, place: Place) {
        let (mut stored, mut meaning) = (Cutting::default(), Cutting::default());
        self.cursor.enter();
        let mut before = self.cursor.at();
        while self.cursor.more() {
            let start = self.cursor.at();
            let name = self.cursor.key();
            let inside = self.step(place, &name);
            let effect = self.effect(inside);
            if effect != Some(Effect::Cut) {
                self.stored.keep(&mut stored, start);
                if effect != Some(Effect::Mute) {
                    self.meaning.keep(&mut meaning, start);
                }
            }
            match effect {
                Some(Effect::Cut | Effect::Mute) => self.cursor.skip(),
                Some(Effect::Unordered) => self.unordered(),
                None => self.value(inside),
            }
            let end = self.cursor.at();
            if effect == Some(Effect::Cut) {
                self.stored.cut(&mut stored, before, start, end);
            }
            if matches!(effect, Some(Effect::Cut | Effect::Mute)) {
                self.meaning.cut(&mut meaning, before, start, end);
            }
            before = end;
        }
        self.stored.close(&mut stored, before);
        self.meaning.close(&mut meaning, before);
    }

    fn list(&mut self, place: Place) {
        let inside = self.step(place, "[]");
        self.cursor.enter();
        while self.cursor.more() {
            self.value(inside);
        }
    }

    /// The place of a member of that name in a map, or of an entry of a list.
    fn step(&self, place: Place, name: &str) -> Place {
        let mut rules = 0;
        // Most places are out of the way of every rule.
        if place.rules != 0 {
            for (index, rule) in self.rules.iter().enumerate() {
                let bit = 1 << index;
                if place.rules & bit != 0 && rule.path.get(place.depth).is_some_and(|step| *step == name) {
                    rules |= bit;
                }
            }
        }
        let role = match (place.role, name) {
            _ if self.redact.is_none() => Role::Other,
            (Role::Containers, "[]") => Role::Container,
            (Role::Container, "env") => Role::Variables,
            (Role::Variables, "[]") => Role::Variable,
            (Role::Variable, "value") => Role::Value,
            _ if CONTAINER_LISTS.contains(&name) => Role::Containers,
            _ => Role::Other,
        };
        Place { depth: place.depth + 1, rules, role }
    }

    /// The effect of the rule whose path ends here.
    fn effect(&self, place: Place) -> Option<Effect> {
        if place.rules == 0 {
            return None;
        }
        let ends = |(index, rule): &(usize, &FieldRule)| {
            place.rules & 1 << index != 0 && rule.path.len() == place.depth
        };
        self.rules.iter().enumerate().find(ends).map(|(_, rule)| rule.effect)
    }

    /// Reads a list; its meaning is the sum of its entries' fingerprints.
    fn unordered(&mut self) {
        let start = self.cursor.at();
        if self.cursor.peek() != b'[' {
            return self.cursor.skip();
        }
        self.cursor.enter();
        let mut sum = 0_u64;
        while self.cursor.more() {
            let from = self.cursor.at();
            self.cursor.skip();
            sum = sum.wrapping_add(xxh3_64(self.cursor.since(from).as_bytes()));
        }
        self.meaning.replace(start, self.cursor.at(), format!("{sum:016x}"));
    }

    fn redacted(&mut self) {
        let start = self.cursor.at();
        self.cursor.skip();
        let value = self.cursor.since(start);
        if let Some(token) = self.redact.and_then(|key| key.token(value)) {
            self.stored.replace(start, self.cursor.at(), token.clone());
            self.meaning.replace(start, self.cursor.at(), token);
        }
    }
}

#[cfg(test)]
mod tests;

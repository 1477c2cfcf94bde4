//! The pass over an object's text that applies the rules: it validates the text, and finds the identifying fields and
//! the ranges to remove or replace.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use model::{JsonCursor, Object, ObjectOutline, ObjectOutlineBuilder};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::json_edit::{JsonEdits, MemberRemoval};
use super::redact::RedactKey;
use crate::recording::{CONTAINER_LISTS, FieldEffect, FieldRule};

/// One pass over an object's text that collects the effects of the rules.
pub(super) struct RuleScan<'a> {
    cursor: JsonCursor<'a>,
    rules: &'a [FieldRule],
    redact: Option<&'a RedactKey>,
    /// No member with environment variables begins at or behind this offset.
    variables_end: usize,
    outline: ObjectOutlineBuilder,
    /// Edits that turn the text into the stored form.
    pub(super) stored_edits: JsonEdits,
    /// Edits that turn the text into the form that is fingerprinted.
    pub(super) fingerprint_edits: JsonEdits,
}

/// A position in an object.
#[derive(Clone, Copy)]
struct JsonPosition {
    depth: usize,
    /// A bit for each rule whose path leads through here.
    rules: u32,
    role: EnvRole,
    is_metadata: bool,
}

/// The role of a value on the path to an environment variable's value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EnvRole {
    Containers,
    Container,
    Variables,
    Variable,
    Value,
    Other,
}

/// The name of the member of a container that has its variables.
static ENV: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"env\""));

// === impl RuleScan ===

impl<'a> RuleScan<'a> {
    /// Applies the rules whose bits are set.
    pub(super) fn of(
        json: &'a str,
        rules: &'a [FieldRule],
        bits: u32,
        redact: Option<&'a RedactKey>,
    ) -> RuleScan<'a> {
        let last_env = redact.and_then(|_| ENV.find_iter(json.as_bytes()).last());
        let scan = RuleScan::run(json, rules, bits, redact, last_env.map_or(0, |offset| offset + 1));
        // The search does not find a name that is written with escapes.
        if redact.is_some() && scan.cursor.has_escaped_names() {
            return RuleScan::run(json, rules, bits, redact, json.len());
        }
        scan
    }

    fn run(
        json: &'a str,
        rules: &'a [FieldRule],
        bits: u32,
        redact: Option<&'a RedactKey>,
        variables_end: usize,
    ) -> RuleScan<'a> {
        let mut scan = RuleScan {
            cursor: JsonCursor::new(json),
            rules,
            redact,
            variables_end,
            outline: ObjectOutlineBuilder::default(),
            stored_edits: JsonEdits::default(),
            fingerprint_edits: JsonEdits::default(),
        };
        scan.value(JsonPosition { depth: 0, rules: bits, role: EnvRole::Other, is_metadata: false });
        scan
    }

    /// The outline of the text; `None` if the text is invalid or unusual.
    pub(super) fn outline(&mut self) -> Option<ObjectOutline> {
        let builder = std::mem::take(&mut self.outline);
        if self.cursor.is_valid_end() { builder.finish() } else { None }
    }

    /// The object in its stored form.
    pub(super) fn stored_object(&self, object: &Object) -> Object {
        if self.stored_edits.is_empty() {
            return object.clone();
        }
        Object::from_trusted(self.stored_edits.apply(object.as_str()))
    }

    /// A fingerprint of the object without ignored fields.
    pub(super) fn fingerprint(&self, json: &str) -> u64 {
        let mut hash = Xxh3Default::new();
        for piece in self.fingerprint_edits.pieces(json) {
            hash.update(piece.as_bytes());
        }
        hash.digest()
    }

    fn value(&mut self, position: JsonPosition) {
        match self.cursor.peek() {
            _ if position.role == EnvRole::Value => self.redact_value(),
            b'{' if position.rules != 0 => self.map(position),
            b'{' if self.may_have_variables(position) => self.map_without_rules(position),
            b'[' if position.rules != 0 || self.may_have_variables(position) => self.list(position),
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
            let value_start = self.cursor.at();
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
            if position.depth == 0 {
                self.outline.note_member(&name, value_start, self.cursor.since(value_start));
            } else if position.is_metadata {
                self.outline.note_metadata(&name, value_start, self.cursor.since(value_start));
            }
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

    fn map_without_rules(&mut self, position: JsonPosition) {
        self.cursor.enter();
        while self.cursor.has_next() {
            if !self.may_have_variables(position) {
                return self.cursor.leave();
            }
            let name = self.cursor.key();
            self.value(self.child(position, &name));
        }
    }

    fn list(&mut self, position: JsonPosition) {
        let entry_position = self.child(position, "[]");
        self.cursor.enter();
        while self.cursor.has_next() {
            if position.rules == 0 && !self.may_have_variables(position) {
                return self.cursor.leave();
            }
            self.value(entry_position);
        }
    }

    /// Whether there may be environment variables in the rest of the map or list at a position.
    fn may_have_variables(&self, position: JsonPosition) -> bool {
        let is_variable = matches!(position.role, EnvRole::Variables | EnvRole::Variable);
        is_variable || self.cursor.at() < self.variables_end
    }

    /// The position of a map member of that name, or of a list entry.
    fn child(&self, position: JsonPosition, name: &str) -> JsonPosition {
        let leads_here = |rule: &FieldRule| rule.path.get(position.depth).is_some_and(|step| *step == name);
        let rules = self.rules_of(position.rules).filter(|(_, rule)| leads_here(rule));
        let rules = rules.fold(0, |bits, (bit, _)| bits | bit);
        let role = match (position.role, name) {
            _ if self.redact.is_none() => EnvRole::Other,
            (EnvRole::Containers, "[]") => EnvRole::Container,
            (EnvRole::Container, "env") => EnvRole::Variables,
            (EnvRole::Variables, "[]") => EnvRole::Variable,
            (EnvRole::Variable, "value") => EnvRole::Value,
            _ if CONTAINER_LISTS.contains(&name) => EnvRole::Containers,
            _ => EnvRole::Other,
        };
        let is_metadata = position.depth == 0 && name == "metadata";
        JsonPosition { depth: position.depth + 1, rules, role, is_metadata }
    }

    /// The effect of the rule whose path ends here.
    fn effect(&self, position: JsonPosition) -> Option<FieldEffect> {
        let mut rules = self.rules_of(position.rules);
        rules.find(|(_, rule)| rule.path.len() == position.depth).map(|(_, rule)| rule.effect)
    }

    /// The rules whose bits are set, each with its bit.
    fn rules_of(&self, bits: u32) -> impl Iterator<Item = (u32, &'a FieldRule)> {
        let (rules, mut rest) = (self.rules, bits);
        std::iter::from_fn(move || {
            let rule = rules.get(rest.trailing_zeros() as usize)?;
            let bit = rest & rest.wrapping_neg();
            rest ^= bit;
            Some((bit, rule))
        })
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
        self.fingerprint_edits.replace(start, self.cursor.at(), &format!("{sum:016x}"));
    }

    fn redact_value(&mut self) {
        let start = self.cursor.at();
        self.cursor.skip();
        let value = self.cursor.since(start);
        if let Some(token) = self.redact.and_then(|key| key.token(value)) {
            self.stored_edits.replace(start, self.cursor.at(), &token);
            self.fingerprint_edits.replace(start, self.cursor.at(), &token);
        }
    }
}

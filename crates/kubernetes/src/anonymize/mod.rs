//! Anonymization: renames every word in a history that is specific to its owner, so that it can be given to others
//! and still be analyzed and replayed.
//!
//! Every text is split into words at characters that are neither letters nor digits. Kubernetes' own words and
//! numbers of up to five digits, alone or with a unit, are kept; every other word is replaced by a pseudonym, always
//! the same one under one key. Names, labels, selectors and messages that mention them therefore stay consistent.
//! Groups, kinds, field names, enumerations, times, quantities and JSON numbers are kept; uids and IP addresses are
//! replaced by others of the same form; values of environment variables, arguments and data are replaced by one word
//! each.

mod address;
mod text;
mod words;

use std::borrow::Cow;
use std::fmt;
use std::hash::Hasher;

use model::{Gap, Key, MAX_DEPTH, Object, What};

/// Renames consistently, by a key: two exports with the same key match, and without the key the renaming cannot be
/// reversed.
#[derive(Clone)]
pub struct Anonymizer {
    key: [u8; 32],
}

// === impl Anonymizer ===

impl Anonymizer {
    /// An anonymizer with this key.
    pub fn new(key: [u8; 32]) -> Anonymizer {
        Anonymizer { key }
    }

    /// The renamed key of an object.
    pub fn key(&self, key: &Key) -> Key {
        Key {
            source: self.text(&key.source).into(),
            kind: key.kind.clone(),
            namespace: self.text(&key.namespace).into(),
            name: self.text(&key.name).into(),
        }
    }

    /// The renamed object, without its `managedFields`.
    pub fn object(&self, object: &Object) -> Object {
        let json = object.as_str();
        let mut walk = JsonRewriter { anonymizer: self, json, at: 0, out: String::with_capacity(json.len()) };
        walk.value(FieldRole::Plain, 0);
        Object::from_trusted(walk.out)
    }

    /// The same change with the renamed object.
    pub fn what(&self, what: &What) -> What {
        what.with_object(self.object(what.object()))
    }

    /// The gap with its source and all unknown words of its reason renamed.
    pub fn gap(&self, gap: &Gap) -> Gap {
        Gap { source: self.text(&gap.source).into(), why: self.message(&gap.why), ..gap.clone() }
    }

    /// A keyed hash, different for each purpose and each half of the key.
    ///
    /// SipHash-2-4 is designed for short secrets: known words must not reveal the others.
    fn hash(&self, half: KeyHalf, purpose: u8, bytes: &[u8]) -> u64 {
        let quarter = |from: usize| {
            u64::from_le_bytes(
                self.key[from..from + 8].try_into().expect("the key has four parts of eight bytes"),
            )
        };
        let from = half as usize;
        // Deprecated in favor of a hasher without a key.
        #[allow(deprecated)]
        let mut hasher = std::hash::SipHasher::new_with_keys(quarter(from), quarter(from + 8));
        hasher.write(&[purpose]);
        hasher.write(bytes);
        hasher.finish()
    }
}

impl fmt::Debug for Anonymizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Anonymizer(…)")
    }
}

/// Half of the key, by the index of its first byte.
#[derive(Clone, Copy)]
enum KeyHalf {
    First = 0,
    Second = 16,
}

/// How the strings of a value are treated, depending on its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldRole {
    /// Fields keep their names; strings are renamed word by word.
    Plain,
    /// A string that is kept.
    Kept,
    /// A capitalized word is kept, because Kubernetes' enumerations are capitalized.
    Enumeration,
    /// Quantities are kept.
    Quantity,
    /// A message: the words of Kubernetes' own messages are kept.
    Message,
    /// A cron schedule.
    Schedule,
    /// Ports and their names, which have a low length limit.
    Port,
    /// A map with user-defined keys.
    Map,
    /// Such a map whose values may be whole documents.
    Annotations,
    /// Such a map of quantities.
    Resources,
    /// Either a map of labels or a selector with fields of its own.
    Selector,
    /// Strings are replaced as a whole.
    Opaque,
    /// Environment variables.
    Variables,
    /// The termination state of a container, whose message is the container's own.
    Terminated,
    /// Removed.
    Removed,
}

/// The fields with a special role wherever they occur, sorted by name.
///
/// Enumerations, maps and quantities are those of Kubernetes' API types.
static FIELDS: &[(&str, FieldRole)] = &[
    ("accessModes", FieldRole::Enumeration),
    ("action", FieldRole::Enumeration),
    ("allocatable", FieldRole::Resources),
    ("allocatedResourceStatuses", FieldRole::Map),
    ("allocatedResources", FieldRole::Resources),
    ("annotations", FieldRole::Annotations),
    ("apiGroup", FieldRole::Kept),
    ("apiVersion", FieldRole::Kept),
    ("args", FieldRole::Opaque),
    ("attachmentMetadata", FieldRole::Map),
    ("attributes", FieldRole::Map),
    ("averageValue", FieldRole::Quantity),
    ("binaryData", FieldRole::Opaque),
    ("caBundle", FieldRole::Opaque),
    ("cachingMode", FieldRole::Enumeration),
    ("capacity", FieldRole::Resources),
    ("command", FieldRole::Opaque),
    ("completionMode", FieldRole::Enumeration),
    ("concurrencyPolicy", FieldRole::Enumeration),
    ("conditionType", FieldRole::Enumeration),
    ("consumedCapacity", FieldRole::Resources),
    ("counters", FieldRole::Map),
    ("currentAverageValue", FieldRole::Quantity),
    ("data", FieldRole::Opaque),
    ("default", FieldRole::Resources),
    ("defaultRequest", FieldRole::Resources),
    ("disruptedPods", FieldRole::Map),
    ("disruptionMode", FieldRole::Enumeration),
    ("divisor", FieldRole::Quantity),
    ("dnsPolicy", FieldRole::Enumeration),
    ("effect", FieldRole::Enumeration),
    ("env", FieldRole::Variables),
    ("externalTrafficPolicy", FieldRole::Enumeration),
    ("extra", FieldRole::Map),
    ("failurePolicy", FieldRole::Enumeration),
    ("fsGroupChangePolicy", FieldRole::Enumeration),
    ("fsGroupPolicy", FieldRole::Enumeration),
    ("hard", FieldRole::Resources),
    ("imagePullPolicy", FieldRole::Enumeration),
    ("internalTrafficPolicy", FieldRole::Enumeration),
    ("ipFamilies", FieldRole::Enumeration),
    ("ipFamilyPolicy", FieldRole::Enumeration),
    ("ipMode", FieldRole::Enumeration),
    ("kind", FieldRole::Kept),
    ("labels", FieldRole::Map),
    ("limits", FieldRole::Resources),
    ("managedFields", FieldRole::Removed),
    ("matchLabels", FieldRole::Map),
    ("matchPolicy", FieldRole::Enumeration),
    ("max", FieldRole::Resources),
    ("maxLimitRequestRatio", FieldRole::Resources),
    ("maximumVolumeSize", FieldRole::Quantity),
    ("medium", FieldRole::Enumeration),
    ("message", FieldRole::Message),
    ("min", FieldRole::Resources),
    ("mountPropagation", FieldRole::Enumeration),
    ("nodeAffinityPolicy", FieldRole::Enumeration),
    ("nodeSelector", FieldRole::Selector),
    ("nodeTaintsPolicy", FieldRole::Enumeration),
    ("note", FieldRole::Message),
    ("operation", FieldRole::Enumeration),
    ("operations", FieldRole::Enumeration),
    ("operator", FieldRole::Enumeration),
    ("options", FieldRole::Map),
    ("overhead", FieldRole::Resources),
    ("parameters", FieldRole::Map),
    ("persistentVolumeReclaimPolicy", FieldRole::Enumeration),
    ("phase", FieldRole::Enumeration),
    ("podFixed", FieldRole::Resources),
    ("podManagementPolicy", FieldRole::Enumeration),
    ("podReplacementPolicy", FieldRole::Enumeration),
    ("policyTypes", FieldRole::Enumeration),
    ("port", FieldRole::Port),
    ("ports", FieldRole::Port),
    ("preemptionPolicy", FieldRole::Enumeration),
    ("procMount", FieldRole::Enumeration),
    ("propagationPolicy", FieldRole::Enumeration),
    ("protocol", FieldRole::Enumeration),
    ("pullPolicy", FieldRole::Enumeration),
    ("qosClass", FieldRole::Enumeration),
    ("reason", FieldRole::Enumeration),
    ("reclaimPolicy", FieldRole::Enumeration),
    ("recursiveReadOnly", FieldRole::Enumeration),
    ("reinvocationPolicy", FieldRole::Enumeration),
    ("requests", FieldRole::Resources),
    ("resize", FieldRole::Enumeration),
    ("resourceVersion", FieldRole::Kept),
    ("restartPolicy", FieldRole::Enumeration),
    ("schedule", FieldRole::Schedule),
    ("scheme", FieldRole::Enumeration),
    ("scope", FieldRole::Enumeration),
    ("scopeName", FieldRole::Enumeration),
    ("scopes", FieldRole::Enumeration),
    ("seLinuxChangePolicy", FieldRole::Enumeration),
    ("selectPolicy", FieldRole::Enumeration),
    ("selector", FieldRole::Selector),
    ("sessionAffinity", FieldRole::Enumeration),
    ("sideEffects", FieldRole::Enumeration),
    ("sizeLimit", FieldRole::Quantity),
    ("status", FieldRole::Enumeration),
    ("stopSignal", FieldRole::Enumeration),
    ("strategy", FieldRole::Enumeration),
    ("stringData", FieldRole::Opaque),
    ("supplementalGroupsPolicy", FieldRole::Enumeration),
    ("targetAverageValue", FieldRole::Quantity),
    ("targetPort", FieldRole::Port),
    ("terminated", FieldRole::Terminated),
    ("terminationMessagePolicy", FieldRole::Enumeration),
    // A schedule means nothing without it, and the name of a time zone is not specific to anyone.
    ("timeZone", FieldRole::Kept),
    ("topology", FieldRole::Map),
    ("type", FieldRole::Enumeration),
    ("unhealthyPodEvictionPolicy", FieldRole::Enumeration),
    ("used", FieldRole::Resources),
    ("volumeAttributes", FieldRole::Map),
    ("volumeBindingMode", FieldRole::Enumeration),
    ("volumeLifecycleModes", FieldRole::Enumeration),
    ("volumeMode", FieldRole::Enumeration),
    ("whenDeleted", FieldRole::Enumeration),
    ("whenScaled", FieldRole::Enumeration),
    ("whenUnsatisfiable", FieldRole::Enumeration),
];

// === impl FieldRole ===

impl FieldRole {
    /// The role of a member of a map that has this role.
    fn member(self, name: &str) -> FieldRole {
        match (self, name) {
            (FieldRole::Opaque | FieldRole::Annotations | FieldRole::Quantity, _) => self,
            (FieldRole::Variables, "value") | (FieldRole::Terminated, "message") => FieldRole::Opaque,
            (FieldRole::Port, "name") => FieldRole::Port,
            // A RuntimeClass has its overhead one level below.
            (FieldRole::Resources, "podFixed") => FieldRole::Resources,
            (FieldRole::Resources, _) => FieldRole::Quantity,
            (FieldRole::Map, _) => FieldRole::Plain,
            (FieldRole::Selector, name) if !is_selector_field(name) => FieldRole::Plain,
            _ => {
                let found = FIELDS.binary_search_by(|(field, _)| (*field).cmp(name));
                found.map_or(FieldRole::Plain, |index| FIELDS[index].1)
            }
        }
    }

    /// The role of an entry of a list that has this role.
    fn entry(self) -> FieldRole {
        match self {
            FieldRole::Map | FieldRole::Resources | FieldRole::Selector => FieldRole::Plain,
            other => other,
        }
    }

    /// Whether this member's name is user-defined rather than a field name.
    fn renames_member(self, name: &str) -> bool {
        match self {
            FieldRole::Map | FieldRole::Annotations | FieldRole::Resources | FieldRole::Opaque => true,
            FieldRole::Selector => !is_selector_field(name),
            // Only the schemas of custom resources have such fields.
            _ => {
                !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                    && !name.starts_with("x-kubernetes-")
                    && !name.starts_with('$')
            }
        }
    }
}

fn is_selector_field(name: &str) -> bool {
    matches!(name, "matchLabels" | "matchExpressions" | "nodeSelectorTerms")
}

/// Rewrites a JSON text in one pass.
///
/// The text must be valid JSON. For any other input the output is meaningless, but nothing panics or loops forever.
struct JsonRewriter<'a> {
    anonymizer: &'a Anonymizer,
    json: &'a str,
    at: usize,
    out: String,
}

// === impl JsonRewriter ===

impl<'a> JsonRewriter<'a> {
    fn value(&mut self, role: FieldRole, depth: usize) {
        match self.peek() {
            b'{' | b'[' if depth >= MAX_DEPTH => {
                self.skip();
                self.out.push_str("null");
            }
            b'{' => self.map(role, depth),
            b'[' => self.list(role, depth),
            b'"' => {
                let string = self.string();
                self.write_renamed(string, role);
            }
            _ => {
                let scalar = self.skip();
                self.out.push_str(scalar);
            }
        }
    }

    fn map(&mut self, role: FieldRole, depth: usize) {
        self.at += 1;
        self.out.push('{');
        let mut first = true;
        while self.has_next() {
            let string = self.string();
            if self.peek() == b':' {
                self.at += 1;
            }
            let name = unquoted(string);
            let inside = role.member(&name);
            if inside == FieldRole::Removed {
                self.skip();
                continue;
            }
            if !std::mem::take(&mut first) {
                self.out.push(',');
            }
            if role.renames_member(&name) {
                self.write_renamed(string, FieldRole::Plain);
            } else {
                self.out.push_str(string);
            }
            self.out.push(':');
            self.value(inside, depth + 1);
        }
        self.out.push('}');
    }

    fn list(&mut self, role: FieldRole, depth: usize) {
        self.at += 1;
        self.out.push('[');
        let mut first = true;
        while self.has_next() {
            if !std::mem::take(&mut first) {
                self.out.push(',');
            }
            self.value(role.entry(), depth + 1);
        }
        self.out.push(']');
    }

    /// Writes the renamed form of a quoted string.
    fn write_renamed(&mut self, string: &str, role: FieldRole) {
        match unquoted(string) {
            // A text without escapes needs none after renaming either.
            Cow::Borrowed(text) => {
                self.out.push('"');
                self.anonymizer.rename(text, role, &mut self.out);
                self.out.push('"');
            }
            Cow::Owned(text) => {
                let mut renamed = String::with_capacity(text.len());
                self.anonymizer.rename(&text, role, &mut renamed);
                let string = serde_json::to_string(&renamed).expect("a string serializes as JSON");
                self.out.push_str(&string);
            }
        }
    }

    /// The first byte of the next token; 0 at the end.
    fn peek(&mut self) -> u8 {
        let rest = self.json.as_bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.json.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Whether the map or list has another member. Stops before that member, or after the closing bracket.
    fn has_next(&mut self) -> bool {
        if self.peek() == b',' {
            self.at += 1;
        }
        match self.peek() {
            0 => false,
            b'}' | b']' => {
                self.at += 1;
                false
            }
            _ => true,
        }
    }

    /// Reads the string that begins here; returns it with its quotes.
    fn string(&mut self) -> &'a str {
        self.peek();
        let from = self.at;
        self.at = end_of_string(self.json.as_bytes(), from);
        self.json.get(from..self.at).unwrap_or_default()
    }

    /// Skips one value and returns its text.
    fn skip(&mut self) -> &'a str {
        let bytes = self.json.as_bytes();
        self.peek();
        let from = self.at;
        let mut depth = 0_usize;
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'"' => self.at = end_of_string(bytes, self.at),
                b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t' if depth == 0 => break,
                b'{' | b'[' => (depth, self.at) = (depth + 1, self.at + 1),
                b'}' | b']' => (depth, self.at) = (depth - 1, self.at + 1),
                _ => self.at += 1,
            }
        }
        self.json.get(from..self.at).unwrap_or_default()
    }
}

/// The index after the string that begins at `start`; always greater than `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The contents of a quoted JSON string; its escapes are left as they are if they are invalid, such as half a
/// surrogate pair.
fn unquoted(string: &str) -> Cow<'_, str> {
    let inner = string.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    Cow::Owned(serde_json::from_str(string).unwrap_or_else(|_| inner.to_owned()))
}

#[cfg(test)]
mod tests;

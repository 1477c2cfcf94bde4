//! Renaming everything in a history that is its owner's own, so that it can be shown to a stranger and still be
//! analysed and replayed.
//!
//! Every text is cut into words at whatever is neither letter nor digit: Kubernetes' own words and numbers of up to
//! five digits, alone or with a unit, stay; every other word becomes a made-up one, the same word always the same
//! under one key. Names, labels, selectors and what messages say about them therefore agree as before. Groups, kinds,
//! field names, enumerations, times, quantities and JSON numbers stay; uids and IP addresses become others of their
//! shape; values of environment variables, arguments and data become one word each.

mod address;
mod text;
mod words;

use std::borrow::Cow;
use std::fmt;
use std::hash::Hasher;

use model::{Gap, Key, MAX_DEPTH, Object, What};

/// Renames consistently, by a key: two exports with one key match, and without it nobody can tell what was what.
#[derive(Clone)]
pub struct Anonymiser {
    key: [u8; 32],
}

// === impl Anonymiser ===

impl Anonymiser {
    /// One that renames by this key.
    pub fn new(key: [u8; 32]) -> Anonymiser {
        Anonymiser { key }
    }

    /// The key of the renamed object.
    pub fn key(&self, key: &Key) -> Key {
        Key {
            source: self.text(&key.source).into(),
            kind: key.kind.clone(),
            namespace: self.text(&key.namespace).into(),
            name: self.text(&key.name).into(),
        }
    }

    /// The object with everything renamed; `managedFields` are left out.
    pub fn object(&self, object: &Object) -> Object {
        let json = object.as_str();
        let mut walk = Walk { names: self, json, at: 0, out: String::with_capacity(json.len()) };
        walk.value(Role::Plain, 0);
        Object::trusted(walk.out)
    }

    /// The same news about the renamed object.
    pub fn what(&self, what: &What) -> What {
        what.with(self.object(what.object()))
    }

    /// The gap with its source and every unknown word of its reason renamed.
    pub fn gap(&self, gap: &Gap) -> Gap {
        Gap { source: self.text(&gap.source).into(), why: self.message(&gap.why), ..gap.clone() }
    }

    /// A keyed fingerprint, another one for each purpose and each half of the key.
    ///
    /// SipHash-2-4 is made for short secrets: words known in clear must not give away the others.
    fn hash(&self, half: Half, purpose: u8, bytes: &[u8]) -> u64 {
        let quarter = |from: usize| {
            u64::from_le_bytes(
                self.key[from..from + 8].try_into().expect("the key has four quarters of eight"),
            )
        };
        let from = half as usize;
        // Deprecated in favour of a hasher that has no key.
        #[allow(deprecated)]
        let mut hasher = std::hash::SipHasher::new_with_keys(quarter(from), quarter(from + 8));
        hasher.write(&[purpose]);
        hasher.write(bytes);
        hasher.finish()
    }
}

impl fmt::Debug for Anonymiser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Anonymiser(…)")
    }
}

/// Which half of the key, by its first byte.
#[derive(Clone, Copy)]
enum Half {
    First = 0,
    Second = 16,
}

/// What the place of a value says about the texts in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Fields keep their names; texts are renamed word by word.
    Plain,
    /// A text that stays.
    Kept,
    /// A capitalised word stays, since Kubernetes writes its enumerations so.
    Enumeration,
    /// Amounts stay.
    Quantity,
    /// A message for people: the words of Kubernetes' own messages stay.
    Message,
    /// A cron schedule.
    Schedule,
    /// Ports and their names, which are short.
    Port,
    /// A map with keys of the user's.
    Map,
    /// Such a map that may hold whole documents.
    Annotations,
    /// Such a map of amounts.
    Resources,
    /// Either a map of labels or a selector with fields of its own.
    Selector,
    /// Texts are replaced whole.
    Opaque,
    /// Environment variables.
    Variables,
    /// How a container ended. What it wrote about that is its own.
    Terminated,
    /// Left out.
    Cut,
}

/// The fields that are treated specially wherever they stand, sorted by name.
///
/// Enumerations, maps and amounts are those of Kubernetes' API types.
static FIELDS: &[(&str, Role)] = &[
    ("accessModes", Role::Enumeration),
    ("action", Role::Enumeration),
    ("allocatable", Role::Resources),
    ("allocatedResourceStatuses", Role::Map),
    ("allocatedResources", Role::Resources),
    ("annotations", Role::Annotations),
    ("apiGroup", Role::Kept),
    ("apiVersion", Role::Kept),
    ("args", Role::Opaque),
    ("attachmentMetadata", Role::Map),
    ("attributes", Role::Map),
    ("averageValue", Role::Quantity),
    ("binaryData", Role::Opaque),
    ("caBundle", Role::Opaque),
    ("cachingMode", Role::Enumeration),
    ("capacity", Role::Resources),
    ("command", Role::Opaque),
    ("completionMode", Role::Enumeration),
    ("concurrencyPolicy", Role::Enumeration),
    ("conditionType", Role::Enumeration),
    ("consumedCapacity", Role::Resources),
    ("counters", Role::Map),
    ("currentAverageValue", Role::Quantity),
    ("data", Role::Opaque),
    ("default", Role::Resources),
    ("defaultRequest", Role::Resources),
    ("disruptedPods", Role::Map),
    ("disruptionMode", Role::Enumeration),
    ("divisor", Role::Quantity),
    ("dnsPolicy", Role::Enumeration),
    ("effect", Role::Enumeration),
    ("env", Role::Variables),
    ("externalTrafficPolicy", Role::Enumeration),
    ("extra", Role::Map),
    ("failurePolicy", Role::Enumeration),
    ("fsGroupChangePolicy", Role::Enumeration),
    ("fsGroupPolicy", Role::Enumeration),
    ("hard", Role::Resources),
    ("imagePullPolicy", Role::Enumeration),
    ("internalTrafficPolicy", Role::Enumeration),
    ("ipFamilies", Role::Enumeration),
    ("ipFamilyPolicy", Role::Enumeration),
    ("ipMode", Role::Enumeration),
    ("kind", Role::Kept),
    ("labels", Role::Map),
    ("limits", Role::Resources),
    ("managedFields", Role::Cut),
    ("matchLabels", Role::Map),
    ("matchPolicy", Role::Enumeration),
    ("max", Role::Resources),
    ("maxLimitRequestRatio", Role::Resources),
    ("maximumVolumeSize", Role::Quantity),
    ("medium", Role::Enumeration),
    ("message", Role::Message),
    ("min", Role::Resources),
    ("mountPropagation", Role::Enumeration),
    ("nodeAffinityPolicy", Role::Enumeration),
    ("nodeSelector", Role::Selector),
    ("nodeTaintsPolicy", Role::Enumeration),
    ("note", Role::Message),
    ("operation", Role::Enumeration),
    ("operations", Role::Enumeration),
    ("operator", Role::Enumeration),
    ("options", Role::Map),
    ("overhead", Role::Resources),
    ("parameters", Role::Map),
    ("persistentVolumeReclaimPolicy", Role::Enumeration),
    ("phase", Role::Enumeration),
    ("podFixed", Role::Resources),
    ("podManagementPolicy", Role::Enumeration),
    ("podReplacementPolicy", Role::Enumeration),
    ("policyTypes", Role::Enumeration),
    ("port", Role::Port),
    ("ports", Role::Port),
    ("preemptionPolicy", Role::Enumeration),
    ("procMount", Role::Enumeration),
    ("propagationPolicy", Role::Enumeration),
    ("protocol", Role::Enumeration),
    ("pullPolicy", Role::Enumeration),
    ("qosClass", Role::Enumeration),
    ("reason", Role::Enumeration),
    ("reclaimPolicy", Role::Enumeration),
    ("recursiveReadOnly", Role::Enumeration),
    ("reinvocationPolicy", Role::Enumeration),
    ("requests", Role::Resources),
    ("resize", Role::Enumeration),
    ("resourceVersion", Role::Kept),
    ("restartPolicy", Role::Enumeration),
    ("schedule", Role::Schedule),
    ("scheme", Role::Enumeration),
    ("scope", Role::Enumeration),
    ("scopeName", Role::Enumeration),
    ("scopes", Role::Enumeration),
    ("seLinuxChangePolicy", Role::Enumeration),
    ("selectPolicy", Role::Enumeration),
    ("selector", Role::Selector),
    ("sessionAffinity", Role::Enumeration),
    ("sideEffects", Role::Enumeration),
    ("sizeLimit", Role::Quantity),
    ("status", Role::Enumeration),
    ("stopSignal", Role::Enumeration),
    ("strategy", Role::Enumeration),
    ("stringData", Role::Opaque),
    ("supplementalGroupsPolicy", Role::Enumeration),
    ("targetAverageValue", Role::Quantity),
    ("targetPort", Role::Port),
    ("terminated", Role::Terminated),
    ("terminationMessagePolicy", Role::Enumeration),
    // Without it a schedule means nothing, and the name of a zone is nobody's.
    ("timeZone", Role::Kept),
    ("topology", Role::Map),
    ("type", Role::Enumeration),
    ("unhealthyPodEvictionPolicy", Role::Enumeration),
    ("used", Role::Resources),
    ("volumeAttributes", Role::Map),
    ("volumeBindingMode", Role::Enumeration),
    ("volumeLifecycleModes", Role::Enumeration),
    ("volumeMode", Role::Enumeration),
    ("whenDeleted", Role::Enumeration),
    ("whenScaled", Role::Enumeration),
    ("whenUnsatisfiable", Role::Enumeration),
];

// === impl Role ===

impl Role {
    /// The role of a member of a map that has this role.
    fn member(self, name: &str) -> Role {
        match (self, name) {
            (Role::Opaque | Role::Annotations | Role::Quantity, _) => self,
            (Role::Variables, "value") | (Role::Terminated, "message") => Role::Opaque,
            (Role::Port, "name") => Role::Port,
            // A RuntimeClass says what its overhead is one level below.
            (Role::Resources, "podFixed") => Role::Resources,
            (Role::Resources, _) => Role::Quantity,
            (Role::Map, _) => Role::Plain,
            (Role::Selector, name) if !is_selector_field(name) => Role::Plain,
            _ => {
                let found = FIELDS.binary_search_by(|(field, _)| (*field).cmp(name));
                found.map_or(Role::Plain, |index| FIELDS[index].1)
            }
        }
    }

    /// The role of an entry of a list that has this role.
    fn entry(self) -> Role {
        match self {
            Role::Map | Role::Resources | Role::Selector => Role::Plain,
            other => other,
        }
    }

    /// Whether this member's name is the user's and not a field's.
    fn renames(self, name: &str) -> bool {
        match self {
            Role::Map | Role::Annotations | Role::Resources | Role::Opaque => true,
            Role::Selector => !is_selector_field(name),
            // No API has such fields but the schemas of custom resources.
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

/// Goes through a JSON text once and writes what it becomes.
///
/// The text is known to be valid JSON. On any other what is written means nothing, but nothing panics or runs on.
struct Walk<'a> {
    names: &'a Anonymiser,
    json: &'a str,
    at: usize,
    out: String,
}

// === impl Walk ===

impl<'a> Walk<'a> {
    fn value(&mut self, role: Role, depth: usize) {
        match self.peek() {
            b'{' | b'[' if depth >= MAX_DEPTH => {
                self.skip();
                self.out.push_str("null");
            }
            b'{' => self.map(role, depth),
            b'[' => self.list(role, depth),
            b'"' => {
                let string = self.string();
                self.renamed(string, role);
            }
            _ => {
                let scalar = self.skip();
                self.out.push_str(scalar);
            }
        }
    }

    fn map(&mut self, role: Role, depth: usize) {
        self.at += 1;
        self.out.push('{');
        let mut first = true;
        while self.more() {
            let string = self.string();
            if self.peek() == b':' {
                self.at += 1;
            }
            let name = unquoted(string);
            let inside = role.member(&name);
            if inside == Role::Cut {
                self.skip();
                continue;
            }
            if !std::mem::take(&mut first) {
                self.out.push(',');
            }
            if role.renames(&name) {
                self.renamed(string, Role::Plain);
            } else {
                self.out.push_str(string);
            }
            self.out.push(':');
            self.value(inside, depth + 1);
        }
        self.out.push('}');
    }

    fn list(&mut self, role: Role, depth: usize) {
        self.at += 1;
        self.out.push('[');
        let mut first = true;
        while self.more() {
            if !std::mem::take(&mut first) {
                self.out.push(',');
            }
            self.value(role.entry(), depth + 1);
        }
        self.out.push(']');
    }

    /// Writes what a string with its quotes becomes.
    fn renamed(&mut self, string: &str, role: Role) {
        match unquoted(string) {
            // What is kept of a text without escapes needs none either.
            Cow::Borrowed(text) => {
                self.out.push('"');
                self.names.rename(text, role, &mut self.out);
                self.out.push('"');
            }
            Cow::Owned(text) => {
                let mut renamed = String::with_capacity(text.len());
                self.names.rename(&text, role, &mut renamed);
                let string = serde_json::to_string(&renamed).expect("every text can be written as JSON");
                self.out.push_str(&string);
            }
        }
    }

    /// The first byte of what comes next; 0 at the end.
    fn peek(&mut self) -> u8 {
        let rest = self.json.as_bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.json.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Whether the map or list has another member; stands before it then, else behind the closing bracket.
    fn more(&mut self) -> bool {
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

    /// Reads the string that begins here and gives it with its quotes.
    fn string(&mut self) -> &'a str {
        self.peek();
        let from = self.at;
        self.at = end_of_string(self.json.as_bytes(), from);
        self.json.get(from..self.at).unwrap_or_default()
    }

    /// Reads past one value and gives its text.
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

/// The index behind the string that begins at `start`, and always behind `start`.
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

/// The text of a JSON string with its quotes; its escapes as they stand if they make no text, as half a surrogate
/// pair does.
fn unquoted(string: &str) -> Cow<'_, str> {
    let inner = string.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    Cow::Owned(serde_json::from_str(string).unwrap_or_else(|_| inner.to_owned()))
}

#[cfg(test)]
mod tests;

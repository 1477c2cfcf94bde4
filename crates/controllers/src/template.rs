//! Templates of pods, and the pods that are made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::requests::PodResources;
use model::{Moment, NamespacedName, Object};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::pod::Pods;
use super::table::{Held, Metadata, Spec, created_now};

/// The label by which a Deployment tells its ReplicaSets apart.
pub(super) const TEMPLATE_HASH: &str = "pod-template-hash";
/// The label by which StatefulSets and DaemonSets tell revisions apart.
pub(super) const REVISION_HASH: &str = "controller-revision-hash";

/// Letters of names that are made up: no vowels, and nothing that looks like another.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// A prefix is cut so that the name fits into a label.
const LONGEST_PREFIX: usize = 58;

/// A template of pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Template {
    pub(super) value: Value,
    /// What tells it from others: all but the label that is added to tell it from others.
    pub(super) text: Arc<str>,
}

/// The words by which templates were told apart in a recording, by what [`word_of`] tells of each.
pub type Words = BTreeMap<u64, Arc<str>>;

/// Makes names and uids.
#[derive(Debug)]
pub(super) struct Names {
    dice: Pcg64,
    words: Words,
    is_beside_recording: bool,
    /// Names of pods that were made in this look, which the world does not have yet.
    made: BTreeSet<NamespacedName>,
}

/// A pod to be.
pub(super) struct NewPod {
    pub(super) name: NewName,
    pub(super) metadata: Map<String, Value>,
    pub(super) spec: Map<String, Value>,
}

/// How a pod gets its name.
pub(super) enum NewName {
    Fixed(String),
    /// Letters are added.
    Prefix(String),
}

// === impl Template ===

impl Template {
    /// A word for it, that another template of the same owner is not likely to have. Kubernetes' own word comes from how Go
    /// prints the template's types, and is another.
    pub(super) fn hash(&self, collisions: i64) -> String {
        let mut hash: u32 = 0x811c_9dc5;
        let more = if collisions == 0 { String::new() } else { collisions.to_string() };
        for byte in self.text.bytes().chain(more.bytes()) {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
        let letter = |digit: u8| char::from(LETTERS[usize::from(digit) % LETTERS.len()]);
        hash.to_string().bytes().map(letter).collect()
    }

    pub(super) fn labels(&self) -> Map<String, Value> {
        self.value.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// The template with one more label.
    pub(super) fn labelled(&self, key: &str, value: &str) -> Value {
        let mut template = self.value.clone();
        let mut labels = self.labels();
        labels.insert(key.to_owned(), value.into());
        if !template["metadata"].is_object() {
            template["metadata"] = json!({});
        }
        template["metadata"]["labels"] = labels.into();
        template
    }

    /// A pod of it, for its owner.
    pub(super) fn pod<S: Spec>(&self, owner: &Held<S>) -> NewPod {
        let field = |path: &str| self.value.pointer(path).and_then(Value::as_object).cloned();
        let mut metadata = Map::new();
        for key in ["labels", "annotations", "finalizers"] {
            if let Some(value) = self.value.pointer(&format!("/metadata/{key}")) {
                metadata.insert(key.to_owned(), value.clone());
            }
        }
        metadata.insert("namespace".to_owned(), (*owner.name.namespace).into());
        metadata.insert("ownerReferences".to_owned(), json!([owner.reference()]));
        NewPod {
            name: NewName::Prefix(format!("{}-", owner.name.name)),
            metadata,
            spec: field("/spec").unwrap_or_default(),
        }
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Template, D::Error> {
        Value::deserialize(deserializer).map(Template::from)
    }
}

impl From<Value> for Template {
    fn from(mut value: Value) -> Template {
        if !value.is_object() {
            value = json!({});
        }
        drop_nulls(&mut value);
        let mut bare = value.clone();
        if let Some(labels) = bare.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.remove(TEMPLATE_HASH);
        }
        // Empty and absent are the same to Kubernetes.
        for key in ["labels", "annotations"] {
            if bare.pointer(&format!("/metadata/{key}")).and_then(Value::as_object).is_some_and(Map::is_empty)
                && let Some(metadata) = bare["metadata"].as_object_mut()
            {
                metadata.remove(key);
            }
        }
        if bare["metadata"].as_object().is_some_and(Map::is_empty)
            && let Some(bare) = bare.as_object_mut()
        {
            bare.remove("metadata");
        }
        Template { text: bare.to_string().into(), value }
    }
}

/// Older API servers write fields without a value.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// What tells a ReplicaSet's template from others, and the word that its Deployment has for it.
pub fn word_of(replica_set: &Object) -> Option<(u64, Arc<str>)> {
    #[derive(Deserialize)]
    struct SetJson {
        metadata: Metadata,
        spec: SpecJson,
    }
    #[derive(Deserialize)]
    struct SpecJson {
        template: Template,
    }
    let set: SetJson = replica_set.view().ok()?;
    let word = set.metadata.labels.get(TEMPLATE_HASH)?;
    Some((template_key(&set.spec.template.text), word.into()))
}

/// FNV-1a: two templates of a cluster have the same one time in 10¹⁹.
fn template_key(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

// === impl NewPod ===

impl NewPod {
    /// A label of the pod.
    pub(super) fn label(&mut self, key: &str, value: &str) {
        self.note("labels", key, value);
    }

    pub(super) fn annotate(&mut self, key: &str, value: &str) {
        self.note("annotations", key, value);
    }

    fn note(&mut self, field: &str, key: &str, value: &str) {
        let notes = self.metadata.entry(field).or_insert_with(|| json!({}));
        if !notes.is_object() {
            *notes = json!({});
        }
        notes[key] = value.into();
    }

    /// The pod as an API server lets it in: with name and uid, requests that follow from limits, its priority, and what it
    /// tolerates for a while.
    pub(super) fn make(mut self, now: Moment, pods: &Pods, classes: &[Value], names: &mut Names) -> Object {
        match self.name {
            NewName::Fixed(name) => {
                self.metadata.insert("name".to_owned(), name.into());
            }
            NewName::Prefix(prefix) => {
                let namespace: Arc<str> =
                    self.metadata.get("namespace").and_then(Value::as_str).unwrap_or_default().into();
                let cut =
                    (0..=LONGEST_PREFIX.min(prefix.len())).rev().find(|end| prefix.is_char_boundary(*end));
                let base = &prefix[..cut.unwrap_or(0)];
                let name = loop {
                    let name: Arc<str> = format!("{base}{}", names.letters()).into();
                    let full = NamespacedName { namespace: namespace.clone(), name: name.clone() };
                    if !pods.contains(&full) && names.made.insert(full) {
                        break name;
                    }
                };
                self.metadata.insert("generateName".to_owned(), prefix.into());
                self.metadata.insert("name".to_owned(), (*name).into());
            }
        }
        self.metadata.insert("uid".to_owned(), names.uid(now).into());
        self.metadata.insert("creationTimestamp".to_owned(), created_now(now));
        self.metadata.insert("generation".to_owned(), 1.into());
        let mut pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": self.metadata, "spec": self.spec});
        kubernetes::admission::admit(&mut pod, classes);
        let object = Object::trusted(pod.to_string());
        let class =
            object.view::<PodResources<'_>>().ok().map(|resources| format!("{:?}", resources.qos_class()));
        pod["status"] = json!({"phase": "Pending"});
        if let Some(class) = class {
            pod["status"]["qosClass"] = class.into();
        }
        Object::trusted(pod.to_string())
    }
}

// === impl Names ===

impl Names {
    pub(super) fn new(seed: u64) -> Names {
        Names {
            dice: Pcg64::seed_from_u64(seed),
            words: Words::new(),
            is_beside_recording: false,
            made: BTreeSet::new(),
        }
    }

    pub(super) fn learn(&mut self, words: Words) {
        (self.words, self.is_beside_recording) = (words, true);
    }

    /// The word for a template: as recorded, or one of our own.
    pub(super) fn word(&self, template: &Template, collisions: i64) -> String {
        match self.words.get(&template_key(&template.text)).filter(|_| collisions == 0) {
            Some(word) => word.to_string(),
            None => template.hash(collisions),
        }
    }

    /// What was made before is in the world by now.
    pub(super) fn begin_look(&mut self) {
        self.made.clear();
    }

    /// What an API server adds to a name that is not to be the same twice.
    fn letters(&mut self) -> String {
        let mut number = self.dice.next_u32();
        let mut letters = String::with_capacity(5);
        for _ in 0..5 {
            letters.push(char::from(LETTERS[number as usize % LETTERS.len()]));
            number /= 27;
        }
        letters
    }

    /// A uid that looks like those of API servers. What was recorded may have been made by the same dice, at other moments:
    /// none of its uids is to come again.
    pub(super) fn uid(&mut self, now: Moment) -> String {
        let moment = if self.is_beside_recording { now.nanos() as u64 } else { 0 };
        let (a, b) = (self.dice.next_u64() ^ moment, self.dice.next_u64());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            0x8000 | (b >> 48) & 0x3fff,
            b & 0xffff_ffff_ffff
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_the_same_whatever_tells_it_apart() {
        let template = |json: &str| serde_json::from_str::<Template>(json).unwrap();
        let own = template(r#"{"metadata":{"labels":{"app":"a"}},"spec":{"x":1}}"#);
        let hashed = template(
            r#"{"spec":{"x":1},"metadata":{"creationTimestamp":null,"labels":{"pod-template-hash":"7","app":"a"}}}"#,
        );
        assert_eq!(own.text, hashed.text);
        assert_ne!(own.text, template(r#"{"metadata":{"labels":{"app":"a"}},"spec":{"x":2}}"#).text);
        assert_eq!(template(r#"{"metadata":{"labels":{}}}"#).text, template("{}").text);
        let labelled = Template::from(own.labelled(TEMPLATE_HASH, &own.hash(0)));
        assert_eq!(labelled.text, own.text);
    }

    #[test]
    fn names_made_in_one_look_differ() {
        // By chance some fourteen of so many would be the same.
        let (pods, mut names) = (Pods::default(), Names::new(7));
        let mut made = BTreeSet::new();
        for _ in 0..20_000 {
            let pod =
                NewPod { name: NewName::Prefix("w-".to_owned()), metadata: Map::new(), spec: Map::new() };
            let pod = pod.make(Moment::from_nanos(0), &pods, &[], &mut names);
            assert!(made.insert(pod.meta().name.to_string()), "{}", pod.meta().name);
        }
    }

    #[test]
    fn words_have_the_letters_of_kubernetes_and_follow_the_seed() {
        let template = Template::from(json!({"spec": {}}));
        let word = template.hash(0);
        assert!(word.bytes().all(|letter| LETTERS.contains(&letter)) && word.len() <= 10, "{word}");
        assert_ne!(word, template.hash(1));
        let (mut one, mut other) = (Names::new(7), Names::new(7));
        let now = Moment::from_nanos(7);
        assert_eq!((one.uid(now), one.letters()), (other.uid(now), other.letters()));
        one.learn(Words::new());
        assert_ne!(one.uid(now), other.uid(now), "beside a recording");
        let uid = one.uid(now);
        let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uid}");
    }
}

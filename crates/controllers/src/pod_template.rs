//! Pod templates, and the pods made from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::template_hash::{pod_template_hash, revision_hash};
use kubernetes::objects::{ObjectMeta, PodSpec, PodStatus};
use kubernetes::requests::PodResources;
use model::{Moment, NamespacedName, Object};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::object_table::{CachedObject, ObjectSpec, creation_timestamp};
use super::pod::PodTable;

/// The label that distinguishes the ReplicaSets of a Deployment.
pub(super) const POD_TEMPLATE_HASH_LABEL: &str = "pod-template-hash";
/// The label that distinguishes the revisions of StatefulSets and DaemonSets.
pub(super) const CONTROLLER_REVISION_HASH_LABEL: &str = "controller-revision-hash";

/// The alphabet of generated names: no vowels, and no letters that look alike.
const NAME_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Prefixes are truncated to this length, so that a name fits into a label.
const MAX_GENERATED_PREFIX: usize = 58;

/// A pod template.
#[derive(Clone, Debug, Default)]
pub(super) struct PodTemplate {
    pub(super) value: Value,
    /// Its normalized JSON, by which templates are compared: without the pod template hash.
    pub(super) normalized: Arc<str>,
}

/// Recorded pod template hashes, by the template's key; both are returned by [`template_hash_of`].
pub type TemplateHashes = BTreeMap<u64, Arc<str>>;

/// Generates names and uids.
#[derive(Debug)]
pub(super) struct NameGenerator {
    rng: Pcg64,
    recorded_hashes: TemplateHashes,
    is_replay: bool,
    uses_original_hashes: bool,
    /// Names of pods created in this sync, which are not in the cache yet.
    created_pods: BTreeSet<NamespacedName>,
}

/// A pod to create.
pub(super) struct NewPod {
    pub(super) name: NewPodName,
    pub(super) metadata: Map<String, Value>,
    pub(super) spec: Map<String, Value>,
}

/// The name of a new pod.
pub(super) enum NewPodName {
    Fixed(String),
    /// A random suffix is appended.
    Generated(String),
}

// === impl PodTemplate ===

impl PodTemplate {
    /// The original's hash in the names of ReplicaSets and of the revisions of DaemonSets.
    pub(super) fn original_hash(&self, collisions: i64) -> String {
        let count = u32::try_from(collisions).ok().filter(|count| *count > 0);
        // Of a template with fields that Kubernetes 1.36 does not have there is none.
        pod_template_hash(&self.value, count).unwrap_or_else(|| self.hash(collisions))
    }

    /// A hash of the template's JSON, unlikely to be that of another template of the same owner.
    pub(super) fn hash(&self, collisions: i64) -> String {
        let mut hash: u32 = 0x811c_9dc5;
        let collision_text = if collisions == 0 { String::new() } else { collisions.to_string() };
        for byte in self.normalized.bytes().chain(collision_text.bytes()) {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
        let to_letter = |digit: u8| char::from(NAME_LETTERS[usize::from(digit) % NAME_LETTERS.len()]);
        hash.to_string().bytes().map(to_letter).collect()
    }

    pub(super) fn labels(&self) -> Map<String, Value> {
        self.value.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// The template with an additional label.
    pub(super) fn with_label(&self, key: &str, value: &str) -> Value {
        let mut template = self.value.clone();
        let mut labels = self.labels();
        labels.insert(key.to_owned(), value.into());
        if !template["metadata"].is_object() {
            template["metadata"] = json!({});
        }
        template["metadata"]["labels"] = labels.into();
        template
    }

    /// A new pod from the template, with its owner.
    pub(super) fn new_pod<S: ObjectSpec>(&self, owner: &CachedObject<S>) -> NewPod {
        let field = |path: &str| self.value.pointer(path).and_then(Value::as_object).cloned();
        let mut metadata = Map::new();
        for key in ["labels", "annotations", "finalizers"] {
            if let Some(value) = self.value.pointer(&format!("/metadata/{key}")) {
                metadata.insert(key.to_owned(), value.clone());
            }
        }
        metadata.insert("namespace".to_owned(), (*owner.name.namespace).into());
        metadata.insert("ownerReferences".to_owned(), json!([owner.controller_reference()]));
        NewPod {
            name: NewPodName::Generated(format!("{}-", owner.name.name)),
            metadata,
            spec: field("/spec").unwrap_or_default(),
        }
    }
}

impl<'de> Deserialize<'de> for PodTemplate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PodTemplate, D::Error> {
        Value::deserialize(deserializer).map(PodTemplate::from)
    }
}

impl From<Value> for PodTemplate {
    fn from(mut value: Value) -> PodTemplate {
        if !value.is_object() {
            value = json!({});
        }
        drop_nulls(&mut value);
        let mut normalized = value.clone();
        if let Some(labels) = normalized.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.remove(POD_TEMPLATE_HASH_LABEL);
        }
        // Kubernetes does not distinguish empty from absent.
        for key in ["labels", "annotations"] {
            if normalized
                .pointer(&format!("/metadata/{key}"))
                .and_then(Value::as_object)
                .is_some_and(Map::is_empty)
                && let Some(metadata) = normalized["metadata"].as_object_mut()
            {
                metadata.remove(key);
            }
        }
        if normalized["metadata"].as_object().is_some_and(Map::is_empty)
            && let Some(normalized) = normalized.as_object_mut()
        {
            normalized.remove("metadata");
        }
        PodTemplate { normalized: normalized.to_string().into(), value }
    }
}

/// Removes nulls, which older API servers write.
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

/// The key of a ReplicaSet's template, and its recorded pod template hash.
pub fn template_hash_of(replica_set: &Object) -> Option<(u64, Arc<str>)> {
    #[derive(Deserialize)]
    struct SetJson {
        metadata: ObjectMeta,
        spec: SpecJson,
    }
    #[derive(Deserialize)]
    struct SpecJson {
        template: PodTemplate,
    }
    let set: SetJson = replica_set.view().ok()?;
    let hash_text = set.metadata.labels.get(POD_TEMPLATE_HASH_LABEL)?;
    Some((template_key(&set.spec.template.normalized), hash_text.into()))
}

/// FNV-1a: two templates collide with a probability of one in 10¹⁹.
fn template_key(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

// === impl NewPod ===

impl NewPod {
    /// Sets a label.
    pub(super) fn set_label(&mut self, key: &str, value: &str) {
        self.set_metadata("labels", key, value);
    }

    pub(super) fn set_annotation(&mut self, key: &str, value: &str) {
        self.set_metadata("annotations", key, value);
    }

    fn set_metadata(&mut self, field: &str, key: &str, value: &str) {
        let entries = self.metadata.entry(field).or_insert_with(|| json!({}));
        if !entries.is_object() {
            *entries = json!({});
        }
        entries[key] = value.into();
    }

    /// The pod as an API server admits it: with name and uid, requests defaulted from limits, its priority, and default
    /// tolerations.
    pub(super) fn build(
        mut self,
        now: Moment,
        pods: &PodTable,
        classes: &[Value],
        names: &mut NameGenerator,
    ) -> Object {
        match self.name {
            NewPodName::Fixed(name) => {
                self.metadata.insert("name".to_owned(), name.into());
            }
            NewPodName::Generated(prefix) => {
                let namespace: Arc<str> =
                    self.metadata.get("namespace").and_then(Value::as_str).unwrap_or_default().into();
                let prefix_end = (0..=MAX_GENERATED_PREFIX.min(prefix.len()))
                    .rev()
                    .find(|end| prefix.is_char_boundary(*end));
                let base = &prefix[..prefix_end.unwrap_or(0)];
                let name = loop {
                    let name: Arc<str> = format!("{base}{}", names.random_suffix()).into();
                    let full_name = NamespacedName { namespace: namespace.clone(), name: name.clone() };
                    if !pods.contains(&full_name) && names.created_pods.insert(full_name) {
                        break name;
                    }
                };
                self.metadata.insert("generateName".to_owned(), prefix.into());
                self.metadata.insert("name".to_owned(), (*name).into());
            }
        }
        self.metadata.insert("uid".to_owned(), names.uid(now).into());
        self.metadata.insert("creationTimestamp".to_owned(), creation_timestamp(now));
        self.metadata.insert("generation".to_owned(), 1.into());
        let mut pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": self.metadata, "spec": self.spec});
        kubernetes::admission::admit(&mut pod, classes);
        pod["status"] = json!({"phase": "Pending"});
        if let Ok(spec) = PodSpec::deserialize(&pod["spec"]) {
            let resources = PodResources { spec: &spec, status: &PodStatus::default() };
            pod["status"]["qosClass"] = resources.qos_class().to_string().into();
        }
        Object::from_trusted(pod.to_string())
    }
}

// === impl NameGenerator ===

impl NameGenerator {
    pub(super) fn new(seed: u64) -> NameGenerator {
        NameGenerator {
            rng: Pcg64::seed_from_u64(seed),
            recorded_hashes: TemplateHashes::new(),
            is_replay: false,
            uses_original_hashes: false,
            created_pods: BTreeSet::new(),
        }
    }

    pub(super) fn use_original_hashes(&mut self) {
        self.uses_original_hashes = true;
    }

    pub(super) fn use_recorded_hashes(&mut self, recorded_hashes: TemplateHashes) {
        (self.recorded_hashes, self.is_replay) = (recorded_hashes, true);
    }

    /// The pod template hash: as recorded, or computed.
    pub(super) fn template_hash(&self, template: &PodTemplate, collisions: i64) -> String {
        match self.recorded_hashes.get(&template_key(&template.normalized)).filter(|_| collisions == 0) {
            Some(hash_text) => hash_text.to_string(),
            None if self.uses_original_hashes => template.original_hash(collisions),
            None => template.hash(collisions),
        }
    }

    /// The hash in the name of a set's revision. `data` is the revision's.
    pub(super) fn revision_hash(
        &self,
        template: &PodTemplate,
        data: &Value,
        collisions: u32,
        is_daemon_set: bool,
    ) -> String {
        match (self.uses_original_hashes, is_daemon_set) {
            (true, true) => template.original_hash(collisions.into()),
            (true, false) => revision_hash(data, collisions),
            (false, _) => template.hash(collisions.into()),
        }
    }

    /// Begins a sync: pods created before are in the cache by now.
    pub(super) fn begin_sync(&mut self) {
        self.created_pods.clear();
    }

    /// The random suffix that an API server appends to `generateName`.
    fn random_suffix(&mut self) -> String {
        let mut number = self.rng.next_u32();
        let mut suffix = String::with_capacity(5);
        for _ in 0..5 {
            suffix.push(char::from(NAME_LETTERS[number as usize % NAME_LETTERS.len()]));
            number /= 27;
        }
        suffix
    }

    /// A uid in the format of API servers. A recorded run may have used the same seed at other moments, and its uids
    /// must not occur again.
    pub(super) fn uid(&mut self, now: Moment) -> String {
        let time_part = if self.is_replay { now.nanos() as u64 } else { 0 };
        let (a, b) = (self.rng.next_u64() ^ time_part, self.rng.next_u64());
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
    fn the_template_hash_label_does_not_distinguish_templates() {
        let template = |json: &str| serde_json::from_str::<PodTemplate>(json).unwrap();
        let unlabeled_template = template(r#"{"metadata":{"labels":{"app":"a"}},"spec":{"x":1}}"#);
        let hashed = template(
            r#"{"spec":{"x":1},"metadata":{"creationTimestamp":null,"labels":{"pod-template-hash":"7","app":"a"}}}"#,
        );
        assert_eq!(unlabeled_template.normalized, hashed.normalized);
        assert_ne!(
            unlabeled_template.normalized,
            template(r#"{"metadata":{"labels":{"app":"a"}},"spec":{"x":2}}"#).normalized
        );
        assert_eq!(template(r#"{"metadata":{"labels":{}}}"#).normalized, template("{}").normalized);
        let labeled = PodTemplate::from(
            unlabeled_template.with_label(POD_TEMPLATE_HASH_LABEL, &unlabeled_template.hash(0)),
        );
        assert_eq!(labeled.normalized, unlabeled_template.normalized);
    }

    #[test]
    fn names_generated_in_one_sync_differ() {
        // Some fourteen of so many random names would collide.
        let (pods, mut names) = (PodTable::default(), NameGenerator::new(7));
        let mut generated = BTreeSet::new();
        for _ in 0..20_000 {
            let pod = NewPod {
                name: NewPodName::Generated("w-".to_owned()),
                metadata: Map::new(),
                spec: Map::new(),
            };
            let pod = pod.build(Moment::from_nanos(0), &pods, &[], &mut names);
            assert!(generated.insert(pod.meta().name.to_string()), "{}", pod.meta().name);
        }
    }

    #[test]
    fn hashes_have_the_letters_of_kubernetes_and_uids_follow_the_seed() {
        let template = PodTemplate::from(json!({"spec": {}}));
        let hash_text = template.hash(0);
        assert!(
            hash_text.bytes().all(|to_letter| NAME_LETTERS.contains(&to_letter)) && hash_text.len() <= 10,
            "{hash_text}"
        );
        assert_ne!(hash_text, template.hash(1));
        let (mut first_generator, mut second_generator) = (NameGenerator::new(7), NameGenerator::new(7));
        let now = Moment::from_nanos(7);
        assert_eq!(
            (first_generator.uid(now), first_generator.random_suffix()),
            (second_generator.uid(now), second_generator.random_suffix())
        );
        first_generator.use_recorded_hashes(TemplateHashes::new());
        assert_ne!(first_generator.uid(now), second_generator.uid(now), "beside a recording");
        let uid = first_generator.uid(now);
        let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uid}");
    }
}

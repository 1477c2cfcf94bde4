//! What a user chooses to record of a cluster, and all that follows from it.
//!
//! The flags of `record`, our configuration file, the configuration of SimKube's tracer and Gardener's table of clusters are
//! all parsed into a [`RecordingPolicy`]. What the watches ask a server for ([`wanted`](RecordingPolicy::wanted)) and what is
//! written of the answers ([`filter`](RecordingPolicy::filter)) are derived from it here and nowhere else. The tables behind
//! it, default kinds and fields that are removed, are in [`kubernetes::recording`].

use std::time::Duration;

use history::Retention;
use kubernetes::recording::{CONTROL_PLANE_DEPLOYMENT, CONTROL_PLANE_KINDS, SIMULATOR_KINDS, kinds_of};
use kubernetes::rules::{self, Description, RedactKey, Rules, Sieve, Verdict};
use kubernetes::selector::Selector;
use live::{EventChoice, KindChoice, Wanted};
use model::{Key, Kind, Object, What};

/// What of a cluster is recorded, and for how long.
///
/// Whatever it says, Secrets are neither watched nor written, and [`rules::disclosed`] decides what may be written of an
/// object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingPolicy {
    /// These kinds instead of the [default ones](kubernetes::recording::DEFAULT_KINDS), in kubectl's words.
    pub kinds: Option<Vec<String>>,
    /// These kinds too, in kubectl's words.
    pub also: Vec<String>,
    /// These kinds too, as soon as the server has them.
    pub if_served: Vec<Kind>,
    /// But not these kinds, in kubectl's words.
    pub skip: Vec<String>,
    /// Objects in these namespaces, and those in none; all objects if it is empty.
    pub namespaces: Vec<String>,
    /// Only objects with these labels: a selector in kubectl's words.
    pub selector: Option<String>,
    /// Which Events.
    pub events: EventChoice,
    /// How often the usage of nodes and pods is sampled from `metrics.k8s.io`; `None`: never.
    pub usage: Option<Duration>,
    /// Which changes and fields are written.
    pub detail: Detail,
    /// The key by which values of environment variables are replaced with tokens; `None`: they are written as they are.
    pub redaction: Option<RedactKey>,
    /// How long what was written is kept.
    pub retention: Retention,
    /// The kinds are listed one after the other, in the order of `kinds`.
    pub in_order: bool,
}

/// Which changes and fields are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Those that matter to scheduling, by the rules that `--show-rules` prints.
    #[default]
    Significant,
    /// Every version of every object, with all its fields.
    Everything,
}

/// Decides what is written of each change, in the order of the changes.
pub struct RecordFilter {
    /// `None`: every change is written.
    sieve: Option<Sieve>,
    redaction: Option<RedactKey>,
}

/// The names of [`EventChoice`] that users type.
pub fn event_choice(text: &str) -> Result<EventChoice, String> {
    match text {
        "all" => Ok(EventChoice::All),
        "scheduling" => Ok(EventChoice::Scheduling),
        "none" => Ok(EventChoice::None),
        _ => Err(format!("{text:?} is none of all, scheduling, none")),
    }
}

/// The rules by which fields and changes are left out, in words.
pub fn describe() -> Vec<Description> {
    rules::describe()
}

// === impl RecordingPolicy ===

impl RecordingPolicy {
    /// The policy of kube-scheduler-simulator's recorder, for what a user does not choose: seven kinds, one after the other,
    /// with all fields. Its replayer creates a pod only where its namespace is.
    pub fn of_simulator(self) -> RecordingPolicy {
        let kinds = self.kinds.unwrap_or_else(|| SIMULATOR_KINDS.map(str::to_owned).to_vec());
        RecordingPolicy { kinds: Some(kinds), detail: Detail::Everything, in_order: true, ..self }
    }

    /// Refuses words that mean Secrets, before a server is asked.
    pub fn check(&self) -> live::Result<()> {
        self.kind_choice().check()
    }

    /// Refuses a selector that cannot be read.
    pub fn check_selector(&self) -> anyhow::Result<()> {
        if let Some(selector) = &self.selector {
            Selector::parse(selector)?;
        }
        Ok(())
    }

    /// What is watched of the cluster. Kinds, namespaces, labels and events are also the scope that positions are kept for.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            kinds: self.kind_choice(),
            namespaces: self.namespaces.clone(),
            labels: self.selector.clone(),
            events: self.events,
            usage: self.usage,
            in_order: self.in_order,
        }
    }

    /// What is watched of the control plane of the cluster, which has a namespace in another cluster.
    pub fn wanted_of_control_plane(&self, namespace: &str) -> Wanted {
        let if_there = kinds_of(CONTROL_PLANE_KINDS).collect();
        let kinds = KindChoice { only: Some(Vec::new()), if_there, ..KindChoice::default() };
        Wanted { kinds, namespaces: vec![namespace.to_owned()], events: self.events, ..Wanted::default() }
    }

    /// What is written of what is watched.
    pub fn filter(&self) -> RecordFilter {
        let sieve = match self.detail {
            Detail::Significant => Some(Sieve::new(Rules { redact: self.redaction.clone() })),
            Detail::Everything => None,
        };
        RecordFilter { sieve, redaction: self.redaction.clone() }
    }

    fn kind_choice(&self) -> KindChoice {
        KindChoice {
            only: self.kinds.clone(),
            also: self.also.clone(),
            if_there: self.if_served.clone(),
            skip: self.skip.clone(),
        }
    }
}

/// Whether an object that was seen in a control plane belongs to the recording. A control plane has a version of its own, and
/// other Deployments.
pub(crate) fn is_of_control_plane(key: &Key) -> bool {
    match &*key.kind.kind {
        "Deployment" => *key.name == *CONTROL_PLANE_DEPLOYMENT,
        kind => kind != "ServerVersion",
    }
}

// === impl RecordFilter ===

impl RecordFilter {
    /// Takes it that an object was written like this by an earlier run.
    pub fn know(&mut self, key: &Key, written: &Object) {
        if let Some(sieve) = &mut self.sieve {
            sieve.know(key, written);
        }
    }

    /// What to write of the next change; `None` if it is nothing.
    pub fn pass(&mut self, key: &Key, what: &What) -> Option<What> {
        // The sieve replaces values itself.
        let redaction = if self.sieve.is_some() { None } else { self.redaction.as_ref() };
        let what = what.with(rules::disclosed(what.object().clone(), &key.kind, redaction)?);
        let Some(sieve) = &mut self.sieve else { return Some(what) };
        match sieve.pass(key, &what) {
            Verdict::Keep(what) => Some(what),
            Verdict::Drop(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written of an object that is added.
    fn written(policy: &RecordingPolicy, json: &str) -> Option<String> {
        let object = Object::parse(json).unwrap();
        let key = object.key(&"s".into());
        policy.filter().pass(&key, &What::Added(object)).map(|what| what.object().as_str().to_owned())
    }

    /// With every combination of detail and redaction.
    fn policies() -> Vec<RecordingPolicy> {
        let mut all = Vec::new();
        for detail in [Detail::Significant, Detail::Everything] {
            for redaction in [None, Some(RedactKey([7; 16]))] {
                all.push(RecordingPolicy { detail, redaction, ..RecordingPolicy::default() });
            }
        }
        all
    }

    #[test]
    fn secrets_and_the_data_of_config_maps_are_written_by_no_policy() {
        let secret = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"p":"eA=="}}"#;
        let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"p":"x"}}"#;
        let bare = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}"#;
        for policy in policies() {
            assert_eq!(written(&policy, secret), None, "{policy:?}");
            assert_eq!(written(&policy, map).as_deref(), Some(bare), "{policy:?}");
        }
    }

    #[test]
    fn fields_go_with_detail_and_values_with_a_key() {
        let pod = |fields: &str, value: &str| {
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"{fields}}},"spec":{{"containers":[{{"env":[{{"name":"A","value":{value}}}]}}]}}}}"#
            )
        };
        let fields = r#","managedFields":[]"#;
        for policy in policies() {
            let kept = if policy.detail == Detail::Everything { fields } else { "" };
            let written = written(&policy, &pod(fields, r#""x""#)).unwrap();
            match policy.redaction {
                None => assert_eq!(written, pod(kept, r#""x""#)),
                Some(_) => assert!(written.contains("redacted:") && written.contains(kept), "{written}"),
            }
        }
    }

    #[test]
    fn a_version_that_means_the_same_is_written_again_only_with_everything() {
        let node = |version: &str| {
            let text = format!(
                r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"n","resourceVersion":"{version}"}}}}"#
            );
            Object::parse(&text).unwrap()
        };
        let key = node("1").key(&"s".into());
        for policy in policies() {
            let mut filter = policy.filter();
            filter.know(&key, &node("1"));
            let again = filter.pass(&key, &What::Modified(node("2")));
            assert_eq!(again.is_some(), policy.detail == Detail::Everything);
            assert!(filter.pass(&key, &What::Deleted(node("3"))).is_some());
        }
    }

    #[test]
    fn of_a_control_plane_its_autoscaler_and_machines_are_recorded() {
        let policy = RecordingPolicy {
            kinds: Some(vec!["pods".to_owned()]),
            selector: Some("app=web".to_owned()),
            events: EventChoice::Scheduling,
            ..RecordingPolicy::default()
        };
        let wanted = policy.wanted_of_control_plane("shoot--dev--prod");
        assert_eq!((wanted.namespaces, wanted.events), (vec!["shoot--dev--prod".to_owned()], policy.events));
        assert_eq!((wanted.kinds.only, wanted.labels), (Some(Vec::new()), None));
        let named = |kind: &str, name: &str| Key {
            source: "s".into(),
            kind: Kind::new("", kind),
            namespace: "shoot--dev--prod".into(),
            name: name.into(),
        };
        assert!(is_of_control_plane(&named("Deployment", "cluster-autoscaler")));
        assert!(is_of_control_plane(&named("MachineDeployment", "web")));
        assert!(!is_of_control_plane(&named("Deployment", "kube-apiserver")));
        assert!(!is_of_control_plane(&named("ServerVersion", "version")));
    }

    #[test]
    fn the_simulators_kinds_stand_where_a_user_chooses_none() {
        let policy = RecordingPolicy { also: vec!["jobs".to_owned()], ..RecordingPolicy::default() };
        let wanted = policy.of_simulator().wanted();
        assert_eq!(wanted.kinds.only.map(|kinds| kinds.len()), Some(7));
        assert!(wanted.in_order && wanted.kinds.also == ["jobs"]);
        let chosen = RecordingPolicy { kinds: Some(vec!["po".to_owned()]), ..RecordingPolicy::default() };
        assert_eq!(chosen.of_simulator().wanted().kinds.only, Some(vec!["po".to_owned()]));
    }
}

//! The recording policy of a cluster, and the scope and filter derived from it.
//!
//! The flags of `record`, our configuration file, SimKube's tracer configuration and Gardener's table of clusters are
//! all parsed into a [`RecordingPolicy`]. The scope of the watches ([`watch_scope`](RecordingPolicy::watch_scope)) and
//! the filter of written changes ([`filter`](RecordingPolicy::filter)) are derived from it here and nowhere else. The
//! tables of default kinds and removed fields are in [`kubernetes::recording`].

use std::time::Duration;

use history::Retention;
use kubernetes::change_filter::{
    self, ChangeFilter, FilterOptions, FilterVerdict, RedactKey, RuleDescription,
};
use kubernetes::recording::{CONTROL_PLANE_DEPLOYMENT, CONTROL_PLANE_KINDS, SIMULATOR_KINDS, kinds_of};
use kubernetes::selector::Selector;
use live::{EventChoice, KindChoice, WatchScope};
use model::{Key, Kind, Object, What};

/// The objects and fields of a cluster that are recorded, and their retention.
///
/// Independently of it, Secrets are neither watched nor written, and the data of ConfigMaps is removed unless
/// they belong to an autoscaler ([`change_filter::sanitize`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingPolicy {
    /// Kinds that replace the [default ones](kubernetes::recording::DEFAULT_KINDS), named as in kubectl.
    pub kinds: Option<Vec<String>>,
    /// Additional kinds, named as in kubectl.
    pub also: Vec<String>,
    /// Additional kinds, recorded as soon as the server has them.
    pub if_served: Vec<Kind>,
    /// Excluded kinds, named as in kubectl.
    pub skip: Vec<String>,
    /// Namespaces, in addition to cluster-scoped objects; all objects if it is empty.
    pub namespaces: Vec<String>,
    /// A label selector, in kubectl's syntax.
    pub selector: Option<String>,
    /// The Events.
    pub events: EventChoice,
    /// The interval at which usage is sampled from `metrics.k8s.io`; `None`: never.
    pub usage: Option<Duration>,
    /// Which changes and fields are written.
    pub detail: RecordingDetail,
    /// The key by which values of environment variables are replaced with tokens; `None`: they are written unchanged.
    pub redaction: Option<RedactKey>,
    /// How long written data is kept.
    pub retention: Retention,
    /// The kinds are listed one after the other, in the order of `kinds`.
    pub in_order: bool,
}

/// Which changes and fields are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordingDetail {
    /// Those that matter to scheduling, by the rules that `--show-rules` prints.
    #[default]
    Significant,
    /// Every version of every object, with all its fields.
    Everything,
}

/// The filter that decides, change by change, what is written.
pub struct RecordFilter {
    /// `None`: every change is written.
    change_filter: Option<ChangeFilter>,
    redaction: Option<RedactKey>,
}

/// Parses an [`EventChoice`].
pub fn parse_event_choice(text: &str) -> Result<EventChoice, String> {
    match text {
        "all" => Ok(EventChoice::All),
        "scheduling" => Ok(EventChoice::Scheduling),
        "none" => Ok(EventChoice::None),
        _ => Err(format!("unknown value {text:?}: expected all, scheduling or none")),
    }
}

/// Descriptions of the rules by which fields and changes are omitted.
pub fn describe_rules() -> Vec<RuleDescription> {
    change_filter::describe_rules()
}

// === impl RecordingPolicy ===

impl RecordingPolicy {
    /// Fills in the policy of kube-scheduler-simulator's recorder: seven kinds, listed one after the other, with all
    /// fields. The order matters because its replayer creates a pod only if its namespace exists.
    pub fn with_simulator_defaults(self) -> RecordingPolicy {
        let kinds = self.kinds.unwrap_or_else(|| SIMULATOR_KINDS.map(str::to_owned).to_vec());
        RecordingPolicy { kinds: Some(kinds), detail: RecordingDetail::Everything, in_order: true, ..self }
    }

    /// Rejects Secrets without contacting a server.
    pub fn check(&self) -> live::Result<()> {
        self.kind_choice().check()
    }

    /// Validates the selector.
    pub fn check_selector(&self) -> anyhow::Result<()> {
        if let Some(selector) = &self.selector {
            Selector::parse(selector)?;
        }
        Ok(())
    }

    /// The watched scope of the cluster. Positions are stored for its kinds, namespaces, labels and events.
    pub fn watch_scope(&self) -> WatchScope {
        WatchScope {
            kinds: self.kind_choice(),
            namespaces: self.namespaces.clone(),
            labels: self.selector.clone(),
            events: self.events,
            filter: self.filter_options(),
            usage: self.usage,
            in_order: self.in_order,
        }
    }

    /// The watched scope of the cluster's control plane, which is a namespace in another cluster.
    pub fn control_plane_scope(&self, namespace: &str) -> WatchScope {
        let if_served = kinds_of(CONTROL_PLANE_KINDS).collect();
        let kinds = KindChoice { only: Some(Vec::new()), if_served, ..KindChoice::default() };
        WatchScope {
            kinds,
            namespaces: vec![namespace.to_owned()],
            events: self.events,
            filter: self.filter_options(),
            ..WatchScope::default()
        }
    }

    /// The filter of written changes.
    pub fn filter(&self) -> RecordFilter {
        let change_filter = self.filter_options().map(ChangeFilter::new);
        RecordFilter { change_filter, redaction: self.redaction.clone() }
    }

    /// The options of the change filter; `None` if every change is written.
    fn filter_options(&self) -> Option<FilterOptions> {
        match self.detail {
            RecordingDetail::Significant => Some(FilterOptions { redact: self.redaction.clone() }),
            RecordingDetail::Everything => None,
        }
    }

    fn kind_choice(&self) -> KindChoice {
        KindChoice {
            only: self.kinds.clone(),
            also: self.also.clone(),
            if_served: self.if_served.clone(),
            skip: self.skip.clone(),
        }
    }
}

/// Whether an object of a control plane's cluster belongs to the recording: not the server version of that cluster, nor
/// other Deployments.
pub(crate) fn is_of_control_plane(key: &Key) -> bool {
    match &*key.kind.kind {
        "Deployment" => *key.name == *CONTROL_PLANE_DEPLOYMENT,
        kind => kind != "ServerVersion",
    }
}

// === impl RecordFilter ===

impl RecordFilter {
    /// Primes the filter with the object's version that an earlier run wrote.
    pub fn prime(&mut self, key: &Key, stored: &Object) {
        if let Some(change_filter) = &mut self.change_filter {
            change_filter.remember_stored(key, stored);
        }
    }

    /// The change to write; `None` if it is dropped.
    pub fn apply(&mut self, key: &Key, what: &What) -> Option<What> {
        // The change filter redacts values itself.
        let redaction = if self.change_filter.is_some() { None } else { self.redaction.as_ref() };
        let what = what.with_object(change_filter::sanitize(what.object().clone(), &key.kind, redaction)?);
        let Some(change_filter) = &mut self.change_filter else { return Some(what) };
        match change_filter.filter(key, &what) {
            FilterVerdict::Keep(what) => Some(what),
            FilterVerdict::Drop(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The written form of an added object.
    fn written(policy: &RecordingPolicy, json: &str) -> Option<String> {
        let object = Object::parse(json).unwrap();
        let key = object.key(&"s".into());
        policy.filter().apply(&key, &What::Added(object)).map(|what| what.object().as_str().to_owned())
    }

    /// With every combination of detail and redaction.
    fn policies() -> Vec<RecordingPolicy> {
        let mut all = Vec::new();
        for detail in [RecordingDetail::Significant, RecordingDetail::Everything] {
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
    fn fields_depend_on_detail_and_values_on_redaction() {
        let pod = |fields: &str, value: &str| {
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"{fields}}},"spec":{{"containers":[{{"env":[{{"name":"A","value":{value}}}]}}]}}}}"#
            )
        };
        let fields = r#","managedFields":[]"#;
        for policy in policies() {
            let kept = if policy.detail == RecordingDetail::Everything { fields } else { "" };
            let written = written(&policy, &pod(fields, r#""x""#)).unwrap();
            match policy.redaction {
                None => assert_eq!(written, pod(kept, r#""x""#)),
                Some(_) => assert!(written.contains("redacted:") && written.contains(kept), "{written}"),
            }
        }
    }

    #[test]
    fn an_insignificant_version_is_written_only_with_everything() {
        let node = |version: &str| {
            let text = format!(
                r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"n","resourceVersion":"{version}"}}}}"#
            );
            Object::parse(&text).unwrap()
        };
        let key = node("1").key(&"s".into());
        for policy in policies() {
            let mut filter = policy.filter();
            filter.prime(&key, &node("1"));
            let again = filter.apply(&key, &What::Modified(node("2")));
            assert_eq!(again.is_some(), policy.detail == RecordingDetail::Everything);
            assert!(filter.apply(&key, &What::Deleted(node("3"))).is_some());
        }
    }

    #[test]
    fn autoscaler_and_machines_of_a_control_plane_are_recorded() {
        let policy = RecordingPolicy {
            kinds: Some(vec!["pods".to_owned()]),
            selector: Some("app=web".to_owned()),
            events: EventChoice::Scheduling,
            ..RecordingPolicy::default()
        };
        let scope = policy.control_plane_scope("shoot--dev--prod");
        assert_eq!((scope.namespaces, scope.events), (vec!["shoot--dev--prod".to_owned()], policy.events));
        assert_eq!((scope.kinds.only, scope.labels), (Some(Vec::new()), None));
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
    fn the_simulators_kinds_are_used_unless_the_user_selects_kinds() {
        let policy = RecordingPolicy { also: vec!["jobs".to_owned()], ..RecordingPolicy::default() };
        let scope = policy.with_simulator_defaults().watch_scope();
        assert_eq!(scope.kinds.only.map(|kinds| kinds.len()), Some(7));
        assert!(scope.in_order && scope.kinds.also == ["jobs"]);
        let chosen = RecordingPolicy { kinds: Some(vec!["po".to_owned()]), ..RecordingPolicy::default() };
        assert_eq!(chosen.with_simulator_defaults().watch_scope().kinds.only, Some(vec!["po".to_owned()]));
    }
}

//! The kinds that Kubernetes 1.36 serves by default, and how kubectl resolves resource arguments to them.
//!
//! Kinds that cannot be listed (bindings and reviews) are omitted: no history can contain them.

use std::sync::LazyLock;

use model::Kind;
use rustc_hash::FxHashMap;

/// Discovery information about a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// The API group, empty for the core group.
    pub group: &'static str,
    /// The versions served, the preferred one first.
    pub versions: &'static [&'static str],
    /// `Deployment`.
    pub kind: &'static str,
    /// `deployments`: the name in API paths.
    pub plural: &'static str,
    /// `deploy`.
    pub short_names: &'static [&'static str],
    /// Its categories: `all`.
    pub categories: &'static [&'static str],
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// All kinds, in discovery order: if a word matches several, kubectl takes the first.
pub fn all() -> &'static [KindInfo] {
    KINDS
}

/// The discovery information of this kind; `None` if it is not built in.
pub fn of(kind: &Kind) -> Option<&'static KindInfo> {
    static BY_KIND: LazyLock<FxHashMap<(&str, &str), &KindInfo>> =
        LazyLock::new(|| KINDS.iter().map(|info| ((info.group, info.kind), info)).collect());
    BY_KIND.get(&(&*kind.group, &*kind.kind)).copied()
}

/// The kind to which kubectl resolves a word.
pub fn find(resource_name: &str) -> Option<&'static KindInfo> {
    candidates(resource_name).into_iter().next()
}

/// Every kind that a word may refer to, kubectl's choice first: `events` is the core group's, then `events.k8s.io`'s.
///
/// A word is a plural, a singular, a kind (in any case) or a short name, alone or followed by the group
/// (`deployments.apps`), a prefix of the group (`ingress.networking`) or a version and the group
/// (`deployments.v1.apps`).
pub fn candidates(resource_name: &str) -> Vec<&'static KindInfo> {
    let (name, group) = resource_name.split_once('.').unwrap_or((resource_name, ""));
    if let Some((version, group)) = group.split_once('.') {
        let found = matching(|info| {
            info.is_known_as(name)
                && info.versions.contains(&version)
                && (group.is_empty() || info.group == group)
        });
        if !found.is_empty() {
            return found;
        }
    }
    let exact = matching(|info| info.is_known_as(name) && (group.is_empty() || info.group == group));
    if !exact.is_empty() {
        return exact;
    }
    matching(|info| info.is_known_as(name) && info.group.starts_with(group))
}

/// Whether the kind is `Secret`, of any group, whose objects hold passwords and keys. They are never read from or
/// written to an API server, and leave a history only if a user requests it.
pub fn is_secret(kind: &Kind) -> bool {
    kind.kind.eq_ignore_ascii_case("Secret")
}

/// The kind of the objects that define custom resources.
pub fn definition_kind() -> Kind {
    Kind::new("apiextensions.k8s.io", "CustomResourceDefinition")
}

/// The kinds of a category such as `all`, in the order in which kubectl shows them.
pub fn in_category(category: &str) -> impl Iterator<Item = &'static KindInfo> {
    KINDS.iter().filter(move |info| info.categories.contains(&category))
}

/// The plural that Kubernetes guesses for an unknown kind: right for most, `gatewaies` for `Gateway`.
pub fn guess_plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    match singular.as_bytes().last() {
        None => singular,
        Some(_) if singular.ends_with("endpoints") => singular,
        Some(b's') => singular + "es",
        Some(b'y') => singular[..singular.len() - 1].to_owned() + "ies",
        Some(_) => singular + "s",
    }
}

// === impl KindInfo ===

impl KindInfo {
    /// `deployment`.
    pub fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// Whether it is known by that name. Short names are case-sensitive.
    fn is_known_as(&self, name: &str) -> bool {
        self.plural.eq_ignore_ascii_case(name)
            || self.kind.eq_ignore_ascii_case(name)
            || self.short_names.contains(&name)
    }

    const fn serving(mut self, versions: &'static [&'static str]) -> KindInfo {
        self.versions = versions;
        self
    }

    const fn within(mut self, categories: &'static [&'static str]) -> KindInfo {
        self.categories = categories;
        self
    }
}

fn matching(predicate: impl Fn(&KindInfo) -> bool) -> Vec<&'static KindInfo> {
    KINDS.iter().filter(|info| predicate(info)).collect()
}

const fn namespaced(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
) -> KindInfo {
    KindInfo { group, versions: &["v1"], kind, plural, short_names, categories: &[], namespaced: true }
}

const fn cluster_wide(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
) -> KindInfo {
    KindInfo { group, versions: &["v1"], kind, plural, short_names, categories: &[], namespaced: false }
}

static KINDS: &[KindInfo] = &[
    cluster_wide("", "ComponentStatus", "componentstatuses", &["cs"]),
    namespaced("", "ConfigMap", "configmaps", &["cm"]),
    namespaced("", "Endpoints", "endpoints", &["ep"]),
    namespaced("", "Event", "events", &["ev"]),
    namespaced("", "LimitRange", "limitranges", &["limits"]),
    cluster_wide("", "Namespace", "namespaces", &["ns"]),
    cluster_wide("", "Node", "nodes", &["no"]),
    namespaced("", "PersistentVolumeClaim", "persistentvolumeclaims", &["pvc"]),
    cluster_wide("", "PersistentVolume", "persistentvolumes", &["pv"]),
    namespaced("", "Pod", "pods", &["po"]).within(&["all"]),
    namespaced("", "PodTemplate", "podtemplates", &[]),
    namespaced("", "ReplicationController", "replicationcontrollers", &["rc"]).within(&["all"]),
    namespaced("", "ResourceQuota", "resourcequotas", &["quota"]),
    namespaced("", "Secret", "secrets", &[]),
    namespaced("", "ServiceAccount", "serviceaccounts", &["sa"]),
    namespaced("", "Service", "services", &["svc"]).within(&["all"]),
    cluster_wide("apiregistration.k8s.io", "APIService", "apiservices", &[]).within(&["api-extensions"]),
    namespaced("apps", "ControllerRevision", "controllerrevisions", &[]),
    namespaced("apps", "DaemonSet", "daemonsets", &["ds"]).within(&["all"]),
    namespaced("apps", "Deployment", "deployments", &["deploy"]).within(&["all"]),
    namespaced("apps", "ReplicaSet", "replicasets", &["rs"]).within(&["all"]),
    namespaced("apps", "StatefulSet", "statefulsets", &["sts"]).within(&["all"]),
    namespaced("events.k8s.io", "Event", "events", &["ev"]),
    namespaced("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", &["hpa"])
        .serving(&["v2", "v1"])
        .within(&["all"]),
    namespaced("batch", "CronJob", "cronjobs", &["cj"]).within(&["all"]),
    namespaced("batch", "Job", "jobs", &[]).within(&["all"]),
    cluster_wide("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests", &["csr"]),
    cluster_wide("networking.k8s.io", "IngressClass", "ingressclasses", &[]),
    namespaced("networking.k8s.io", "Ingress", "ingresses", &["ing"]),
    cluster_wide("networking.k8s.io", "IPAddress", "ipaddresses", &["ip"]),
    namespaced("networking.k8s.io", "NetworkPolicy", "networkpolicies", &["netpol"]),
    cluster_wide("networking.k8s.io", "ServiceCIDR", "servicecidrs", &[]),
    namespaced("policy", "PodDisruptionBudget", "poddisruptionbudgets", &["pdb"]),
    cluster_wide("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", &[]),
    cluster_wide("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", &[]),
    namespaced("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", &[]),
    namespaced("rbac.authorization.k8s.io", "Role", "roles", &[]),
    cluster_wide("storage.k8s.io", "CSIDriver", "csidrivers", &[]),
    cluster_wide("storage.k8s.io", "CSINode", "csinodes", &[]),
    namespaced("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities", &[]),
    cluster_wide("storage.k8s.io", "StorageClass", "storageclasses", &["sc"]),
    cluster_wide("storage.k8s.io", "VolumeAttachment", "volumeattachments", &[]),
    cluster_wide("storage.k8s.io", "VolumeAttributesClass", "volumeattributesclasses", &["vac"]),
    cluster_wide("admissionregistration.k8s.io", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", &[])
        .within(&["api-extensions"]),
    cluster_wide(
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        &[],
    )
    .within(&["api-extensions"]),
    cluster_wide(
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        &[],
    )
    .within(&["api-extensions"]),
    cluster_wide(
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        &[],
    )
    .within(&["api-extensions"]),
    cluster_wide(
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        &[],
    )
    .within(&["api-extensions"]),
    cluster_wide(
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        &[],
    )
    .within(&["api-extensions"]),
    cluster_wide(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        &["crd", "crds"],
    )
    .within(&["api-extensions"]),
    cluster_wide("scheduling.k8s.io", "PriorityClass", "priorityclasses", &["pc"]),
    namespaced("coordination.k8s.io", "Lease", "leases", &[]),
    cluster_wide("node.k8s.io", "RuntimeClass", "runtimeclasses", &[]),
    namespaced("discovery.k8s.io", "EndpointSlice", "endpointslices", &[]),
    cluster_wide("resource.k8s.io", "DeviceClass", "deviceclasses", &[]),
    namespaced("resource.k8s.io", "ResourceClaim", "resourceclaims", &[]),
    namespaced("resource.k8s.io", "ResourceClaimTemplate", "resourceclaimtemplates", &[]),
    cluster_wide("resource.k8s.io", "ResourceSlice", "resourceslices", &[]),
    cluster_wide("flowcontrol.apiserver.k8s.io", "FlowSchema", "flowschemas", &[]),
    cluster_wide(
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        &[],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn lines(text: &str) -> impl Iterator<Item = Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap())
    }

    #[test]
    fn the_table_is_what_discovery_says() {
        let found: Vec<Value> = all()
            .iter()
            .map(|info| {
                json!({
                    "group": info.group, "versions": info.versions, "kind": info.kind, "plural": info.plural,
                    "singular": info.singular(), "shortNames": info.short_names,
                    "categories": info.categories, "namespaced": info.namespaced,
                })
            })
            .collect();
        let expected: Vec<Value> = lines(include_str!("../../../testdata/kubernetes/kinds.jsonl")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn words_mean_what_kubectl_takes_them_for() {
        for line in lines(include_str!("../../../testdata/kubernetes/kinds_words.jsonl")) {
            let word = line["word"].as_str().unwrap();
            let found = find(word).map_or(Value::Null, |info| json!([info.group, info.kind]));
            assert_eq!(found, line["found"], "{word}");
        }
    }

    #[test]
    fn an_ambiguous_word_has_all_its_candidates_in_order() {
        let groups = |word| -> Vec<&str> { candidates(word).iter().map(|info| info.group).collect() };
        assert_eq!(groups("events"), ["", "events.k8s.io"]);
        assert_eq!(groups("ev"), ["", "events.k8s.io"]);
        assert_eq!(groups("event.events.k8s.io"), ["events.k8s.io"]);
        assert_eq!(groups(""), [""; 0]);
    }

    #[test]
    fn a_kind_is_known_by_its_group_too() {
        assert_eq!(of(&Kind::new("apps", "Deployment")).map(|info| info.plural), Some("deployments"));
        assert_eq!(of(&Kind::new("", "Deployment")), None);
    }

    #[test]
    fn secrets_are_known_in_every_group() {
        for group in ["", "gloo.solo.io"] {
            assert!(is_secret(&Kind::new(group, "Secret")));
        }
        // These refer to secrets, or hold them encrypted.
        for kind in ["SecretStore", "ExternalSecret", "SealedSecret", "ConfigMap"] {
            assert!(!is_secret(&Kind::new("", kind)), "{kind}");
        }
    }

    #[test]
    fn the_category_all_starts_with_pods() {
        let plurals: Vec<&str> = in_category("all").map(|info| info.plural).collect();
        assert_eq!(plurals.len(), 10);
        assert_eq!(plurals[0], "pods");
    }

    #[test]
    fn plurals_are_guessed_as_kubernetes_guesses() {
        for line in lines(include_str!("../../../testdata/kubernetes/kinds_plurals.jsonl")) {
            let kind = line["kind"].as_str().unwrap();
            assert_eq!(guess_plural(kind), line["plural"], "{kind}");
        }
        assert_eq!(guess_plural(""), "");
    }
}

//! Semantic equality of pod specs: equivalent pods need to be simulated only once.

use std::sync::{Arc, OnceLock};

use kubernetes::quantity::Quantity;
use serde_json::{Map, Value};

/// What is known of a pod's `spec` from comparisons with other pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpecEquivalence {
    /// The `spec` without ignored fields. Computed only if a comparison of the texts does not suffice.
    normalized: OnceLock<Arc<Value>>,
    /// Shared by pods that were found to be equivalent, so that they are not compared again.
    equivalence_class: OnceLock<Arc<()>>,
}

/// The name prefix of a pod's token volume, which is always projected; a random suffix of five letters follows.
const TOKEN_VOLUME_PREFIX: &[u8] = b"kube-api-access-";
const TOKEN_SUFFIX_LEN: usize = 5;

/// Fields whose empty value equals an absent one. In other fields an empty object differs from none.
const EMPTY_EQUALS_ABSENT: [&str; 9] = [
    "resources",
    "limits",
    "requests",
    "overhead",
    "nodeSelector",
    "matchLabels",
    "hostNetwork",
    "hostPID",
    "hostIPC",
];

// === impl SpecEquivalence ===

impl SpecEquivalence {
    /// Whether the pods were found to be equivalent before.
    pub(crate) fn is_known_equivalent(&self, other: &SpecEquivalence) -> bool {
        matches!((self.equivalence_class.get(), other.equivalence_class.get()), (Some(ours), Some(theirs)) if Arc::ptr_eq(ours, theirs))
    }

    /// Whether two specs are semantically equal except for projected volumes, the hostname and environment variables. A
    /// positive result is cached.
    pub(crate) fn is_equivalent(&self, spec: &str, other: &SpecEquivalence, others_spec: &str) -> bool {
        // For pods of one controller the texts are equal except for the suffix of the token volume.
        let equivalent = same_except_token_suffix(spec.as_bytes(), others_spec.as_bytes())
            || semantically_equal("", self.normalized(spec), other.normalized(others_spec));
        if equivalent {
            let class = self
                .equivalence_class
                .get_or_init(|| other.equivalence_class.get().cloned().unwrap_or_default());
            other.equivalence_class.get_or_init(|| class.clone());
        }
        equivalent
    }

    fn normalized(&self, spec: &str) -> &Value {
        self.normalized.get_or_init(|| {
            let mut spec = serde_json::from_str(spec).unwrap_or_default();
            if let Value::Object(spec) = &mut spec {
                sanitize_spec(spec);
            }
            Arc::new(spec)
        })
    }
}

/// Whether two texts are equal except for the suffix of a token volume's name.
fn same_except_token_suffix(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while let Some(position) = first_difference(&a[at..], &b[at..]) {
        let position = at + position;
        let is_own = |start: &usize| [a, b].iter().all(|text| text[..*start].ends_with(TOKEN_VOLUME_PREFIX));
        let Some(start) = (position.saturating_sub(TOKEN_SUFFIX_LEN - 1)..=position).find(is_own) else {
            return false;
        };
        at = start + TOKEN_SUFFIX_LEN;
        if at > a.len() {
            return false;
        }
    }
    true
}

/// The index at which two texts first differ; zero for different lengths.
fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    const CHUNK: usize = 64;
    if a.len() != b.len() {
        return Some(0);
    }
    let chunks = a.chunks(CHUNK).zip(b.chunks(CHUNK));
    let start = chunks.take_while(|(a, b)| a == b).count() * CHUNK;
    (start..a.len()).find(|position| a[*position] != b[*position])
}

/// Removes ignored fields from a `spec`. `nodeName` is one of them, because compared pods are to be rescheduled.
fn sanitize_spec(spec: &mut Map<String, Value>) {
    spec.remove("hostname");
    spec.remove("nodeName");
    let mut projected = Vec::new();
    if let Some(Value::Array(volumes)) = spec.get_mut("volumes") {
        volumes.retain(|volume| {
            let is_projected = volume.get("projected").is_some_and(|source| !source.is_null());
            if is_projected {
                projected.push(volume.get("name").cloned());
            }
            !is_projected
        });
    }
    for list in ["containers", "initContainers"] {
        let Some(Value::Array(containers)) = spec.get_mut(list) else { continue };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            container.remove("env");
            if let Some(Value::Array(mounts)) = container.get_mut("volumeMounts") {
                mounts.retain(|mount| !projected.contains(&mount.get("name").cloned()));
            }
        }
    }
}

/// Whether two values of a field are semantically equal: an empty list equals none, and `1` equals `1000m`.
fn semantically_equal(field: &str, a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| semantically_equal("", a, b))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let amounts = matches!(field, "limits" | "requests" | "overhead");
            let is_same = |name: &String| {
                let (a, b) =
                    (ours.get(name).unwrap_or(&Value::Null), theirs.get(name).unwrap_or(&Value::Null));
                if amounts { same_quantity(a, b) } else { semantically_equal(name, a, b) }
            };
            ours.keys().all(is_same) && theirs.keys().filter(|name| !ours.contains_key(*name)).all(is_same)
        }
        _ if matches!(field, "sizeLimit" | "divisor") => same_quantity(a, b),
        _ => a == b || (equals_absent(field, a) && equals_absent(field, b)),
    }
}

/// Whether a value of a field equals an absent one.
fn equals_absent(field: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => {
            EMPTY_EQUALS_ABSENT.contains(&field)
                && fields.iter().all(|(name, value)| equals_absent(name, value))
        }
        Value::Bool(value) => !value && EMPTY_EQUALS_ABSENT.contains(&field),
        Value::Number(_) | Value::String(_) => false,
    }
}

fn same_quantity(a: &Value, b: &Value) -> bool {
    let quantity = |value: &Value| serde_json::from_value::<Quantity>(value.clone()).ok();
    a == b || quantity(a).is_some_and(|ours| quantity(b).is_some_and(|theirs| ours == theirs))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kubernetes::amounts::ScalarResourceNames;
    use kubernetes::objects::PodView;
    use model::Object;

    use super::same_except_token_suffix;
    use crate::pod::Pod;

    fn parse(json: &str) -> Pod {
        let view = PodView::parse(&Object::parse(json).unwrap());
        Pod::new(Arc::new(view), &mut ScalarResourceNames::default())
    }

    fn pod(labels: &str, spec: &str) -> Pod {
        // The exact text matters here, so no builder is used.
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","labels":{labels}}},"spec":{spec},"status":{{}}}}"#
        );
        parse(&json)
    }

    #[track_caller]
    fn check(a: &str, b: &str, expected: bool) {
        let (a, b) = (pod("{}", a), pod("{}", b));
        assert_eq!(a.is_similar(&b), expected);
        assert_eq!(b.is_similar(&a), expected);
    }

    /// Results of cluster-autoscaler's own PodSpecSemanticallyEqual.
    #[test]
    #[rustfmt::skip]
    fn specs_are_compared_as_cluster_autoscaler_does() {
        check(r#"{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}"#, r#"{"containers":[{"name":"c","resources":{"requests":{"cpu":"1000m"}}}]}"#, true);
        check(r#"{"containers":[{"name":"c","resources":{"requests":{"memory":"1Gi"}}}]}"#, r#"{"containers":[{"name":"c","resources":{"requests":{"memory":"1073741824"}}}]}"#, true);
        check(r#"{"containers":[{"name":"c","resources":{"requests":{"memory":"1Gi"}}}]}"#, r#"{"containers":[{"name":"c","resources":{"requests":{"memory":"1G"}}}]}"#, false);
        check(r#"{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}"#, r#"{"containers":[{"name":"c","resources":{"limits":{"cpu":"1"}}}]}"#, false);
        check(r#"{"containers":[{"name":"c","resources":{"requests":{}}}]}"#, r#"{"containers":[{"name":"c"}]}"#, true);
        check(r#"{"nodeSelector":{}}"#, r#"{}"#, true);
        check(r#"{"tolerations":[]}"#, r#"{}"#, true);
        check(r#"{"securityContext":{}}"#, r#"{}"#, false);
        check(r#"{"affinity":{}}"#, r#"{}"#, false);
        check(r#"{"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule","labelSelector":{}}]}"#, r#"{"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule"}]}"#, false);
        check(r#"{"volumes":[{"name":"a","emptyDir":{"sizeLimit":"1Ki"}}]}"#, r#"{"volumes":[{"name":"a","emptyDir":{"sizeLimit":"1024"}}]}"#, true);
        check(r#"{"tolerations":[{"key":"a"},{"key":"b"}]}"#, r#"{"tolerations":[{"key":"b"},{"key":"a"}]}"#, false);
        check(r#"{"containers":[{"name":"c","envFrom":[{"secretRef":{"name":"a"}}]}]}"#, r#"{"containers":[{"name":"c"}]}"#, false);
        check(r#"{"ephemeralContainers":[{"name":"c","env":[{"name":"a","value":"1"}]}]}"#, r#"{"ephemeralContainers":[{"name":"c"}]}"#, false);
        check(r#"{"volumes":[{"name":"a","projected":{}},{"name":"b","emptyDir":{}}],"containers":[{"name":"c","volumeMounts":[{"name":"a","mountPath":"/a"},{"name":"b","mountPath":"/b"}]}]}"#, r#"{"volumes":[{"name":"b","emptyDir":{}}],"containers":[{"name":"c","volumeMounts":[{"name":"b","mountPath":"/b"}]}]}"#, true);
        check(r#"{"volumes":[{"name":"b","emptyDir":{}}],"containers":[{"name":"c","volumeMounts":[{"name":"a","mountPath":"/a"}]}]}"#, r#"{"volumes":[{"name":"b","emptyDir":{}}],"containers":[{"name":"c"}]}"#, false);
        check(r#"{"priority":0}"#, r#"{}"#, false);
        check(r#"{"subdomain":"a"}"#, r#"{}"#, false);
        check(r#"{"hostNetwork":false}"#, r#"{}"#, true);
        check(r#"{"volumes":[{"name":"kube-api-access-abcde","projected":{}}],"containers":[{"name":"c","volumeMounts":[{"name":"kube-api-access-abcde","mountPath":"/a"}]}]}"#, r#"{"volumes":[{"name":"kube-api-access-fghij","projected":{}}],"containers":[{"name":"c","volumeMounts":[{"name":"kube-api-access-fghij","mountPath":"/a"}]}]}"#, true);
        check(r#"{"overhead":{"cpu":"1"}}"#, r#"{"overhead":{"cpu":1}}"#, true);
    }

    /// Cases of cluster-autoscaler's own TestPodSpecSemanticallyEqual.
    #[test]
    fn projected_volumes_environments_and_hostnames_are_ignored() {
        check(
            r#"{"volumes":[{"name":"projected1","projected":{"sources":[]}}]}"#,
            r#"{"volumes":[{"name":"projected2","projected":{"sources":[]}}]}"#,
            true,
        );
        let env = |name: &str| {
            let env = format!(r#"[{{"name":"c","env":[{{"name":"{name}","value":"bar"}}]}}]"#);
            format!(r#"{{"containers":{env},"initContainers":{env}}}"#)
        };
        check(&env("foo"), &env("longer"), true);
        check(
            r#"{"volumes":[{"name":"vol1","emptyDir":{}}]}"#,
            r#"{"volumes":[{"name":"vol2","emptyDir":{}}]}"#,
            false,
        );
        check(
            r#"{"containers":[{"image":"foo/bar","name":"foobar"}]}"#,
            r#"{"containers":[{"image":"foo/baz","name":"foobaz"}]}"#,
            false,
        );
        check(r#"{"hostname":"foo"}"#, r#"{"hostname":"bar"}"#, true);
        check(r#"{"nodeName":"foo"}"#, r#"{}"#, true);
    }

    #[test]
    fn labels_are_compared() {
        let (a, b) = (pod(r#"{"a":"b"}"#, "{}"), pod(r#"{"a":"c"}"#, "{}"));
        assert!(!a.is_similar(&b));
        assert!(a.is_similar(&a.clone()));
    }

    #[test]
    fn equal_texts_suffice_for_pods_of_one_template() {
        let spec =
            |own: &str| format!(r#"{{"volumes":[{{"name":"kube-api-access-{own}","projected":{{}}}}]}}"#);
        let (a, b) = (pod("{}", &spec("abcde")), pod("{}", &spec("fghij")));
        assert!(a.is_similar(&b));
        assert!(a.spec_equivalence.normalized.get().is_none());
        let check = |a: &str, b: &str, expected| {
            assert_eq!(same_except_token_suffix(a.as_bytes(), b.as_bytes()), expected)
        };
        check(&spec("abcde"), &spec("abfgh"), true);
        check(&spec("abcde"), &spec("abfgh").replace("projected", "otherwise"), false);
        check("kube-api-access-a", "kube-api-access-b", false);
        check("a", "ab", false);
        check("", "", true);
    }

    #[test]
    fn pods_without_a_spec_are_similar() {
        let bare = || {
            let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}"#;
            parse(json)
        };
        assert!(bare().is_similar(&bare()));
        assert!(!bare().is_similar(&pod("{}", r#"{"subdomain":"a"}"#)));
    }
}

//! Pods that are alike: what is found out about one holds for the others.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use kubernetes::quantity::Quantity;
use serde_json::{Map, Value};

/// What makes a pod like others, besides its labels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Likeness {
    /// Where in the object's text the `spec` is.
    spec: Range<usize>,
    /// The `spec` without what does not count. Only made when the text does not settle it.
    counted: OnceLock<Arc<Value>>,
    /// Pods that were found to be alike share it, so as not to be compared again.
    mark: OnceLock<Arc<()>>,
}

/// What the API server calls the volume of a pod's token, which is always a projected one; five letters follow that are
/// another pod's own.
const TOKEN_VOLUME: &[u8] = b"kube-api-access-";
const OWN_LETTERS: usize = 5;

/// Fields whose empty value is as good as none. Elsewhere an empty object is something.
const PLAIN: [&str; 9] = [
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

// === impl Likeness ===

impl Likeness {
    /// Of a pod whose `spec` is that part of the object's text, if it has one.
    pub(crate) fn new(object: &str, spec: Option<&str>) -> Likeness {
        let spec = spec.map_or(0..0, |spec| {
            let start = (spec.as_ptr() as usize).saturating_sub(object.as_ptr() as usize);
            start..start + spec.len()
        });
        Likeness { spec, ..Likeness::default() }
    }

    /// Whether the pod was found to be like another one.
    pub(crate) fn is_known_to_be(&self, other: &Likeness) -> bool {
        matches!((self.mark.get(), other.mark.get()), (Some(ours), Some(theirs)) if Arc::ptr_eq(ours, theirs))
    }

    /// Whether the `spec` of a pod, with its object's text, is like that of another one: but for projected volumes, the
    /// hostname and environments. Remembers that it is.
    pub(crate) fn is_like(&self, object: &str, other: &Likeness, others_object: &str) -> bool {
        // Of pods that one controller made the text is the same, but for what every pod has of its own.
        let (ours, theirs) = (self.text(object), other.text(others_object));
        let alike = same_but_for_token(ours.as_bytes(), theirs.as_bytes())
            || same("", self.counted(object), other.counted(others_object));
        if alike {
            let mark = self.mark.get_or_init(|| other.mark.get().cloned().unwrap_or_default());
            other.mark.get_or_init(|| mark.clone());
        }
        alike
    }

    /// The text of the pod's `spec`.
    pub(crate) fn text<'o>(&self, object: &'o str) -> &'o str {
        object.get(self.spec.clone()).unwrap_or_default()
    }

    fn counted(&self, object: &str) -> &Value {
        self.counted.get_or_init(|| {
            let mut spec = serde_json::from_str(self.text(object)).unwrap_or_default();
            if let Value::Object(spec) = &mut spec {
                leave_out(spec);
            }
            Arc::new(spec)
        })
    }
}

/// Whether two texts are the same but for the letters that are a token volume's own.
fn same_but_for_token(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while let Some(place) = first_difference(&a[at..], &b[at..]) {
        let place = at + place;
        let is_own = |start: &usize| [a, b].iter().all(|text| text[..*start].ends_with(TOKEN_VOLUME));
        let Some(start) = (place.saturating_sub(OWN_LETTERS - 1)..=place).find(is_own) else { return false };
        at = start + OWN_LETTERS;
        if at > a.len() {
            return false;
        }
    }
    true
}

/// Where two texts first differ. Those of different lengths do so at once.
fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    const CHUNK: usize = 64;
    if a.len() != b.len() {
        return Some(0);
    }
    let chunks = a.chunks(CHUNK).zip(b.chunks(CHUNK));
    let start = chunks.take_while(|(a, b)| a == b).count() * CHUNK;
    (start..a.len()).find(|place| a[*place] != b[*place])
}

/// Takes out of a `spec` what does not count. The node does not: whoever compares pods looks for another place for them.
fn leave_out(spec: &mut Map<String, Value>) {
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

/// Whether two values of a field mean the same: nothing is as good as an empty list, and `1` is `1000m`.
fn same(field: &str, a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| same("", a, b))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let amounts = matches!(field, "limits" | "requests" | "overhead");
            let is_same = |name: &String| {
                let (a, b) =
                    (ours.get(name).unwrap_or(&Value::Null), theirs.get(name).unwrap_or(&Value::Null));
                if amounts { same_amount(a, b) } else { same(name, a, b) }
            };
            ours.keys().all(is_same) && theirs.keys().filter(|name| !ours.contains_key(*name)).all(is_same)
        }
        _ if matches!(field, "sizeLimit" | "divisor") => same_amount(a, b),
        _ => a == b || (is_nothing(field, a) && is_nothing(field, b)),
    }
}

/// Whether a value of a field says nothing.
fn is_nothing(field: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => {
            PLAIN.contains(&field) && fields.iter().all(|(name, value)| is_nothing(name, value))
        }
        Value::Bool(value) => !value && PLAIN.contains(&field),
        Value::Number(_) | Value::String(_) => false,
    }
}

fn same_amount(a: &Value, b: &Value) -> bool {
    let quantity = |value: &Value| serde_json::from_value::<Quantity>(value.clone()).ok();
    a == b || quantity(a).is_some_and(|ours| quantity(b).is_some_and(|theirs| ours == theirs))
}

#[cfg(test)]
mod tests {
    use model::Object;

    use super::same_but_for_token;
    use crate::pod::Pod;
    use kubernetes::amounts::ScalarNames;

    fn pod(labels: &str, spec: &str) -> Pod {
        // The text decides here: nothing may be written otherwise.
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","labels":{labels}}},"spec":{spec},"status":{{}}}}"#
        );
        Pod::read(&Object::parse(&json).unwrap(), &mut ScalarNames::default())
    }

    #[track_caller]
    fn check(a: &str, b: &str, expected: bool) {
        let (a, b) = (pod("{}", a), pod("{}", b));
        assert_eq!(a.is_similar(&b), expected);
        assert_eq!(b.is_similar(&a), expected);
    }

    /// What cluster-autoscaler's own PodSpecSemanticallyEqual says.
    #[test]
    #[rustfmt::skip]
    fn specs_are_compared_as_the_real_one_does() {
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

    /// Cases of its own TestPodSpecSemanticallyEqual.
    #[test]
    fn projected_volumes_environments_and_hostnames_do_not_count() {
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
    fn labels_count() {
        let (a, b) = (pod(r#"{"a":"b"}"#, "{}"), pod(r#"{"a":"c"}"#, "{}"));
        assert!(!a.is_similar(&b));
        assert!(a.is_similar(&a.clone()));
    }

    #[test]
    fn the_text_alone_settles_it_for_pods_of_one_template() {
        let spec =
            |own: &str| format!(r#"{{"volumes":[{{"name":"kube-api-access-{own}","projected":{{}}}}]}}"#);
        let (a, b) = (pod("{}", &spec("abcde")), pod("{}", &spec("fghij")));
        assert!(a.is_similar(&b));
        assert!(a.likeness.counted.get().is_none());
        let check =
            |a: &str, b: &str, expected| assert_eq!(same_but_for_token(a.as_bytes(), b.as_bytes()), expected);
        check(&spec("abcde"), &spec("abfgh"), true);
        check(&spec("abcde"), &spec("abfgh").replace("projected", "otherwise"), false);
        check("kube-api-access-a", "kube-api-access-b", false);
        check("a", "ab", false);
        check("", "", true);
    }

    #[test]
    fn pods_without_a_spec_are_alike() {
        let bare = || {
            let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}"#;
            Pod::read(&Object::parse(json).unwrap(), &mut ScalarNames::default())
        };
        assert!(bare().is_similar(&bare()));
        assert!(!bare().is_similar(&pod("{}", r#"{"subdomain":"a"}"#)));
    }
}

//! A cache of parsed specs: pods of one template, and the versions of one pod, share theirs.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use model::{JsonCursor, Object, What};

use super::informer_event::{InformerEvent, PodEvent};
use super::pod::PodView;
use super::pod_spec::PodSpec;

/// The specs of the pods that exist, by their text without `nodeName`.
#[derive(Debug, Default)]
pub struct PodSpecCache {
    specs: HashSet<CachedSpec>,
    /// The number of specs at which those without a pod are dropped.
    purge_at: usize,
}

#[derive(Debug)]
struct CachedSpec(Arc<PodSpec>);

const MIN_PURGE: usize = 64;

// === impl PodSpecCache ===

impl PodSpecCache {
    /// The parsed event of a pod.
    pub fn pod_event(&mut self, what: &What) -> PodEvent {
        InformerEvent::parsed(what, |pod| self.pod_view(pod))
    }

    /// Parses a Pod object like [`PodView::parse`].
    pub fn pod_view(&mut self, pod: &Object) -> PodView {
        PodView::parse_with(pod, |json| self.spec(json))
    }

    /// The spec with this text, and the node that the text names.
    fn spec(&mut self, json: &str) -> Result<(Arc<PodSpec>, Option<Arc<str>>), String> {
        let Some((json, node_name)) = without_node_name(json) else { return PodSpec::parse_bound(json) };
        if let Some(CachedSpec(known)) = self.specs.get(&*json) {
            return Ok((known.clone(), node_name));
        }
        let (spec, _) = PodSpec::parse_bound(&json)?;
        if self.specs.len() >= self.purge_at {
            self.specs.retain(|CachedSpec(spec)| Arc::strong_count(spec) > 1);
            self.purge_at = MIN_PURGE.max(2 * self.specs.len());
        }
        self.specs.insert(CachedSpec(spec.clone()));
        Ok((spec, node_name))
    }
}

/// The text of a spec without its `nodeName`, and that name. `None` if the text is unlike what API servers write.
fn without_node_name(json: &str) -> Option<(String, Option<Arc<str>>)> {
    let mut cursor = JsonCursor::new(json);
    cursor.enter();
    let mut found = None;
    // The end of the member before.
    let mut previous = None;
    while cursor.has_next() {
        let start = cursor.at();
        let is_node_name = cursor.key() == "nodeName";
        let value = cursor.at();
        cursor.skip();
        if is_node_name {
            let name = cursor.since(value).strip_prefix('"')?.strip_suffix('"')?;
            if found.is_some() || name.is_empty() || name.contains('\\') {
                return None;
            }
            // A comma goes with it: the one before, or the one behind the first member.
            let mut end = cursor.at();
            if previous.is_none() && json[end..].starts_with(',') {
                end += 1;
            }
            found = Some((previous.unwrap_or(start)..end, name));
        }
        previous = Some(cursor.at());
    }
    if !cursor.is_valid_end() {
        return None;
    }
    Some(match found {
        None => (json.to_owned(), None),
        Some((range, name)) => ([&json[..range.start], &json[range.end..]].concat(), Some(name.into())),
    })
}

impl PartialEq for CachedSpec {
    fn eq(&self, other: &CachedSpec) -> bool {
        self.0.json == other.0.json
    }
}

impl Eq for CachedSpec {}

impl Hash for CachedSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.json.hash(state);
    }
}

impl Borrow<str> for CachedSpec {
    fn borrow(&self) -> &str {
        &self.0.json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(cache: &mut PodSpecCache, name: &str, spec: &str) -> PodView {
        let json =
            format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{spec}}}"#);
        let object = Object::parse(&json).unwrap();
        let (shared, own) = (cache.pod_view(&object), PodView::parse(&object));
        assert_eq!((&shared.node_name, &shared.read_error), (&own.node_name, &own.read_error));
        assert_eq!(shared.spec.priority, own.spec.priority);
        shared
    }

    #[test]
    fn pods_share_a_spec_wherever_they_are_bound() {
        let cache = &mut PodSpecCache::default();
        let pending = view(cache, "a", r#"{"hostNetwork":true,"priority":7}"#);
        for spec in [
            r#"{"hostNetwork":true,"nodeName":"n","priority":7}"#,
            r#"{"nodeName":"m","hostNetwork":true,"priority":7}"#,
            r#"{"hostNetwork":true,"priority":7,"nodeName":"o"}"#,
        ] {
            let bound = view(cache, "b", spec);
            assert!(Arc::ptr_eq(&pending.spec, &bound.spec), "{spec}");
            assert!(bound.node_name.is_some());
        }
        assert_eq!(&*view(cache, "c", r#"{"nodeName":"n"}"#).spec.json, "{}");
        assert!(!Arc::ptr_eq(&pending.spec, &view(cache, "d", r#"{"priority":8}"#).spec));
    }

    #[test]
    fn unusual_specs_are_parsed_on_their_own() {
        let cache = &mut PodSpecCache::default();
        for spec in [
            "null",
            r#"{"nodeName":null,"priority":7}"#,
            r#"{"nodeName":"","priority":7}"#,
            r#"{"nodeName":"a\u0062","priority":7}"#,
            r#"{"nodeName":"a","priority":"high"}"#,
            r#"{"containers":[{"nodeName":"x"}],"priority":7}"#,
        ] {
            view(cache, "p", spec);
        }
        assert_eq!(cache.specs.len(), 1);
    }

    #[test]
    fn specs_without_pods_are_dropped() {
        let cache = &mut PodSpecCache::default();
        let kept: Vec<PodView> =
            (0..10).map(|n| view(cache, "p", &format!(r#"{{"priority":{n}}}"#))).collect();
        for n in 100..10_000 {
            view(cache, "p", &format!(r#"{{"priority":{n}}}"#));
        }
        assert!(cache.specs.len() <= MIN_PURGE, "{}", cache.specs.len());
        let again = view(cache, "p", r#"{"priority":3}"#);
        assert!(Arc::ptr_eq(&again.spec, &kept[3].spec));
    }
}

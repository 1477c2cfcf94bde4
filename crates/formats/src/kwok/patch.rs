//! KWOK's `ResourcePatch`: one change of one object.

use std::borrow::Cow;

use kubernetes::kinds;
use model::Kind;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The API group of [`KIND`], its only kind.
const GROUP: &str = "action.kwok.x-k8s.io/";
const KIND: &str = "ResourcePatch";

/// One change of one object. The fields are in the order in which KWOK writes them.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourcePatch {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    pub(super) duration_nanosecond: i64,
    #[serde(default)]
    kind: String,
    pub(super) method: Method,
    pub(super) resource: Resource,
    pub(super) target: Target,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) template: Option<Box<RawValue>>,
}

#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(super) enum Method {
    Create,
    Patch,
    Delete,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Resource {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) group: String,
    #[serde(rename = "resource")]
    pub(super) plural: String,
    #[serde(default)]
    pub(super) version: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Target {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
}

// === impl ResourcePatch ===

impl ResourcePatch {
    pub(super) fn new(
        duration: i64,
        method: Method,
        resource: Resource,
        target: Target,
        template: Option<Box<RawValue>>,
    ) -> ResourcePatch {
        ResourcePatch {
            api_version: format!("{GROUP}v1alpha1"),
            duration_nanosecond: duration,
            kind: KIND.to_owned(),
            method,
            resource,
            target,
            template,
        }
    }

    /// Whether a document is a `ResourcePatch`.
    pub(super) fn is_resource_patch(document: &str) -> bool {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Names<'a> {
            #[serde(borrow)]
            api_version: Cow<'a, str>,
            #[serde(borrow)]
            kind: Cow<'a, str>,
        }
        let names = serde_json::from_str::<Names<'_>>(document);
        names.is_ok_and(|names| names.kind == KIND && names.api_version.starts_with(GROUP))
    }
}

// === impl Resource ===

impl Resource {
    pub(super) fn of(kind: &Kind, api_version: &str) -> Resource {
        let plural =
            kinds::of(kind).map_or_else(|| kinds::guess_plural(&kind.kind), |info| info.plural.to_owned());
        let version = api_version.rsplit('/').next().unwrap_or_default();
        Resource { group: kind.group.to_string(), plural, version: version.to_owned() }
    }

    /// The built-in kind it names. kectl forms every plural by adding an `s`: `endpointss`, `networkpolicys`.
    pub(super) fn built_in_kind(&self) -> Option<Kind> {
        let named = |info: &&kinds::KindInfo| {
            info.group == self.group && (info.plural == self.plural || naive_plural(info.kind) == self.plural)
        };
        kinds::all().iter().find(named).map(|info| Kind::new(info.group, info.kind))
    }
}

/// The plural as kectl forms it.
pub(super) fn naive_plural(kind: &str) -> String {
    kind.to_lowercase() + "s"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(group: &str, plural: &str, kind: Option<&str>) {
        let resource = Resource { group: group.into(), plural: plural.into(), version: "v1".into() };
        assert_eq!(resource.built_in_kind().map(|kind| kind.to_string()).as_deref(), kind, "{plural}");
    }

    #[test]
    fn plurals_name_kinds_also_the_wrong_ones() {
        check("", "pods", Some("Pod"));
        check("apps", "deployments", Some("Deployment.apps"));
        check("", "deployments", None);
        check("", "endpoints", Some("Endpoints"));
        check("", "endpointss", Some("Endpoints"));
        check("networking.k8s.io", "ingresss", Some("Ingress.networking.k8s.io"));
        check("networking.k8s.io", "networkpolicys", Some("NetworkPolicy.networking.k8s.io"));
        check("storage.k8s.io", "storageclasss", Some("StorageClass.storage.k8s.io"));
        check("scheduling.k8s.io", "priorityclasss", Some("PriorityClass.scheduling.k8s.io"));
        check("example.com", "gadgets", None);
    }

    #[test]
    fn a_resource_patch_is_distinguished_from_other_objects() {
        assert!(ResourcePatch::is_resource_patch(
            r#"{"kind":"ResourcePatch","apiVersion":"action.kwok.x-k8s.io/v1alpha1"}"#
        ));
        assert!(!ResourcePatch::is_resource_patch(r#"{"kind":"ResourcePatch","apiVersion":"v1"}"#));
        assert!(!ResourcePatch::is_resource_patch(
            r#"{"kind":"Pod","apiVersion":"action.kwok.x-k8s.io/v1"}"#
        ));
        assert!(!ResourcePatch::is_resource_patch("[]"));
    }
}

//! CustomResourceDefinitions: the names and versions of the kinds that they define.

use std::cmp::{Ordering, Reverse};

use model::{Kind, Object};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A CustomResourceDefinition, without its schemas.
#[derive(Clone, Debug)]
pub struct CustomDefinition {
    /// Group and kind.
    pub kind: Kind,
    /// The names that the kind has; those that it asks for, unless an API server decided on them.
    pub names: CustomNames,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Its versions, by the priority that Kubernetes gives to their names: `v1`, `v1beta1`, `v1alpha1`.
    pub versions: Vec<CustomVersion>,
    conditions: Option<Vec<ConditionJson>>,
}

/// The names of a custom kind.
#[derive(Clone, Debug)]
pub struct CustomNames {
    /// `Widget`
    pub kind: String,
    /// `WidgetList`
    pub list_kind: String,
    /// `widgets`
    pub plural: String,
    /// `widget`
    pub singular: String,
    /// `wd`
    pub short_names: Vec<String>,
    /// `all`
    pub categories: Vec<String>,
}

/// A version of a custom kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomVersion {
    /// `v1`
    pub name: String,
    /// Whether it can be requested.
    #[serde(default)]
    pub served: bool,
    /// Whether objects are stored in it.
    #[serde(default)]
    pub storage: bool,
    /// Whether requests for it are warned.
    #[serde(default)]
    pub deprecated: bool,
    /// The warning; `None` for Kubernetes' own.
    pub deprecation_warning: Option<String>,
    #[serde(default)]
    subresources: Option<SubresourcesJson>,
    #[serde(default)]
    selectable_fields: Option<Vec<SelectableFieldJson>>,
}

/// The fields of the subresource `scale`, as a definition names them.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomScale {
    /// `.spec.replicas`
    pub spec_replicas_path: String,
    /// `.status.replicas`
    pub status_replicas_path: String,
    /// `.status.selector`
    pub label_selector_path: Option<String>,
}

#[derive(Deserialize)]
struct DefinitionJson {
    spec: SpecJson,
    status: Option<StatusJson>,
}

#[derive(Deserialize)]
struct SpecJson {
    group: String,
    names: NamesJson,
    scope: String,
    versions: Vec<CustomVersion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusJson {
    accepted_names: Option<NamesJson>,
    conditions: Option<Vec<ConditionJson>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamesJson {
    kind: String,
    list_kind: Option<String>,
    plural: String,
    singular: Option<String>,
    short_names: Option<Vec<String>>,
    categories: Option<Vec<String>>,
}

#[derive(Clone, Debug, Deserialize)]
struct ConditionJson {
    #[serde(rename = "type")]
    condition_type: String,
    status: String,
}

#[derive(Clone, Debug, Deserialize)]
struct SubresourcesJson {
    status: Option<IgnoredAny>,
    scale: Option<CustomScale>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SelectableFieldJson {
    json_path: String,
}

// === impl CustomDefinition ===

impl CustomDefinition {
    /// Reads a definition. `None` if it is none.
    pub fn parse(definition: &Object) -> Option<CustomDefinition> {
        let DefinitionJson { spec, status } = definition.view().ok()?;
        let (accepted, conditions) =
            status.map_or((None, None), |status| (status.accepted_names, status.conditions));
        let SpecJson { group, names, scope, mut versions } = spec;
        let is_accepted = |names: &NamesJson| !names.plural.is_empty() && !names.kind.is_empty();
        let names = CustomNames::from(accepted.filter(is_accepted).unwrap_or(names));
        versions.sort_by(|a, b| compare_versions(&b.name, &a.name));
        Some(CustomDefinition {
            kind: Kind::new(&group, &names.kind),
            names,
            namespaced: scope == "Namespaced",
            versions,
            conditions: conditions.filter(|conditions| !conditions.is_empty()),
        })
    }

    /// Whether its resources are served: its names were accepted, or nobody has decided on them.
    pub fn is_served(&self) -> bool {
        self.conditions.is_none() || self.is_true("Established") || self.is_true("NamesAccepted")
    }

    /// Whether its resources are being deleted.
    pub fn is_terminating(&self) -> bool {
        self.is_true("Terminating")
    }

    /// The version in which objects are stored.
    pub fn storage_version(&self) -> Option<&CustomVersion> {
        self.versions.iter().find(|version| version.storage)
    }

    /// What clients of a deprecated version are told.
    pub fn deprecation_warning(&self, version: &CustomVersion) -> Option<String> {
        if !version.deprecated {
            return None;
        }
        if let Some(warning) = &version.deprecation_warning {
            return Some(warning.clone());
        }
        let (group, kind) = (&self.kind.group, &self.names.kind);
        let warning = format!("{group}/{} {kind} is deprecated", version.name);
        let newer = self.versions.iter().find(|other| {
            other.served && !other.deprecated && compare_versions(&other.name, &version.name).is_gt()
        });
        Some(match newer {
            Some(newer) => format!("{warning}; use {group}/{} {kind}", newer.name),
            None => warning,
        })
    }

    fn is_true(&self, condition_type: &str) -> bool {
        self.conditions
            .iter()
            .flatten()
            .any(|condition| condition.condition_type == condition_type && condition.status == "True")
    }
}

// === impl CustomNames ===

impl From<NamesJson> for CustomNames {
    fn from(names: NamesJson) -> CustomNames {
        let NamesJson { kind, list_kind, plural, singular, short_names, categories } = names;
        let present = |name: Option<String>| name.filter(|name| !name.is_empty());
        CustomNames {
            list_kind: present(list_kind).unwrap_or_else(|| format!("{kind}List")),
            singular: present(singular).unwrap_or_else(|| kind.to_lowercase()),
            kind,
            plural,
            short_names: short_names.unwrap_or_default(),
            categories: categories.unwrap_or_default(),
        }
    }
}

// === impl CustomVersion ===

impl CustomVersion {
    /// Whether its status is a subresource.
    pub fn has_status(&self) -> bool {
        self.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some())
    }

    /// The fields of its subresource `scale`.
    pub fn scale(&self) -> Option<&CustomScale> {
        self.subresources.as_ref()?.scale.as_ref()
    }

    /// The paths of the fields that can be selected, without the leading period: `spec.color`.
    pub fn selectable_fields(&self) -> impl Iterator<Item = &str> {
        let fields = self.selectable_fields.iter().flatten();
        fields.map(|field| field.json_path.strip_prefix('.').unwrap_or(&field.json_path))
    }
}

/// The order of names of versions in Kubernetes, in which `v1` is greater than `v1beta1`, and that greater than others.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (version_parts(a), version_parts(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => Reverse(a).cmp(&Reverse(b)),
    }
}

/// The stability, and the two numbers of a name: `v1`, `v2beta1`.
fn version_parts(name: &str) -> Option<(u8, u64, u64)> {
    let rest = name.strip_prefix('v')?;
    let (major, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    let (stability, minor) = match rest {
        "" => (3, "0"),
        _ => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor),
            (None, Some(minor)) => (1, minor),
            (None, None) => return None,
        },
    };
    Some((stability, major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_and_number() {
        // As in the documentation of CustomResourceDefinitions.
        let order =
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"];
        let mut sorted = order;
        sorted.reverse();
        sorted.sort_by(|a, b| compare_versions(b, a));
        assert_eq!(sorted, order);
    }
}

//! Resources: the kinds that a server serves, with their names in paths and in discovery.

use std::borrow::Cow;

use apimachinery::strategy;
use kubernetes::event_conversion::{EVENT_GROUPS, converted_event};
use kubernetes::kinds::{self, KindInfo};
use kubernetes::table::TableConvertor;
use model::{Kind, Object};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// A resource in one version of its group.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Group and kind.
    pub kind: Kind,
    /// `v1`
    pub version: String,
    /// `deployments`: the name in paths.
    pub plural: String,
    /// `deployment`
    pub singular: String,
    /// `deploy`
    pub short_names: Vec<String>,
    /// `all`
    pub categories: Vec<String>,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether its status is a subresource.
    pub has_status: bool,
    /// Whether it has the subresource `scale`.
    pub has_scale: bool,
    /// The columns of its tables.
    pub convertor: TableConvertor,
}

/// All resources of a server, in discovery order: by group, versions with the preferred one first.
#[derive(Clone, Debug, Default)]
pub struct ResourceTable {
    resources: Vec<Resource>,
    /// Whether the resources can only be read.
    is_read_only: bool,
}

// === impl Resource ===

impl Resource {
    /// A built-in resource in its preferred version.
    pub fn built_in(info: &KindInfo) -> Resource {
        let kind = Kind::new(info.group, info.kind);
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Resource {
            has_status: strategy::has_status(&kind),
            has_scale: strategy::has_scale(&kind),
            convertor: TableConvertor::of_kind(&kind),
            kind,
            version: info.versions.first().copied().unwrap_or("v1").to_owned(),
            plural: info.plural.to_owned(),
            singular: info.singular(),
            short_names: owned(info.short_names),
            categories: owned(info.categories),
            namespaced: info.namespaced,
        }
    }

    /// A custom resource whose definition is unknown, with the names that Kubernetes would guess.
    pub fn guessed(kind: Kind, version: &str, namespaced: bool) -> Resource {
        Resource {
            has_status: false,
            has_scale: false,
            convertor: TableConvertor::of_kind(&kind),
            version: version.to_owned(),
            plural: kinds::guess_plural(&kind.kind),
            singular: kind.kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced,
            kind,
        }
    }

    /// The resources of a CustomResourceDefinition, one for each served version, the storage version first. None if it
    /// is invalid.
    pub fn of_definition(definition: &Object) -> Vec<Resource> {
        let Ok(DefinitionJson { spec }) = definition.view() else { return Vec::new() };
        let mut versions: Vec<&VersionJson> = spec.versions.iter().filter(|version| version.served).collect();
        versions.sort_by_key(|version| !version.storage);
        let NamesJson { kind, plural, singular, short_names, categories } = &spec.names;
        let resource = |version: &VersionJson| {
            Some(Resource {
                has_status: version
                    .subresources
                    .as_ref()
                    .is_some_and(|subresources| subresources.status.is_some()),
                has_scale: false,
                convertor: TableConvertor::of_crd(definition, &version.name)?,
                kind: Kind::new(&spec.group, kind),
                version: version.name.clone(),
                plural: plural.clone(),
                singular: singular
                    .clone()
                    .filter(|name| !name.is_empty())
                    .unwrap_or_else(|| kind.to_lowercase()),
                short_names: short_names.clone().unwrap_or_default(),
                categories: categories.clone().unwrap_or_default(),
                namespaced: spec.scope == "Namespaced",
            })
        };
        versions.into_iter().filter_map(resource).collect()
    }

    /// The kind under which its objects are stored: Events are the same in both of their groups.
    pub fn storage_kind(&self) -> Kind {
        if self.is_event() { Kind::new("", "Event") } else { self.kind.clone() }
    }

    /// Whether all objects can be deleted at once. Those of a namespaced resource: in one namespace.
    pub(crate) fn can_delete_collection(&self) -> bool {
        !self.kind.is("", "Namespace")
    }

    /// Whether it is that of pods.
    pub(crate) fn is_pod(&self) -> bool {
        self.kind.group.is_empty() && &*self.kind.kind == "Pod"
    }

    /// Whether it is one of the two resources of Events.
    pub(crate) fn is_event(&self) -> bool {
        &*self.kind.kind == "Event" && EVENT_GROUPS.contains(&&*self.kind.group)
    }

    /// An object of the resource in the resource's version.
    pub(crate) fn converted<'a>(&self, object: &'a Object) -> Cow<'a, Object> {
        let api_version = self.api_version();
        if object.meta().api_version == api_version {
            return Cow::Borrowed(object);
        }
        let Ok(value) = object.value() else { return Cow::Borrowed(object) };
        let converted = self.converted_value(value);
        Object::parse(&converted.to_string()).map_or(Cow::Borrowed(object), Cow::Owned)
    }

    /// The same for a parsed object.
    pub(crate) fn converted_value(&self, mut object: Value) -> Value {
        if self.is_event() {
            return converted_event(object, &self.kind.group);
        }
        if self.is_custom() {
            object["apiVersion"] = self.api_version().into();
        }
        object
    }

    /// Whether it has a definition.
    pub(crate) fn is_custom(&self) -> bool {
        kinds::of(&self.kind).is_none()
    }

    /// `v1`, `apps/v1`
    pub fn api_version(&self) -> String {
        group_version(&self.kind.group, &self.version)
    }

    fn is_in(&self, group: &str, version: &str) -> bool {
        *self.kind.group == *group && self.version == version
    }

    /// `pods`, `deployments.apps`: the name in messages.
    pub fn qualified_name(&self) -> String {
        match &*self.kind.group {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }
}

/// `v1`, `apps/v1`
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

// === impl ResourceTable ===

impl ResourceTable {
    /// All built-in resources, and these custom ones.
    pub fn of_kinds(custom: &[Resource]) -> ResourceTable {
        // The status of control plane components, which this server does not run, is deprecated.
        let built_in =
            kinds::all().iter().filter(|info| info.kind != "ComponentStatus").map(Resource::built_in);
        ResourceTable { resources: built_in.chain(custom.iter().cloned()).collect(), is_read_only: false }
    }

    /// All resources.
    pub fn iter(&self) -> impl Iterator<Item = &Resource> {
        self.resources.iter()
    }

    /// The resource of a kind, in its preferred version.
    pub fn of_kind(&self, kind: &Kind) -> Option<&Resource> {
        self.resources.iter().find(|resource| resource.kind == *kind)
    }

    /// A table of these resources, which can only be read.
    pub fn read_only(resources: Vec<Resource>) -> ResourceTable {
        ResourceTable { resources, is_read_only: true }
    }

    /// Whether its resources can only be read.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// The resource of a name in a version of a group.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Resource> {
        let mut resources = self.resources.iter();
        resources.find(|resource| resource.is_in(group, version) && resource.plural == plural)
    }

    /// The groups, each once. The core group is the empty string.
    pub fn groups(&self) -> Vec<&str> {
        distinct(self.resources.iter().map(|resource| &*resource.kind.group))
    }

    /// The versions of a group, the preferred one first.
    pub fn versions(&self, group: &str) -> Vec<&str> {
        let in_group = self.resources.iter().filter(|resource| *resource.kind.group == *group);
        distinct(in_group.map(|resource| &*resource.version))
    }

    /// The resources of a version of a group.
    pub fn in_version<'a>(&'a self, group: &'a str, version: &'a str) -> impl Iterator<Item = &'a Resource> {
        self.resources.iter().filter(move |resource| resource.is_in(group, version))
    }
}

/// The elements in the order of their first occurrence.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[derive(Deserialize)]
struct DefinitionJson {
    spec: DefinitionSpecJson,
}

#[derive(Deserialize)]
struct DefinitionSpecJson {
    group: String,
    names: NamesJson,
    scope: String,
    versions: Vec<VersionJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamesJson {
    kind: String,
    plural: String,
    singular: Option<String>,
    short_names: Option<Vec<String>>,
    categories: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct VersionJson {
    name: String,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    storage: bool,
    subresources: Option<SubresourcesJson>,
}

#[derive(Deserialize)]
struct SubresourcesJson {
    status: Option<IgnoredAny>,
}

//! Resources: the kinds that a server serves, with their names in paths and in discovery.

use kubernetes::kinds::{self, KindInfo};
use kubernetes::table::TableConvertor;
use model::{Kind, Object};
use serde::Deserialize;

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
    /// The columns of its tables.
    pub convertor: TableConvertor,
}

/// All resources of a server, in discovery order: by group, versions with the preferred one first.
#[derive(Clone, Debug, Default)]
pub struct ResourceTable {
    resources: Vec<Resource>,
}

// === impl Resource ===

impl Resource {
    /// A built-in resource in its preferred version.
    pub fn built_in(info: &KindInfo) -> Resource {
        let kind = Kind::new(info.group, info.kind);
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Resource {
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
    /// A table of these resources.
    pub fn new(resources: Vec<Resource>) -> ResourceTable {
        ResourceTable { resources }
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
}

//! Resources: the kinds that a server serves, with their names in paths and in discovery.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use apimachinery::strategy;
use apimachinery::structural::{CoercionError, Structural};
use apimachinery::validation::{CustomResourceRules, ScalePaths};
use kubernetes::custom_definition::{CustomVersion, compare_versions};
use kubernetes::event_conversion::{EVENT_GROUPS, converted_event};
use kubernetes::kinds::{self, KindInfo};
use kubernetes::table::TableConvertor;
use model::{Kind, Object};
use serde_json::Value;

use crate::custom_kind::CustomKind;

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
    /// `DeploymentList`
    pub list_kind: String,
    /// What clients are told if the version is deprecated.
    pub deprecation_warning: Option<String>,
    /// The kind, if it has a definition.
    pub custom: Option<Arc<CustomKind>>,
}

/// All resources of a server, in discovery order: by group, versions with the preferred one first.
#[derive(Clone, Debug, Default)]
pub struct ResourceTable {
    resources: Vec<Arc<Resource>>,
    /// The positions of the resources of each plural.
    by_plural: HashMap<String, Vec<usize>>,
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
            list_kind: format!("{}List", info.kind),
            deprecation_warning: deprecation_of(info.group, info.kind).map(str::to_owned),
            custom: None,
        }
    }

    /// The Scale of objects of a resource.
    pub(crate) fn scale_of(resource: &Resource) -> Resource {
        let kind = Kind::new("autoscaling", "Scale");
        Resource {
            convertor: TableConvertor::of_kind(&kind),
            kind,
            version: "v1".to_owned(),
            custom: None,
            ..resource.clone()
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
            list_kind: format!("{}List", kind.kind),
            deprecation_warning: None,
            custom: None,
            kind,
        }
    }

    /// The resources of a CustomResourceDefinition, one for each served version, the preferred one first. None if it is
    /// invalid. Their objects are as they were recorded.
    pub fn of_definition(definition: &Object) -> Vec<Resource> {
        Resource::of_custom_kind(definition, None)
    }

    /// The same where objects were written by the schemas of the definition since a resourceVersion.
    pub(crate) fn of_custom_kind(definition: &Object, written_since: Option<u64>) -> Vec<Resource> {
        let Some(kind) = CustomKind::of_definition(definition, written_since).map(Arc::new) else {
            return Vec::new();
        };
        let custom = kind.definition();
        if !custom.is_served() {
            return Vec::new();
        }
        let names = &custom.names;
        let served = custom.versions.iter().filter(|version| version.served);
        let resource = |version: &CustomVersion| {
            Some(Resource {
                has_status: version.has_status(),
                has_scale: version.scale().is_some(),
                convertor: TableConvertor::of_crd(definition, &version.name)?,
                kind: custom.kind.clone(),
                version: version.name.clone(),
                plural: names.plural.clone(),
                singular: names.singular.clone(),
                short_names: names.short_names.clone(),
                categories: names.categories.clone(),
                namespaced: custom.namespaced,
                list_kind: names.list_kind.clone(),
                deprecation_warning: custom.deprecation_warning(version),
                custom: Some(kind.clone()),
            })
        };
        served.filter_map(resource).collect()
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

    /// Whether it is that of CustomResourceDefinitions.
    pub(crate) fn is_definition(&self) -> bool {
        self.kind == kinds::definition_kind()
    }

    /// Whether it is one of the two resources of Events.
    pub(crate) fn is_event(&self) -> bool {
        &*self.kind.kind == "Event" && EVENT_GROUPS.contains(&&*self.kind.group)
    }

    /// A stored object in the resource's version.
    pub(crate) fn converted<'a>(&self, object: &'a Object) -> Cow<'a, Object> {
        let api_version = self.api_version();
        let is_current = match &self.custom {
            Some(custom) => custom.is_current(object, &api_version),
            None => object.meta().api_version == api_version,
        };
        if is_current {
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
        if let Some(custom) = &self.custom {
            return custom.read_stored(object, &self.version);
        }
        if self.is_custom() {
            object["apiVersion"] = self.api_version().into();
        }
        object
    }

    /// Makes an object of a request, or of a component, one that the schema of a custom resource allows: what it does not
    /// have is removed, what is missing has its default. Returns the paths of the fields that were removed.
    pub(crate) fn coerce(&self, object: &mut Value) -> Result<Vec<String>, String> {
        self.coerce_with(object, Structural::coerce)
    }

    /// The same for an object that server-side apply has made, whose nulls stay.
    pub(crate) fn coerce_applied(&self, object: &mut Value) -> Result<Vec<String>, String> {
        self.coerce_with(object, Structural::coerce_applied)
    }

    fn coerce_with(
        &self,
        object: &mut Value,
        coerce: fn(&Structural, &mut Value) -> Result<Vec<String>, CoercionError>,
    ) -> Result<Vec<String>, String> {
        let Some(custom) = &self.custom else { return Ok(Vec::new()) };
        let Some(schema) = custom.schema(&self.version) else { return Ok(Vec::new()) };
        let unknown = coerce(schema, object).map_err(|error| error.to_string())?;
        schema.set_defaults(object).map_err(|error| error.to_string())?;
        Ok(unknown)
    }

    /// An object of this version in the version in which it is stored.
    pub(crate) fn to_storage(&self, object: Value) -> Value {
        match &self.custom {
            Some(custom) => custom.to_storage(object),
            None => object,
        }
    }

    /// The rules by which custom resources of this version are validated, which it has under this apiVersion.
    pub(crate) fn custom_rules<'r>(&'r self, api_version: &'r str) -> Option<CustomResourceRules<'r>> {
        let custom = self.custom.as_ref()?;
        Some(CustomResourceRules {
            kind: &self.kind,
            api_version,
            namespaced: self.namespaced,
            schema: custom.schema(&self.version),
            rules: custom.rules(&self.version),
            scale: custom.scale(&self.version),
        })
    }

    /// The fields of the subresource `scale`, of a custom resource.
    pub(crate) fn scale_paths(&self) -> Option<&ScalePaths> {
        self.custom.as_ref()?.scale(&self.version)
    }

    /// The paths of the fields of a custom resource that can be selected.
    pub(crate) fn selectable_fields(&self) -> impl Iterator<Item = &str> + Clone {
        let versions = self.custom.iter().flat_map(|custom| &custom.definition().versions);
        let version = versions.filter(|version| version.name == self.version);
        version.flat_map(|version| version.selectable_fields()).collect::<Vec<_>>().into_iter()
    }

    /// Whether its definition is being deleted: no object can be created.
    pub(crate) fn is_terminating(&self) -> bool {
        self.custom.as_ref().is_some_and(|custom| custom.definition().is_terminating())
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
    pub fn of_kinds(mut custom: Vec<Resource>) -> ResourceTable {
        // ComponentStatuses are not stored: see `component_status`.
        let built_in =
            kinds::all().iter().filter(|info| info.kind != "ComponentStatus").map(Resource::built_in);
        // The preferred version of a group is the first of those that its kinds have.
        custom.sort_by(|a, b| {
            a.kind.group.cmp(&b.kind.group).then_with(|| compare_versions(&b.version, &a.version))
        });
        ResourceTable::new(built_in.chain(custom), false)
    }

    /// A table of these resources, which can only be read.
    pub fn read_only(resources: Vec<Resource>) -> ResourceTable {
        ResourceTable::new(resources.into_iter(), true)
    }

    fn new(resources: impl Iterator<Item = Resource>, is_read_only: bool) -> ResourceTable {
        let resources: Vec<Arc<Resource>> = resources.map(Arc::new).collect();
        let mut by_plural: HashMap<String, Vec<usize>> = HashMap::new();
        for (position, resource) in resources.iter().enumerate() {
            by_plural.entry(resource.plural.clone()).or_default().push(position);
        }
        ResourceTable { resources, by_plural, is_read_only }
    }

    /// All resources.
    pub fn iter(&self) -> impl Iterator<Item = &Resource> {
        self.resources.iter().map(|resource| &**resource)
    }

    /// The resource of a kind, in its preferred version.
    pub fn of_kind(&self, kind: &Kind) -> Option<&Resource> {
        self.iter().find(|resource| resource.kind == *kind)
    }

    /// Whether its resources can only be read.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// The resource of a name in a version of a group.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let mut resources = self.by_plural.get(plural)?.iter().map(|position| &self.resources[*position]);
        resources.find(|resource| resource.is_in(group, version))
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
        self.iter().filter(move |resource| resource.is_in(group, version))
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

/// What clients are told of a built-in kind that is deprecated in its preferred version.
fn deprecation_of(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        ("", "Endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        _ => None,
    }
}

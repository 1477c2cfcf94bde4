//! The operations of a group version: which requests a server answers, with which parameters, bodies and responses.

mod templates;

use std::collections::BTreeMap;

use apimachinery::openapi::{DELETE_OPTIONS, PATCH, STATUS, group_version_kind};
use kubernetes::kinds;
use model::Kind;
use serde_json::{Map, Value, json};

use super::schemas::schema_name;
use crate::discovery::{self, writable_subresources};
use crate::resource::{Resource, ResourceTable};
use crate::subresource::Subresource;
use crate::write_handler::returns_deleted_object;
use templates::{
    NAME, NAMESPACE, OperationTemplate, PRETTY, article, connect_operation, create_operation,
    delete_collection_operation, delete_operation, list_operation, patch_operation, read_operation,
    replace_operation,
};

/// Requests to one path.
#[derive(Default)]
pub(super) struct PathItem {
    /// The parameters of all its operations.
    pub(super) parameters: Vec<&'static Parameter>,
    pub(super) operations: Vec<Operation>,
}

/// Requests of one method to one path.
pub(super) struct Operation {
    /// `get`
    pub(super) method: &'static str,
    /// `listCoreV1NamespacedPod`
    pub(super) id: String,
    /// `core_v1`
    pub(super) tag: String,
    pub(super) description: String,
    /// `list`
    pub(super) action: &'static str,
    /// Group, version and kind of its objects.
    pub(super) kind: (String, String, String),
    pub(super) parameters: Vec<&'static Parameter>,
    pub(super) body: Option<RequestBody>,
    /// The status codes of success.
    pub(super) codes: &'static [u16],
    pub(super) response: ResponseBody,
}

/// The body of a request.
pub(super) enum RequestBody {
    /// An object with this schema.
    Object(String),
    /// A patch. Only built-in kinds can be patched strategically.
    Patch {
        is_strategic: bool,
    },
    DeleteOptions,
}

/// The body of a response.
pub(super) enum ResponseBody {
    /// An object with this schema.
    Object(String),
    /// A list with this schema, or a watch.
    List(String),
    Text,
}

/// A parameter of a request.
#[derive(PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// Whether it is a part of the path, not of the query.
    pub(super) is_in_path: bool,
    /// Its JSON type.
    pub(super) type_: &'static str,
}

/// The paths of a group version, with what can be done there.
pub(super) fn paths(table: &ResourceTable, group: &str, version: &str) -> BTreeMap<String, PathItem> {
    let mut paths = Paths { group, version, items: BTreeMap::new() };
    for resource in table.in_version(group, version) {
        paths.add_resource(table, resource);
    }
    for review in discovery::reviews_in(group).filter(|_| version == discovery::REVIEW_VERSION) {
        let kind = Kind::new(review.group, review.kind);
        let scope = Scope { is_namespaced: review.namespaced, plural: review.plural, kind: review.kind };
        let object = schema_name(&kind, version);
        paths.add(&scope, "", None, create_operation(scope.kind, &object));
    }
    paths.items.values_mut().for_each(PathItem::move_common_parameters);
    paths.items
}

/// The names by which paths and operations call a resource.
struct Scope<'a> {
    is_namespaced: bool,
    plural: &'a str,
    kind: &'a str,
}

struct Paths<'a> {
    group: &'a str,
    version: &'a str,
    items: BTreeMap<String, PathItem>,
}

// === impl Paths ===

impl Paths<'_> {
    fn add_resource(&mut self, table: &ResourceTable, resource: &Resource) {
        let kind = &*resource.kind.kind;
        let scope = Scope { is_namespaced: resource.namespaced, plural: &resource.plural, kind };
        let object = schema_name(&resource.kind, &resource.version);
        let list = || list_operation(kind, &object);
        self.add(&scope, "", None, list());
        if scope.is_namespaced {
            self.add_list_of_all_namespaces(&scope, list());
        }
        self.add(&scope, "/{name}", None, read_operation(kind, None, &object));
        if table.is_read_only() {
            return;
        }
        self.add(&scope, "", None, create_operation(scope.kind, &object));
        if resource.can_delete_collection() {
            self.add(&scope, "", None, delete_collection_operation(kind));
        }
        let is_strategic = kinds::of(&resource.kind).is_some();
        self.add(&scope, "/{name}", None, replace_operation(kind, None, &object));
        self.add(&scope, "/{name}", None, patch_operation(kind, None, &object, is_strategic));
        let deleted = if returns_deleted_object(resource) { &*object } else { STATUS };
        self.add(&scope, "/{name}", None, delete_operation(kind, deleted));
        for subresource in writable_subresources(table, resource) {
            self.add_subresource(&scope, &subresource, &object, is_strategic);
        }
    }

    fn add_subresource(
        &mut self,
        scope: &Scope<'_>,
        subresource: &Subresource,
        object: &str,
        is_strategic: bool,
    ) {
        let (kind, name) = (scope.kind, Some(subresource.name));
        let end = format!("/{{name}}/{}", subresource.name);
        let object = match subresource.kind {
            Some((group, version, kind)) => schema_name(&Kind::new(group, kind), version),
            None => object.to_owned(),
        };
        for verb in subresource.verbs {
            let operation = match (subresource.name, *verb) {
                ("attach" | "exec" | "portforward", "create") => {
                    connect_operation("post", "Post", kind, name)
                }
                ("attach" | "exec" | "portforward", _) => connect_operation("get", "Get", kind, name),
                ("log", _) => {
                    OperationTemplate { response: ResponseBody::Text, ..read_operation(kind, name, "") }
                }
                (_, "get") => read_operation(kind, name, &object),
                (_, "patch") => patch_operation(kind, name, &object, is_strategic),
                (_, "update") => replace_operation(kind, name, &object),
                (name, _) => OperationTemplate {
                    description: format!("create {name} of {}{kind}", article(kind)),
                    ..create_operation(kind, &object)
                },
            };
            self.add(scope, &end, Some(subresource), operation);
        }
    }

    /// Adds an operation on a resource or subresource.
    fn add(
        &mut self,
        scope: &Scope<'_>,
        end: &str,
        subresource: Option<&Subresource>,
        template: OperationTemplate,
    ) {
        let place = if scope.is_namespaced { "namespaces/{namespace}/" } else { "" };
        let namespaced = if scope.is_namespaced { "Namespaced" } else { "" };
        let suffix = subresource.map_or(String::new(), |subresource| capitalized(subresource.name));
        let names = format!("{namespaced}{}{suffix}", scope.kind);
        let kind = match subresource.and_then(|subresource| subresource.kind) {
            Some((group, version, kind)) => (group.to_owned(), version.to_owned(), kind.to_owned()),
            None => (self.group.to_owned(), self.version.to_owned(), scope.kind.to_owned()),
        };
        let mut parameters = Vec::new();
        if scope.is_namespaced {
            parameters.push(&NAMESPACE);
        }
        if !end.is_empty() {
            parameters.push(&NAME);
        }
        let path = format!("{}/{place}{}{end}", self.root(), scope.plural);
        self.insert(path, &names, kind, parameters, template);
    }

    fn add_list_of_all_namespaces(&mut self, scope: &Scope<'_>, template: OperationTemplate) {
        let names = format!("{}ForAllNamespaces", scope.kind);
        let kind = (self.group.to_owned(), self.version.to_owned(), scope.kind.to_owned());
        self.insert(format!("{}/{}", self.root(), scope.plural), &names, kind, Vec::new(), template);
    }

    fn insert(
        &mut self,
        path: String,
        names: &str,
        kind: (String, String, String),
        mut parameters: Vec<&'static Parameter>,
        template: OperationTemplate,
    ) {
        // Connections print nothing.
        if template.action != "connect" {
            parameters.push(&PRETTY);
        }
        parameters.extend(template.parameters);
        parameters.sort_unstable_by_key(|parameter| parameter.name);
        let group = group_title(self.group);
        let operation = Operation {
            method: template.method,
            id: format!("{}{group}{}{}{names}", template.verb, capitalized(self.version), template.prefix),
            tag: format!("{}_{}", decapitalized(&group), self.version),
            description: template.description,
            action: template.action,
            kind,
            parameters,
            body: template.body,
            codes: template.codes,
            response: template.response,
        };
        self.items.entry(path).or_default().operations.push(operation);
    }

    fn root(&self) -> String {
        match self.group {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        }
    }
}

// === impl PathItem ===

impl PathItem {
    /// The object of a document, with the parameters and operations of its version of OpenAPI.
    pub(super) fn to_object(
        &self,
        parameters: fn(&[&Parameter]) -> Value,
        operation: fn(&Operation) -> Value,
    ) -> Value {
        let mut members = Map::new();
        if !self.parameters.is_empty() {
            members.insert("parameters".to_owned(), parameters(&self.parameters));
        }
        for one in &self.operations {
            members.insert(one.method.to_owned(), operation(one));
        }
        members.into()
    }

    /// The names of the schemas that it refers to.
    pub(super) fn schema_names(&self) -> impl Iterator<Item = String> {
        self.operations.iter().flat_map(|operation| {
            let request = operation.body.as_ref().map(RequestBody::schema);
            request.into_iter().chain(operation.response.schema()).map(str::to_owned)
        })
    }

    /// Moves the parameters that all operations have to the path.
    fn move_common_parameters(&mut self) {
        let Some((first, rest)) = self.operations.split_first() else { return };
        let is_common = |parameter: &&'static Parameter| {
            rest.iter().all(|operation| operation.parameters.contains(parameter))
        };
        self.parameters = first.parameters.iter().copied().filter(is_common).collect();
        for operation in &mut self.operations {
            operation.parameters.retain(|parameter| !self.parameters.contains(parameter));
        }
    }
}

/// The name of a group in names: `RbacAuthorization` for `rbac.authorization.k8s.io`.
fn group_title(group: &str) -> String {
    match group {
        "" => "Core".to_owned(),
        group => {
            let group = group.strip_suffix(".k8s.io").unwrap_or(group);
            group.split(['.', '-']).map(capitalized).collect()
        }
    }
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn decapitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

// === impl RequestBody ===

impl RequestBody {
    /// The name of its schema.
    pub(super) fn schema(&self) -> &str {
        match self {
            RequestBody::Object(schema) => schema,
            RequestBody::Patch { .. } => PATCH,
            RequestBody::DeleteOptions => DELETE_OPTIONS,
        }
    }

    /// The content types in which it can be sent.
    pub(super) fn content_types(&self) -> &'static [&'static str] {
        const ALL_PATCHES: &[&str] = &[
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ];
        match self {
            RequestBody::Object(_) | RequestBody::DeleteOptions => &["*/*"],
            RequestBody::Patch { is_strategic: true } => ALL_PATCHES,
            RequestBody::Patch { is_strategic: false } => &ALL_PATCHES[..3],
        }
    }
}

// === impl ResponseBody ===

impl ResponseBody {
    /// The name of its schema; `None` for text.
    pub(super) fn schema(&self) -> Option<&str> {
        match self {
            ResponseBody::Object(schema) | ResponseBody::List(schema) => Some(schema),
            ResponseBody::Text => None,
        }
    }

    /// The content types in which it is sent.
    pub(super) fn content_types(&self) -> &'static [&'static str] {
        match self {
            ResponseBody::Object(_) => &["application/json"],
            ResponseBody::List(_) => &["application/json", "application/json;stream=watch"],
            ResponseBody::Text => &["text/plain"],
        }
    }
}

impl Parameter {
    pub(super) fn place(&self) -> &'static str {
        if self.is_in_path { "path" } else { "query" }
    }
}

// === impl Operation ===

impl Operation {
    /// The members that it has in every version of OpenAPI.
    pub(super) fn common_members(&self) -> Value {
        let (group, version, kind) = &self.kind;
        json!({
            "description": self.description,
            "operationId": self.id,
            "tags": [self.tag],
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind": group_version_kind(group, version, kind),
        })
    }
}

/// What a status code means.
pub(super) fn status_text(code: u16) -> &'static str {
    match code {
        201 => "Created",
        202 => "Accepted",
        _ => "OK",
    }
}

//! The operations that resources have, apart from their names and paths.

use apimachinery::openapi::STATUS;

use super::{Parameter, RequestBody, ResponseBody};

/// An operation apart from what all operations have.
pub(super) struct OperationTemplate {
    pub(super) method: &'static str,
    pub(super) action: &'static str,
    /// The verb that its name begins with: `read`.
    pub(super) verb: &'static str,
    /// The part of its name before the scope: `Collection`.
    pub(super) prefix: &'static str,
    pub(super) description: String,
    pub(super) parameters: &'static [Parameter],
    pub(super) body: Option<RequestBody>,
    pub(super) codes: &'static [u16],
    pub(super) response: ResponseBody,
}

const fn query(name: &'static str, type_: &'static str) -> Parameter {
    Parameter { name, is_in_path: false, type_ }
}

const fn path(name: &'static str) -> Parameter {
    Parameter { name, is_in_path: true, type_: "string" }
}

pub(super) static NAME: Parameter = path("name");
pub(super) static NAMESPACE: Parameter = path("namespace");
pub(super) static PRETTY: Parameter = query("pretty", "string");
static CREATE_PARAMETERS: [Parameter; 3] =
    [query("dryRun", "string"), query("fieldManager", "string"), query("fieldValidation", "string")];
static PATCH_PARAMETERS: [Parameter; 4] = [
    query("dryRun", "string"),
    query("fieldManager", "string"),
    query("fieldValidation", "string"),
    query("force", "boolean"),
];
static DELETE_PARAMETERS: [Parameter; 4] = [
    query("dryRun", "string"),
    query("gracePeriodSeconds", "integer"),
    query("orphanDependents", "boolean"),
    query("propagationPolicy", "string"),
];
static LIST_PARAMETERS: [Parameter; 10] = [
    query("allowWatchBookmarks", "boolean"),
    query("continue", "string"),
    query("fieldSelector", "string"),
    query("labelSelector", "string"),
    query("limit", "integer"),
    query("resourceVersion", "string"),
    query("resourceVersionMatch", "string"),
    query("sendInitialEvents", "boolean"),
    query("timeoutSeconds", "integer"),
    query("watch", "boolean"),
];
static DELETE_COLLECTION_PARAMETERS: [Parameter; 12] = [
    query("continue", "string"),
    query("dryRun", "string"),
    query("fieldSelector", "string"),
    query("gracePeriodSeconds", "integer"),
    query("labelSelector", "string"),
    query("limit", "integer"),
    query("orphanDependents", "boolean"),
    query("propagationPolicy", "string"),
    query("resourceVersion", "string"),
    query("resourceVersionMatch", "string"),
    query("sendInitialEvents", "boolean"),
    query("timeoutSeconds", "integer"),
];

pub(super) fn list_operation(kind: &str, object: &str) -> OperationTemplate {
    OperationTemplate {
        method: "get",
        action: "list",
        verb: "list",
        prefix: "",
        description: format!("list or watch objects of kind {kind}"),
        parameters: &LIST_PARAMETERS,
        body: None,
        codes: &[200],
        response: ResponseBody::List(format!("{object}List")),
    }
}

pub(super) fn create_operation(kind: &str, object: &str) -> OperationTemplate {
    OperationTemplate {
        method: "post",
        action: "post",
        verb: "create",
        prefix: "",
        description: format!("create {}{kind}", article(kind)),
        parameters: &CREATE_PARAMETERS,
        body: Some(RequestBody::Object(object.to_owned())),
        codes: &[200, 201, 202],
        response: ResponseBody::Object(object.to_owned()),
    }
}

pub(super) fn delete_collection_operation(kind: &str) -> OperationTemplate {
    OperationTemplate {
        method: "delete",
        action: "deletecollection",
        verb: "delete",
        prefix: "Collection",
        description: format!("delete collection of {kind}"),
        parameters: &DELETE_COLLECTION_PARAMETERS,
        body: Some(RequestBody::DeleteOptions),
        codes: &[200],
        response: ResponseBody::Object(STATUS.to_owned()),
    }
}

pub(super) fn read_operation(kind: &str, subresource: Option<&str>, object: &str) -> OperationTemplate {
    OperationTemplate {
        method: "get",
        action: "get",
        verb: "read",
        prefix: "",
        description: format!("read {}the specified {kind}", of_subresource(subresource)),
        parameters: &[],
        body: None,
        codes: &[200],
        response: ResponseBody::Object(object.to_owned()),
    }
}

pub(super) fn replace_operation(kind: &str, subresource: Option<&str>, object: &str) -> OperationTemplate {
    OperationTemplate {
        method: "put",
        action: "put",
        verb: "replace",
        prefix: "",
        description: format!("replace {}the specified {kind}", of_subresource(subresource)),
        parameters: &CREATE_PARAMETERS,
        body: Some(RequestBody::Object(object.to_owned())),
        codes: &[200, 201],
        response: ResponseBody::Object(object.to_owned()),
    }
}

pub(super) fn patch_operation(
    kind: &str,
    subresource: Option<&str>,
    object: &str,
    is_strategic: bool,
) -> OperationTemplate {
    OperationTemplate {
        method: "patch",
        action: "patch",
        verb: "patch",
        prefix: "",
        description: format!("partially update {}the specified {kind}", of_subresource(subresource)),
        parameters: &PATCH_PARAMETERS,
        body: Some(RequestBody::Patch { is_strategic }),
        codes: &[200, 201],
        response: ResponseBody::Object(object.to_owned()),
    }
}

pub(super) fn delete_operation(kind: &str, response: &str) -> OperationTemplate {
    OperationTemplate {
        method: "delete",
        action: "delete",
        verb: "delete",
        prefix: "",
        description: format!("delete {}{kind}", article(kind)),
        parameters: &DELETE_PARAMETERS,
        body: Some(RequestBody::DeleteOptions),
        codes: &[200, 202],
        response: ResponseBody::Object(response.to_owned()),
    }
}

pub(super) fn connect_operation(
    method: &'static str,
    prefix: &'static str,
    kind: &str,
    subresource: Option<&str>,
) -> OperationTemplate {
    let subresource = of_subresource(subresource);
    OperationTemplate {
        method,
        action: "connect",
        verb: "connect",
        prefix,
        description: format!("connect {} requests to {subresource}{kind}", method.to_uppercase()),
        parameters: &[],
        body: None,
        codes: &[200],
        response: ResponseBody::Text,
    }
}

fn of_subresource(name: Option<&str>) -> String {
    name.map_or(String::new(), |name| format!("{name} of "))
}

/// The indefinite article of a kind, with a space; nothing for plurals.
pub(super) fn article(kind: &str) -> &'static str {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        ""
    } else if kind.starts_with(['A', 'E', 'I', 'O', 'U']) {
        "an "
    } else {
        "a "
    }
}

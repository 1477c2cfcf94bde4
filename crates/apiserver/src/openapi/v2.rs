//! The document of OpenAPI v2: the paths of all group versions, with what the schemas of v3 can say in v2.

use std::collections::BTreeMap;

use apimachinery::openapi::SCHEMA_PREFIX;
use serde_json::{Map, Value, json};

use super::operations::{Operation, Parameter, PathItem, RequestBody, ResponseBody, status_text};
use super::schemas::Schemas;

/// The beginning of references to definitions.
const DEFINITION_PREFIX: &str = "#/definitions/";

/// The document with these paths.
pub(super) fn document(paths: &BTreeMap<String, PathItem>, schemas: &Schemas, git_version: &str) -> Value {
    let names = paths.values().flat_map(PathItem::schema_names).collect();
    let paths: Map<String, Value> = paths
        .iter()
        .map(|(path, item)| (path.clone(), item.to_object(parameters, operation_object)))
        .collect();
    let definition = |(name, schema): (&str, &Value)| {
        let mut definition = schema.clone();
        convert(&mut definition);
        (name.to_owned(), definition)
    };
    let definitions: Map<String, Value> = schemas.closure(names).into_iter().map(definition).collect();
    let bearer_token = json!({
        "description": "The token of a client.", "type": "apiKey", "name": "authorization", "in": "header",
    });
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": git_version},
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": bearer_token},
        "security": [{"BearerToken": []}],
    })
}

fn operation_object(operation: &Operation) -> Value {
    let mut object = operation.common_members();
    let mut parameters = parameters(&operation.parameters);
    if let (Some(body), Value::Array(parameters)) = (&operation.body, &mut parameters) {
        let mut parameter = json!({"name": "body", "in": "body", "schema": reference(body.schema())});
        if !matches!(body, RequestBody::DeleteOptions) {
            parameter["required"] = true.into();
        }
        parameters.push(parameter);
    }
    object["parameters"] = parameters;
    object["consumes"] = operation.body.as_ref().map_or(&["*/*"][..], RequestBody::content_types).into();
    object["produces"] = operation.response.content_types().into();
    object["schemes"] = json!(["https"]);
    let schema = match &operation.response {
        ResponseBody::Object(name) | ResponseBody::List(name) => reference(name),
        ResponseBody::Text => json!({"type": "string"}),
    };
    let response =
        |code: &u16| (code.to_string(), json!({"description": status_text(*code), "schema": schema}));
    let mut responses: Map<String, Value> = operation.codes.iter().map(response).collect();
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    object["responses"] = responses.into();
    object
}

fn parameters(parameters: &[&Parameter]) -> Value {
    let parameter = |parameter: &&Parameter| {
        let mut object = json!({
            "name": parameter.name, "in": parameter.place(), "type": parameter.type_, "uniqueItems": true,
        });
        if parameter.is_in_path {
            object["required"] = true.into();
        }
        object
    };
    parameters.iter().map(parameter).collect()
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("{DEFINITION_PREFIX}{name}")})
}

/// Converts a schema: v2 has no defaults beside references, and none of `oneOf`, `anyOf`, `not` and `nullable`. The depth
/// is that of parsed JSON.
fn convert(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    if let Some(Value::Array(parts)) = members.remove("allOf")
        && let [Value::Object(part)] = &*parts
    {
        members.extend(part.clone());
    }
    if let Some(Value::String(name)) = members.get_mut("$ref")
        && let Some(rest) = name.strip_prefix(SCHEMA_PREFIX)
    {
        *name = format!("{DEFINITION_PREFIX}{rest}");
    }
    members.remove("default");
    members.remove("anyOf");
    members.remove("not");
    // Quantities, and numbers that may be texts.
    if members.remove("oneOf").is_some() && !members.contains_key("type") {
        members.insert("type".to_owned(), "string".into());
    }
    let is_nullable = members.remove("nullable") == Some(Value::Bool(true));
    // Clients cannot read these with a type.
    if is_nullable || members.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        for name in ["type", "items", "properties"] {
            members.remove(name);
        }
    }
    if !members.contains_key("items") && members.get("type").is_some_and(|type_| type_ == "array") {
        members.remove("type");
    }
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        properties.values_mut().for_each(convert);
    }
    for nested in ["items", "additionalProperties"] {
        members.get_mut(nested).into_iter().for_each(convert);
    }
}

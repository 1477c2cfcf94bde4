//! Documents of OpenAPI v3, one for each group version.

use std::collections::BTreeMap;

use apimachinery::openapi::reference;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::operations::{Operation, Parameter, PathItem, RequestBody, ResponseBody, status_text};
use super::schemas::Schemas;

/// The document of a group version with these paths.
pub(super) fn document(paths: &BTreeMap<String, PathItem>, schemas: &Schemas, git_version: &str) -> String {
    let names = paths.values().flat_map(PathItem::schema_names).collect();
    let paths: Map<String, Value> = paths
        .iter()
        .map(|(path, item)| (path.clone(), item.to_object(parameters, operation_object)))
        .collect();
    let bearer_token = json!({
        "description": "The token of a client.", "type": "apiKey", "name": "authorization", "in": "header",
    });
    let document = DocumentJson {
        openapi: "3.0.0",
        info: json!({"title": "Kubernetes", "version": git_version}),
        paths,
        components: ComponentsJson {
            schemas: schemas.closure(names),
            security_schemes: json!({"BearerToken": bearer_token}),
        },
    };
    serde_json::to_string(&document).expect("JSON values can be written")
}

#[derive(Serialize)]
struct DocumentJson<'a> {
    openapi: &'static str,
    info: Value,
    paths: Map<String, Value>,
    components: ComponentsJson<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ComponentsJson<'a> {
    schemas: BTreeMap<&'a str, &'a Value>,
    security_schemes: Value,
}

fn operation_object(operation: &Operation) -> Value {
    let mut object = operation.common_members();
    if !operation.parameters.is_empty() {
        object["parameters"] = parameters(&operation.parameters);
    }
    if let Some(body) = &operation.body {
        let content: Map<String, Value> = body
            .content_types()
            .iter()
            .map(|content_type| ((*content_type).to_owned(), json!({"schema": reference(body.schema())})))
            .collect();
        object["requestBody"] = json!({"content": content});
        if !matches!(body, RequestBody::DeleteOptions) {
            object["requestBody"]["required"] = true.into();
        }
    }
    let mut responses = Map::new();
    for code in operation.codes {
        let response = json!({
            "description": status_text(*code), "content": response_content(&operation.response),
        });
        responses.insert(code.to_string(), response);
    }
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    object["responses"] = responses.into();
    object
}

fn response_content(body: &ResponseBody) -> Value {
    let schema = body.schema().map_or_else(|| json!({"type": "string"}), reference);
    let content = |content_type: &&str| ((*content_type).to_owned(), json!({"schema": schema}));
    body.content_types().iter().map(content).collect::<Map<String, Value>>().into()
}

fn parameters(parameters: &[&Parameter]) -> Value {
    let parameter = |parameter: &&Parameter| {
        let mut object = json!({
            "name": parameter.name, "in": parameter.place(),
            "schema": {"type": parameter.type_, "uniqueItems": true},
        });
        if parameter.is_in_path {
            object["required"] = true.into();
        }
        object
    };
    parameters.iter().map(parameter).collect()
}

//! Patches: JSON patch, merge patch and strategic merge patch.

use kubernetes::strategic_merge::{self, BadPatch};
use model::Kind;
use serde_json::Value;

use crate::body::parse_value;
use crate::status::ApiError;

/// The most operations of a JSON patch.
const MAX_OPERATIONS: usize = 10_000;

/// A patch of a request.
#[derive(Debug)]
pub(crate) enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
    StrategicMerge(Value),
}

impl Patch {
    /// Parses the body of a request by its media type.
    pub(crate) fn parse(content_type: &str, body: &[u8]) -> Result<Patch, ApiError> {
        match content_type {
            "application/json-patch+json" => {
                let patch: json_patch::Patch = serde_json::from_value(parse_value(body)?)
                    .map_err(|error| ApiError::bad_request(format!("invalid JSON patch: {error}")))?;
                if patch.len() > MAX_OPERATIONS {
                    return Err(ApiError::too_large(MAX_OPERATIONS));
                }
                Ok(Patch::Json(patch))
            }
            "application/merge-patch+json" => Ok(Patch::Merge(parse_object(body)?)),
            "application/strategic-merge-patch+json" => Ok(Patch::StrategicMerge(parse_object(body)?)),
            other => Err(unsupported(other)),
        }
    }

    /// The patched object.
    pub(crate) fn apply(&self, kind: &Kind, object: &Value) -> Result<Value, ApiError> {
        match self {
            Patch::Json(patch) => {
                let mut patched = object.clone();
                json_patch::patch(&mut patched, patch).map_err(|_| {
                    ApiError::unprocessable("the server rejected our request due to an error in our request")
                })?;
                Ok(patched)
            }
            Patch::Merge(patch) => {
                let mut patched = object.clone();
                json_patch::merge(&mut patched, patch);
                Ok(patched)
            }
            Patch::StrategicMerge(patch) => {
                strategic_merge::merge(kind, object, patch).map_err(|error| match error {
                    BadPatch::Unsupported(_) => unsupported("application/strategic-merge-patch+json"),
                    error => ApiError::bad_request(error.to_string()),
                })
            }
        }
    }
}

fn parse_object(body: &[u8]) -> Result<Value, ApiError> {
    let value = parse_value(body)?;
    if value.is_object() { Ok(value) } else { Err(ApiError::bad_request("a merge patch is a JSON object")) }
}

fn unsupported(content_type: &str) -> ApiError {
    ApiError::unsupported_media_type_of(
        content_type,
        "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json \
         (built-in kinds)",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(content_type: &str, patch: &str, expected: Option<Value>) {
        let object = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "1"}]}});
        let patch = Patch::parse(content_type, patch.as_bytes());
        let patched = patch.and_then(|patch| patch.apply(&Kind::new("", "Pod"), &object));
        assert_eq!(patched.ok().map(|patched| patched["spec"].clone()), expected);
    }

    #[test]
    fn each_type_of_patch_is_applied() {
        let patch = r#"[{"op": "replace", "path": "/spec/containers/0/image", "value": "2"}]"#;
        let replaced = json!({"containers": [{"name": "x", "image": "2"}]});
        check("application/json-patch+json", patch, Some(replaced.clone()));
        let patch = r#"{"spec": {"containers": [{"name": "x", "image": "2"}]}}"#;
        check("application/strategic-merge-patch+json", patch, Some(replaced));
        let patch = r#"{"spec": {"containers": [{"name": "y"}]}}"#;
        check("application/merge-patch+json", patch, Some(json!({"containers": [{"name": "y"}]})));
    }

    #[test]
    fn bad_patches_are_refused() {
        check("application/json-patch+json", r#"[{"op": "test", "path": "/spec", "value": 1}]"#, None);
        check("application/json-patch+json", r#"[{"op": "jump"}]"#, None);
        check("application/merge-patch+json", "[]", None);
        check("application/strategic-merge-patch+json", r#"{"spec": {"$patch": "x"}}"#, None);
        check("application/apply-patch+yaml", "{}", None);
        check("application/json", "{}", None);
    }
}

//! Patches: JSON patch, merge patch and strategic merge patch.

use kubernetes::decoding::{decode_json_patch, decode_merge_patch};
use kubernetes::go::text::format_value;
use kubernetes::strategic_merge::{self, BadPatch};
use model::Kind;
use serde_json::Value;

use crate::status::ApiError;

/// The most operations of a JSON patch.
const MAX_OPERATIONS: usize = 10_000;

/// A patch of a request.
#[derive(Debug)]
pub(crate) struct Patch {
    document: PatchDocument,
    /// Unknown and duplicate fields of the patch itself.
    pub(crate) strict_errors: Vec<String>,
}

#[derive(Debug)]
enum PatchDocument {
    Json(json_patch::Patch),
    Merge(Value),
    StrategicMerge(Value),
}

impl Patch {
    /// Parses the body of a request by its media type.
    pub(crate) fn parse(content_type: &str, body: &[u8]) -> Result<Patch, ApiError> {
        match content_type {
            "application/json-patch+json" => {
                let decoded = decode_json_patch(body)
                    .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
                let patch: json_patch::Patch =
                    serde_json::from_value(decoded.value).map_err(|_| ApiError::unprocessable(REJECTED))?;
                if patch.len() > MAX_OPERATIONS {
                    return Err(ApiError::too_large(MAX_OPERATIONS));
                }
                Ok(Patch { document: PatchDocument::Json(patch), strict_errors: decoded.strict_errors })
            }
            "application/merge-patch+json" => {
                Patch::parse_object(body, "error decoding patch: ", PatchDocument::Merge)
            }
            "application/strategic-merge-patch+json" => {
                Patch::parse_object(body, "", PatchDocument::StrategicMerge)
            }
            other => Err(unsupported(other)),
        }
    }

    fn parse_object(
        body: &[u8],
        error_prefix: &str,
        document: impl FnOnce(Value) -> PatchDocument,
    ) -> Result<Patch, ApiError> {
        let decoded = decode_merge_patch(body)
            .map_err(|error| ApiError::bad_request(format!("{error_prefix}{error}")))?;
        if !decoded.value.is_object() {
            return Err(ApiError::bad_request("a merge patch is a JSON object"));
        }
        Ok(Patch { document: document(decoded.value), strict_errors: decoded.strict_errors })
    }

    /// The patched object.
    pub(crate) fn apply(&self, kind: &Kind, object: &Value) -> Result<Value, ApiError> {
        match &self.document {
            PatchDocument::Json(patch) => {
                let mut patched = object.clone();
                json_patch::patch(&mut patched, patch).map_err(|_| ApiError::unprocessable(REJECTED))?;
                Ok(patched)
            }
            PatchDocument::Merge(patch) => {
                let mut patched = object.clone();
                json_patch::merge(&mut patched, patch);
                Ok(patched)
            }
            PatchDocument::StrategicMerge(patch) => {
                strategic_merge::merge(kind, object, patch).map_err(|error| match error {
                    BadPatch::Unsupported(_) => unsupported("application/strategic-merge-patch+json"),
                    error => ApiError::bad_request(error.to_string()),
                })
            }
        }
    }

    /// The error for a patch whose result, with this text, is not an object of its kind.
    pub(crate) fn invalid(&self, patched: &str, why: &str) -> ApiError {
        match &self.document {
            PatchDocument::Json(_) | PatchDocument::Merge(_) => ApiError::invalid_patch(patched, why),
            PatchDocument::StrategicMerge(patch) => ApiError::invalid_patch(&format_value(patch), why),
        }
    }
}

const REJECTED: &str = "the server rejected our request due to an error in our request";

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

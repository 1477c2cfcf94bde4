//! Patches: JSON patch, merge patch and strategic merge patch.

use std::borrow::Cow;

use apimachinery::decoding::{decode_json_patch, decode_merge_patch};
use apimachinery::strategic_merge::{self, BadPatch};
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, ReplaceOperation};
use kubernetes::go::text::format_value;
use model::Kind;
use serde_json::Value;

use crate::status::ApiError;

/// The most operations of a JSON patch.
const MAX_OPERATIONS: usize = 10_000;
/// The most bytes that a JSON patch may copy: each copy of an object into itself doubles it.
const MAX_COPIED_BYTES: usize = 3 << 20;
/// The deepest nesting of a patched object: that of JSON which can be parsed.
const MAX_DEPTH: usize = 127;

/// A patch of a request.
#[derive(Debug)]
pub struct Patch {
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

/// A JSON patch while it is applied.
struct JsonPatcher {
    patched: Value,
    copied_bytes: usize,
    /// An upper bound of the nesting of the patched object.
    depth: usize,
}

impl Patch {
    /// Parses the body of a request by its media type.
    pub fn parse(content_type: &str, body: &[u8]) -> Result<Patch, ApiError> {
        match content_type {
            "application/json-patch+json" => {
                let decoded = decode_json_patch(body)
                    .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
                let patch: json_patch::Patch =
                    serde_json::from_value(decoded.value).map_err(|_| ApiError::unprocessable(REJECTED))?;
                if patch.len() > MAX_OPERATIONS {
                    return Err(ApiError::too_many_operations(MAX_OPERATIONS, patch.len()));
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
    pub fn apply(&self, kind: &Kind, object: &Value) -> Result<Value, ApiError> {
        match &self.document {
            PatchDocument::Json(patch) => {
                let mut patcher =
                    JsonPatcher { patched: object.clone(), copied_bytes: 0, depth: depth_of(object) };
                for operation in &patch.0 {
                    patcher.apply(operation)?;
                }
                Ok(patcher.patched)
            }
            PatchDocument::Merge(patch) => {
                let mut patched = object.clone();
                json_patch::merge(&mut patched, patch);
                Ok(patched)
            }
            PatchDocument::StrategicMerge(patch) => {
                strategic_merge::merge(kind, object, patch).map_err(|error| match error {
                    BadPatch::Unsupported(_) => ApiError::unsupported_custom_patch(),
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

// === impl JsonPatcher ===

impl JsonPatcher {
    fn apply(&mut self, operation: &PatchOperation) -> Result<(), ApiError> {
        let refused = || ApiError::unprocessable(REJECTED);
        let path = operation.path();
        let depth_below = match operation {
            PatchOperation::Add(add) => depth_of(&add.value),
            PatchOperation::Replace(replace) => depth_of(&replace.value),
            PatchOperation::Copy(copy) => {
                let copied = self.patched.pointer(copy.from.as_str()).map_or(0, json_length);
                self.copied_bytes = self.copied_bytes.saturating_add(copied);
                self.depth.saturating_sub(copy.from.count())
            }
            PatchOperation::Move(moved) => self.depth.saturating_sub(moved.from.count()),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => 0,
        };
        self.depth = self.depth.max(path.count() + depth_below);
        if self.copied_bytes > MAX_COPIED_BYTES || self.depth > MAX_DEPTH {
            return Err(refused());
        }
        let operation = match operation {
            // As the Go library has it: a missing member of an object is null, and can be replaced.
            PatchOperation::Test(test) if self.is_missing_member(&test.path) => {
                return if test.value.is_null() { Ok(()) } else { Err(refused()) };
            }
            PatchOperation::Replace(ReplaceOperation { path, value }) if self.is_missing_member(path) => {
                Cow::Owned(PatchOperation::Add(AddOperation { path: path.clone(), value: value.clone() }))
            }
            operation => Cow::Borrowed(operation),
        };
        json_patch::patch(&mut self.patched, std::slice::from_ref(&*operation)).map_err(|_| refused())
    }

    /// Whether a path leads to an object, and from there to a member that it does not have.
    fn is_missing_member(&self, path: &PointerBuf) -> bool {
        let Some((parent, _)) = path.split_back() else { return false };
        self.patched.pointer(parent.as_str()).is_some_and(Value::is_object)
            && self.patched.pointer(path.as_str()).is_none()
    }
}

/// The number of bytes of a value as JSON.
fn json_length(value: &Value) -> usize {
    value.to_string().len()
}

/// The number of arrays and objects in one another. Recursion follows the nesting, which the JSON parser bounds.
fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth_of).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn unsupported(content_type: &str) -> ApiError {
    ApiError::unsupported_media_type_of(
        content_type,
        "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json \
         (built-in kinds), application/apply-patch+yaml",
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
        check("application/apply-patch+cbor", "{}", None);
        check("application/json", "{}", None);
    }

    /// What a JSON patch makes of an object; `None` if it is refused.
    fn json_patched(object: &Value, operations: Value) -> Option<Value> {
        let patch = Patch::parse("application/json-patch+json", operations.to_string().as_bytes()).unwrap();
        patch.apply(&Kind::new("", "Pod"), object).ok()
    }

    #[test]
    fn a_json_patch_does_not_make_an_object_grow_without_limit() {
        let object = json!({"a": {"b": "c"}, "x": {}});
        let copies = |count: usize| {
            (0..count).map(|n| json!({"op": "copy", "from": "/a", "path": format!("/a/{n}")})).collect()
        };
        assert!(json_patched(&object, copies(10)).is_some());
        assert!(json_patched(&object, copies(60)).is_none());
        let moves = |count: usize| {
            let there = json!({"op": "move", "from": "/a", "path": "/x/a"});
            let back = json!({"op": "move", "from": "/x", "path": "/a"});
            let again = json!({"op": "add", "path": "/x", "value": {}});
            (0..count).flat_map(|_| [there.clone(), back.clone(), again.clone()]).collect()
        };
        assert!(json_patched(&object, moves(50)).is_some());
        assert!(json_patched(&object, moves(3_000)).is_none());
        let many: Value = (0..10_001).map(|_| json!({"op": "remove", "path": "/a"})).collect();
        let refused = Patch::parse("application/json-patch+json", many.to_string().as_bytes()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
        );
    }
}

//! Bodies of requests, parsed.

use std::fmt;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, header};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::status::ApiError;

/// The largest request body accepted.
pub(crate) const MAX_BODY_BYTES: usize = 3 << 20;

/// A JSON value without duplicate keys: which of two is meant is not for a server to guess.
struct StrictValue(Value);

/// Reads the whole body of a request.
pub(crate) async fn read(body: Body) -> Result<Vec<u8>, ApiError> {
    let bytes = to_bytes(body, MAX_BODY_BYTES).await.map_err(|_| ApiError::too_large(MAX_BODY_BYTES))?;
    Ok(bytes.into())
}

/// The media type of a request's body, without parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let value = value.unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// A body that must be JSON.
pub(crate) fn parse_json(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, ApiError> {
    match content_type(headers) {
        "" | "application/json" => parse_value(bytes),
        other => Err(ApiError::unsupported_media_type(other)),
    }
}

/// Parses a JSON document.
pub(crate) fn parse_value(bytes: &[u8]) -> Result<Value, ApiError> {
    let StrictValue(value) = serde_json::from_slice(bytes)
        .map_err(|error| ApiError::bad_request(format!("the body of the request is not valid: {error}")))?;
    Ok(value)
}

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StrictValue, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(StrictValue)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(StrictValue(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(items.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let StrictValue(value) = access.next_value()?;
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format_args!("duplicate field {key:?}")));
            }
            fields.insert(key, value);
        }
        Ok(fields.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_is_one_json_document_without_duplicate_keys() {
        let text = br#"{"a": [1, -2, 0.5, null, true, "x"], "b": {"c": {}}}"#;
        let expected = json!({"a": [1, -2, 0.5, null, true, "x"], "b": {"c": {}}});
        assert_eq!(parse_value(text).unwrap(), expected);
        for text in [r#"{"a": 1, "a": 1}"#, r#"{"a": {"b": 1, "b": 2}}"#, "{} {}", "", "{\"a\": \"\u{1}\"}"] {
            assert!(parse_value(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse_value(b"{\"a\": \"\xff\"}").is_err());
        assert!(parse_value("[".repeat(10_000).as_bytes()).is_err());
    }
}

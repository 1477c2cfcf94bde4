//! Bodies of requests.

use apimachinery::decoding::decode_any;
use apimachinery::protobuf::{ProtobufError, decode_protobuf};
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use serde_json::Value;

use crate::status::ApiError;

/// The largest request body accepted.
pub(crate) const MAX_BODY_BYTES: usize = 3 << 20;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Reads the whole body of a request.
pub(crate) async fn read(body: Body) -> Result<Vec<u8>, ApiError> {
    let bytes = to_bytes(body, MAX_BODY_BYTES).await.map_err(|_| ApiError::too_large(MAX_BODY_BYTES))?;
    Ok(bytes.into())
}

/// Makes a body JSON that is an object in the protobuf encoding, as Kubernetes' own components send it.
pub(crate) fn make_json(headers: &mut HeaderMap, body: Vec<u8>) -> Result<Vec<u8>, ApiError> {
    if content_type(headers) != PROTOBUF {
        return Ok(body);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if body.is_empty() {
        return Ok(body);
    }
    match decode_protobuf(&body) {
        Ok(object) => Ok(object.to_string().into_bytes()),
        Err(error @ ProtobufError::UnknownKind { .. }) => Err(ApiError::unsupported_protobuf(&error)),
        Err(error) => Err(ApiError::bad_request(error.to_string())),
    }
}

/// The media type of a request's body, without parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let value = value.unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// Refuses a body that is not JSON by its media type.
pub(crate) fn check_is_json(headers: &HeaderMap) -> Result<(), ApiError> {
    match content_type(headers) {
        "" | "application/json" => Ok(()),
        other => Err(ApiError::unsupported_media_type(other)),
    }
}

/// A body that must be JSON, of any type.
pub(crate) fn parse_json(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, ApiError> {
    check_is_json(headers)?;
    let decoded = decode_any(bytes)
        .map_err(|error| ApiError::bad_request(format!("the body of the request is not valid: {error}")))?;
    Ok(decoded.value)
}

//! Bodies of server-side apply: configurations in YAML, of which JSON is a part.

use kubernetes::go::text::quote;
use kubernetes::yaml::{self, DuplicateKeys, Limits};
use serde_json::Value;

use crate::body::MAX_BODY_BYTES;
use crate::field_validation::FieldValidation;
use crate::status::ApiError;

/// The media type of a configuration.
pub(crate) const MEDIA_TYPE: &str = "application/apply-patch+yaml";

const LIMITS: Limits = Limits { max_bytes: MAX_BODY_BYTES, max_depth: 100 };

/// The configuration in a body. Of duplicate fields the last one counts.
pub(crate) fn decode_config(body: &[u8]) -> Result<Value, ApiError> {
    let refused = |why: &str| ApiError::bad_request(format!("error decoding YAML: {why}"));
    let config = parse(body).map_err(|why| refused(&why))?;
    let type_name = match &config {
        Value::Object(_) => return Ok(config),
        Value::Null => return Ok(serde_json::Map::new().into()),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
    };
    Err(refused(&format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {type_name} into Go value of type \
         map[string]interface {{}}"
    )))
}

/// The warning about the first duplicate field in a body; the error if the request is to be refused.
pub(crate) fn warnings(body: &[u8], validation: FieldValidation) -> Result<Vec<String>, ApiError> {
    let text = str::from_utf8(body).unwrap_or_default();
    if validation == FieldValidation::Ignore || text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let Err(error) = yaml::to_json(text, LIMITS, DuplicateKeys::Error) else { return Ok(Vec::new()) };
    let Some((line, key)) = yaml::duplicate_key(&error) else { return Ok(Vec::new()) };
    let warning = format!("line {line}: key {} already set in map", quote(key));
    match validation {
        FieldValidation::Strict => Err(ApiError::bad_request(format!(
            "error strict decoding YAML: {CONVERTING}unmarshal errors:\n  {warning}"
        ))),
        FieldValidation::Ignore | FieldValidation::Warn => Ok(vec![warning]),
    }
}

const CONVERTING: &str = "error converting YAML to JSON: yaml: ";

fn parse(body: &[u8]) -> Result<Value, String> {
    let text = str::from_utf8(body).map_err(|_| format!("{CONVERTING}invalid UTF-8"))?;
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    let json = yaml::to_json(text, LIMITS, DuplicateKeys::LastWins)
        .map_err(|error| format!("{CONVERTING}{}", error.without_snippet()))?;
    let mut config = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    shorten_floats(&mut config);
    Ok(config)
}

/// Go writes a float without a fraction as an integer. Recursion follows the nesting, which the parser bounds.
fn shorten_floats(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let text = number.to_string();
            if let Some(Ok(integer)) = text.strip_suffix(".0").map(str::parse::<i64>) {
                *value = integer.into();
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(shorten_floats),
        Value::Object(fields) => fields.values_mut().for_each(shorten_floats),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;

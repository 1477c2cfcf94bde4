//! Unknown and duplicate fields in the body of a request (`fieldValidation`), and the `Warning` headers of its response.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// What happens to a request with unknown or duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped, with a warning.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

/// The values of the parameter, as errors list them.
pub(crate) const FIELD_VALIDATIONS: [&str; 4] = ["", "Ignore", "Strict", "Warn"];

/// If all warnings are longer than this, each is cut.
const MAX_LENGTH: usize = 4096;
/// The length of a warning that is cut.
const MAX_CUT_LENGTH: usize = 256;

// === impl FieldValidation ===

impl FieldValidation {
    /// The value of the parameter of a URL.
    pub(crate) fn parse(value: &str) -> Option<FieldValidation> {
        match value {
            "" => Some(FieldValidation::default()),
            "Ignore" => Some(FieldValidation::Ignore),
            "Warn" => Some(FieldValidation::Warn),
            "Strict" => Some(FieldValidation::Strict),
            _ => None,
        }
    }

    /// The warnings that follow from the errors of strict decoding; the error if the request is to be refused.
    pub(crate) fn warnings(self, strict_errors: Vec<String>) -> Result<Vec<String>, String> {
        match self {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Warn => Ok(strict_errors),
            FieldValidation::Strict if strict_errors.is_empty() => Ok(Vec::new()),
            FieldValidation::Strict => Err(format!("strict decoding error: {}", strict_errors.join(", "))),
        }
    }
}

/// The errors of strict decoding about the unknown fields of a custom resource.
pub(crate) fn unknown_fields(paths: Vec<String>) -> impl Iterator<Item = String> {
    paths.into_iter().map(|path| format!("unknown field \"{path}\""))
}

/// Adds a header for each warning.
pub(crate) fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    let length: usize = warnings.iter().map(|warning| warning.chars().count()).sum();
    let is_cut = length > MAX_LENGTH;
    let mut written = 0;
    for (index, warning) in warnings.iter().enumerate() {
        if warnings[..index].contains(warning) {
            continue;
        }
        if is_cut && written >= MAX_LENGTH {
            return;
        }
        let text: String = warning.chars().take(if is_cut { MAX_CUT_LENGTH } else { usize::MAX }).collect();
        written += text.chars().count();
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        // Control characters, which a header cannot have, are escaped in paths of fields.
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            headers.append(HeaderName::from_static("warning"), value);
        }
    }
}

#[cfg(test)]
mod tests;

//! Parameters of requests that write.

use axum::extract::Query;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use kubernetes::go::text::{is_printable, quote};
use serde::Deserialize;
use serde_json::Value;

use crate::apply_config;
use crate::body;
use crate::field_validation::{FIELD_VALIDATIONS, FieldValidation};
use crate::registry::{DeleteOptions, PropagationPolicy};
use crate::status::{ApiError, InvalidField};

/// The longest name of a field manager.
const MAX_MANAGER_BYTES: usize = 128;

/// Options of a write in the query of a URL.
#[derive(Default)]
pub(crate) struct WriteQuery {
    pub(crate) is_dry_run: bool,
    field_manager: String,
    /// Whether an applied configuration takes fields from other managers.
    pub(crate) force: Option<bool>,
    pub(crate) field_validation: FieldValidation,
    pub(crate) delete: DeleteOptions,
}

// === impl WriteQuery ===

impl WriteQuery {
    /// Parses the parameters that a request of its method may have.
    pub(crate) fn parse(parts: &Parts) -> Result<WriteQuery, ApiError> {
        let query: Query<Vec<(String, String)>> =
            Query::try_from_uri(&parts.uri).map_err(|error| ApiError::bad_request(error.to_string()))?;
        let mut parsed = WriteQuery::default();
        let options_kind = match parts.method {
            Method::POST => "CreateOptions",
            Method::PUT => "UpdateOptions",
            Method::PATCH => "PatchOptions",
            _ => "DeleteOptions",
        };
        let is_delete = parts.method == Method::DELETE;
        let (mut dry_run_error, mut validation_error) = (None, None);
        for (name, value) in &query.0 {
            match (&**name, &**value) {
                ("dryRun", "") => {}
                ("dryRun", "All") => parsed.is_dry_run = true,
                ("dryRun", other) => {
                    let value = format!("[{}]", quote(other));
                    dry_run_error = Some(InvalidField::not_supported("dryRun", &value, &["All"]));
                }
                ("fieldValidation", value) if !is_delete => match FieldValidation::parse(value) {
                    Some(validation) => parsed.field_validation = validation,
                    None => {
                        let value = quote(value);
                        let error =
                            InvalidField::not_supported("fieldValidation", &value, &FIELD_VALIDATIONS);
                        validation_error = Some(error);
                    }
                },
                ("gracePeriodSeconds", seconds) if is_delete => {
                    let message = || format!("strconv.ParseInt: parsing {}: invalid syntax", quote(seconds));
                    let seconds = seconds.parse().map_err(|_| ApiError::bad_request(message()))?;
                    parsed.delete.grace_period_seconds = Some(seconds);
                }
                ("propagationPolicy", policy) if is_delete => {
                    check_policy(Some(policy))?;
                    let policy = PropagationPolicy::deserialize(Value::from(policy)).map_err(bad_options)?;
                    parsed.delete.propagation_policy = Some(policy);
                }
                ("fieldManager", name) if !is_delete => parsed.field_manager = name.to_owned(),
                ("force", text) if parts.method == Method::PATCH => {
                    parsed.force = Some(!(text == "0" || text.eq_ignore_ascii_case("false")));
                }
                ("orphanDependents", orphans) => parsed.delete.orphan_dependents = Some(orphans == "true"),
                // Such as `pretty`.
                _ => {}
            }
        }
        let mut errors = parsed.manager_errors(parts);
        errors.extend(dry_run_error.into_iter().chain(validation_error));
        if errors.is_empty() { Ok(parsed) } else { Err(ApiError::invalid_options(options_kind, &errors)) }
    }

    /// What is wrong with the parameters about field managers.
    fn manager_errors(&self, parts: &Parts) -> Vec<InvalidField> {
        let mut errors = Vec::new();
        if parts.method == Method::PATCH {
            let is_apply = body::content_type(&parts.headers) == apply_config::MEDIA_TYPE;
            if is_apply && self.field_manager.is_empty() {
                errors.push(InvalidField::required("fieldManager", "is required for apply patch"));
            }
            if !is_apply && self.force.is_some() {
                errors.push(InvalidField::forbidden("force", "may not be specified for non-apply patch"));
            }
        }
        if self.field_manager.len() > MAX_MANAGER_BYTES {
            errors.push(InvalidField::too_long("fieldManager", MAX_MANAGER_BYTES));
        }
        for (position, letter) in
            self.field_manager.char_indices().filter(|(_, letter)| !is_printable(*letter))
        {
            let why = format!("invalid character U+{:04X} (at position {position})", u32::from(letter));
            errors.push(InvalidField::invalid("fieldManager", &quote(&self.field_manager), &why));
        }
        errors
    }

    /// The manager of the fields that a request writes: the one that it names, or its program.
    pub(crate) fn manager(&self, headers: &HeaderMap) -> String {
        if !self.field_manager.is_empty() {
            return self.field_manager.clone();
        }
        let agent = headers.get(header::USER_AGENT).map_or(&[][..], HeaderValue::as_bytes);
        let agent = String::from_utf8_lossy(agent);
        let program = agent.split('/').next().unwrap_or_default();
        let mut manager = String::new();
        for letter in program.chars().filter(|letter| is_printable(*letter)) {
            if manager.len() + letter.len_utf8() > MAX_MANAGER_BYTES {
                break;
            }
            manager.push(letter);
        }
        manager
    }
}

/// Checks the text of a propagation policy.
pub(crate) fn check_policy(policy: Option<&str>) -> Result<(), ApiError> {
    let supported = ["Foreground", "Background", "Orphan", "nil"];
    match policy {
        Some(policy) if !supported[..3].contains(&policy) => {
            Err(ApiError::invalid_option("DeleteOptions", "propagationPolicy", &quote(policy), &supported))
        }
        _ => Ok(()),
    }
}

pub(crate) fn bad_options(error: serde_json::Error) -> ApiError {
    ApiError::bad_request(format!("invalid DeleteOptions: {error}"))
}

//! Options of get, list and watch requests: selectors, limits and versions, from the query of a URL.

use axum::extract::Query;
use axum::http::Uri;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kubernetes::go::text::quote;
use kubernetes::selector::{FieldSelector, Selector};
use model::NamespacedName;
use serde::{Deserialize, Serialize};

use crate::resource::Resource;
use crate::status::{ApiError, InvalidField};
use crate::store::ObjectList;

/// The `ListOptions` of a request, parsed.
#[derive(Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) labels: Option<Selector>,
    pub(crate) fields: Option<FieldSelector>,
    /// The maximum number of objects; `None` for all.
    pub(crate) limit: Option<usize>,
    /// The last object of the previous page.
    pub(crate) after: Option<NamespacedName>,
    /// `None` for the most recent; 0 for any.
    pub(crate) resource_version: Option<u64>,
    /// How the list must relate to the resourceVersion; empty if the client does not say.
    resource_version_match: String,
    pub(crate) watch: bool,
    pub(crate) allow_watch_bookmarks: bool,
    /// Whether a watch begins with the objects that exist; `None` if the client does not say.
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) include_object: IncludeObject,
}

/// The part of each object that a table contains besides its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

/// The longest selector accepted, in bytes.
const MAX_SELECTOR_BYTES: usize = 32 << 10;

/// The token of the next page, in the form of Kubernetes' own.
#[derive(Deserialize, Serialize)]
struct ContinueToken {
    #[serde(rename = "v")]
    version: String,
    #[serde(rename = "rv")]
    resource_version: u64,
    /// Namespace and name of the last object, and a NUL.
    start: String,
}

const CONTINUE_VERSION: &str = "meta.k8s.io/v1";

/// The values of `resourceVersionMatch`.
const EXACT: &str = "Exact";
const NOT_OLDER_THAN: &str = "NotOlderThan";

// === impl ListOptions ===

impl ListOptions {
    /// Parses the query of a request for a resource.
    pub(crate) fn parse(uri: &Uri, resource: &Resource) -> Result<ListOptions, ApiError> {
        let query: Query<Vec<(String, String)>> =
            Query::try_from_uri(uri).map_err(|error| ApiError::bad_request(error.to_string()))?;
        let mut options = ListOptions::default();
        for (name, value) in &query.0 {
            options.set(name, value, resource)?;
        }
        let errors = options.contradictions();
        if errors.is_empty() { Ok(options) } else { Err(ApiError::invalid_options("ListOptions", &errors)) }
    }

    /// What must not be asked for together.
    fn contradictions(&self) -> Vec<InvalidField> {
        const MATCH: &str = "resourceVersionMatch";
        let matching = &*self.resource_version_match;
        let mut errors = Vec::new();
        let mut forbid = |is_forbidden: bool, field, why: &str| {
            if is_forbidden {
                errors.push(InvalidField::forbidden(field, why));
            }
        };
        let is_given = !matching.is_empty();
        if self.watch {
            let sends_initial = self.send_initial_events.is_some();
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            forbid(sends_initial && matching != NOT_OLDER_THAN, MATCH, why);
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            forbid(is_given && !sends_initial, MATCH, why);
            if is_given && matching != NOT_OLDER_THAN {
                errors.push(InvalidField::not_supported(MATCH, &quote(matching), &[NOT_OLDER_THAN]));
            }
            return errors;
        }
        let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        forbid(is_given && self.resource_version.is_none(), MATCH, why);
        let why = "resourceVersionMatch is forbidden when continue is provided";
        forbid(is_given && self.after.is_some(), MATCH, why);
        let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
        forbid(matching == EXACT && self.resource_version == Some(0), MATCH, why);
        let why = "sendInitialEvents is forbidden for list";
        forbid(self.send_initial_events.is_some(), "sendInitialEvents", why);
        if is_given && !matches!(matching, EXACT | NOT_OLDER_THAN) {
            let supported = [EXACT, NOT_OLDER_THAN, ""];
            errors.push(InvalidField::not_supported(MATCH, &quote(matching), &supported));
        }
        errors
    }

    fn set(&mut self, name: &str, value: &str, resource: &Resource) -> Result<(), ApiError> {
        match name {
            "labelSelector" => self.labels = Some(parse_selector(value, Selector::parse)?),
            "fieldSelector" => {
                self.fields = Some(match &resource.custom {
                    Some(_) => parse_selector(value, |text| {
                        FieldSelector::parse_custom(text, resource.namespaced, resource.selectable_fields())
                    })?,
                    None => parse_selector(value, |text| FieldSelector::parse(text, &resource.kind))?,
                });
            }
            "limit" => {
                self.limit = parse_count(value)?.and_then(|limit| usize::try_from(limit).ok());
            }
            "continue" => {
                self.after = Some(value).filter(|token| !token.is_empty()).map(decode_continue).transpose()?
            }
            "resourceVersion" => self.resource_version = parse_number(name, value)?,
            "resourceVersionMatch" => self.resource_version_match = value.to_owned(),
            "watch" => self.watch = parse_bool(value),
            "allowWatchBookmarks" => self.allow_watch_bookmarks = parse_bool(value),
            "sendInitialEvents" => self.send_initial_events = Some(parse_bool(value)),
            "timeoutSeconds" => self.timeout_seconds = parse_count(value)?,
            "includeObject" => {
                self.include_object = match value {
                    "None" => IncludeObject::None,
                    "" | "Metadata" => IncludeObject::Metadata,
                    "Object" => IncludeObject::Object,
                    _ => {
                        return Err(ApiError::bad_request(format!(
                            "unrecognized includeObject value: {value:?}"
                        )));
                    }
                }
            }
            // Such as `pretty`, which makes no difference here.
            _ => {}
        }
        Ok(())
    }
}

impl ListOptions {
    /// Whether a list has the requested resourceVersion.
    pub(crate) fn check_version(&self, list: &ObjectList) -> Result<(), ApiError> {
        let Some(requested) = self.resource_version else { return Ok(()) };
        // A watch waits for what comes after the resourceVersion, however far that is.
        if self.watch {
            return Ok(());
        }
        if requested > list.resource_version {
            return Err(ApiError::too_new(requested, list.resource_version));
        }
        // Older states are not kept.
        if self.resource_version_match == EXACT && requested < list.resource_version {
            return Err(ApiError::expired(requested, list.resource_version));
        }
        Ok(())
    }
}

/// The token with which a client requests the page after an object.
pub(crate) fn encode_continue(last: &NamespacedName, resource_version: u64) -> String {
    let token = ContinueToken {
        version: CONTINUE_VERSION.to_owned(),
        resource_version,
        start: format!("{}/{}\0", last.namespace, last.name),
    };
    URL_SAFE_NO_PAD.encode(serde_json::to_string(&token).expect("a token serializes as JSON"))
}

fn decode_continue(token: &str) -> Result<NamespacedName, ApiError> {
    let decode = || {
        let token: ContinueToken = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
        let (namespace, name) = token.start.strip_suffix('\0')?.split_once('/')?;
        (token.version == CONTINUE_VERSION).then(|| NamespacedName::new(namespace, name))
    };
    decode().ok_or_else(|| ApiError::bad_request(format!("continue key is not valid: {token:?}")))
}

fn parse_selector<T, E: ToString>(text: &str, parse: impl Fn(&str) -> Result<T, E>) -> Result<T, ApiError> {
    if text.len() > MAX_SELECTOR_BYTES {
        return Err(ApiError::bad_request(format!("a selector may have {MAX_SELECTOR_BYTES} bytes")));
    }
    parse(text).map_err(|error| ApiError::bad_request(error.to_string()))
}

/// A number; `None` for an empty text.
fn parse_number(name: &str, text: &str) -> Result<Option<u64>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text
        .parse()
        .map_err(|_| ApiError::bad_request(format!("invalid {name} {text:?}: expected a number")))?;
    Ok(Some(number))
}

/// A number that counts only if it is positive; `None` for an empty text.
fn parse_count(text: &str) -> Result<Option<u64>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    let number: i64 = text.parse().map_err(|_| {
        ApiError::bad_request(format!("strconv.ParseInt: parsing {}: invalid syntax", quote(text)))
    })?;
    Ok(u64::try_from(number).ok().filter(|number| *number > 0))
}

/// As in Kubernetes, anything but `0` and `false` is true.
fn parse_bool(text: &str) -> bool {
    !matches!(text, "0" | "false" | "False" | "FALSE" | "f" | "F")
}

#[cfg(test)]
mod tests {
    use kubernetes::kinds;

    use super::*;

    fn parse(query: &str) -> Result<ListOptions, ApiError> {
        let pods = Resource::built_in(kinds::find("pods").unwrap());
        ListOptions::parse(&format!("/api/v1/pods?{query}").parse().unwrap(), &pods)
    }

    #[test]
    fn a_page_continues_after_the_last_object() {
        let last = NamespacedName::new("web", "a-1");
        let token = encode_continue(&last, 7);
        assert_eq!(parse(&format!("limit=5&continue={token}")).unwrap().after, Some(last));
        assert_eq!(parse("continue=").unwrap().after, None);
        assert!(parse("continue=e30").is_err());
        assert!(parse("continue=%ff").is_err());
    }

    #[test]
    fn empty_and_zero_values_are_absent() {
        let options = parse("limit=0&resourceVersion=&timeoutSeconds=&labelSelector=").unwrap();
        assert_eq!((options.limit, options.resource_version, options.timeout_seconds), (None, None, None));
        assert_eq!(parse("resourceVersion=0").unwrap().resource_version, Some(0));
    }

    /// The messages are those of kube-apiserver 1.36.
    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let requires = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        let invalid = "ListOptions.meta.k8s.io \"\" is invalid";
        for (query, expected) in [
            ("watch=1&sendInitialEvents=true", format!("resourceVersionMatch: {requires}")),
            (
                "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
                format!(
                    "[resourceVersionMatch: {requires}, resourceVersionMatch: Unsupported value: \"Exact\": supported \
                     values: \"NotOlderThan\"]"
                ),
            ),
            (
                "sendInitialEvents=true",
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list".to_owned(),
            ),
            (
                "resourceVersionMatch=Exact",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
                    .to_owned(),
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""
                    .to_owned(),
            ),
            (
                "watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=1",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents \
                 is provided"
                    .to_owned(),
            ),
            (
                "resourceVersionMatch=Bogus&resourceVersion=1",
                "resourceVersionMatch: Unsupported value: \"Bogus\": supported values: \"Exact\", \"NotOlderThan\", \"\""
                    .to_owned(),
            ),
        ] {
            let error = parse(query).unwrap_err().to_string();
            assert_eq!(error, format!("{invalid}: {expected}"), "{query}");
        }
        let streamed = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=";
        assert!(parse(streamed).is_ok());
        let options = parse("limit=-1&timeoutSeconds=-1").unwrap();
        assert_eq!((options.limit, options.timeout_seconds), (None, None));
        let error = parse("timeoutSeconds=x").unwrap_err().to_string();
        assert_eq!(error, "strconv.ParseInt: parsing \"x\": invalid syntax");
    }

    #[test]
    fn invalid_options_are_refused() {
        for query in [
            "limit=x",
            "resourceVersion=x",
            "labelSelector=a,,=",
            "fieldSelector=spec.x=1",
            "includeObject=All",
        ] {
            assert!(parse(query).is_err(), "{query}");
        }
        assert!(parse(&format!("labelSelector={}", "a".repeat(MAX_SELECTOR_BYTES + 1))).is_err());
    }
}

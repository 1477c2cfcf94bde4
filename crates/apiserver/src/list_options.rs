//! Options of get, list and watch requests: selectors, limits and versions, from the query of a URL.

use axum::extract::Query;
use axum::http::Uri;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kubernetes::selector::{FieldSelector, Selector};
use model::NamespacedName;
use serde::{Deserialize, Serialize};

use crate::resource::Resource;
use crate::status::ApiError;
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
    /// Whether the list must be that of the resourceVersion.
    pub(crate) is_exact: bool,
    pub(crate) watch: bool,
    pub(crate) allow_watch_bookmarks: bool,
    pub(crate) send_initial_events: bool,
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
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str, resource: &Resource) -> Result<(), ApiError> {
        match name {
            "labelSelector" => self.labels = Some(parse_selector(value, Selector::parse)?),
            "fieldSelector" => {
                self.fields = Some(parse_selector(value, |text| FieldSelector::parse(text, &resource.kind))?);
            }
            "limit" => {
                self.limit = parse_number(name, value)?.filter(|limit| *limit > 0).map(|limit| limit as usize)
            }
            "continue" => {
                self.after = Some(value).filter(|token| !token.is_empty()).map(decode_continue).transpose()?
            }
            "resourceVersion" => self.resource_version = parse_number(name, value)?,
            "resourceVersionMatch" => {
                self.is_exact = match value {
                    "" | "NotOlderThan" => false,
                    "Exact" => true,
                    _ => {
                        return Err(ApiError::unprocessable(format!(
                            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Unsupported value: {value:?}: \
                             supported values: \"Exact\", \"NotOlderThan\""
                        )));
                    }
                }
            }
            "watch" => self.watch = parse_bool(value),
            "allowWatchBookmarks" => self.allow_watch_bookmarks = parse_bool(value),
            "sendInitialEvents" => self.send_initial_events = parse_bool(value),
            "timeoutSeconds" => self.timeout_seconds = parse_number(name, value)?,
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
        if requested > list.resource_version {
            return Err(ApiError::too_new(requested, list.resource_version));
        }
        // Older states are not kept.
        if self.is_exact && requested < list.resource_version && !self.watch {
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

    #[test]
    fn invalid_options_are_refused() {
        for query in [
            "limit=-1",
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

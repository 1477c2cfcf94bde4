//! Content negotiation: the form of a response, from the `Accept` header.

use crate::status::ApiError;

/// The form in which objects are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectForm {
    /// As they are stored.
    Object,
    /// `meta.k8s.io/v1` Table
    Table,
    /// `meta.k8s.io/v1` PartialObjectMetadata, and lists of it
    PartialObjectMetadata,
}

/// The form of discovery documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiscoveryForm {
    /// One document per group and version.
    Plain,
    /// All resources in one document, `apidiscovery.k8s.io/v2`.
    Aggregated,
}

/// The form of OpenAPI documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenApiForm {
    Json,
    /// gnostic's messages for OpenAPI v2.
    ProtobufV2,
}

/// A media type with the parameters that matter here.
struct MediaType<'a> {
    name: &'a str,
    kind: &'a str,
    group: &'a str,
    version: &'a str,
}

// === impl ObjectForm ===

impl ObjectForm {
    /// The first of the accepted forms that is served.
    pub(crate) fn of(accept: Option<&str>) -> Result<ObjectForm, ApiError> {
        first_served(accept, |media_type| match (media_type.kind, media_type.group, media_type.version) {
            ("", ..) => Some(ObjectForm::Object),
            ("Table", "meta.k8s.io", "v1") => Some(ObjectForm::Table),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
                Some(ObjectForm::PartialObjectMetadata)
            }
            _ => None,
        })
    }
}

// === impl DiscoveryForm ===

impl DiscoveryForm {
    /// The first of the accepted forms that is served.
    pub(crate) fn of(accept: Option<&str>) -> Result<DiscoveryForm, ApiError> {
        first_served(accept, |media_type| match (media_type.kind, media_type.group, media_type.version) {
            ("", ..) => Some(DiscoveryForm::Plain),
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(DiscoveryForm::Aggregated),
            _ => None,
        })
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            DiscoveryForm::Plain => "application/json",
            DiscoveryForm::Aggregated => {
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
        }
    }
}

// === impl OpenApiForm ===

impl OpenApiForm {
    /// The first of the accepted forms that is served.
    pub(crate) fn of(accept: Option<&str>, served: &[OpenApiForm]) -> Result<OpenApiForm, ApiError> {
        let accept = accept.filter(|accept| !accept.trim().is_empty()).unwrap_or("*/*");
        let form = |media_type: &str| match MediaType::parse(media_type).name {
            "application/json" | "application/*" | "*/*" => Some(OpenApiForm::Json),
            // The second is the name that client-go knows.
            "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
            | "application/com.github.proto-openapi.spec.v2@v1.0+protobuf" => Some(OpenApiForm::ProtobufV2),
            _ => None,
        };
        let mut accepted = accept.split(',').filter_map(form);
        accepted.find(|form| served.contains(form)).ok_or_else(|| ApiError::not_acceptable(accept))
    }
}

/// Clients list media types in the order of preference. Without a header, JSON is returned.
fn first_served<T>(accept: Option<&str>, form: impl Fn(&MediaType<'_>) -> Option<T>) -> Result<T, ApiError> {
    let accept = accept.filter(|accept| !accept.trim().is_empty()).unwrap_or("*/*");
    let media_types = accept.split(',').map(MediaType::parse);
    let mut json = media_types
        .filter(|media_type| matches!(media_type.name, "application/json" | "application/*" | "*/*"));
    json.find_map(|media_type| form(&media_type)).ok_or_else(|| ApiError::not_acceptable(accept))
}

// === impl MediaType ===

impl<'a> MediaType<'a> {
    fn parse(text: &'a str) -> MediaType<'a> {
        let (name, parameters) = text.split_once(';').unwrap_or((text, ""));
        let mut media_type = MediaType { name: name.trim(), kind: "", group: "", version: "" };
        for parameter in parameters.split(';') {
            match parameter.trim().split_once('=') {
                Some(("as", kind)) => media_type.kind = kind,
                Some(("g", group)) => media_type.group = group,
                Some(("v", version)) => media_type.version = version,
                // Such as `q` and `charset`.
                _ => {}
            }
        }
        media_type
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_served_form_is_chosen() {
        for (accept, expected) in [
            (None, Some(ObjectForm::Object)),
            (Some("*/*"), Some(ObjectForm::Object)),
            (Some("application/vnd.kubernetes.protobuf, application/json"), Some(ObjectForm::Object)),
            (
                Some(
                    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                ),
                Some(ObjectForm::Table),
            ),
            (
                Some("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json;q=0.9"),
                Some(ObjectForm::Object),
            ),
            (
                Some("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
                Some(ObjectForm::PartialObjectMetadata),
            ),
            (Some("application/vnd.kubernetes.protobuf"), None),
            (Some("application/json;as=Other;v=v1;g=meta.k8s.io"), None),
            (Some("text/html"), None),
        ] {
            assert_eq!(ObjectForm::of(accept).ok(), expected, "{accept:?}");
        }
    }

    #[test]
    fn aggregated_discovery_is_chosen_by_its_version() {
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        for (accept, expected) in [
            (format!("{aggregated},{beta},application/json"), DiscoveryForm::Aggregated),
            (format!("{beta},application/json"), DiscoveryForm::Plain),
            ("application/json".to_owned(), DiscoveryForm::Plain),
        ] {
            assert_eq!(DiscoveryForm::of(Some(&accept)).ok(), Some(expected), "{accept}");
        }
    }
}

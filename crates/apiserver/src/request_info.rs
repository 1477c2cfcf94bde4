//! The resource that a path names, as in the API server's RequestInfo.

/// The parts of a path below `/api/VERSION` or `/apis/GROUP/VERSION`.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// Empty for the core group.
    pub group: String,
    /// `v1`.
    pub version: String,
    /// `None` for cluster-scoped resources, and for lists of all namespaces.
    pub namespace: Option<String>,
    /// The plural.
    pub resource: String,
    /// The name of an object; `None` for collections.
    pub name: Option<String>,
    /// `status`.
    pub subresource: Option<String>,
}

impl RequestInfo {
    /// Parses a path. `None` if it is not that of a resource.
    pub fn parse(path: &str) -> Option<RequestInfo> {
        let parts: Vec<String> =
            path.strip_prefix('/')?.split('/').map(percent_decoded).collect::<Option<_>>()?;
        // No name is empty, and none leads out of its collection.
        if parts.iter().any(|part| matches!(&**part, "" | "." | "..") || part.contains('/')) {
            return None;
        }
        let (group, version, rest) = match &parts[..] {
            [api, version, rest @ ..] if api == "api" => ("", version, rest),
            [apis, group, version, rest @ ..] if apis == "apis" => (&**group, version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            // A namespace is also an object of its own.
            [namespaces, _] | [namespaces, _, ..]
                if namespaces == "namespaces" && !is_in_namespace(group, rest) =>
            {
                (None, rest)
            }
            [namespaces, namespace, rest @ ..] if namespaces == "namespaces" => {
                (Some(namespace.clone()), rest)
            }
            _ => (None, rest),
        };
        let (resource, name, subresource) = match rest {
            [resource] => (resource, None, None),
            [resource, name] => (resource, Some(name), None),
            [resource, name, subresource] => (resource, Some(name), Some(subresource)),
            _ => return None,
        };
        Some(RequestInfo {
            group: group.to_owned(),
            version: version.clone(),
            namespace,
            resource: resource.clone(),
            name: name.cloned(),
            subresource: subresource.cloned(),
        })
    }
}

/// Whether a path below `namespaces` is about an object in the namespace, not about the namespace.
fn is_in_namespace(group: &str, parts: &[String]) -> bool {
    match parts {
        [_, _] => false,
        [_, _, part] => !group.is_empty() || !matches!(&**part, "status" | "finalize"),
        _ => true,
    }
}

/// A part of a path without its escapes; `None` if they are invalid.
pub(crate) fn percent_decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts as `GROUP VERSION NAMESPACE RESOURCE NAME SUBRESOURCE`, absent ones as `-`.
    #[track_caller]
    fn check(path: &str, expected: &str) {
        let text = RequestInfo::parse(path).map_or("none".to_owned(), |info| {
            let part = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
            let RequestInfo { group, version, namespace, resource, name, subresource } = info;
            let group = if group.is_empty() { "core".to_owned() } else { group };
            [group, version, part(namespace), resource, part(name), part(subresource)].join(" ")
        });
        assert_eq!(text, expected, "{path}");
    }

    #[test]
    fn paths_name_resources() {
        check("/api/v1/pods", "core v1 - pods - -");
        check("/api/v1/nodes/n1", "core v1 - nodes n1 -");
        check("/api/v1/namespaces/web/pods", "core v1 web pods - -");
        check("/api/v1/namespaces/web/pods/p/log", "core v1 web pods p log");
        check("/apis/apps/v1/namespaces/web/deployments/d/scale", "apps v1 web deployments d scale");
        check(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            "rbac.authorization.k8s.io v1 - clusterroles system:node -",
        );
    }

    #[test]
    fn a_namespace_is_an_object_of_its_own() {
        check("/api/v1/namespaces", "core v1 - namespaces - -");
        check("/api/v1/namespaces/web", "core v1 - namespaces web -");
        check("/api/v1/namespaces/web/status", "core v1 - namespaces web status");
        check("/api/v1/namespaces/web/finalize", "core v1 - namespaces web finalize");
        check("/apis/apps/v1/namespaces/web/status", "apps v1 web status - -");
    }

    #[test]
    fn other_paths_name_none() {
        for path in [
            "",
            "/",
            "/api",
            "/api/v1",
            "/apis/apps/v1",
            "/version",
            "/api/v1/pods/",
            "//api/v1/pods",
            "/api/v1/pods/p/log/more",
            "/api/v1/pods/..",
            "/api/v1/pods/%2e%2e",
            "/api/v1/pods/a%2fb",
            "/api/v1/pods/%zz",
            "/api/v1/pods/%f",
            "/api/v1/pods/%ff",
            "/api/v1/pods/%00",
        ] {
            check(path, "none");
        }
    }
}

//! Subresources, as discovery lists them.

use crate::resource::Resource;

/// A subresource of a resource.
pub(crate) struct Subresource {
    /// `scale`
    pub(crate) name: &'static str,
    /// Group, version and kind of its objects; `None` for those of the resource.
    pub(crate) kind: Option<(&'static str, &'static str, &'static str)>,
    pub(crate) verbs: &'static [&'static str],
}

const GET_AND_UPDATE: &[&str] = &["get", "patch", "update"];
const POD_OPTIONS: [(&str, &str); 3] =
    [("attach", "PodAttachOptions"), ("exec", "PodExecOptions"), ("portforward", "PodPortForwardOptions")];

/// The subresources of a resource that can be written.
pub(crate) fn subresources_of(resource: &Resource) -> Vec<Subresource> {
    let mut found = Vec::new();
    let mut add = |name, kind, verbs| found.push(Subresource { name, kind, verbs });
    match (&*resource.kind.group, &*resource.kind.kind) {
        ("", "Namespace") => add("finalize", None, &["update"]),
        ("", "Pod") => {
            for (name, kind) in POD_OPTIONS {
                add(name, Some(("", "v1", kind)), &["create", "get"]);
            }
            add("binding", Some(("", "v1", "Binding")), &["create"]);
            add("ephemeralcontainers", None, GET_AND_UPDATE);
            add("eviction", Some(("policy", "v1", "Eviction")), &["create"]);
            add("log", None, &["get"]);
            add("resize", None, GET_AND_UPDATE);
        }
        ("", "ServiceAccount") => {
            add("token", Some(("authentication.k8s.io", "v1", "TokenRequest")), &["create"]);
        }
        _ => {}
    }
    if resource.has_scale {
        add("scale", Some(("autoscaling", "v1", "Scale")), GET_AND_UPDATE);
    }
    if resource.has_status {
        add("status", None, GET_AND_UPDATE);
    }
    // Built-in ones are sorted.
    if resource.custom.is_some() {
        found.reverse();
    }
    found
}

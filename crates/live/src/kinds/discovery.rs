//! API discovery: aggregated, or one request per group version on older servers.

use model::Kind;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::connection::Connection;
use crate::list_watch::RequestFailure;
use crate::url::percent_encode;

/// A kind that a server has, in its newest version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServedKind {
    pub(crate) kind: Kind,
    /// `v1`
    pub(crate) version: String,
    /// All served versions.
    pub(crate) versions: Vec<String>,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) is_namespaced: bool,
    pub(crate) can_be_watched: bool,
    /// It has a status subresource.
    pub(crate) has_status: bool,
}

const AGGREGATED_DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// All kinds of a server, in the server's order.
pub(crate) async fn discover(connection: &Connection) -> Result<Vec<ServedKind>, RequestFailure> {
    let mut served = Vec::new();
    for root in ["/api", "/apis"] {
        match parse_response(&connection.get(root, AGGREGATED_DISCOVERY).await?)? {
            DiscoveryRoot::Aggregated { items } => {
                served.extend(items.into_iter().flat_map(AggregatedGroup::served_kinds))
            }
            DiscoveryRoot::Versions { versions } => {
                for version in versions {
                    let path = format!("/api/{version}");
                    let list: ResourceList =
                        parse_response(&connection.get(&path, "application/json").await?)?;
                    served.extend(list.served_kinds("", &version));
                }
            }
            DiscoveryRoot::Groups { groups } => {
                for ApiGroup { name, versions } in groups {
                    for GroupVersion { version } in versions {
                        let path = format!("/apis/{name}/{version}");
                        let list = match connection.get(&path, "application/json").await {
                            Ok(bytes) => parse_response::<ResourceList>(&bytes),
                            Err(failure) if failure.status.is_none() => return Err(failure),
                            Err(failure) => Err(failure),
                        };
                        // A group whose aggregated API server is unavailable is skipped, as kubectl does.
                        served.extend(list.into_iter().flat_map(|list| list.served_kinds(&name, &version)));
                    }
                }
            }
        }
    }
    Ok(newest_versions(served))
}

/// Each kind once, at its first position, in the newest version that can be watched.
fn newest_versions(all: Vec<ServedKind>) -> Vec<ServedKind> {
    let mut served: Vec<ServedKind> = Vec::new();
    for mut candidate in all {
        let rank = |candidate: &ServedKind| (candidate.can_be_watched, version_priority(&candidate.version));
        match served.iter_mut().find(|other| other.kind == candidate.kind && other.plural == candidate.plural)
        {
            Some(other) if rank(other) >= rank(&candidate) => other.versions.push(candidate.version),
            Some(other) => {
                candidate.versions.append(&mut other.versions);
                *other = candidate;
            }
            None => served.push(candidate),
        }
    }
    served
}

/// Kubernetes' version priority: stable, beta, alpha, each by number; other names last.
fn version_priority(version: &str) -> (u8, u32, u32) {
    let number = |text: &str| text.parse::<u32>().ok();
    let parts = || {
        let rest = version.strip_prefix('v')?;
        if let Some(major) = number(rest) {
            return Some((3, major, 0));
        }
        let (rank, (major, minor)) = match rest.split_once("beta") {
            Some(parts) => (2, parts),
            None => (1, rest.split_once("alpha")?),
        };
        Some((rank, number(major)?, number(minor)?))
    };
    parts().unwrap_or_default()
}

// === impl ServedKind ===

impl ServedKind {
    /// A guess for a kind that the server does not currently have.
    pub(crate) fn guessed(kind: Kind, is_namespaced: bool) -> ServedKind {
        ServedKind {
            version: "v1".to_owned(),
            versions: vec!["v1".to_owned()],
            plural: kubernetes::kinds::guess_plural(&kind.kind),
            singular: kind.kind.to_lowercase(),
            short_names: Vec::new(),
            is_namespaced,
            can_be_watched: true,
            has_status: true,
            kind,
        }
    }

    /// Whether its objects are Secrets, under any name that a server gives them.
    pub(crate) fn is_secret(&self) -> bool {
        kubernetes::kinds::is_secret(&self.kind) || self.plural.eq_ignore_ascii_case("secrets")
    }

    /// `apps/v1`
    pub(crate) fn api_version(&self) -> String {
        match &*self.kind.group {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// `/apis/apps/v1/namespaces/shop/deployments`
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let root = match &*self.kind.group {
            "" => "/api",
            _ => "/apis",
        };
        let namespace_path =
            namespace.map_or(String::new(), |name| format!("namespaces/{}/", percent_encode(name)));
        format!("{root}/{}/{namespace_path}{}", self.api_version(), self.plural)
    }

    /// `deployments.apps`
    pub(super) fn qualified_name(&self) -> String {
        match &*self.kind.group {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// Only short names are case-sensitive.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.plural.eq_ignore_ascii_case(name)
            || self.singular.eq_ignore_ascii_case(name)
            || self.kind.kind.eq_ignore_ascii_case(name)
            || self.short_names.iter().any(|short| short == name)
    }
}

fn parse_response<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RequestFailure> {
    serde_json::from_slice(bytes)
        .map_err(|error| RequestFailure::from_message(format!("invalid API discovery: {error}")))
}

/// The response of a discovery root: everything from newer servers, groups or versions from older ones.
#[derive(Deserialize)]
#[serde(untagged)]
enum DiscoveryRoot {
    Aggregated { items: Vec<AggregatedGroup> },
    Groups { groups: Vec<ApiGroup> },
    Versions { versions: Vec<String> },
}

#[derive(Deserialize)]
struct AggregatedGroup {
    #[serde(default)]
    metadata: GroupMeta,
    #[serde(default)]
    versions: Vec<AggregatedVersion>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupMeta {
    name: String,
}

#[derive(Deserialize)]
struct AggregatedVersion {
    version: String,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    #[serde(default)]
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    /// Null for resources that only have subresources, such as `pods` in `custom.metrics.k8s.io`.
    #[serde(default)]
    verbs: Option<Vec<String>>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    subresources: Vec<Subresource>,
}

#[derive(Deserialize)]
struct Subresource {
    subresource: String,
}

#[derive(Deserialize)]
struct ResponseKind {
    kind: String,
}

#[derive(Deserialize)]
struct ApiGroup {
    name: String,
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    name: String,
    kind: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Option<Vec<String>>,
    #[serde(default)]
    short_names: Vec<String>,
}

// === impl AggregatedGroup ===

impl AggregatedGroup {
    fn served_kinds(self) -> impl Iterator<Item = ServedKind> {
        let group = self.metadata.name;
        self.versions.into_iter().flat_map(move |AggregatedVersion { version, resources }| {
            let group = group.clone();
            resources.into_iter().filter_map(move |resource| {
                let kind = resource.response_kind.filter(|response| !response.kind.is_empty())?.kind;
                Some(ServedKind {
                    kind: Kind::new(&group, &kind),
                    version: version.clone(),
                    versions: vec![version.clone()],
                    plural: resource.resource,
                    singular: resource.singular_resource,
                    short_names: resource.short_names,
                    is_namespaced: resource.scope == "Namespaced",
                    can_be_watched: can_be_watched(resource.verbs.as_deref()),
                    has_status: resource
                        .subresources
                        .iter()
                        .any(|subresource| subresource.subresource == "status"),
                })
            })
        })
    }
}

// === impl ResourceList ===

impl ResourceList {
    fn served_kinds(self, group: &str, version: &str) -> Vec<ServedKind> {
        // `pods/status` is a subresource of pods.
        let (subresources, main_resources): (Vec<Resource>, Vec<Resource>) =
            self.resources.into_iter().partition(|resource| resource.name.contains('/'));
        let has_status = |plural: &str| {
            subresources.iter().any(|subresource| subresource.name == format!("{plural}/status"))
        };
        let served = main_resources.into_iter().map(|resource| ServedKind {
            has_status: has_status(&resource.name),
            ..resource.served_kind(group, version)
        });
        served.collect()
    }
}

// === impl Resource ===

impl Resource {
    fn served_kind(self, group: &str, version: &str) -> ServedKind {
        ServedKind {
            kind: Kind::new(group, &self.kind),
            version: version.to_owned(),
            versions: vec![version.to_owned()],
            can_be_watched: can_be_watched(self.verbs.as_deref()),
            plural: self.name,
            singular: self.singular_name,
            short_names: self.short_names,
            is_namespaced: self.namespaced,
            has_status: false,
        }
    }
}

fn can_be_watched(verbs: Option<&[String]>) -> bool {
    ["list", "watch"].iter().all(|verb| verbs.unwrap_or_default().iter().any(|supported| supported == verb))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::tests::{Server, http_response};

    #[test]
    fn stable_versions_come_before_betas_and_those_before_alphas() {
        // The order that Kubernetes documents for the versions of custom resources.
        let documented =
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"];
        let ages: Vec<_> = documented.iter().map(|version| version_priority(version)).collect();
        assert!(ages.is_sorted_by(|a, b| a >= b), "{ages:?}");
    }

    #[test]
    fn both_forms_of_discovery_return_the_same_kinds() {
        let aggregated = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[
            {"version":"v1beta1","resources":[{"resource":"deployments","responseKind":{"group":"apps","version":"v1beta1","kind":"Deployment"},"scope":"Namespaced","singularResource":"deployment","verbs":["list","watch"],"shortNames":["deploy"]}]},
            {"version":"v1","resources":[{"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"scope":"Namespaced","singularResource":"deployment","verbs":["list","watch"],"shortNames":["deploy"],"subresources":[{"subresource":"status"}]}],"freshness":"Current"}]}]}"#;
        let Ok(DiscoveryRoot::Aggregated { items }) = parse_response(aggregated.as_bytes()) else {
            panic!("not aggregated")
        };
        let plain = r#"{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[
            {"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":["list","watch"],"shortNames":["deploy"]},
            {"name":"deployments/status","singularName":"","namespaced":true,"kind":"Deployment","verbs":["get"]}]}"#;
        let plain = parse_response::<ResourceList>(plain.as_bytes()).unwrap().served_kinds("apps", "v1");
        assert!(plain[0].has_status);
        let mut aggregated =
            newest_versions(items.into_iter().flat_map(AggregatedGroup::served_kinds).collect());
        assert_eq!(
            std::mem::replace(&mut aggregated[0].versions, plain[0].versions.clone()),
            ["v1", "v1beta1"]
        );
        assert_eq!(aggregated, plain);
        assert_eq!(plain[0].path(Some("shop")), "/apis/apps/v1/namespaces/shop/deployments");
    }

    #[test]
    fn resources_with_only_subresources_hide_nothing() {
        // As kube-apiserver 1.36 converts the discovery of a custom metrics adapter.
        let json = r#"{"metadata":{},"items":[{"metadata":{"name":"custom.metrics.k8s.io"},"versions":[{"version":"v1beta1","resources":[{"resource":"pods","responseKind":{"group":"","version":"","kind":""},"scope":"Namespaced","singularResource":"","verbs":null,"subresources":[{"subresource":"http_requests","responseKind":{"group":"","version":"","kind":"MetricValueList"},"verbs":["get"]}]}],"freshness":"Current"}]},
            {"metadata":{"name":"batch"},"versions":[{"version":"v1","resources":[{"resource":"jobs","responseKind":{"group":"batch","version":"v1","kind":"Job"},"scope":"Namespaced","singularResource":"job","verbs":["list","watch"]}]}]}]}"#;
        let Ok(DiscoveryRoot::Aggregated { items }) = parse_response(json.as_bytes()) else {
            panic!("not aggregated")
        };
        let kinds: Vec<ServedKind> = items.into_iter().flat_map(AggregatedGroup::served_kinds).collect();
        assert_eq!(kinds.iter().map(ServedKind::qualified_name).collect::<Vec<_>>(), ["jobs.batch"]);
    }

    #[tokio::test]
    async fn older_servers_get_a_request_per_version_and_broken_groups_hide_nothing() {
        let resource = |name: &str, kind: &str| {
            http_response(
                "200 OK",
                &format!(r#"{{"resources":[{{"name":"{name}","kind":"{kind}","verbs":["list","watch"]}}]}}"#),
            )
        };
        let server = Server::start(move |head| match head.split(' ').nth(1).unwrap() {
            "/api" => http_response("200 OK", r#"{"kind":"APIVersions","versions":["v1"]}"#),
            "/api/v1" => resource("pods", "Pod"),
            "/apis" => http_response(
                "200 OK",
                r#"{"groups":[{"name":"metrics.k8s.io","versions":[{"version":"v1"}]},{"name":"odd","versions":[{"version":"v1"}]},{"name":"batch","versions":[{"version":"v1"}]}]}"#,
            ),
            "/apis/metrics.k8s.io/v1" => http_response("503 Service Unavailable", "{}"),
            "/apis/odd/v1" => http_response("200 OK", "<html>"),
            "/apis/batch/v1" => resource("jobs", "Job"),
            other => panic!("{other}"),
        });
        let kinds = discover(&server.connection().await).await.unwrap();
        assert_eq!(kinds.iter().map(ServedKind::qualified_name).collect::<Vec<_>>(), ["pods", "jobs.batch"]);
    }

    #[test]
    fn special_characters_are_percent_encoded() {
        assert_eq!(percent_encode("app in (a,b),!c=é"), "app%20in%20%28a%2Cb%29%2C%21c%3D%C3%A9");
    }
}

//! Kubeconfig files of running servers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::credentials::Credentials;

/// A kubeconfig with a context for each server.
pub struct Kubeconfig {
    clusters: Vec<KubeconfigCluster>,
}

/// A server, as a kubeconfig describes it.
pub struct KubeconfigCluster {
    /// The name of its context.
    pub context: String,
    /// `https://127.0.0.1:6443`
    pub url: String,
    /// The certificate authority, PEM, and the token; `None` for plain HTTP.
    pub credentials: Option<(String, String)>,
}

/// Marks the kubeconfigs that servers write. Clients keep extensions that they do not know.
const EXTENSION: &str = "kinescope.io";

// === impl Kubeconfig ===

impl Kubeconfig {
    /// A kubeconfig of these servers; the first is the current context.
    pub fn new(clusters: Vec<KubeconfigCluster>) -> Kubeconfig {
        Kubeconfig { clusters }
    }

    /// The file's content. JSON is also YAML.
    pub fn to_json(&self) -> Value {
        let current = self.clusters.first().map_or("", |cluster| &cluster.context);
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": current,
            "clusters": self.clusters.iter().map(KubeconfigCluster::cluster_json).collect::<Value>(),
            "users": self.clusters.iter().map(KubeconfigCluster::user_json).collect::<Value>(),
            "contexts": self.clusters.iter().map(KubeconfigCluster::context_json).collect::<Value>(),
            "extensions": [{"name": EXTENSION, "extension": {"apiVersion": "kinescope.io/v1", "kind": "Servers"}}],
        })
    }

    /// The names of the contexts of a kubeconfig that a server wrote; `None` for any other document.
    pub fn contexts_of(document: &Value) -> Option<Vec<&str>> {
        document["extensions"].as_array()?.iter().find(|extension| extension["name"] == EXTENSION)?;
        document["contexts"].as_array()?.iter().map(|context| context["name"].as_str()).collect()
    }
}

// === impl KubeconfigCluster ===

impl KubeconfigCluster {
    /// A server with its credentials; without them it serves plain HTTP.
    pub fn new(context: String, url: String, credentials: Option<&Credentials>) -> KubeconfigCluster {
        let credentials = credentials
            .map(|credentials| (credentials.certificate_authority.clone(), credentials.token.clone()));
        KubeconfigCluster { context, url, credentials }
    }

    fn cluster_json(&self) -> Value {
        let mut cluster = json!({"server": self.url});
        if let Some((authority, _)) = &self.credentials {
            cluster["certificate-authority-data"] = STANDARD.encode(authority).into();
        }
        json!({"name": self.context, "cluster": cluster})
    }

    fn user_json(&self) -> Value {
        let user = self.credentials.as_ref().map_or(json!({}), |(_, token)| json!({"token": token}));
        json!({"name": self.context, "user": user})
    }

    fn context_json(&self) -> Value {
        json!({"name": self.context, "context": {"cluster": self.context, "user": self.context}})
    }
}

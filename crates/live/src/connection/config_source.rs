//! The source of a connection's address and credentials: a kubeconfig or the pod's service account. It is read again
//! when the server rejects the credentials.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::client::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tokio::task::spawn_blocking;

use super::with_sources;
use crate::{Error, Result};

/// The source of a connection's address and credentials.
#[derive(Clone)]
pub(super) enum ConfigSource {
    Kubeconfig {
        /// `None`: the user's kubeconfig.
        path: Option<PathBuf>,
        /// The context chosen at the start, even if the current context has changed since.
        context: Option<String>,
    },
    /// The service account of the pod that this process runs in.
    InCluster,
}

/// The context name of the in-cluster configuration.
pub(super) const IN_CLUSTER: &str = "in-cluster";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

// === impl ConfigSource ===

impl ConfigSource {
    pub(super) fn find(path: Option<&Path>, context: Option<&str>) -> Result<ConfigSource> {
        match read_kubeconfig(path) {
            Ok(kubeconfig) => {
                let context = context.map(str::to_owned).or(kubeconfig.current_context);
                let names: Vec<&str> = kubeconfig.contexts.iter().map(|context| &*context.name).collect();
                if let Some(context) = &context
                    && !names.contains(&&**context)
                {
                    let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                    return Err(Error::Context { from: display_path(path), context: context.clone(), has });
                }
                Ok(ConfigSource::Kubeconfig { path: path.map(Path::to_owned), context })
            }
            // Outside a cluster the error about the kubeconfig is the useful one.
            Err(error) if path.is_some() || context.is_some() || Config::incluster().is_err() => {
                Err(kubeconfig_error(path, error))
            }
            Err(_) => Ok(ConfigSource::InCluster),
        }
    }

    /// The name of the context.
    pub(super) fn context(&self) -> &str {
        match self {
            ConfigSource::Kubeconfig { context, .. } => context.as_deref().unwrap_or_default(),
            ConfigSource::InCluster => IN_CLUSTER,
        }
    }

    /// Reads the configuration and creates a client; sends no request.
    pub(super) async fn client(&self) -> Result<Client> {
        let mut config = match self {
            ConfigSource::Kubeconfig { path, context } => {
                let kubeconfig = read_kubeconfig(path.as_deref())
                    .map_err(|error| kubeconfig_error(path.as_deref(), error))?;
                let explicit = kubeconfig_proxy(&kubeconfig, context.as_deref());
                let options = KubeConfigOptions { context: context.clone(), ..Default::default() };
                let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
                let mut config = config.map_err(|error| kubeconfig_error(path.as_deref(), error))?;
                // Unlike kube, which matches NO_PROXY with the proxy instead of the server.
                let proxy = explicit
                    .or_else(|| environment_proxy(&config.cluster_url, |name| std::env::var(name).ok()));
                let proxy = proxy.map(|url| url.parse().map_err(KubeconfigError::ParseProxyUrl));
                config.proxy_url =
                    proxy.transpose().map_err(|error| kubeconfig_error(path.as_deref(), error))?;
                config
            }
            ConfigSource::InCluster => {
                let from = "of this pod".to_owned();
                Config::incluster()
                    .map_err(|error| Error::Kubeconfig { from, source: with_sources(&error).into() })?
            }
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // kube would retry silently for minutes; retries are decided by `list_watch`.
        config.default_retry = false;
        if let Some(token) =
            config.auth_info.token_file.as_ref().and_then(|path| trimmed_token(Path::new(path)))
        {
            config.auth_info.token = Some(token.into());
        }
        // It may run an exec plugin, which may prompt the user.
        let client =
            spawn_blocking(|| Client::try_from(config)).await.expect("building a client does not panic");
        client
            .map_err(|source| Error::Client { context: self.context().to_owned(), source: Box::new(source) })
    }
}

/// The current context of a kubeconfig, if there is one.
pub(super) fn current_context(path: Option<&Path>) -> Option<String> {
    read_kubeconfig(path).ok()?.current_context
}

fn read_kubeconfig(path: Option<&Path>) -> std::result::Result<Kubeconfig, KubeconfigError> {
    match path {
        Some(path) => Kubeconfig::read_from(path),
        None => read_merged(&std::env::var_os("KUBECONFIG").unwrap_or_default()),
    }
}

/// Merges several kubeconfig files and ignores missing ones, as kubectl does and kube does not; kube's default applies
/// only if none exists. A file whose existence cannot be determined is read, for the error message: to ignore it could
/// select another cluster.
fn read_merged(files: &OsStr) -> std::result::Result<Kubeconfig, KubeconfigError> {
    let mut existing_files =
        std::env::split_paths(files).filter(|file| !matches!(file.try_exists(), Ok(false)));
    let Some(first) = existing_files.next() else { return Kubeconfig::read() };
    existing_files
        .try_fold(Kubeconfig::read_from(first)?, |merged, file| merged.merge(Kubeconfig::read_from(file)?))
}

fn kubeconfig_error(path: Option<&Path>, source: KubeconfigError) -> Error {
    Error::Kubeconfig { from: display_path(path), source: with_sources(&source).into() }
}

fn display_path(path: Option<&Path>) -> String {
    path.map_or("of this user".to_owned(), |path| path.display().to_string())
}

/// The trimmed token of a file that ends with a newline, as editors leave it: kube would send the newline too. `None`
/// if there is none, so that kube reads the file, which it does every minute.
fn trimmed_token(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let token = text.trim();
    (token.len() < text.len()).then(|| token.to_owned())
}

/// The `proxy-url` of a context's cluster.
fn kubeconfig_proxy(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let context = kubeconfig.contexts.iter().find(|entry| Some(&*entry.name) == context)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|entry| entry.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.clone().filter(|url| !url.is_empty())
}

/// The proxy of the environment for a server, by kubectl's rule: never for localhost.
fn environment_proxy(server: &Uri, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let first_set = |names: [&str; 2]| {
        names.into_iter().find_map(|name| variable(name).filter(|value| !value.is_empty()))
    };
    let url = match server.scheme_str() {
        Some("https") => first_set(["HTTPS_PROXY", "https_proxy"]),
        _ => first_set(["HTTP_PROXY", "http_proxy"]),
    }?;
    let host = server.host()?.trim_matches(['[', ']']);
    let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let no_proxy = first_set(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let is_disabled = no_proxy.split(',').any(|pattern| pattern.trim() == "*");
    let matcher = Matcher::builder().all(url.as_str()).no(no_proxy).build();
    (!is_local && !is_disabled && matcher.intercept(server).is_some()).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_proxy(server: &str, variables: &[(&str, &str)], expected: Option<&str>) {
        let variable =
            |name: &str| variables.iter().find(|(one, _)| *one == name).map(|(_, value)| (*value).to_owned());
        assert_eq!(environment_proxy(&server.parse().unwrap(), variable).as_deref(), expected);
    }

    #[test]
    fn the_environments_proxy_applies_unless_no_proxy_matches() {
        let proxy = ("HTTPS_PROXY", "http://me:x@proxy.corp:3128");
        let used = Some("http://me:x@proxy.corp:3128");
        check_proxy("https://api.example.com:6443", &[proxy], used);
        // NO_PROXY may cover the proxy itself.
        let except = ("NO_PROXY", "localhost,.corp,10.0.0.0/8");
        check_proxy("https://api.example.com:6443", &[proxy, except], used);
        check_proxy("https://api.corp:6443", &[proxy, except], None);
        check_proxy("https://10.1.2.3", &[proxy, except], None);
        check_proxy("https://11.1.2.3", &[proxy, ("no_proxy", "*")], None);
        for here in ["https://127.0.0.1:6443", "https://localhost", "https://[::1]:6443"] {
            check_proxy(here, &[proxy], None);
        }
        check_proxy("http://api.example.com", &[proxy], None);
        check_proxy("http://api.example.com", &[("http_proxy", "http://p:1")], Some("http://p:1"));
        check_proxy("https://api.example.com", &[("HTTPS_PROXY", "")], None);
    }

    #[test]
    fn missing_kubeconfigs_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        file("a", "current-context: one\ncontexts: [{name: one, context: {cluster: c}}]");
        file("b", "current-context: two\ncontexts: [{name: two, context: {cluster: c}}]");
        let files = ["missing", "a", "also-missing", "b"].map(|name| folder.path().join(name));
        let found = read_merged(&std::env::join_paths(files).unwrap()).unwrap();
        assert_eq!(found.current_context.as_deref(), Some("one"));
        assert_eq!(found.contexts.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["one", "two"]);
    }
}

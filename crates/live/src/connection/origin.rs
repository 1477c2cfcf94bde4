//! Where a connection's address and credentials come from. They are read again when the server no longer takes them.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::client::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tokio::task::spawn_blocking;

use super::in_words;
use crate::{Error, Result};

/// Where a connection's address and credentials come from.
#[derive(Clone)]
pub(super) enum Origin {
    Kubeconfig {
        /// `None`: the user's.
        path: Option<PathBuf>,
        /// The one that was meant at the beginning, whichever is the current one now.
        context: Option<String>,
    },
    /// The service account of the pod this runs in.
    Pod,
}

/// What is said for the name of a context by whoever has none.
pub(super) const IN_CLUSTER: &str = "in-cluster";
const CONNECT: Duration = Duration::from_secs(10);

// === impl Origin ===

impl Origin {
    pub(super) fn find(path: Option<&Path>, context: Option<&str>) -> Result<Origin> {
        match read(path) {
            Ok(found) => {
                let context = context.map(str::to_owned).or(found.current_context);
                let names: Vec<&str> = found.contexts.iter().map(|context| &*context.name).collect();
                if let Some(context) = &context
                    && !names.contains(&&**context)
                {
                    let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                    return Err(Error::Context { from: named(path), context: context.clone(), has });
                }
                Ok(Origin::Kubeconfig { path: path.map(Path::to_owned), context })
            }
            // Whoever is in no cluster wants to hear of the kubeconfig.
            Err(error) if path.is_some() || context.is_some() || Config::incluster().is_err() => {
                Err(bad(path, error))
            }
            Err(_) => Ok(Origin::Pod),
        }
    }

    /// The name of the context.
    pub(super) fn context(&self) -> &str {
        match self {
            Origin::Kubeconfig { context, .. } => context.as_deref().unwrap_or_default(),
            Origin::Pod => IN_CLUSTER,
        }
    }

    /// Reads it, and makes a client of it that has not sent anything yet.
    pub(super) async fn client(&self) -> Result<Client> {
        let mut config = match self {
            Origin::Kubeconfig { path, context } => {
                let found = read(path.as_deref()).map_err(|error| bad(path.as_deref(), error))?;
                let explicit = proxy_of(&found, context.as_deref());
                let options = KubeConfigOptions { context: context.clone(), ..Default::default() };
                let config = Config::from_custom_kubeconfig(found, &options).await;
                let mut config = config.map_err(|error| bad(path.as_deref(), error))?;
                // Not as the library has it, which looks for the proxy itself in NO_PROXY, not for the server.
                let proxy = explicit
                    .or_else(|| proxy_of_environment(&config.cluster_url, |name| std::env::var(name).ok()));
                let proxy = proxy.map(|url| url.parse().map_err(KubeconfigError::ParseProxyUrl));
                config.proxy_url = proxy.transpose().map_err(|error| bad(path.as_deref(), error))?;
                config
            }
            Origin::Pod => {
                let from = "of this pod".to_owned();
                Config::incluster()
                    .map_err(|error| Error::Kubeconfig { from, source: in_words(&error).into() })?
            }
        };
        config.connect_timeout = Some(CONNECT);
        // It would wait for minutes without a word, and when to try again is decided here.
        config.default_retry = false;
        if let Some(token) = config.auth_info.token_file.as_ref().and_then(|path| token_of(Path::new(path))) {
            config.auth_info.token = Some(token.into());
        }
        // It may run a program, which may ask the user.
        let client = spawn_blocking(|| Client::try_from(config)).await.expect("it does not panic");
        client
            .map_err(|source| Error::Client { context: self.context().to_owned(), source: Box::new(source) })
    }
}

/// The current context of a kubeconfig, if there is one.
pub(super) fn current_context(path: Option<&Path>) -> Option<String> {
    read(path).ok()?.current_context
}

fn read(path: Option<&Path>) -> std::result::Result<Kubeconfig, KubeconfigError> {
    match path {
        Some(path) => Kubeconfig::read_from(path),
        None => read_of(&std::env::var_os("KUBECONFIG").unwrap_or_default()),
    }
}

/// The kubeconfig of several files, of which those that are missing do not matter, as kubectl has it. The library does
/// not, and is asked only if there is none. One that cannot be looked for is read, which says why not: to go on without
/// it may mean another cluster.
fn read_of(files: &OsStr) -> std::result::Result<Kubeconfig, KubeconfigError> {
    let mut there = std::env::split_paths(files).filter(|file| !matches!(file.try_exists(), Ok(false)));
    let Some(first) = there.next() else { return Kubeconfig::read() };
    there.try_fold(Kubeconfig::read_from(first)?, |all, file| all.merge(Kubeconfig::read_from(file)?))
}

fn bad(path: Option<&Path>, source: KubeconfigError) -> Error {
    Error::Kubeconfig { from: named(path), source: in_words(&source).into() }
}

fn named(path: Option<&Path>) -> String {
    path.map_or("of this user".to_owned(), |path| path.display().to_string())
}

/// The token of a file that ends with a line, as an editor leaves it: the library would send the end of the line too.
/// `None` if there is no such end, and the library may read the file, which it does every minute.
fn token_of(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let token = text.trim();
    (token.len() < text.len()).then(|| token.to_owned())
}

/// The proxy that a kubeconfig names for a context.
fn proxy_of(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let context = kubeconfig.contexts.iter().find(|one| Some(&*one.name) == context)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|one| one.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.clone().filter(|url| !url.is_empty())
}

/// The proxy that the environment names for a server, by the rule of kubectl: never for this machine itself.
fn proxy_of_environment(server: &Uri, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let first =
        |names: [&str; 2]| names.into_iter().find_map(|name| variable(name).filter(|it| !it.is_empty()));
    let url = match server.scheme_str() {
        Some("https") => first(["HTTPS_PROXY", "https_proxy"]),
        _ => first(["HTTP_PROXY", "http_proxy"]),
    }?;
    let host = server.host()?.trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let except = first(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let is_never = except.split(',').any(|one| one.trim() == "*");
    let matcher = Matcher::builder().all(url.as_str()).no(except).build();
    (!is_here && !is_never && matcher.intercept(server).is_some()).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_proxy(server: &str, variables: &[(&str, &str)], expected: Option<&str>) {
        let variable =
            |name: &str| variables.iter().find(|(one, _)| *one == name).map(|(_, value)| (*value).to_owned());
        assert_eq!(proxy_of_environment(&server.parse().unwrap(), variable).as_deref(), expected);
    }

    #[test]
    fn the_environments_proxy_is_for_servers_that_it_does_not_except() {
        let proxy = ("HTTPS_PROXY", "http://me:x@proxy.corp:3128");
        let used = Some("http://me:x@proxy.corp:3128");
        check_proxy("https://api.example.com:6443", &[proxy], used);
        // The proxy itself may be among those that need none.
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
    fn kubeconfigs_that_are_missing_do_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        file("a", "current-context: one\ncontexts: [{name: one, context: {cluster: c}}]");
        file("b", "current-context: two\ncontexts: [{name: two, context: {cluster: c}}]");
        let files = ["missing", "a", "gone", "b"].map(|name| folder.path().join(name));
        let found = read_of(&std::env::join_paths(files).unwrap()).unwrap();
        assert_eq!(found.current_context.as_deref(), Some("one"));
        assert_eq!(found.contexts.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["one", "two"]);
    }
}

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use super::*;

/// A test server on loopback. Each connection gets one response and stays open, unless that has `Connection: close`.
pub(crate) struct Server {
    port: u16,
    /// The received requests, in lower case.
    requests: Receiver<String>,
    /// The TLS configuration; `None` without TLS.
    tls: Arc<RwLock<Option<Arc<ServerConfig>>>>,
}

/// A folder with a kubeconfig and the files it refers to.
struct Files(TempDir);

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl Server {
    pub(crate) fn start(respond: impl Fn(&str) -> String + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let tls: Arc<RwLock<Option<Arc<ServerConfig>>>> = Arc::default();
        let (sender, requests) = channel();
        let current_tls = tls.clone();
        std::thread::spawn(move || {
            let mut clients = Vec::new();
            for client in listener.incoming() {
                let tls = current_tls.read().unwrap().clone();
                let mut client = with_tls(client.unwrap(), tls);
                let Some(head) = read_request_head(&mut client) else { continue };
                let response = respond(&head);
                let _ = sender.send(head);
                // Clients may close the connection early.
                let _ = client.write_all(response.as_bytes()).and_then(|()| client.flush());
                if !response.to_lowercase().contains("connection: close") {
                    clients.push(client);
                }
            }
        });
        Server { port, requests, tls }
    }

    /// A connection without credentials.
    pub(crate) async fn connection(&self) -> Connection {
        Files::new(&format!("server: \"http://127.0.0.1:{}\"", self.port), "").open().await
    }

    /// Waits until this path was requested.
    pub(crate) fn wait_for(&self, path: &str) {
        let is_it = |head: &String| head.split(' ').nth(1) == Some(path);
        assert!(self.requests.iter().any(|head| is_it(&head)));
    }

    /// The values of a header in all requests so far.
    fn header_values(&self, header: &str) -> Vec<String> {
        let value = |head: String| {
            let line = head.lines().find_map(|line| line.strip_prefix(header)?.strip_prefix(": "));
            line.unwrap_or_default().to_owned()
        };
        self.requests.try_iter().map(value).collect()
    }
}

fn with_tls(client: TcpStream, tls: Option<Arc<ServerConfig>>) -> Box<dyn Stream> {
    match tls {
        None => Box::new(client),
        Some(tls) => Box::new(StreamOwned::new(ServerConnection::new(tls).unwrap(), client)),
    }
}

/// Reads the head of a request; `None` at the end of the stream.
fn read_request_head(client: &mut impl Read) -> Option<String> {
    let (mut head, mut piece) = (Vec::new(), [0; 4096]);
    while !head.ends_with(b"\r\n\r\n") {
        let length = client.read(&mut piece).ok().filter(|length| *length > 0)?;
        head.extend_from_slice(&piece[..length]);
    }
    Some(String::from_utf8(head).unwrap().to_lowercase())
}

/// A complete HTTP response.
pub(crate) fn http_response(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

impl Files {
    /// A kubeconfig with a cluster and a user in YAML's flow style.
    fn new(cluster: &str, user: &str) -> Files {
        let files = Files(TempDir::new().unwrap());
        files.write_kubeconfig(cluster, user);
        files
    }

    fn write_kubeconfig(&self, cluster: &str, user: &str) {
        let kubeconfig = format!(
            "current-context: here\n\
             contexts: [{{name: here, context: {{cluster: here, user: me}}}}]\n\
             clusters: [{{name: here, cluster: {{{cluster}}}}}]\n\
             users: [{{name: me, user: {{{user}}}}}]\n"
        );
        self.write("kubeconfig", &kubeconfig);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    async fn open(&self) -> Connection {
        Connection::open(Some(&self.path("kubeconfig")), None).await.unwrap()
    }
}

/// A connection to a server with these responses.
async fn connect_to(respond: impl Fn(&str) -> String + Send + 'static) -> Connection {
    let server = Server::start(move |head| {
        assert!(head.contains("accept-encoding: identity"), "{head}");
        respond(head)
    });
    server.connection().await
}

/// A server that requires this token.
fn token_server(token: Arc<RwLock<String>>) -> Server {
    Server::start(move |head| {
        let shown = format!("authorization: bearer {}\r\n", token.read().unwrap());
        if head.contains(&shown) {
            http_response("200 OK", "{}")
        } else {
            http_response("401 Unauthorized", "{}")
        }
    })
}

async fn get(connection: &Connection) -> std::result::Result<String, RequestFailure> {
    let body = connection.get("/version", "application/json").await;
    body.map(|body| String::from_utf8(body).unwrap())
}

#[tokio::test]
async fn lines_are_complete_and_silence_times_out() {
    let response =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\none\ntw\r\n2\r\no\n\r\n3\r\nthr\r\n";
    let connection = connect_to(|_| response.to_owned()).await;
    assert_eq!(connection.context(), "here");
    let mut lines = connection.watch("/api/v1/pods?watch=true").await.unwrap();
    let mut whole = Vec::new();
    while lines.fill_buffer(Duration::from_millis(200)).await {
        while let Some(line) = lines.next_buffered() {
            whole.push(String::from_utf8(line.to_vec()).unwrap());
        }
    }
    assert_eq!(whole, ["one", "two"]);
}

#[tokio::test]
async fn rejections_carry_the_servers_message() {
    let connection = connect_to(|head| match head.starts_with("get /slow ") {
        true => http_response(
            "429 Too Many Requests\r\nRetry-After: 7",
            r#"{"kind":"Status","message":"no","code":9}"#,
        ),
        false => http_response("502 Bad Gateway", "<html>\nproxies!"),
    })
    .await;
    let expected = RequestFailure {
        status: Some(429),
        retry_after: Some(Duration::from_secs(7)),
        message: "no".to_owned(),
    };
    assert_eq!(connection.get("/slow", "application/json").await, Err(expected));
    let expected = RequestFailure { status: Some(502), retry_after: None, message: "<html>".to_owned() };
    assert_eq!(connection.get("/a", "application/json").await, Err(expected));
}

#[tokio::test]
async fn errors_of_opening_a_connection_name_the_reason() {
    let missing = Connection::open(Some(Path::new("no/such/kubeconfig")), None).await;
    let Err(error) = missing else { panic!("opened") };
    assert_eq!(error.to_string(), "cannot read the kubeconfig no/such/kubeconfig");
}

#[tokio::test]
async fn an_exec_plugin_runs_again_when_its_token_expires() {
    for (expires, is_refused) in [(r#", "expirationTimestamp": "2020-01-01T00:00:00Z""#, false), ("", true)] {
        let token = Arc::new(RwLock::new("one".to_owned()));
        let server = token_server(token.clone());
        let plugin = "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, \
                      interactiveMode: Never, args: [hello], env: [{name: GREETING, value: hi}]}";
        let files = Files::new(&format!("server: \"http://127.0.0.1:{}\"", server.port), plugin);
        let script = format!(
            "#!/bin/sh\n\
             [ \"$1 $GREETING\" = 'hello hi' ] || exit 1\n\
             cat <<END\n{{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \
             \"status\": {{\"token\": \"$(cat {})\"{expires}}}}}\nEND\n",
            files.path("token").display()
        );
        files.write("token", "one");
        files.write("plugin", &script);
        fs::set_permissions(files.path("plugin"), fs::Permissions::from_mode(0o700)).unwrap();
        let connection = files.open().await;
        assert_eq!(get(&connection).await.as_deref(), Ok("{}"));
        *token.write().unwrap() = "two".to_owned();
        files.write("token", "two");
        assert_eq!(get(&connection).await.as_deref(), Ok("{}"));
        // A token with an expiry is renewed before it is rejected.
        let expected: &[&str] = if is_refused {
            &["bearer one", "bearer one", "bearer two"]
        } else {
            &["bearer one", "bearer two"]
        };
        assert_eq!(server.header_values("authorization"), expected);
    }
}

#[tokio::test]
async fn replaced_tokens_are_read_again() {
    // With and without a trailing newline, and in the kubeconfig itself.
    for end in [Some(""), Some("\n"), None] {
        let token = Arc::new(RwLock::new("one".to_owned()));
        let server = token_server(token.clone());
        let cluster = format!("server: \"http://127.0.0.1:{}\"", server.port);
        let files = Files::new(&cluster, "");
        let write = |word: &str| match end {
            Some(end) => {
                files.write("token", &format!("{word}{end}"));
                files.write_kubeconfig(&cluster, "tokenFile: token");
            }
            None => files.write_kubeconfig(&cluster, &format!("token: {word}")),
        };
        write("one");
        let connection = files.open().await;
        assert_eq!(get(&connection).await.as_deref(), Ok("{}"));
        *token.write().unwrap() = "two".to_owned();
        write("two");
        assert_eq!(get(&connection).await.as_deref(), Ok("{}"));
        assert_eq!(server.header_values("authorization"), ["bearer one", "bearer one", "bearer two"]);
        // Without newer credentials, renewals are rate limited.
        *token.write().unwrap() = "three".to_owned();
        write("three");
        assert_eq!(get(&connection).await.unwrap_err().status, Some(401));
        assert_eq!(server.header_values("authorization"), ["bearer two"]);
    }
}

#[tokio::test]
async fn the_context_is_kept_when_the_kubeconfig_changes() {
    let server = token_server(Arc::new(RwLock::new("two".to_owned())));
    let elsewhere = Server::start(|_| http_response("200 OK", "elsewhere"));
    let user = "token: one";
    let cluster = format!("server: \"http://127.0.0.1:{}\"", server.port);
    let files = Files::new(&cluster, user);
    let connection = files.open().await;
    let changed = format!(
        "current-context: there\n\
         contexts: [{{name: here, context: {{cluster: here, user: me}}}}, {{name: there, context: {{cluster: there}}}}]\n\
         clusters: [{{name: here, cluster: {{{cluster}}}}}, \
         {{name: there, cluster: {{server: \"http://127.0.0.1:{}\"}}}}]\n\
         users: [{{name: me, user: {{token: two}}}}]\n",
        elsewhere.port
    );
    files.write("kubeconfig", &changed);
    assert_eq!(get(&connection).await.as_deref(), Ok("{}"));
    assert_eq!(connection.context(), "here");
}

#[tokio::test]
async fn a_replaced_certificate_authority_is_read_again() {
    let server = Server::start(|_| http_response("200 OK", "{}"));
    let cluster = format!("server: \"https://127.0.0.1:{}\", certificate-authority: ca.crt", server.port);
    let files = Files::new(&cluster, "");
    let replace = |files: Option<&Files>| {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let chain = vec![CertificateDer::from(own.signed_by(&key, &authority).unwrap())];
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let config = config.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
        *server.tls.write().unwrap() = Some(Arc::new(config));
        if let Some(files) = files {
            files.write("ca.crt", &authority.pem());
        }
    };
    replace(Some(&files));
    let connection = files.open().await;
    assert_eq!(get(&connection).await.as_deref(), Ok("{}"));
    replace(Some(&files));
    assert_eq!(get(&connection).await.as_deref(), Ok("{}"));
    // A server with an unknown certificate authority is rejected.
    replace(None);
    let message = get(&connection).await.unwrap_err().message;
    assert!(message.contains("certificate"), "{message}");
}

#[tokio::test]
async fn impersonation_and_proxies_follow_the_kubeconfig() {
    let server = Server::start(|_| http_response("200 OK", "{}"));
    let cluster = format!("server: \"http://127.0.0.1:{}\"", server.port);
    let files = Files::new(&cluster, "as: jane, as-groups: [ops]");
    assert_eq!(get(&files.open().await).await.as_deref(), Ok("{}"));
    let head = server.requests.try_recv().unwrap();
    assert!(head.contains("impersonate-user: jane") && head.contains("impersonate-group: ops"), "{head}");

    let proxy = Server::start(|_| http_response("403 Forbidden", "no"));
    let cluster =
        format!("server: \"https://api.invalid:6443\", proxy-url: \"http://127.0.0.1:{}\"", proxy.port);
    let files = Files::new(&cluster, "");
    get(&files.open().await).await.unwrap_err();
    let head = proxy.requests.try_recv().unwrap();
    assert!(head.starts_with("connect api.invalid:6443 http/1.1"), "{head}");
}

#[tokio::test]
async fn an_oidc_token_that_has_not_expired_is_sent() {
    // {"exp":4102444800}: in the year 2100.
    let token = "e30.eyJleHAiOjQxMDI0NDQ4MDB9.x";
    let server = Server::start(|_| http_response("200 OK", "{}"));
    let cluster = format!("server: \"http://127.0.0.1:{}\"", server.port);
    let files =
        Files::new(&cluster, &format!("auth-provider: {{name: oidc, config: {{id-token: {token}}}}}"));
    assert_eq!(get(&files.open().await).await.as_deref(), Ok("{}"));
    assert_eq!(server.header_values("authorization"), [format!("bearer {}", token.to_lowercase())]);
}

/// The real node and the cluster uid from a server with this response.
async fn probed(body: &'static str) -> (Result<Option<String>>, Result<Option<String>>) {
    let connection = connect_to(move |_| http_response("200 OK", body)).await;
    (connection.find_real_node("mine").await, connection.cluster_uid().await)
}

#[tokio::test]
async fn unreadable_responses_are_errors() {
    for body in ["", "<html>log in</html>", "{}", "[]", r#"{"items": null, "metadata": {"uid": ""}}"#] {
        let (node, uid) = probed(body).await;
        assert!(node.is_err(), "{body}: {node:?}");
        assert!(uid.is_err(), "{body}: {uid:?}");
    }
    let (node, uid) = probed(r#"{"items": [], "metadata": {"uid": "u"}}"#).await;
    assert_eq!((node.unwrap(), uid.unwrap()), (None, Some("u".to_owned())));
}

#[tokio::test]
async fn nodes_are_real_unless_kwok_or_this_run_made_them() {
    let (node, _) = probed(
        r#"{"items": [{"metadata": {"name": "a", "annotations": {"kwok.x-k8s.io/node": "fake"}}},
            {"metadata": {"name": "b", "labels": {"replay.kinescope.io/run": "mine"}}}]}"#,
    )
    .await;
    assert_eq!(node.unwrap(), None);
    let (node, _) = probed(
        r#"{"items": [{"metadata": {"name": "c", "labels": {"replay.kinescope.io/run": "theirs"}}}]}"#,
    )
    .await;
    assert_eq!(node.unwrap().as_deref(), Some("c"));
    let (node, _) = probed(r#"{"items": [{"metadata": {"name": "new"}}]}"#).await;
    assert_eq!(node.unwrap().as_deref(), Some("new"));
    let (node, _) = probed(r#"{"items": [7]}"#).await;
    assert_eq!(node.unwrap().as_deref(), Some("without a name"));
}

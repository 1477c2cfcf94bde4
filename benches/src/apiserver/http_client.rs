//! A minimal HTTP/1.1 client over TCP or TLS: one connection, one request at a time.
//!
//! It costs so little that a benchmark measures the server, although both share the cores.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::Result;

/// A connection that is kept open.
pub(super) struct HttpConnection {
    stream: BufReader<Box<dyn ReadWrite>>,
    /// The header lines of every request.
    headers: String,
}

const TOO_MANY_REQUESTS: &str = "429 Too Many Requests";
/// As the servers say.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);
pub(super) const MAX_ATTEMPTS: usize = 120;

pub(super) trait ReadWrite: Read + Write + Send {}

impl<T: Read + Write + Send> ReadWrite for T {}

/// What a kubeconfig says of an API server.
pub(super) struct Endpoint {
    pub(super) address: String,
    pub(super) host: String,
    pub(super) token: String,
    pub(super) tls: Arc<ClientConfig>,
}

impl Endpoint {
    pub(super) async fn of_kubeconfig(path: &Path) -> Result<Endpoint> {
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?;
        let host = config.cluster_url.host().ok_or("a URL without a host")?.to_owned();
        let port = config.cluster_url.port_u16().ok_or("a URL without a port")?;
        let mut roots = RootCertStore::empty();
        for certificate in config.root_cert.iter().flatten() {
            roots.add(CertificateDer::from_slice(certificate).into_owned())?;
        }
        let tls = ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let user = serde_json::to_value(&config.auth_info)?;
        let token = user["token"].as_str().ok_or("a kubeconfig without a token")?.to_owned();
        Ok(Endpoint { address: format!("{host}:{port}"), host, token, tls: tls.into() })
    }

    /// Connects with TLS.
    pub(super) fn connect(&self) -> Result<HttpConnection> {
        let name = ServerName::try_from(self.host.clone())?;
        let client = ClientConnection::new(self.tls.clone(), name)?;
        let stream = StreamOwned::new(client, tcp_connection(&self.address)?);
        let headers = format!("Host: {}\r\nAuthorization: Bearer {}\r\n", self.address, self.token);
        Ok(HttpConnection { stream: BufReader::new(Box::new(stream)), headers })
    }
}

fn tcp_connection(address: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl HttpConnection {
    /// Connects without TLS and without a token.
    pub(super) fn open(address: &str) -> Result<HttpConnection> {
        let stream = tcp_connection(address)?;
        Ok(HttpConnection {
            stream: BufReader::new(Box::new(stream)),
            headers: format!("Host: {address}\r\n"),
        })
    }

    /// The body of a successful response. A request for which the server is too busy is sent again, as clients do.
    pub(super) fn request(&mut self, method: &str, path: &str, body: &[u8]) -> Result<String> {
        for _ in 0..MAX_ATTEMPTS {
            self.send(method, path, "application/json", body)?;
            match self.read_response() {
                Err(error) if error.to_string().contains(TOO_MANY_REQUESTS) => thread::sleep(RETRY_AFTER),
                response => return response,
            }
        }
        Err(format!("{method} {path}: the server stays too busy").into())
    }

    /// Sends a merge patch.
    pub(super) fn patch(&mut self, path: &str, body: &[u8]) -> Result<String> {
        self.send("PATCH", path, "application/merge-patch+json", body)?;
        self.read_response()
    }

    /// The lines of a response that does not end.
    pub(super) fn stream(mut self, path: &str) -> Result<Lines<impl BufRead + use<>>> {
        self.send("GET", path, "application/json", b"")?;
        Ok(self.stream.lines())
    }

    fn send(&mut self, method: &str, path: &str, content_type: &str, body: &[u8]) -> Result<()> {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\n{}Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            self.headers,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        Ok(self.stream.get_mut().write_all(&request)?)
    }

    fn read_response(&mut self) -> Result<String> {
        let mut status = String::new();
        self.stream.read_line(&mut status)?;
        let (mut length, mut is_chunked, mut line) = (0, false, String::new());
        loop {
            self.read_line(&mut line)?;
            if line.is_empty() {
                break;
            }
            line.make_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            is_chunked |= line == "transfer-encoding: chunked";
        }
        let mut body = Vec::new();
        if is_chunked {
            loop {
                self.read_line(&mut line)?;
                let chunk = usize::from_str_radix(&line, 16)?;
                self.read_bytes(chunk, &mut body)?;
                // The end of the chunk.
                self.read_line(&mut line)?;
                if chunk == 0 {
                    break;
                }
            }
        } else {
            self.read_bytes(length, &mut body)?;
        }
        let body = String::from_utf8(body)?;
        if !status.contains(" 20") {
            return Err(format!("{}: {body}", status.trim()).into());
        }
        Ok(body)
    }

    fn read_line(&mut self, line: &mut String) -> Result<()> {
        line.clear();
        self.stream.read_line(line)?;
        line.truncate(line.trim_end().len());
        Ok(())
    }

    fn read_bytes(&mut self, count: usize, body: &mut Vec<u8>) -> Result<()> {
        let start = body.len();
        body.resize(start + count, 0);
        Ok(self.stream.read_exact(&mut body[start..])?)
    }
}

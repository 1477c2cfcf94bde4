//! A minimal HTTP/2 client over TLS: one connection with several requests at a time, as client-go has it.

use std::sync::Arc;

use h2::client::{self, SendRequest};
use http::{Method, Request, StatusCode};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::http_client::{Endpoint, MAX_ATTEMPTS, RETRY_AFTER};
use crate::Result;

/// A connection that is kept open.
pub(super) struct Http2Connection {
    requests: SendRequest<Bytes>,
    /// The URL of the server, without a path.
    url: String,
    authorization: String,
}

type Bytes = std::io::Cursor<Vec<u8>>;

/// Large enough that no response waits for it.
const WINDOW: u32 = 16 << 20;

// === impl Http2Connection ===

impl Http2Connection {
    pub(super) async fn open(endpoint: &Endpoint) -> Result<Http2Connection> {
        let stream = TcpStream::connect(&endpoint.address).await?;
        stream.set_nodelay(true)?;
        let mut tls = (*endpoint.tls).clone();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from(endpoint.host.clone())?;
        let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await?;
        let mut settings = client::Builder::new();
        settings.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
        let (requests, connection) = settings.handshake(stream).await?;
        // It ends with the last sender of requests.
        tokio::spawn(connection);
        Ok(Http2Connection {
            requests,
            url: format!("https://{}", endpoint.address),
            authorization: format!("Bearer {}", endpoint.token),
        })
    }

    /// Posts all bodies to a path, several at a time.
    pub(super) async fn post_all(&self, path: &str, bodies: Vec<String>, at_a_time: usize) -> Result<()> {
        let mut shares: Vec<Vec<String>> = vec![Vec::new(); at_a_time];
        for (number, body) in bodies.into_iter().enumerate() {
            shares[number % at_a_time].push(body);
        }
        let mut workers = JoinSet::new();
        for share in shares {
            let requests = self.requests.clone();
            let request = Request::builder()
                .method(Method::POST)
                .uri(format!("{}{path}", self.url))
                .header("authorization", &self.authorization)
                .header("content-type", "application/json")
                .body(())?;
            workers.spawn(async move {
                for body in share {
                    post(&requests, &request, &body).await.map_err(|error| error.to_string())?;
                }
                Ok::<(), String>(())
            });
        }
        while let Some(worker) = workers.join_next().await {
            worker??;
        }
        Ok(())
    }
}

/// Posts a body. A request for which the server is too busy is sent again, as clients do.
async fn post(requests: &SendRequest<Bytes>, request: &Request<()>, body: &str) -> Result<()> {
    for _ in 0..MAX_ATTEMPTS {
        let mut requests = requests.clone().ready().await?;
        let (response, mut sender) = requests.send_request(request.clone(), false)?;
        sender.send_data(Bytes::new(body.as_bytes().to_vec()), true)?;
        let mut response = response.await?;
        let mut text = Vec::new();
        while let Some(chunk) = response.body_mut().data().await {
            let chunk = chunk?;
            response.body_mut().flow_control().release_capacity(chunk.len())?;
            text.extend_from_slice(&chunk);
        }
        match response.status() {
            status if status.is_success() => return Ok(()),
            StatusCode::TOO_MANY_REQUESTS => tokio::time::sleep(RETRY_AFTER).await,
            status => return Err(format!("{status}: {}", String::from_utf8_lossy(&text)).into()),
        }
    }
    Err("the server stays too busy".into())
}

//! Tests of the program's output: no Secrets unless they are requested, and no control characters on a terminal.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

#[path = "../common/mod.rs"]
mod common;
mod secret_requests;
mod secrets;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../serve/server.rs"]
mod server;
mod signals;
mod terminal;

use std::io::{Read, Write};
use std::net::TcpListener;

/// A kubeconfig for a server.
pub(crate) fn kubeconfig(server: &str) -> String {
    format!(
        "current-context: here\n\
         contexts: [{{name: here, context: {{cluster: here, user: me}}}}]\n\
         clusters: [{{name: here, cluster: {{server: \"{server}\"}}}}]\n\
         users: [{{name: me, user: {{token: t}}}}]\n"
    )
}

/// A server that sends the same response to every request.
pub(crate) fn fake_server(status: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(response.as_bytes());
        }
    });
    format!("http://{address}")
}

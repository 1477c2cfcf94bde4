//! A minimal HTTP/1.1 client over plain TCP: one connection, one request at a time.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;

use crate::Result;

/// A connection that is kept open.
pub(super) struct HttpConnection {
    stream: BufReader<TcpStream>,
    host: String,
}

impl HttpConnection {
    pub(super) fn open(address: &str) -> Result<HttpConnection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(HttpConnection { stream: BufReader::new(stream), host: address.to_owned() })
    }

    /// The body of a successful response.
    pub(super) fn request(&mut self, method: &str, path: &str, body: &[u8]) -> Result<String> {
        self.send(method, path, "application/json", body)?;
        self.read_response()
    }

    /// Sends a merge patch.
    pub(super) fn patch(&mut self, path: &str, body: &[u8]) -> Result<String> {
        self.send("PATCH", path, "application/merge-patch+json", body)?;
        self.read_response()
    }

    /// The lines of a response that does not end.
    pub(super) fn stream(mut self, path: &str) -> Result<Lines<BufReader<TcpStream>>> {
        self.send("GET", path, "application/json", b"")?;
        Ok(self.stream.lines())
    }

    fn send(&mut self, method: &str, path: &str, content_type: &str, body: &[u8]) -> Result<()> {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            self.host,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        Ok(self.stream.get_mut().write_all(&request)?)
    }

    fn read_response(&mut self) -> Result<String> {
        let mut status = String::new();
        self.stream.read_line(&mut status)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        let body = String::from_utf8(body)?;
        if !status.contains(" 20") {
            return Err(format!("{}: {body}", status.trim()).into());
        }
        Ok(body)
    }
}

//! A server process for a test, and a minimal HTTP client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::command;

/// A server process on a free port, killed at the end of the test.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    /// The first line that it printed.
    pub(crate) first_line: String,
    out: BufReader<ChildStdout>,
}

/// A response.
pub(crate) struct HttpResponse {
    pub(crate) code: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body was complete.
    pub(crate) is_complete: bool,
}

impl Server {
    /// Starts a server on loopback.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Server {
        Server::start_at("127.0.0.1:0", folder, arguments)
    }

    pub(crate) fn start_at(listen: &str, folder: &Path, arguments: &[&str]) -> Server {
        Server::of(command(folder).args(["serve", "--listen", listen]).args(arguments))
    }

    /// The server that a command starts.
    pub(crate) fn of(command: &mut Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut output = String::new();
        out.read_line(&mut output).unwrap();
        let address =
            output.trim().rsplit_once("//").unwrap_or_else(|| panic!("{output}")).1.parse().unwrap();
        Server { child, address, first_line: output, out }
    }

    /// The next line that it prints.
    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn get(&self, path: &str) -> HttpResponse {
        self.request("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> HttpResponse {
        self.request("POST", path, &["Content-Type: application/json"], body.to_string().as_bytes())
    }

    pub(crate) fn request(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> HttpResponse {
        let mut stream = self.send(method, path, headers, body);
        HttpResponse::read(&mut stream)
    }

    /// Sends a request, and leaves reading the response to the caller.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write_request(&mut stream, method, path, headers, body, &self.address.to_string());
        stream
    }

    pub(crate) fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Peak memory of the process, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn write_request(
    stream: &mut impl Write,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &[u8],
    host: &str,
) {
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|header| header.starts_with("Host:")) {
        head += &format!("Host: {host}\r\n");
    }
    for header in headers {
        head += &format!("{header}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    // A server that rejects the request may close before it has read all of it.
    let _ = stream.write_all(body);
}

impl HttpResponse {
    pub(crate) fn read(stream: &mut impl Read) -> HttpResponse {
        let mut bytes = Vec::new();
        // An aborted response may end with a connection reset.
        let _ = stream.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| {
            panic!("no response: {:?}", String::from_utf8_lossy(&bytes));
        });
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let code = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let body = &bytes[end + 4..];
        let mut response = HttpResponse { code, headers, body: body.to_vec(), is_complete: true };
        if response.header("transfer-encoding") == Some("chunked") {
            (response.body, response.is_complete) = unchunked(body);
        } else if let Some(length) = response.header("content-length") {
            response.is_complete = length.parse::<usize>().unwrap() == response.body.len();
        }
        response
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    #[track_caller]
    pub(crate) fn success(self) -> Vec<u8> {
        assert_eq!(self.code, 200, "{}", self.text());
        assert!(self.is_complete, "the response is incomplete");
        self.body
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_slice(&self.success()).unwrap()
    }

    /// The error message of a response that must have this status code.
    #[track_caller]
    pub(crate) fn failure(self, code: u16) -> String {
        assert_eq!(self.code, code, "{}", self.text());
        assert_eq!(self.header("retry-after").is_some(), code == 503);
        match self.header("content-type") {
            Some("application/json") => {
                let body: Value = serde_json::from_slice(&self.body).unwrap();
                body["error"].as_str().unwrap().to_owned()
            }
            _ => self.text(),
        }
    }
}

pub(crate) fn unchunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return (body, false) };
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        let Some(chunk) = rest.get(end + 2..end + 2 + length) else { return (body, false) };
        if length == 0 {
            return (body, true);
        }
        body.extend_from_slice(chunk);
        rest = rest.get(end + 2 + length + 2..).unwrap_or_default();
    }
}

//! A minimal HTTP/1.1 for a proxy that must be able to violate it: message heads and chunked bodies.

use std::io::{self, BufRead, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// The start line of a request or response, and its header fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageHead {
    pub(crate) start_line: String,
    fields: Vec<(String, String)>,
}

/// Reads the content of a chunked body.
pub(crate) struct ChunkedReader<R> {
    inner: R,
    /// The bytes left of the current chunk.
    bytes_left: u64,
    ended: bool,
}

const MAX_HEAD: u64 = 64 * 1024;
/// The limit for the line with a chunk's length and for the end of a chunk.
const MAX_LINE: u64 = 256;

/// Posts JSON to a server on loopback and returns its whole response.
pub(crate) fn post(port: u16, path: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    // In HTTP/1.0 the response ends with the connection.
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// Writes `bytes` as one chunk.
pub(crate) fn write_chunk(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    to.write_all(&chunk)
}

/// The end of a chunked body.
pub(crate) const END_OF_CHUNKS: &[u8] = b"0\r\n\r\n";

// === impl MessageHead ===

impl MessageHead {
    /// Reads a head. `None` at the end of the stream.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<MessageHead>> {
        let mut from = from.take(MAX_HEAD);
        let Some(first) = read_line(&mut from)? else { return Ok(None) };
        let mut fields = Vec::new();
        loop {
            let line = read_line(&mut from)?.ok_or_else(|| invalid_data("a head without an end"))?;
            if line.is_empty() {
                return Ok(Some(MessageHead { start_line: first, fields }));
            }
            let (name, value) =
                line.split_once(':').ok_or_else(|| invalid_data("a field without a colon"))?;
            fields.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.fields.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    }

    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.remove(name);
        self.fields.push((name.to_owned(), value));
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let fields: String = self.fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{}\r\n{fields}\r\n", self.start_line).into_bytes()
    }
}

// === impl ChunkedReader ===

impl<R: BufRead> ChunkedReader<R> {
    pub(crate) fn new(inner: R) -> ChunkedReader<R> {
        ChunkedReader { inner, bytes_left: 0, ended: false }
    }

    fn read_framing_line(&mut self) -> io::Result<String> {
        read_line(&mut self.inner.by_ref().take(MAX_LINE))?
            .ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "chunks without an end"))
    }
}

impl<R: BufRead> Read for ChunkedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended || buffer.is_empty() {
            return Ok(0);
        }
        if self.bytes_left == 0 {
            let line = self.read_framing_line()?;
            let length = line.split(';').next().unwrap_or_default().trim();
            self.bytes_left =
                u64::from_str_radix(length, 16).map_err(|_| invalid_data("a chunk without a length"))?;
            if self.bytes_left == 0 {
                self.ended = true;
                return Ok(0);
            }
        }
        let read = self.inner.by_ref().take(self.bytes_left).read(buffer)?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a chunk without an end"));
        }
        self.bytes_left -= read as u64;
        if self.bytes_left == 0 {
            self.read_framing_line()?;
        }
        Ok(read)
    }
}

/// Reads a line without its line ending. `None` at the end of the stream.
fn read_line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    match line.strip_suffix('\n') {
        Some(whole) => Ok(Some(whole.strip_suffix('\r').unwrap_or(whole).to_owned())),
        None => Err(invalid_data("a line that is cut, or longer than it may be")),
    }
}

fn invalid_data(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_chunks(bytes: &str, expected: Result<&str, &str>) {
        let mut read = String::new();
        let outcome = ChunkedReader::new(bytes.as_bytes()).read_to_string(&mut read);
        let outcome = outcome.map_err(|error| error.to_string());
        assert_eq!(outcome.as_ref().map(|_| read.as_str()).map_err(String::as_str), expected);
    }

    #[test]
    fn chunks_are_joined() {
        check_chunks("3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", Ok("abc0123456789"));
        check_chunks("0\r\n\r\n", Ok(""));
    }

    #[test]
    fn broken_chunks_are_rejected() {
        check_chunks("", Err("chunks without an end"));
        check_chunks("3\r\nabc\r\n", Err("chunks without an end"));
        check_chunks("3\r\nab", Err("a chunk without an end"));
        check_chunks("x\r\n", Err("a chunk without a length"));
        check_chunks(&"1".repeat(300), Err("a line that is cut, or longer than it may be"));
    }

    #[test]
    fn written_chunks_are_read_back() {
        let mut bytes = Vec::new();
        for part in ["one\n", "two\n"] {
            write_chunk(&mut bytes, part.as_bytes()).unwrap();
        }
        bytes.extend_from_slice(END_OF_CHUNKS);
        check_chunks(std::str::from_utf8(&bytes).unwrap(), Ok("one\ntwo\n"));
    }

    #[test]
    fn a_head_is_written_as_it_was_read() {
        let bytes = b"GET /x HTTP/1.1\r\nHost: a\r\nAccept:  b\r\n\r\nbody";
        let mut head = MessageHead::read(&mut &bytes[..]).unwrap().unwrap();
        assert_eq!(head.field("ACCEPT"), Some("b"));
        assert_eq!(head.to_bytes(), b"GET /x HTTP/1.1\r\nHost: a\r\nAccept: b\r\n\r\n");
        head.set("host", "c".to_owned());
        head.remove("accept");
        assert_eq!(head.to_bytes(), b"GET /x HTTP/1.1\r\nhost: c\r\n\r\n");
    }
}

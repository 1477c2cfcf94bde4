//! A file to be read: uncompressed on the way, and recognised by what it begins with.

use std::io::{BufRead, BufReader, Cursor, Read};

use crate::{Error, Format, Result};

/// As much as is looked at to tell what something is.
const SNIFF: usize = 64 << 10;
/// A zstd frame may ask for a window of so many bytes (as a power of two): 128 MiB, what `zstd -d` allows by default.
const ZSTD_WINDOW_LOG: u32 = 27;

/// How a file was compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, one member or several.
    Gzip,
    /// zstd.
    Zstd,
}

/// A file to be read, whose first bytes have been looked at.
pub struct Input {
    /// Its name, for messages.
    pub name: String,
    /// How it was compressed.
    pub compression: Compression,
    /// What it is; `None` if nothing known here begins like that.
    pub format: Option<Format>,
    pub(crate) reader: Box<dyn BufRead + Send>,
}

impl Input {
    /// Looks at the beginning of `reader`, uncompressing it if need be.
    pub fn open(name: &str, mut reader: Box<dyn Read + Send>) -> Result<Input> {
        let fail = |source| Error::Io { doing: "read", file: name.to_owned(), source };
        let head = take(&mut reader, 4).map_err(fail)?;
        let compression = match &head[..] {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Compression::Zstd,
            _ => Compression::None,
        };
        let whole = Cursor::new(head).chain(reader);
        let mut plain: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(whole),
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(whole)),
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(whole).map_err(fail)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(fail)?;
                Box::new(decoder)
            }
        };
        let head = take(&mut plain, SNIFF).map_err(fail)?;
        let format = recognise(&head);
        let reader = Box::new(BufReader::with_capacity(1 << 18, Cursor::new(head).chain(plain)));
        Ok(Input { name: name.to_owned(), compression, format, reader })
    }
}

/// Up to `most` bytes; fewer only at the end.
fn take(reader: &mut dyn Read, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A JSON object that begins with a field of an event's envelope is a line of events; other JSON objects, and texts
/// whose first line that says anything looks like YAML, are manifests.
fn recognise(head: &[u8]) -> Option<Format> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start();
    if let Some(rest) = text.strip_prefix('{') {
        let key = rest.trim_start().strip_prefix('"')?.split('"').next()?;
        let envelope =
            matches!(key, "at" | "seen" | "type" | "object" | "source" | "inferred" | "to" | "kinds" | "why");
        return Some(if envelope { Format::Jsonl } else { Format::Manifests });
    }
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let is_key = |line: &str| {
        let key = line.split(':').next().unwrap_or_default();
        line.contains(':')
            && !key.is_empty()
            && key.chars().all(|c| c.is_ascii_alphanumeric() || "\"'".contains(c))
    };
    (line.starts_with("---") || line.starts_with("%YAML") || is_key(line)).then_some(Format::Manifests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[track_caller]
    fn check(bytes: &[u8], format: Option<Format>, compression: Compression) {
        let input = Input::open("file", Box::new(Cursor::new(bytes.to_vec()))).unwrap();
        assert_eq!(
            (input.format, input.compression),
            (format, compression),
            "{:?}",
            String::from_utf8_lossy(bytes)
        );
        let mut plain = Vec::new();
        { input.reader }.read_to_end(&mut plain).unwrap();
        if compression == Compression::None {
            assert_eq!(plain, bytes);
        }
    }

    #[test]
    fn formats_are_told_by_their_content() {
        check(br#"{"at":1,"type":"ADDED"}"#, Some(Format::Jsonl), Compression::None);
        check(b"{\n  \"type\": \"ADDED\",\n", Some(Format::Jsonl), Compression::None);
        check(br#"{"apiVersion":"v1"}"#, Some(Format::Manifests), Compression::None);
        check(b"# a comment\n\napiVersion: v1\n", Some(Format::Manifests), Compression::None);
        check(b"---\napiVersion: v1\n", Some(Format::Manifests), Compression::None);
        check(b"", None, Compression::None);
        check(b"PK\x03\x04", None, Compression::None);
        check(b"hello world", None, Compression::None);
    }

    #[test]
    fn compressed_files_are_told_and_read() {
        let line = br#"{"at":1,"type":"ADDED"}"#;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(line).unwrap();
        check(&gzip.finish().unwrap(), Some(Format::Jsonl), Compression::Gzip);
        check(&zstd::encode_all(&line[..], 1).unwrap(), Some(Format::Jsonl), Compression::Zstd);
    }

    #[test]
    fn a_cut_compressed_file_is_an_error() {
        let whole = zstd::encode_all(&b"{}".repeat(1000)[..], 1).unwrap();
        assert!(Input::open("file", Box::new(Cursor::new(whole[..whole.len() / 2].to_vec()))).is_err());
    }
}

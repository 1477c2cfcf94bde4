//! A file to be read: decompressed while reading, its format recognized by its first bytes.

use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use crate::recognize::recognize;
use crate::{Error, Format, Result};

/// How many bytes are examined to recognize the format.
const SNIFF_BYTES: usize = 64 << 10;
/// The largest zstd window, as a power of two: 128 MiB, the default limit of `zstd -d`.
const ZSTD_WINDOW_LOG: u32 = 27;

/// The largest temporary copy of a pipe or a compressed file.
const MAX_COPY_BYTES: u64 = 16 << 30;

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, one member or several.
    Gzip,
    /// zstd.
    Zstd,
}

/// A file to be read, whose first bytes have been examined.
pub struct Input {
    /// Its name, for messages.
    pub name: String,
    /// Its compression.
    pub compression: Compression,
    /// Its format; `None` if it is not recognized.
    pub format: Option<Format>,
    /// Its path, if it is an uncompressed file on disk.
    path: Option<PathBuf>,
    pub(crate) reader: Box<dyn BufRead + Send>,
}

/// A file that supports seeking.
pub(crate) struct FileOnDisk {
    pub(crate) path: PathBuf,
    /// Keeps the temporary copy alive.
    _copy: Option<tempfile::NamedTempFile>,
}

// === impl Input ===

impl Input {
    /// Examines the beginning of `reader`, decompressing it if needed.
    pub fn open(name: &str, mut reader: Box<dyn Read + Send>) -> Result<Input> {
        let fail = |source| Error::cannot_read(name, source);
        let head = read_up_to(&mut reader, 4).map_err(fail)?;
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
        let head = read_up_to(&mut plain, SNIFF_BYTES).map_err(fail)?;
        let format = recognize(&head);
        let reader = Box::new(BufReader::with_capacity(1 << 18, Cursor::new(head).chain(plain)));
        Ok(Input { name: name.to_owned(), compression, format, path: None, reader })
    }

    /// Sets the file's path, for formats that need a file on disk. Ignored for a compressed file.
    #[must_use]
    pub fn with_path(self, path: &Path) -> Input {
        let path = (self.compression == Compression::None).then(|| path.to_owned());
        Input { path, ..self }
    }

    /// A file that supports seeking: the file itself, or a temporary copy that is deleted with the returned value.
    pub(crate) fn into_file(mut self) -> Result<FileOnDisk> {
        if let Some(path) = self.path {
            return Ok(FileOnDisk { path, _copy: None });
        }
        let fail =
            |source| Error::Io { doing: "create a temporary copy of", file: self.name.clone(), source };
        let mut copy = tempfile::NamedTempFile::new().map_err(fail)?;
        let length =
            std::io::copy(&mut self.reader.by_ref().take(MAX_COPY_BYTES + 1), &mut copy).map_err(fail)?;
        if length > MAX_COPY_BYTES {
            let why = format!("larger than {} GiB: decompress it to a file first", MAX_COPY_BYTES >> 30);
            return Err(Error::invalid_file(&self.name, why));
        }
        Ok(FileOnDisk { path: copy.path().to_owned(), _copy: Some(copy) })
    }
}

/// Reads up to `most` bytes; fewer only at the end of the input.
fn read_up_to(reader: &mut dyn Read, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
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
    fn compressed_files_are_recognized_and_read() {
        let line = br#"{"at":1,"type":"ADDED"}"#;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(line).unwrap();
        check(&gzip.finish().unwrap(), Some(Format::Jsonl), Compression::Gzip);
        check(&zstd::encode_all(&line[..], 1).unwrap(), Some(Format::Jsonl), Compression::Zstd);
    }

    #[test]
    fn a_truncated_compressed_file_is_an_error() {
        let whole = zstd::encode_all(&b"{}".repeat(1000)[..], 1).unwrap();
        assert!(Input::open("file", Box::new(Cursor::new(whole[..whole.len() / 2].to_vec()))).is_err());
    }
}

//! The one entry of a ZIP, as a stream that ends with an error if the ZIP is damaged.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use flate2::Crc;
use flate2::read::DeflateDecoder;
use zip::CompressionMethod;
use zip::read::{Config, ZipFileEntry};
use zip::result::ZipError;
use zip::unstable::read::ZipIterable;

use super::ENTRY_NAME;
use crate::input::FileOnDisk;
use crate::json_pull::escape_for_message;
use crate::{Error, Result};

/// How many names are reported of a ZIP without the entry.
const MAX_REPORTED_NAMES: usize = 5;

/// The decompressed bytes of the entry.
pub(super) struct ZipEntry {
    bytes: EntryData,
    crc: Crc,
    read: u64,
    max_bytes: u64,
    /// The length and checksum that the ZIP declares.
    declared: (u64, u32),
    _file: FileOnDisk,
}

enum EntryData {
    Stored(io::Take<File>),
    Deflated(DeflateDecoder<io::Take<File>>),
}

/// Opens the entry by its name, which is compared and never used as a path. Of several the first counts, as in the
/// scheduler's own tool. Sizes are taken from the ZIP's central directory: a file written as a stream has none in its
/// local headers. More than `most` bytes are an error.
pub(super) fn open(name: &str, on_disk: FileOnDisk, max_bytes: u64) -> Result<ZipEntry> {
    let fail = |source| Error::cannot_read(name, source);
    let broken = |error: ZipError| match error {
        ZipError::Io(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
            Error::cannot_read(name, source)
        }
        error => Error::invalid_file(name, damaged_zip_message(&error.to_string())),
    };
    let mut file = File::open(&on_disk.path).map_err(fail)?;
    let mut archive = ZipIterable::try_new(&mut file, Config::default()).map_err(broken)?;
    let mut names = Vec::new();
    let mut found = None;
    let files = archive.files().map_err(broken)?;
    let count = files.len();
    for entry in files.by_ref() {
        let entry = entry.map_err(broken)?;
        if entry.name_raw() == ENTRY_NAME.as_bytes() {
            found = Some(entry);
            break;
        }
        if names.len() < MAX_REPORTED_NAMES {
            names.push(escape_for_message(&String::from_utf8_lossy(entry.name_raw())));
        }
    }
    let Some(entry) = found else {
        let content = match count {
            0 => "the ZIP is empty".to_owned(),
            count if count > names.len() => format!("found {} and more", names.join(", ")),
            _ => format!("found {}", names.join(", ")),
        };
        return Err(Error::invalid_file(
            name,
            format!("not a KAI snapshot: {ENTRY_NAME} not found in the ZIP; {content}"),
        ));
    };
    check_readable(&entry).map_err(|why| Error::invalid_file(name, why))?;
    let start = data_start(&mut file, entry.header_start()).map_err(fail)?.ok_or_else(|| {
        Error::invalid_file(
            name,
            damaged_zip_message(&format!("{ENTRY_NAME} is not at the offset in the ZIP directory")),
        )
    })?;
    file.seek(SeekFrom::Start(start)).map_err(fail)?;
    let data = file.take(entry.compressed_size());
    let bytes = match entry.compression() {
        CompressionMethod::Deflated => EntryData::Deflated(DeflateDecoder::new(data)),
        _ => EntryData::Stored(data),
    };
    let claimed = (entry.size(), entry.crc32());
    Ok(ZipEntry { bytes, crc: Crc::new(), read: 0, max_bytes, declared: claimed, _file: on_disk })
}

/// The damage of the ZIP that an error of a [`ZipEntry`] reports; `None` for an error of the system.
pub(super) fn damage_reason(error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::InvalidData => Some(damaged_zip_message(&error.to_string())),
        io::ErrorKind::FileTooLarge => Some(error.to_string()),
        _ => None,
    }
}

// === impl ZipEntry ===

impl Read for ZipEntry {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.bytes {
            EntryData::Stored(bytes) => bytes.read(into),
            EntryData::Deflated(bytes) => bytes.read(into).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
                    io::Error::new(io::ErrorKind::InvalidData, error)
                }
                _ => error,
            }),
        };
        let length = read?;
        self.crc.update(&into[..length]);
        self.read += length as u64;
        if self.read > self.max_bytes {
            let why = format!("{ENTRY_NAME} is larger than {} bytes", self.max_bytes);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        if length == 0 && !into.is_empty() && (self.read, self.crc.sum()) != self.declared {
            let why = format!("{ENTRY_NAME} does not match its size or checksum");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(length)
    }
}

/// Where the entry's data begins, after its local header; `None` if there is no such header.
fn data_start(file: &mut File, header: u64) -> io::Result<Option<u64>> {
    let mut fixed = [0; 30];
    file.seek(SeekFrom::Start(header))?;
    match file.read_exact(&mut fixed) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = |at: usize| u64::from(u16::from_le_bytes([fixed[at], fixed[at + 1]]));
    // The lengths of the name and the extra fields.
    Ok(fixed.starts_with(b"PK\x03\x04").then(|| header.saturating_add(30 + length(26) + length(28))))
}

fn check_readable(entry: &ZipFileEntry<'_>) -> std::result::Result<(), String> {
    let help = format!("unpack it and import {ENTRY_NAME}");
    if entry.encrypted() {
        return Err(format!("{ENTRY_NAME} is encrypted: {help}"));
    }
    match entry.compression() {
        CompressionMethod::Stored | CompressionMethod::Deflated => Ok(()),
        other => Err(format!("{ENTRY_NAME} is compressed with {other}, which is not supported: {help}")),
    }
}

fn damaged_zip_message(why: &str) -> String {
    format!("invalid ZIP: {why}; take another snapshot, or copy the file again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Write};

    #[test]
    fn no_more_is_read_than_allowed_whatever_size_the_zip_declares() {
        let mut zip = zip::ZipWriter::new_stream(Vec::new());
        zip.start_file(ENTRY_NAME, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&[b' '; 100_000]).unwrap();
        let mut zip = zip.finish().unwrap().into_inner();
        let entry = |zip: &[u8], most| {
            let input = crate::Input::open("file", Box::new(Cursor::new(zip.to_vec()))).unwrap();
            open("file", input.into_file().unwrap(), most).unwrap()
        };
        assert_eq!(io::copy(&mut entry(&zip, 100_000), &mut io::sink()).unwrap(), 100_000);
        let error = io::copy(&mut entry(&zip, 99_999), &mut io::sink()).unwrap_err();
        assert_eq!(damage_reason(&error).unwrap(), "snapshot.json is larger than 99999 bytes");
        let directory = zip.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
        zip[directory + 24..directory + 28].fill(0);
        let error = io::copy(&mut entry(&zip, 50_000), &mut io::sink()).unwrap_err();
        assert_eq!(damage_reason(&error).unwrap(), "snapshot.json is larger than 50000 bytes");
    }
}

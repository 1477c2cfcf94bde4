//! Access to shared files at given positions. Several threads use one file: none may depend on its cursor.

use std::fs::File;
use std::io::{self, Read, Write};

/// A reader and writer of a shared file, with a position of its own.
pub(super) struct PositionedFile<'a> {
    file: &'a File,
    position: u64,
}

impl<'a> PositionedFile<'a> {
    pub(super) fn new(file: &'a File, position: u64) -> PositionedFile<'a> {
        PositionedFile { file, position }
    }

    /// Reads until the buffer is full or the file ends. Returns the number of bytes read.
    pub(super) fn read_up_to(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl Read for PositionedFile<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = read_at(self.file, into, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Write for PositionedFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = write_at(self.file, bytes, self.position)?;
        self.position += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The error for content that was not written by this process.
pub(super) fn corrupt_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a temporary file is corrupt")
}

#[cfg(unix)]
fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, at)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, at)
}

#[cfg(windows)]
fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, into, at)
}

#[cfg(windows)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, at)
}

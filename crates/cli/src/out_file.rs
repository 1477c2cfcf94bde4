//! A file that is there as a whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::signals;

/// A place beside a file's own, where it is written first. What is not put in place is removed.
pub(super) struct Scratch {
    place: PathBuf,
    target: PathBuf,
    /// A pipe or a device is written to as it is: nothing can be put in its place.
    direct: bool,
    /// Nobody but the owner may read it.
    is_private: bool,
}

/// A file being written, compressed if its name says so.
pub(super) enum Compressed {
    Plain(BufWriter<File>),
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

// === impl Scratch ===

impl Scratch {
    /// The file's mode is the user's business, unless it `is_private`.
    pub(super) fn beside(target: &Path, is_private: bool) -> Scratch {
        // A link stays, and what it leads to is replaced.
        let target = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        let direct = target.exists() && !target.is_file();
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let place = if direct { target.clone() } else { target.with_file_name(name) };
        if !direct {
            signals::remove_if_interrupted([place.clone()]);
        }
        Scratch { place, target, direct, is_private }
    }

    pub(super) fn path(&self) -> &Path {
        &self.place
    }

    /// Opens it for writing.
    pub(super) fn create(&self) -> anyhow::Result<Compressed> {
        let doing = || format!("cannot write {}", self.target.display());
        let mut options = File::options();
        options.write(true);
        if !self.direct {
            options.create(true).truncate(true);
        }
        #[cfg(unix)]
        if self.is_private {
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        let file = options.open(&self.place);
        let file = BufWriter::with_capacity(1 << 18, file.with_context(doing)?);
        Ok(match self.target.extension().and_then(|end| end.to_str()) {
            Some("gz") => {
                Compressed::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::default()))
            }
            Some("zst") => Compressed::Zstd(zstd::Encoder::new(file, 3).with_context(doing)?),
            _ => Compressed::Plain(file),
        })
    }

    /// Puts it in its place.
    pub(super) fn publish(self) -> anyhow::Result<()> {
        if self.direct {
            return Ok(());
        }
        std::fs::rename(&self.place, &self.target)
            .with_context(|| format!("cannot write {}", self.target.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Once it is in its place there is nothing here any more.
        if !self.direct {
            let _ = std::fs::remove_file(&self.place);
        }
    }
}

// === impl Compressed ===

impl Compressed {
    /// Sees to it that all of it is on the disk.
    pub(super) fn finish(self) -> io::Result<()> {
        let file = match self {
            Compressed::Plain(file) => file,
            Compressed::Gzip(encoder) => encoder.finish()?,
            Compressed::Zstd(encoder) => encoder.finish()?,
        };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        // Pipes and devices have no disk to reach.
        if file.metadata()?.is_file() { file.sync_all() } else { Ok(()) }
    }
}

impl Write for Compressed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Compressed::Plain(file) => file.write(bytes),
            Compressed::Gzip(encoder) => encoder.write(bytes),
            Compressed::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // The end of the file is told by `finish`: a flush in between would only cost compression.
        Ok(())
    }
}

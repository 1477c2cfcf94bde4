//! Output files that are written atomically: to a temporary file first, which then replaces the target.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::signals;

/// A temporary file next to its target. It is removed on drop unless it was published.
pub(super) struct PendingFile {
    temporary_path: PathBuf,
    target: PathBuf,
    /// Pipes and devices are written to directly: they cannot be replaced.
    is_direct: bool,
    /// Whether the file is readable by its owner only.
    is_private: bool,
}

/// A file being written, compressed according to its extension.
pub(super) enum OutputEncoder {
    Plain(BufWriter<File>),
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

// === impl PendingFile ===

impl PendingFile {
    /// A private file gets mode 0600, any other the user's default.
    pub(super) fn for_target(target: &Path, is_private: bool) -> PendingFile {
        // A symbolic link is kept, and the file it points to replaced.
        let target = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        let direct = target.exists() && !target.is_file();
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let path = if direct { target.clone() } else { target.with_file_name(name) };
        if !direct {
            signals::remove_if_interrupted([path.clone()]);
        }
        PendingFile { temporary_path: path, target, is_direct: direct, is_private }
    }

    pub(super) fn path(&self) -> &Path {
        &self.temporary_path
    }

    /// Opens the temporary file for writing.
    pub(super) fn create(&self) -> anyhow::Result<OutputEncoder> {
        let doing = || format!("cannot write {}", self.target.display());
        let mut options = File::options();
        options.write(true);
        if !self.is_direct {
            options.create(true).truncate(true);
        }
        #[cfg(unix)]
        if self.is_private {
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        let file = options.open(&self.temporary_path);
        let file = BufWriter::with_capacity(1 << 18, file.with_context(doing)?);
        Ok(match self.target.extension().and_then(|end| end.to_str()) {
            Some("gz") => {
                OutputEncoder::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::default()))
            }
            Some("zst") => OutputEncoder::Zstd(zstd::Encoder::new(file, 3).with_context(doing)?),
            _ => OutputEncoder::Plain(file),
        })
    }

    /// Renames the temporary file to its target.
    pub(super) fn publish(self) -> anyhow::Result<()> {
        if self.is_direct {
            return Ok(());
        }
        std::fs::rename(&self.temporary_path, &self.target)
            .with_context(|| format!("cannot write {}", self.target.display()))
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        // After publishing there is nothing to remove.
        if !self.is_direct {
            let _ = std::fs::remove_file(&self.temporary_path);
        }
    }
}

// === impl OutputEncoder ===

impl OutputEncoder {
    /// Finishes compression and syncs the file to disk.
    pub(super) fn finish(self) -> io::Result<()> {
        let file = match self {
            OutputEncoder::Plain(file) => file,
            OutputEncoder::Gzip(encoder) => encoder.finish()?,
            OutputEncoder::Zstd(encoder) => encoder.finish()?,
        };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        // Pipes and devices cannot be synced.
        if file.metadata()?.is_file() { file.sync_all() } else { Ok(()) }
    }
}

impl Write for OutputEncoder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            OutputEncoder::Plain(file) => file.write(bytes),
            OutputEncoder::Gzip(encoder) => encoder.write(bytes),
            OutputEncoder::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // `finish` completes the file: flushing before that would only worsen compression.
        Ok(())
    }
}

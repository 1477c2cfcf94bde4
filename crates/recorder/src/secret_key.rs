//! Keys for redaction, by which equal values become equal tokens.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kubernetes::change_filter::RedactKey;

/// A random key of 32 bytes.
pub fn random_key() -> anyhow::Result<[u8; 32]> {
    let mut key = [0; 32];
    getrandom::fill(&mut key)
        .map_err(|error| anyhow::anyhow!("no random numbers from the system: {error}"))?;
    Ok(key)
}

/// Reads a key of 64 hexadecimal digits from a file; creates the file if it does not exist.
pub fn read_or_create(path: &Path) -> anyhow::Result<[u8; 32]> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(text.trim()).with_context(|| format!("{} has no valid key", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = random_key()?;
            save(path, &key).with_context(|| format!("cannot save a new key in {}", path.display()))?;
            Ok(key)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read the key in {}", path.display())),
    }
}

/// Reads the redaction key from a file.
pub fn read_redact_key(path: &Path) -> anyhow::Result<RedactKey> {
    Ok(RedactKey(*read_or_create(path)?.first_chunk().expect("32 bytes begin with 16")))
}

/// The default path of the recorder's key: in the user's data folder, never in a history.
pub fn default_path() -> anyhow::Result<PathBuf> {
    let folder = std::env::var_os("XDG_DATA_HOME")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".local/share")));
    match folder {
        Some(folder) => Ok(folder.join("kinescope/redact.key")),
        None => bail!("no home directory for the key: specify a file with --redact-key"),
    }
}

fn parse(text: &str) -> anyhow::Result<[u8; 32]> {
    let mut key = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        bail!("a key must have 64 hexadecimal digits");
    }
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).context("a key must have 64 hexadecimal digits")?;
        *byte = u8::from_str_radix(digits, 16).context("a key must have 64 hexadecimal digits")?;
    }
    Ok(key)
}

/// Writes the key atomically: a partial key would be rejected for ever.
fn save(path: &Path, key: &[u8; 32]) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    // Temporary files are readable only by their owner.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(file, "{text}")?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_created_once_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/key");
        let key = read_or_create(&path).unwrap();
        assert_eq!(read_or_create(&path).unwrap(), key);
        std::fs::write(&path, "short").unwrap();
        assert!(read_or_create(&path).is_err());
    }
}

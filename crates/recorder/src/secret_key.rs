//! Keys that make the same word always become the same token.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kubernetes::rules::RedactKey;

/// Thirty-two bytes that nobody guesses.
pub fn random() -> anyhow::Result<[u8; 32]> {
    let mut key = [0; 32];
    getrandom::fill(&mut key)
        .map_err(|error| anyhow::anyhow!("the system gives no random numbers: {error}"))?;
    Ok(key)
}

/// The key in a file, which is made if it is not there: 64 hexadecimal digits.
pub fn in_file(path: &Path) -> anyhow::Result<[u8; 32]> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(text.trim()).with_context(|| format!("{} holds no key", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = random()?;
            save(path, &key).with_context(|| format!("cannot save a new key in {}", path.display()))?;
            Ok(key)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read the key in {}", path.display())),
    }
}

/// The key in a file by which values are replaced with tokens.
pub fn redact_key(path: &Path) -> anyhow::Result<RedactKey> {
    Ok(RedactKey(*in_file(path)?.first_chunk().expect("32 bytes begin with 16")))
}

/// Where the recorder's key is kept: with the user, never in a history.
pub fn default_path() -> anyhow::Result<PathBuf> {
    let folder = std::env::var_os("XDG_DATA_HOME")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".local/share")));
    match folder {
        Some(folder) => Ok(folder.join("kinescope/redact.key")),
        None => bail!("there is no home folder to keep the key in: name a file with --redact-key"),
    }
}

fn parse(text: &str) -> anyhow::Result<[u8; 32]> {
    let mut key = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        bail!("a key is 64 hexadecimal digits");
    }
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).context("a key is 64 hexadecimal digits")?;
        *byte = u8::from_str_radix(digits, 16).context("a key is 64 hexadecimal digits")?;
    }
    Ok(key)
}

/// Whole or not at all: half a key would be refused for ever.
fn save(path: &Path, key: &[u8; 32]) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    // Only its owner can read it.
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
    fn a_key_is_made_once_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/key");
        let key = in_file(&path).unwrap();
        assert_eq!(in_file(&path).unwrap(), key);
        std::fs::write(&path, "short").unwrap();
        assert!(in_file(&path).is_err());
    }
}

//! Credentials of the API server: the administrator's token, and the key that signs service account tokens.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::KeyPair;

use crate::error::{IoContext, Result};

/// The credential files of the server.
#[derive(Debug)]
pub(crate) struct Credentials {
    /// Signs the tokens of service accounts.
    pub(crate) signing_key: PathBuf,
    /// Verifies them.
    pub(crate) verifying_key: PathBuf,
    /// Lists the administrator's token.
    pub(crate) tokens: PathBuf,
}

/// The administrator's token.
pub(crate) const TOKEN: &str = "admintoken";

// === impl Credentials ===

impl Credentials {
    /// Makes a new key and writes the files.
    pub(crate) fn write(folder: &Path) -> Result<Credentials> {
        let key = KeyPair::generate().expect("the system has a random number generator");
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).io_context("write", &path).map(|()| path)
        };
        Ok(Credentials {
            signing_key: write("service-accounts.key", key.serialize_pem())?,
            // kube-apiserver takes the public half from an RSA key by itself, but not from one such as this.
            verifying_key: write("service-accounts.pub", key.public_key_pem())?,
            tokens: write("tokens.csv", format!("{TOKEN},admin,admin,\"system:masters\"\n"))?,
        })
    }
}

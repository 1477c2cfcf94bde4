//! Writer of kubeconfig files.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::error::{IoContext, Result};

/// Writes a kubeconfig for one server and one user. `ca` is PEM.
pub(crate) fn write(path: &Path, url: &str, token: &str, ca: Option<&str>) -> Result<()> {
    let mut cluster = json!({ "server": url });
    if let Some(ca) = ca {
        cluster["certificate-authority-data"] = BASE64_STANDARD.encode(ca).into();
    }
    // YAML reads JSON.
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "real", "cluster": cluster }],
        "users": [{ "name": "admin", "user": { "token": token } }],
        "contexts": [{ "name": "real", "context": { "cluster": "real", "user": "admin" } }],
        "current-context": "real",
    });
    fs::write(path, format!("{config:#}\n")).io_context("write", path)
}

//! The kubeconfig file of a running server.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use virtualcluster::Kubeconfig;

use crate::out_file::PendingFile;

/// A kubeconfig file, deleted on drop.
pub(super) struct KubeconfigFile(PathBuf);

impl KubeconfigFile {
    /// Refuses a file that exists: it is deleted at the end, so it must not be one of the user's, such as another kubeconfig.
    pub(super) fn check(path: &Path) -> anyhow::Result<()> {
        if path.exists() {
            bail!("{} exists: delete it, or name another file with --kubeconfig-out", path.display());
        }
        Ok(())
    }

    /// Writes a new file.
    pub(super) fn write(path: &Path, kubeconfig: &Kubeconfig) -> anyhow::Result<KubeconfigFile> {
        KubeconfigFile::check(path)?;
        let file = PendingFile::for_target(path, true);
        let mut output = file.create()?;
        let written = serde_json::to_string_pretty(&kubeconfig.to_json())?;
        let doing = || format!("cannot write {}", path.display());
        output.write_all(written.as_bytes()).with_context(doing)?;
        output.finish().with_context(doing)?;
        file.publish()?;
        Ok(KubeconfigFile(path.to_owned()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        // It may have been deleted already.
        let _ = std::fs::remove_file(&self.0);
    }
}

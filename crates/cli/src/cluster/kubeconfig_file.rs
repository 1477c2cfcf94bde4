//! The kubeconfig file of a running server, and those that servers left behind.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use live::Connection;
use live::list_watch::RequestFailure;
use virtualcluster::Kubeconfig;

use crate::out_file::PendingFile;
use crate::output::Printer;

/// A path at which a kubeconfig may be written.
pub(super) struct KubeconfigTarget {
    path: PathBuf,
    /// Whether servers that have ended left their kubeconfig there.
    is_stale: bool,
}

/// A kubeconfig file, deleted on drop.
pub(super) struct KubeconfigFile(PathBuf);

// === impl KubeconfigTarget ===

impl KubeconfigTarget {
    /// Refuses a file that exists: it is deleted at the end, so it must not be one of the user's, such as another
    /// kubeconfig, nor that of a server that runs. To be called before a server listens, which would seem to be the one of
    /// that file.
    pub(super) fn check(path: PathBuf) -> anyhow::Result<KubeconfigTarget> {
        let is_stale = path.exists();
        if is_stale && !is_left_behind(&path)? {
            return Err(exists(&path));
        }
        Ok(KubeconfigTarget { path, is_stale })
    }

    /// Writes a new file, or replaces a stale one and says so.
    pub(super) fn write(self, kubeconfig: &Kubeconfig, out: &mut Printer) -> anyhow::Result<KubeconfigFile> {
        let KubeconfigTarget { path, is_stale } = self;
        if !is_stale && path.exists() {
            return Err(exists(&path));
        }
        let file = PendingFile::for_target(&path, true);
        let mut output = file.create()?;
        let written = serde_json::to_string_pretty(&kubeconfig.to_json())?;
        let doing = || format!("cannot write {}", path.display());
        output.write_all(written.as_bytes()).with_context(doing)?;
        output.finish().with_context(doing)?;
        file.publish()?;
        if is_stale {
            let path = path.display();
            out.print_to_stderr(&format!("{path} was left by a cluster that has ended, and is replaced"));
        }
        Ok(KubeconfigFile(path))
    }
}

// === impl KubeconfigFile ===

impl KubeconfigFile {
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

fn exists(path: &Path) -> anyhow::Error {
    anyhow!("{} exists: delete it, or name another file with --kubeconfig-out", path.display())
}

/// Whether a file is the kubeconfig of servers of this program none of which listens any more.
fn is_left_behind(path: &Path) -> anyhow::Result<bool> {
    let name = path.display().to_string();
    // A file that cannot be read, or is not YAML, is somebody else's.
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(false) };
    let Ok(document) = formats::manifests::parse_yaml(&name, &text) else { return Ok(false) };
    let Some(contexts) = Kubeconfig::contexts_of(&document) else { return Ok(false) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(async {
        for context in contexts {
            if !has_ended(path, context).await {
                return false;
            }
        }
        true
    }))
}

/// Whether nobody listens at the address of a server. Any other failure may be temporary.
async fn has_ended(kubeconfig: &Path, context: &str) -> bool {
    let Ok(connection) = Connection::open(Some(kubeconfig), Some(context)).await else { return false };
    let version = connection.version().await;
    matches!(version, Err(live::Error::Server { failure, .. }) if failure.message == RequestFailure::CONNECTION_REFUSED)
}

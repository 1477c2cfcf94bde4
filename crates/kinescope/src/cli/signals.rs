//! Being told to end.

use std::future::Future;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// How long a command may take to notice. One that waits for input that does not come never would.
const PATIENCE: Duration = Duration::from_secs(2);
/// As shells have it for one that was interrupted.
const CODE: i32 = 130;

/// Comes when the process is told to end, and says how.
#[cfg(unix)]
pub(super) fn stop() -> anyhow::Result<impl Future<Output = &'static str>> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let (mut interrupted, mut terminated) =
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => "interrupted",
            _ = terminated.recv() => "told to stop",
        }
    })
}

/// Comes when the process is told to end, and says how.
#[cfg(not(unix))]
pub(super) fn stop() -> anyhow::Result<impl Future<Output = &'static str>> {
    Ok(async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "interrupted"
    })
}

/// From now on a signal does not end the process at once, but at the next [`check`]: what was begun is taken back first.
pub(super) fn listen() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot listen for signals")?;
    // Before the first byte is written.
    let come = {
        let _inside = runtime.enter();
        stop()?
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(come);
        INTERRUPTED.store(true, Ordering::Relaxed);
        std::thread::sleep(PATIENCE);
        exit(CODE);
    })?;
    Ok(())
}

/// An error if a signal has come.
pub(super) fn check() -> anyhow::Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted: nothing was written");
    }
    Ok(())
}

//! Handling of termination signals: the first one requests an orderly end, the second ends the process at once.

use std::future::Future;
use std::path::PathBuf;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Temporary files to remove if the process ends here.
static TEMPORARY_FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// How long a command may take to notice a signal. One that is blocked on input never would.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(2);
/// The exit code that shells use for an interrupted process.
const INTERRUPTED_EXIT_CODE: i32 = 130;

/// The signals that ask the process to end. None is missed after creation.
#[cfg(unix)]
struct StopSignals {
    interrupt: tokio::signal::unix::Signal,
    /// The terminal was closed. `None` if the process ignores this signal, as under `nohup`.
    hangup: Option<tokio::signal::unix::Signal>,
    terminate: tokio::signal::unix::Signal,
}

/// The signals that ask the process to end.
#[cfg(not(unix))]
struct StopSignals;

/// Resolves at the first signal, to the reason to show. A second signal ends the process at once: everything
/// acknowledged is already durable.
pub(super) fn stop_requested() -> anyhow::Result<impl Future<Output = &'static str>> {
    let mut signals = StopSignals::new()?;
    Ok(async move {
        let signal = signals.next().await;
        tokio::spawn(async move {
            signals.next().await;
            exit(INTERRUPTED_EXIT_CODE);
        });
        signal
    })
}

/// From now on the first signal does not end the process at once, but makes [`check`] fail, so that what was started
/// can be undone. A second one ends it.
pub(super) fn defer_signals() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot listen for signals")?;
    // Registered before the first byte is written.
    let mut signals = {
        let _inside = runtime.enter();
        StopSignals::new()?
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            signals.next().await;
            INTERRUPTED.store(true, Ordering::Relaxed);
            let _ = tokio::time::timeout(NOTICE_TIMEOUT, signals.next()).await;
        });
        for path in TEMPORARY_FILES.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // Published files have another name by now. A failure to remove one must not keep the process alive.
            let _ = match path.is_dir() {
                true => std::fs::remove_dir_all(path),
                false => std::fs::remove_file(path),
            };
        }
        exit(INTERRUPTED_EXIT_CODE);
    })?;
    Ok(())
}

/// Registers temporary files to be removed if the process is ended before the signal is noticed.
pub(super) fn remove_if_interrupted(paths: impl IntoIterator<Item = PathBuf>) {
    TEMPORARY_FILES.lock().unwrap_or_else(PoisonError::into_inner).extend(paths);
}

/// Returns an error if a signal has arrived.
pub(super) fn check() -> anyhow::Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted: nothing was written");
    }
    Ok(())
}

// === impl StopSignals ===

#[cfg(unix)]
impl StopSignals {
    fn new() -> anyhow::Result<StopSignals> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(StopSignals {
            interrupt: listen(SignalKind::interrupt())?,
            hangup: if ignores_hangup() { None } else { Some(listen(SignalKind::hangup())?) },
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal, and returns the reason to show.
    async fn next(&mut self) -> &'static str {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => "interrupted",
            _ = hangup => "terminal closed",
            _ = self.terminate.recv() => "terminated",
        }
    }
}

/// Whether the process ignores SIGHUP, according to /proc. Listening for it would undo that.
#[cfg(unix)]
fn ignores_hangup() -> bool {
    const HANGUP: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_none_or(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & HANGUP != 0))
}

#[cfg(not(unix))]
impl StopSignals {
    fn new() -> anyhow::Result<StopSignals> {
        Ok(StopSignals)
    }

    async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "interrupted"
    }
}

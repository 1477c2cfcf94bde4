//! Being told to end: the first signal asks, the second ends the process at once.

use std::future::Future;
use std::path::PathBuf;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// What is removed if the process is ended from here.
static SCRATCH: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// How long a command may take to notice. One that waits for input that does not come never would.
const PATIENCE: Duration = Duration::from_secs(2);
/// As shells have it for one that was interrupted.
const CODE: i32 = 130;

/// The signals that tell the process to end. From its creation on none is missed.
#[cfg(unix)]
struct StopSignals {
    interrupt: tokio::signal::unix::Signal,
    /// The terminal is gone. `None` for a process that was started not to mind, by `nohup`.
    hangup: Option<tokio::signal::unix::Signal>,
    terminate: tokio::signal::unix::Signal,
}

/// The signals that tell the process to end.
#[cfg(not(unix))]
struct StopSignals;

/// Comes when the process is told to end, and says how. Whoever asks twice does not want to wait: what was acknowledged
/// is safe, and the second signal ends the process wherever it is.
pub(super) fn stop() -> anyhow::Result<impl Future<Output = &'static str>> {
    let mut signals = StopSignals::new()?;
    Ok(async move {
        let how = signals.next().await;
        tokio::spawn(async move {
            signals.next().await;
            exit(CODE);
        });
        how
    })
}

/// From now on a signal does not end the process at once, but at the next [`check`]: what was begun is taken back first.
/// A second one does.
pub(super) fn listen() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot listen for signals")?;
    // Before the first byte is written.
    let mut signals = {
        let _inside = runtime.enter();
        StopSignals::new()?
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            signals.next().await;
            INTERRUPTED.store(true, Ordering::Relaxed);
            let _ = tokio::time::timeout(PATIENCE, signals.next()).await;
        });
        for path in SCRATCH.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // What is in its place by now has another name; what cannot be removed must not keep the process.
            let _ = match path.is_dir() {
                true => std::fs::remove_dir_all(path),
                false => std::fs::remove_file(path),
            };
        }
        exit(CODE);
    })?;
    Ok(())
}

/// Names something that is of no use to anybody if the process is ended while a signal waits to be noticed.
pub(super) fn remove_if_interrupted(paths: impl IntoIterator<Item = PathBuf>) {
    SCRATCH.lock().unwrap_or_else(PoisonError::into_inner).extend(paths);
}

/// An error if a signal has come.
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

    /// Waits for the next one, and says how the process is told.
    async fn next(&mut self) -> &'static str {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => "interrupted",
            _ = hangup => "hung up",
            _ = self.terminate.recv() => "told to stop",
        }
    }
}

/// Whether the process ignores it, as Linux tells; to listen to it would end that.
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

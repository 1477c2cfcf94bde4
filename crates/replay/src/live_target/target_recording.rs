//! The recording of a target during a replay into it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use recorder::policy::{RecordingDetail, RecordingPolicy};
use recorder::{ApiServerConfig, Assignment, RecorderMetrics, lock};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::LiveReplayOptions;

/// A running recorder of the target.
pub(super) struct TargetRecorder {
    recording: TargetRecording,
    recorder: JoinHandle<anyhow::Result<()>>,
    stop: watch::Sender<bool>,
}

/// Its recording: a history in a temporary folder.
pub(super) struct TargetRecording {
    pub(super) path: PathBuf,
    /// Removes the folder when dropped.
    _folder: TempDir,
}

/// The source name of the recording.
pub(super) const SOURCE: &str = "target";
const POLL_INTERVAL: Duration = Duration::from_millis(50);

// === impl TargetRecorder ===

impl TargetRecorder {
    /// Starts recording, and returns when pods and nodes are watched.
    pub(super) fn begin(runtime: &Runtime, options: &LiveReplayOptions) -> anyhow::Result<TargetRecorder> {
        let folder = tempfile::tempdir()
            .context("cannot create a temporary folder for the recording of the target")?;
        let recording = TargetRecording { path: folder.path().join("target.kine"), _folder: folder };
        let name: Arc<str> = SOURCE.into();
        let assignment = Assignment {
            name: name.clone(),
            history_path: recording.path.clone(),
            cluster: ApiServerConfig {
                kubeconfig: Some(options.kubeconfig.clone()),
                context: options.context.clone(),
                ..ApiServerConfig::default()
            },
            control_plane: None,
            policy: RecordingPolicy { detail: RecordingDetail::Everything, ..RecordingPolicy::default() },
            settings: Vec::new(),
        };
        let recorder_metrics = Arc::new(RecorderMetrics::default());
        let (stop, stopped) = watch::channel(false);
        let (notices, _) = recorder::notice_channel();
        let recorded_metrics = recorder_metrics.recording(&name);
        let mut recorder = runtime
            .spawn(async move { recorder::record(&assignment, &recorder_metrics, &notices, stopped).await });
        runtime.block_on(async {
            let watches = || {
                let recorded_metrics = lock(&recorded_metrics);
                let is_watched = |kind_name: &str| {
                    let found = recorded_metrics.kinds.iter().find(|(kind, _)| &*kind.kind == kind_name);
                    let status = found.and_then(|(_, recorded_metrics)| recorded_metrics.status.as_ref());
                    status.is_some_and(|status| status.state == live::WatchState::Watching)
                };
                is_watched("Pod") && is_watched("Node")
            };
            while !watches() {
                tokio::select! {
                    ended = &mut recorder => {
                        ended.context("the recorder failed")?.context("cannot record the target")?;
                        anyhow::bail!("the recording of the target ended before it started");
                    }
                    () = sleep(POLL_INTERVAL) => {}
                }
            }
            anyhow::Ok(())
        })?;
        Ok(TargetRecorder { recording, recorder, stop })
    }

    /// Ends the recording.
    pub(super) fn end(self, runtime: &Runtime) -> anyhow::Result<TargetRecording> {
        runtime.block_on(async {
            // The recorder may already have ended, with its receiver.
            let _ = self.stop.send(true);
            self.recorder.await.context("the recorder failed")?.context("cannot record the target")
        })?;
        Ok(self.recording)
    }
}

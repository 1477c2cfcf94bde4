//! Operations on the runs of an API server: find, pause, resume and remove.

use anyhow::bail;
use live::Connection;
use live::apply::{self, CleanupReport, RunState, RunStatus};
use model::Moment;

pub use live::apply::list_runs;

/// Returns the run of that name, or the only one.
pub async fn find(connection: &Connection, name: Option<&str>) -> anyhow::Result<RunStatus> {
    let mut all = list_runs(connection).await?;
    if let Some(name) = name {
        all.retain(|run| run.name == *name);
    }
    match (all.len(), name) {
        (1, _) => Ok(all.remove(0)),
        (0, Some(name)) => bail!("run {name} not found in {}", connection.context()),
        (0, None) => bail!("no runs found in {}", connection.context()),
        _ => {
            let names: Vec<String> = all.into_iter().map(|run| run.name).collect();
            bail!("several runs in {}: specify --run {}", connection.context(), names.join(" or --run "))
        }
    }
}

/// Removes all objects that a run created: the one of that name, or the only one.
pub async fn clean(connection: Connection, name: Option<&str>) -> anyhow::Result<CleanupReport> {
    // The objects of a run can be removed even if the run's own object no longer exists.
    let name = match name {
        Some(name) => name.to_owned(),
        None => find(&connection, None).await?.name,
    };
    Ok(apply::clean(connection, Some(&name)).await?)
}

/// Pauses or resumes a run: the one of that name, or the only one. Returns it as it was before.
pub async fn set_paused(
    connection: &Connection,
    name: Option<&str>,
    paused: bool,
    now: Moment,
) -> anyhow::Result<RunStatus> {
    let run = find(connection, name).await?;
    if !run.is_alive(now) {
        bail!("run {} is {} and not active", run.name, run.state.as_str());
    }
    apply::set_paused(connection, &run.name, paused).await?;
    Ok(run)
}

/// The name of a run's state: `lost` if its process has not reported for a while.
pub fn state_name(run: &RunStatus, now: Moment) -> &'static str {
    match run.state {
        RunState::Playing | RunState::Paused if !run.is_alive(now) => "lost",
        state => state.as_str(),
    }
}

//! Runs that an API server knows of: finding, pausing, resuming and removing them.

use anyhow::bail;
use live::Connection;
use live::applying::{self, Cleaned, Run, State};
use model::Moment;

pub use live::applying::runs;

/// The run of that name, or the only one there is.
pub async fn find(connection: &Connection, name: Option<&str>) -> anyhow::Result<Run> {
    let mut all = runs(connection).await?;
    if let Some(name) = name {
        all.retain(|run| run.name == *name);
    }
    match (all.len(), name) {
        (1, _) => Ok(all.remove(0)),
        (0, Some(name)) => bail!("{} knows of no run {name}", connection.context()),
        (0, None) => bail!("{} knows of no run", connection.context()),
        _ => {
            let names: Vec<String> = all.into_iter().map(|run| run.name).collect();
            bail!("{} knows of several runs: say --run {}", connection.context(), names.join(" or --run "))
        }
    }
}

/// Removes everything that a run created: the one of that name, or the only one there is.
pub async fn clean(connection: Connection, name: Option<&str>) -> anyhow::Result<Cleaned> {
    // What a run left behind can be removed though its own object is gone.
    let name = match name {
        Some(name) => name.to_owned(),
        None => find(&connection, None).await?.name,
    };
    Ok(applying::clean(connection, Some(&name)).await?)
}

/// Pauses a run, or resumes it: the one of that name, or the only one there is. Returns it as it was before.
pub async fn set_paused(
    connection: &Connection,
    name: Option<&str>,
    paused: bool,
    now: Moment,
) -> anyhow::Result<Run> {
    let run = find(connection, name).await?;
    if !run.is_alive(now) {
        bail!("run {} is {}, and nobody plays it now", run.name, run.state.word());
    }
    applying::tell(connection, &run.name, paused).await?;
    Ok(run)
}

/// The word for the state of a run: `lost` if its process was not heard of for a while.
pub fn state_word(run: &Run, now: Moment) -> &'static str {
    match run.state {
        State::Playing | State::Paused if !run.is_alive(now) => "lost",
        state => state.word(),
    }
}

//! The settings of the replay that produced a history.

use std::sync::Arc;

use anyhow::Context;
use calibration::ReplaySettings;
use history::Selection;
use model::Moment;

use super::OpenHistory;

/// The replay settings in a history at a moment; `None` if no replay produced the history.
pub fn recorded_replay_settings(
    open_history: &OpenHistory,
    source: &Arc<str>,
    moment: Moment,
) -> anyhow::Result<Option<ReplaySettings>> {
    let selection = Selection {
        kinds: Some(vec![ReplaySettings::kind()]),
        source: Some(source.clone()),
        ..Selection::default()
    };
    let found = open_history.history.at(moment, &selection)?.into_objects();
    let Some(version) = found.first() else { return Ok(None) };
    let settings = ReplaySettings::from_object(&version.object)
        .with_context(|| format!("invalid {} in the history", version.key))?;
    Ok(Some(settings))
}

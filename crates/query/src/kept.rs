//! How the replay was set that a history was made by.

use std::sync::Arc;

use anyhow::Context;
use calibration::ReplaySettings;
use history::Selection;
use model::Moment;

use super::Chosen;

/// The settings that a history keeps at a moment; `None` if no replay made it.
pub fn kept(chosen: &Chosen, source: &Arc<str>, moment: Moment) -> anyhow::Result<Option<ReplaySettings>> {
    let selection = Selection {
        kinds: Some(vec![ReplaySettings::kind()]),
        source: Some(source.clone()),
        ..Selection::default()
    };
    let found = chosen.history.at(moment, &selection)?.into_objects();
    let Some(version) = found.first() else { return Ok(None) };
    let settings = ReplaySettings::kept_in(&version.object)
        .with_context(|| format!("{} of the history cannot be understood", version.key))?;
    Ok(Some(settings))
}

//! The first pass over a recording: its demands, metrics and measurements.

use std::sync::Arc;

use calibration::observed::ObservedChange;
use controllers::Controller;
use history::{History, Selection};
use kubernetes::objects::NodeView;
use model::{Moment, What};

use super::{DemandExtractor, RecordedDemands};
use crate::error::Error;
use crate::history_part::{HistoryPart, changes, for_each_prefetched, initial_objects};
use crate::recording_metrics::RecordingMeter;

/// Extracts the demands of a part of a history, for a replay with these controllers and, if `replay_has_autoscaler`, an
/// autoscaler; `meter` collects metrics of the recording. `class_of` returns the class of a node. An error of
/// `each` ends it.
pub fn extract_demands(
    history: &History,
    part: &HistoryPart,
    replay_has_autoscaler: bool,
    controllers: &[Controller],
    class_of: &dyn Fn(&NodeView) -> Option<Arc<str>>,
    mut meter: Option<&mut RecordingMeter>,
    mut each: impl FnMut(Moment, &ObservedChange) -> Result<(), Error>,
) -> Result<RecordedDemands, Error> {
    let from = part.window.from;
    let mut extractor =
        DemandExtractor::new(from, replay_has_autoscaler, controllers, class_of).map_err(Error::temp_file)?;
    let mut observe_change = |at: Moment, observed: &ObservedChange| {
        if let Some(meter) = &mut meter {
            meter.observe(at, observed, class_of);
        }
        each(at, observed)
    };
    let everything = Selection { source: Some(part.source.clone()), ..Selection::default() };
    for (key, object) in initial_objects(history, part, &everything)? {
        let observed = ObservedChange::parse(key, What::Added(object));
        extractor.observe_initial(&observed).map_err(Error::temp_file)?;
        observe_change(from, &observed)?;
    }
    let changes = changes(history, part, &everything)?;
    for_each_prefetched(
        changes.map(|change| {
            Ok(change.map(|read_change| {
                (read_change.at, ObservedChange::parse(read_change.key, read_change.what))
            })?)
        }),
        |(at, observed)| {
            extractor.observe(at, &observed).map_err(Error::temp_file)?;
            observe_change(at, &observed)
        },
    )?;
    extractor.finish(part.window.to).map_err(Error::temp_file)
}

//! A recorder of generated clusters: the changes of a simulation are written to a history.

use std::path::Path;
use std::sync::Arc;

use history::BulkWriter;
use model::{IncomingChange, Moment, What};
use simulation::{Observer, SimulationEvent};

use crate::Result;

/// Writes the changes of a simulation to a history.
pub(super) struct SimulationRecorder {
    bulk: BulkWriter,
    source: Arc<str>,
    error: Option<history::Error>,
}

impl SimulationRecorder {
    pub(super) fn create(path: &Path, source: &str) -> Result<SimulationRecorder> {
        Ok(SimulationRecorder { bulk: BulkWriter::open(path)?, source: source.into(), error: None })
    }

    /// Returns the first write error.
    pub(super) fn check(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Completes the history.
    pub(super) fn finish(mut self) -> Result<()> {
        self.check()?;
        self.bulk.finish()?;
        Ok(())
    }
}

impl Observer for SimulationRecorder {
    fn wants_changes(&self) -> bool {
        true
    }

    fn on_change(&mut self, at: Moment, what: What) {
        if self.error.is_none() {
            self.error = self.bulk.push(&IncomingChange::received(at, &self.source, what)).err();
        }
    }

    fn on_event(&mut self, _: Moment, _: &SimulationEvent<'_>) {}
}

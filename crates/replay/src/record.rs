//! What was recorded of the demands that are open in a run.

use std::io;

use rustc_hash::FxHashMap;
use simulation::{DemandId, Life, PodId};

use crate::causes::{Cause, Causes, LifeSeen};

/// Remembers what was recorded of a demand from when it is first asked about until the demand is over.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    causes: &'a Causes,
    open: FxHashMap<DemandId, Cause>,
    trouble: Option<io::Error>,
}

impl<'a> Record<'a> {
    /// What these causes tell.
    pub(crate) fn of(causes: &'a Causes) -> Record<'a> {
        Record { causes, open: FxHashMap::default(), trouble: None }
    }

    /// What was recorded of a pod, if there was such a one.
    pub(crate) fn find(&mut self, id: PodId) -> Option<(&Life, &LifeSeen)> {
        // Who comes with a node of the run is nobody's recorded demand.
        if id.demand.0 >= self.causes.totals.demands {
            return None;
        }
        if !self.open.contains_key(&id.demand) {
            match self.causes.get(id.demand) {
                Ok(cause) => drop(self.open.insert(id.demand, cause)),
                Err(trouble) => self.trouble = Some(trouble),
            }
        }
        let cause = self.open.get(&id.demand)?;
        let life = id.life as usize;
        Some((cause.lives.get(life)?, cause.seen.get(life)?))
    }

    /// A demand is over.
    pub(crate) fn forget(&mut self, demand: DemandId) {
        self.open.remove(&demand);
    }

    /// Whether all could be read so far.
    pub(crate) fn is_well(&self) -> bool {
        self.trouble.is_none()
    }

    /// What could not be read.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.trouble.map_or(Ok(()), Err)
    }
}

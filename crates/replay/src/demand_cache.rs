//! A cache of the recorded demands that are open in a replay.

use std::io;

use rustc_hash::FxHashMap;
use simulation::{DemandId, PodId, PodIncarnation};

use crate::demands::{ObservedIncarnation, RecordedDemand, RecordedDemands};

/// Caches recorded demands, from their first lookup until they are over.
#[derive(Debug)]
pub(crate) struct DemandCache<'a> {
    demands: &'a RecordedDemands,
    open: FxHashMap<DemandId, RecordedDemand>,
    error: Option<io::Error>,
}

impl<'a> DemandCache<'a> {
    /// Creates an empty cache.
    pub(crate) fn new(demands: &'a RecordedDemands) -> DemandCache<'a> {
        DemandCache { demands, open: FxHashMap::default(), error: None }
    }

    /// Returns the recorded incarnation of a pod, if there is one.
    pub(crate) fn find(&mut self, id: PodId) -> Option<(&PodIncarnation, &ObservedIncarnation)> {
        // Pods that the replay creates with a node have no recorded demand.
        if id.demand.0 >= self.demands.totals.demands {
            return None;
        }
        if !self.open.contains_key(&id.demand) {
            match self.demands.get(id.demand) {
                Ok(demand) => drop(self.open.insert(id.demand, demand)),
                Err(error) => drop(self.error.get_or_insert(error)),
            }
        }
        let demand = self.open.get(&id.demand)?;
        let index = id.incarnation as usize;
        Some((demand.incarnations.get(index)?, demand.observed.get(index)?))
    }

    /// Removes a demand that is over.
    pub(crate) fn remove(&mut self, demand: DemandId) {
        self.open.remove(&demand);
    }

    /// Whether all reads succeeded so far.
    pub(crate) fn is_ok(&self) -> bool {
        self.error.is_none()
    }

    /// Returns the first read error.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }
}

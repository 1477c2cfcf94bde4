//! The amounts that queues have without the victims that were popped from them, kept from one comparison to the next.

use rustc_hash::FxHashMap;

use super::Session;
use crate::cluster::ids::{JobId, QueueId};
use crate::fair_share::{Quantities, quantify};

/// What queues have without the victims that were popped, by queue and by the queue of the victims.
#[derive(Clone, Debug, Default)]
pub(super) struct VictimSums {
    sums: FxHashMap<(QueueId, QueueId), VictimSum>,
}

/// What a queue has without the first victims.
#[derive(Clone, Copy, Debug)]
struct VictimSum {
    /// What it had before. The sum holds only as long as that is so, to the last bit.
    allocated: Quantities,
    /// The sum holds only as long as no pod's status changes.
    status_changes: u64,
    count: usize,
    without_victims: Quantities,
}

impl VictimSums {
    /// What a queue has without the popped victims of a queue below it and without the next one. Victims are subtracted
    /// one after the other, since the original rounds after each. `None` without shares of queues.
    pub(super) fn without_victims(
        &mut self,
        session: &Session,
        queue: QueueId,
        leaf: QueueId,
        popped: &[JobId],
        next: JobId,
    ) -> Option<Quantities> {
        let cluster = &session.cluster;
        let allocated = session.proportion.as_ref()?.share(queue).allocated();
        let status_changes = cluster.status_changes;
        let start = VictimSum { allocated, status_changes, count: 0, without_victims: allocated };
        let sum = self.sums.entry((queue, leaf)).or_insert(start);
        let is_current = sum.allocated.is_identical(&allocated)
            && sum.status_changes == status_changes
            && sum.count <= popped.len();
        if !is_current {
            *sum = start;
        }
        for victim in &popped[sum.count..] {
            sum.without_victims.subtract(&quantify(&cluster.job(*victim).allocated, &cluster.names));
        }
        sum.count = popped.len();
        let mut without_victims = sum.without_victims;
        without_victims.subtract(&quantify(&cluster.job(next).allocated, &cluster.names));
        Some(without_victims)
    }
}

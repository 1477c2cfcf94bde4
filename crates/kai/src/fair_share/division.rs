//! The division of resources among queues of one parent.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Moment;

use super::quantities::Quantities;
use super::queue_share::QueueShare;
use crate::cluster::queue::UNLIMITED;

/// A queue that takes part in a division.
pub(crate) struct DividedQueue<'a> {
    pub name: &'a Arc<str>,
    pub priority: i64,
    pub created: Option<Moment>,
    pub share: &'a mut QueueShare,
}

/// A queue with what it was not given because only whole units are.
struct Remainder {
    queue: usize,
    amount: f64,
}

/// Divides amounts among queues, in this order wherever the order matters.
///
/// Every queue is given its quota, or its request if that is less, even if the amounts do not suffice. What is left is
/// given by priority, and by weight among queues of one priority, in whole units, then unit by unit to those that lost
/// most by rounding.
pub(crate) fn divide(total: &Quantities, over_use_factor: f64, queues: &mut [DividedQueue<'_>]) {
    for (resource, total) in total.0.into_iter().enumerate() {
        let left = give_quotas(total, resource, queues);
        if left > 0.0 {
            give_over_quota(left, resource, over_use_factor, queues);
        }
    }
}

/// Gives every queue its quota. Returns what is left, which may be less than nothing.
fn give_quotas(total: f64, resource: usize, queues: &mut [DividedQueue<'_>]) -> f64 {
    let mut left = total;
    for queue in queues {
        let share = &mut queue.share.resources[resource];
        let quota = if share.quota == UNLIMITED { total } else { share.quota };
        let amount = quota.min(share.requestable());
        share.fair_share += amount;
        left -= amount;
    }
    left
}

fn give_over_quota(total: f64, resource: usize, over_use_factor: f64, queues: &mut [DividedQueue<'_>]) {
    let mut by_priority: BTreeMap<std::cmp::Reverse<i64>, Vec<usize>> = BTreeMap::new();
    for (index, queue) in queues.iter().enumerate() {
        by_priority.entry(std::cmp::Reverse(queue.priority)).or_default().push(index);
    }
    let mut left = total;
    let mut remainders: Vec<Vec<Remainder>> = Vec::new();
    for group in by_priority.values() {
        let (after, of_group) = give_by_weight(left, resource, over_use_factor, group, queues);
        left = after;
        remainders.push(of_group);
    }
    for mut of_group in remainders {
        of_group.sort_by(|a, b| {
            let (left_queue, right_queue) = (&queues[a.queue], &queues[b.queue]);
            let order = b.amount.total_cmp(&a.amount);
            order
                .then_with(|| left_queue.created.cmp(&right_queue.created))
                .then_with(|| left_queue.name.cmp(right_queue.name))
        });
        for remainder in of_group {
            if left <= 0.0 {
                return;
            }
            // Less than a whole unit is left if some queue requested a part of a GPU.
            let amount = left.min(1.0);
            queues[remainder.queue].share.resources[resource].fair_share += amount;
            left -= amount;
        }
    }
}

/// Gives whole units by weight until no queue is left with more than it requests. Returns what is left, and what the
/// queues lost by rounding.
fn give_by_weight(
    total: f64,
    resource: usize,
    over_use_factor: f64,
    group: &[usize],
    queues: &mut [DividedQueue<'_>],
) -> (f64, Vec<Remainder>) {
    let mut left = total;
    let mut remainders: BTreeMap<usize, f64> = BTreeMap::new();
    // Every further round follows one in which a queue was satisfied. Rounding may take a queue two rounds.
    for _ in 0..2 * group.len() + 2 {
        let mut is_again = false;
        let round = left;
        let (weights, sum) = share_weights(resource, over_use_factor, group, queues);
        if sum == 0.0 {
            break;
        }
        for (&index, weight) in group.iter().zip(weights) {
            if left == 0.0 {
                break;
            }
            let share = &mut queues[index].share.resources[resource];
            if share.is_satisfied() || share.over_quota_weight == 0.0 {
                continue;
            }
            let needed = share.remaining_request();
            let part = round * (weight / sum);
            let given = if needed <= part {
                remainders.remove(&index);
                needed
            } else {
                let given = part.floor().max(0.0);
                if part - given > 0.0 {
                    remainders.insert(index, part - given);
                }
                given
            };
            if given == 0.0 {
                continue;
            }
            share.fair_share += given;
            left -= given;
            is_again |= needed < part;
        }
        if !is_again || left == 0.0 {
            break;
        }
    }
    let remainders = remainders.into_iter().map(|(queue, amount)| Remainder { queue, amount });
    (left, remainders.collect())
}

/// The weights of unsatisfied queues, less for those that used much before, and their sum.
fn share_weights(
    resource: usize,
    over_use_factor: f64,
    group: &[usize],
    queues: &[DividedQueue<'_>],
) -> (Vec<f64>, f64) {
    let shares = || group.iter().map(|index| &queues[*index].share.resources[resource]);
    let mut total = 0.0;
    for share in shares().filter(|share| share.remaining_request() > 0.0) {
        total += share.over_quota_weight;
    }
    if total == 0.0 {
        return (Vec::new(), 0.0);
    }
    let mut sum = 0.0;
    let weight = |share: &super::queue_share::ResourceShare| {
        if share.is_satisfied() {
            return 0.0;
        }
        let weight = share.over_quota_weight / total;
        let weight = (weight + over_use_factor * (weight - share.usage)).max(0.0);
        sum += weight;
        weight
    };
    let weights = shares().map(weight).collect();
    (weights, sum)
}

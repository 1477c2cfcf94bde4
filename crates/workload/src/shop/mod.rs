//! A working day in the cluster of a small shop: the story behind the demo.
//!
//! Six nodes in three zones carry a web shop, its database and its batch work. The morning's traffic, cron jobs
//! and a canary are as they should be; the afternoon has its bad moment, which [`Story`] points at.

mod cluster;
mod controllers;
mod deployments;
mod inventory;
mod kubelet;
mod nodes;
mod scheduler;
mod story;
#[cfg(test)]
mod tests;

use model::{Key, Moment, Observed};

use crate::objects::SECOND;

/// A day as a recorder would have seen it.
pub struct Day {
    /// All changes in order of arrival, beginning with a list of all that was there.
    pub changes: Vec<Observed>,
    /// What to look at.
    pub story: Story,
}

/// The moments and objects of a day that are worth a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// When the recording begins.
    pub begin: Moment,
    /// When it ends.
    pub end: Moment,
    /// A marketing push doubles the traffic: `storefront` must grow at once.
    pub push: Moment,
    /// `checkout` is rolled out with an image that does not exist.
    pub bad_rollout: Moment,
    /// A node just rebooted into a new kernel is not heard of any more: the bad moment.
    pub bad_moment: Moment,
    /// The first pod finds no place after that.
    pub worst_from: Moment,
    /// The last of those that matter has found one.
    pub worst_to: Moment,
    /// The roll-out is undone.
    pub rollback: Moment,
    /// The lost node is heard of again.
    pub node_returns: Moment,
    /// The node that got lost.
    pub lost_node: Key,
    /// The Deployment of the bad roll-out.
    pub broken_deployment: Key,
    /// A pod that had to wait for its place, got one on that very node, and was driven out again.
    pub unlucky_pod: Key,
}

/// The name under which the day's cluster is recorded.
pub const SOURCE: &str = "shop";

/// Monday, 2 November 2026, 07:00 UTC.
const BEGIN: i64 = 1_793_602_800 * SECOND;
const LENGTH: i64 = 12 * 3_600 * SECOND;
/// The cluster lives through a weekend before anyone records it, so that its objects have a past.
const BEFORE: i64 = 49 * 3_600 * SECOND;

/// The shop's Monday from 07:00 to 19:00. The seed decides names and delays, not the story.
pub fn day(seed: u64) -> Day {
    let begin = Moment::from_nanos(BEGIN);
    let end = begin.plus_nanos(LENGTH);
    let mut cluster = cluster::Cluster::new(SOURCE, seed, begin.plus_nanos(-BEFORE));
    cluster.stock();
    cluster.tell(begin);
    cluster.run(end);
    let story = cluster.story(begin, end);
    Day { changes: cluster.log.changes, story }
}

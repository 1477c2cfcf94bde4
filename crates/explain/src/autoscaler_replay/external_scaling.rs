//! Scaling by other components, as a recording shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use autoscaler::{Autoscaler, CloudProvider, GroupId, ObservedCloud};
use kubernetes::objects::NodeView;
use kubernetes::well_known::TO_BE_DELETED;
use model::{Moment, Object, What};

/// The recorded targets and deletions of an external autoscaler.
#[derive(Default)]
pub(crate) struct ExternalScaling {
    /// The last recorded target sizes of groups.
    targets: BTreeMap<GroupId, i64>,
    /// Nodes with the ToBeDeleted taint.
    to_be_deleted: BTreeSet<Arc<str>>,
}

// === impl ExternalScaling ===

impl ExternalScaling {
    /// Takes an object that exists when the replay begins.
    pub(crate) fn observe_initial(&mut self, object: &Object) {
        if let Some(node) = NodeView::of(object).filter(is_to_be_deleted) {
            self.to_be_deleted.insert(node.name);
        }
    }

    /// Takes a recorded target size of a group; `at` is `None` for the initial one.
    pub(crate) fn observe_target(
        &mut self,
        at: Option<Moment>,
        group: &str,
        target: i64,
        autoscaler: &mut Autoscaler,
        cloud: &ObservedCloud,
    ) {
        let Some(index) = cloud.groups().iter().position(|other| *other.name == *group) else { return };
        let group = GroupId(index as u32);
        let previous_target = self.targets.insert(group, target);
        if let (Some(at), Some(previous_target)) = (at, previous_target)
            && previous_target < target
        {
            autoscaler.observe_scale_up(at, group, target.saturating_sub(previous_target), cloud);
        }
    }

    /// Takes a change of a node after the replay began, which was at `from`.
    pub(crate) fn observe(
        &mut self,
        from: Moment,
        at: Moment,
        what: &What,
        autoscaler: &mut Autoscaler,
        cloud: &ObservedCloud,
    ) {
        let Some(node) = NodeView::of(what.object()) else { return };
        let was_marked = self.to_be_deleted.contains(&node.name);
        let is_marked = what.state().is_some() && is_to_be_deleted(&node);
        if !is_marked {
            self.to_be_deleted.remove(&node.name);
        }
        let Some(group) = cloud.groups().iter().position(|group| group.members.matches(&node)) else {
            return;
        };
        let group = GroupId(group as u32);
        // Recorded targets show scale-ups earlier.
        if matches!(what, What::Added(_))
            && was_created_after(&node, from)
            && !self.targets.contains_key(&group)
        {
            autoscaler.observe_scale_up(at, group, 1, cloud);
        }
        if is_marked && !was_marked {
            self.to_be_deleted.insert(node.name);
            autoscaler.observe_scale_down(at, group);
        }
    }
}

fn is_to_be_deleted(node: &NodeView) -> bool {
    node.taint(TO_BE_DELETED).is_some()
}

/// A node that is observed for the first time may be old.
fn was_created_after(node: &NodeView, moment: Moment) -> bool {
    node.creation_timestamp.is_none_or(|created| created >= moment)
}

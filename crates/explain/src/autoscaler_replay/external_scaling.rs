//! Scaling by other components, as a recording shows it.

use std::collections::{BTreeMap, BTreeSet};

use autoscaler::{Autoscaler, CloudProvider, GroupId, NodeGroup, ObservedCloud};
use model::{Moment, Object, What};
use serde::Deserialize;

/// The recorded targets and deletions of an external autoscaler.
#[derive(Default)]
pub(crate) struct ExternalScaling {
    /// The last recorded target sizes of groups.
    targets: BTreeMap<GroupId, i64>,
    /// Nodes with the ToBeDeleted taint.
    to_be_deleted: BTreeSet<String>,
}

/// The fields of a node that show scaling.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Node {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    taints: Option<Vec<Taint>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Taint {
    key: String,
}

// === impl ExternalScaling ===

impl ExternalScaling {
    /// Takes an object that exists when the replay begins.
    pub(crate) fn observe_initial(&mut self, object: &Object) {
        if let Some(node) = Node::read(object)
            && node.is_to_be_deleted()
        {
            self.to_be_deleted.insert(object.meta().name.into_owned());
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
        let object = what.object();
        let Some(node) = Node::read(object) else { return };
        let name = object.meta().name;
        let was_marked = self.to_be_deleted.contains(&*name);
        let is_marked = what.state().is_some() && node.is_to_be_deleted();
        if !is_marked {
            self.to_be_deleted.remove(&*name);
        }
        let Some(group) = node.group(&name, cloud.groups()) else { return };
        // Recorded targets show scale-ups earlier.
        if matches!(what, What::Added(_))
            && node.was_created_after(from)
            && !self.targets.contains_key(&group)
        {
            autoscaler.observe_scale_up(at, group, 1, cloud);
        }
        if is_marked && !was_marked {
            self.to_be_deleted.insert(name.into_owned());
            autoscaler.observe_scale_down(at, group);
        }
    }
}

// === impl Node ===

impl Node {
    fn read(object: &Object) -> Option<Node> {
        let meta = object.meta();
        (meta.kind == "Node" && meta.api_version == "v1").then(|| object.view().unwrap_or_default())
    }

    fn is_to_be_deleted(&self) -> bool {
        self.spec.taints.iter().flatten().any(|taint| taint.key == "ToBeDeletedByClusterAutoscaler")
    }

    /// A node that is observed for the first time may be old.
    fn was_created_after(&self, moment: Moment) -> bool {
        let created =
            self.metadata.creation_timestamp.as_deref().and_then(|text| text.parse::<Moment>().ok());
        created.is_none_or(|created| created >= moment)
    }

    /// Returns the first group that has the node.
    fn group(&self, name: &str, groups: &[NodeGroup]) -> Option<GroupId> {
        fn value<'n>(fields: &'n Option<BTreeMap<String, String>>, key: &str) -> Option<&'n str> {
            fields.as_ref()?.get(key).map(String::as_str)
        }
        let Node { metadata, spec } = self;
        let (label, annotation) =
            (|key: &str| value(&metadata.labels, key), |key: &str| value(&metadata.annotations, key));
        let provider_id = spec.provider_id.as_deref().unwrap_or_default();
        let is_member = |group: &NodeGroup| group.members.matches_node(name, provider_id, label, annotation);
        Some(GroupId(groups.iter().position(is_member)? as u32))
    }
}

//! What others do to node groups while one watches, as a recording shows it.

use std::collections::{BTreeMap, BTreeSet};

use autoscaler::{Autoscaler, Cloud, GroupId, NodeGroup, ObservedCloud};
use model::{Moment, Object, What};
use serde::Deserialize;

/// What is known of others' doings.
#[derive(Default)]
pub(crate) struct Others {
    /// How many nodes groups were last said to be meant to have.
    targets: BTreeMap<GroupId, i64>,
    /// Nodes that are being deleted.
    marked: BTreeSet<String>,
}

/// What of a node tells of them.
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

// === impl Others ===

impl Others {
    /// This is how it was when the play began.
    pub(crate) fn begin(&mut self, object: &Object) {
        if let Some(node) = Node::read(object)
            && node.is_marked()
        {
            self.marked.insert(object.meta().name.into_owned());
        }
    }

    /// A group is said to be meant to have so many nodes; without a moment, when the play began.
    pub(crate) fn see_target(
        &mut self,
        at: Option<Moment>,
        group: &str,
        target: i64,
        autoscaler: &mut Autoscaler,
        cloud: &ObservedCloud,
    ) {
        let Some(place) = cloud.groups().iter().position(|other| *other.name == *group) else { return };
        let group = GroupId(place as u32);
        let before = self.targets.insert(group, target);
        if let (Some(at), Some(before)) = (at, before)
            && before < target
        {
            autoscaler.saw_growth(at, group, target.saturating_sub(before), cloud);
        }
    }

    /// A node came, changed or went after the play began, which was at `from`.
    pub(crate) fn see(
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
        let was_marked = self.marked.contains(&*name);
        let is_marked = what.state().is_some() && node.is_marked();
        if !is_marked {
            self.marked.remove(&*name);
        }
        let Some(group) = node.group(&name, cloud.groups()) else { return };
        // Recorded targets tell the same, and sooner.
        if matches!(what, What::Added(_)) && node.is_made_after(from) && !self.targets.contains_key(&group) {
            autoscaler.saw_growth(at, group, 1, cloud);
        }
        if is_marked && !was_marked {
            self.marked.insert(name.into_owned());
            autoscaler.saw_removal(at, group);
        }
    }
}

// === impl Node ===

impl Node {
    fn read(object: &Object) -> Option<Node> {
        let meta = object.meta();
        (meta.kind == "Node" && meta.api_version == "v1").then(|| object.view().unwrap_or_default())
    }

    fn is_marked(&self) -> bool {
        self.spec.taints.iter().flatten().any(|taint| taint.key == "ToBeDeletedByClusterAutoscaler")
    }

    /// A recording may see nodes for the first time that have long been there.
    fn is_made_after(&self, moment: Moment) -> bool {
        let made = self.metadata.creation_timestamp.as_deref().and_then(|text| text.parse::<Moment>().ok());
        made.is_none_or(|made| made >= moment)
    }

    /// The first group that has it.
    fn group(&self, name: &str, groups: &[NodeGroup]) -> Option<GroupId> {
        fn value<'n>(fields: &'n Option<BTreeMap<String, String>>, key: &str) -> Option<&'n str> {
            fields.as_ref()?.get(key).map(String::as_str)
        }
        let Node { metadata, spec } = self;
        let (label, annotation) =
            (|key: &str| value(&metadata.labels, key), |key: &str| value(&metadata.annotations, key));
        let provider_id = spec.provider_id.as_deref().unwrap_or_default();
        let is_of = |group: &NodeGroup| group.members.has(name, provider_id, label, annotation);
        Some(GroupId(groups.iter().position(is_of)? as u32))
    }
}

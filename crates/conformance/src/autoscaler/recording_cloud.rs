//! A cloud provider that records the calls it receives.

use std::sync::Arc;

use autoscaler::{CloudProvider, CloudProviderError, GroupId, Instance, NodeGroup, PodPricing};
use kubernetes::objects::NodeView;
use model::Moment;
use simulation::SimulatedCloud;

/// A cloud provider that records the calls it receives, in the notation of the cases.
pub(super) struct RecordingCloud<'a> {
    pub(super) cloud: &'a mut SimulatedCloud,
    pub(super) calls: Vec<String>,
}

impl<'a> RecordingCloud<'a> {
    pub(super) fn new(cloud: &'a mut SimulatedCloud) -> RecordingCloud<'a> {
        RecordingCloud { cloud, calls: Vec::new() }
    }

    fn record(&mut self, call: String, outcome: &Result<(), CloudProviderError>) {
        self.calls.push(if outcome.is_ok() { call } else { format!("{call}: error") });
    }
}

impl CloudProvider for RecordingCloud<'_> {
    fn groups(&self) -> &[NodeGroup] {
        self.cloud.groups()
    }

    fn group_for_node(&self, node: &NodeView) -> Option<GroupId> {
        self.cloud.group_for_node(node)
    }

    fn target_size(&self, group: GroupId) -> i64 {
        self.cloud.target_size(group)
    }

    fn instances(&self, group: GroupId) -> Arc<[Instance]> {
        self.cloud.instances(group)
    }

    fn has_instance(&self, node: &NodeView) -> Option<bool> {
        self.cloud.has_instance(node)
    }

    fn increase_size(&mut self, now: Moment, group: GroupId, by: i64) -> Result<(), CloudProviderError> {
        let call = format!("increase {} {by}", self.name(group));
        let outcome = self.cloud.increase_size(now, group, by);
        self.record(call, &outcome);
        outcome
    }

    fn delete_nodes(
        &mut self,
        now: Moment,
        group: GroupId,
        instances: &[Arc<str>],
    ) -> Result<(), CloudProviderError> {
        let outcome = self.cloud.delete_nodes(now, group, instances);
        for id in instances {
            let node = id.rsplit('/').next().unwrap_or_default();
            self.record(format!("delete {} {node}", self.name(group)), &outcome);
        }
        outcome
    }

    fn decrease_target_size(
        &mut self,
        now: Moment,
        group: GroupId,
        by: i64,
    ) -> Result<(), CloudProviderError> {
        let call = format!("decrease {} -{by}", self.name(group));
        let outcome = self.cloud.decrease_target_size(now, group, by);
        self.record(call, &outcome);
        outcome
    }

    fn pricing(&self) -> Option<&PodPricing> {
        self.cloud.pricing()
    }

    fn gpu_label(&self) -> &str {
        self.cloud.gpu_label()
    }
}

impl RecordingCloud<'_> {
    fn name(&self, group: GroupId) -> &str {
        &self.cloud.groups()[group.index()].name
    }
}

/// Repeats a recorded call on a cloud. A call that failed fails again.
pub(super) fn repeat_call(cloud: &mut SimulatedCloud, now: Moment, call: &str) {
    let call = call.trim_end_matches(": error");
    let [verb, group, argument] = call.split(' ').collect::<Vec<_>>()[..] else { return };
    let Some(index) = cloud.groups().iter().position(|known| &*known.name == group) else { return };
    let (group_id, number) = (GroupId(index as u32), argument.trim_start_matches('-').parse().unwrap_or(0));
    let _ = match verb {
        "increase" => cloud.increase_size(now, group_id, number),
        "decrease" => cloud.decrease_target_size(now, group_id, number),
        _ => cloud.delete_nodes(now, group_id, &[format!("fake://{group}/{argument}").into()]),
    };
}

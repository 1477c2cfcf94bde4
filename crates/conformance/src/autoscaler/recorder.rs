//! A cloud that remembers what it was asked for.

use std::sync::Arc;

use autoscaler::{Cloud, CloudError, GroupId, Instance, NodeGroup, Pricing, Registered};
use model::Moment;
use simulation::SimulatedCloud;

/// A cloud that remembers what it was asked for, in the words of the cases.
pub(super) struct Recorder<'a> {
    pub(super) cloud: &'a mut SimulatedCloud,
    pub(super) calls: Vec<String>,
}

impl<'a> Recorder<'a> {
    pub(super) fn of(cloud: &'a mut SimulatedCloud) -> Recorder<'a> {
        Recorder { cloud, calls: Vec::new() }
    }

    fn note(&mut self, call: String, outcome: &Result<(), CloudError>) {
        self.calls.push(if outcome.is_ok() { call } else { format!("{call}: error") });
    }
}

impl Cloud for Recorder<'_> {
    fn groups(&self) -> &[NodeGroup] {
        self.cloud.groups()
    }

    fn group_of(&self, node: &Registered<'_>) -> Option<GroupId> {
        self.cloud.group_of(node)
    }

    fn target(&self, group: GroupId) -> i64 {
        self.cloud.target(group)
    }

    fn instances(&self, group: GroupId) -> Arc<[Instance]> {
        self.cloud.instances(group)
    }

    fn has_instance(&self, node: &Registered<'_>) -> Option<bool> {
        self.cloud.has_instance(node)
    }

    fn increase(&mut self, now: Moment, group: GroupId, by: i64) -> Result<(), CloudError> {
        let call = format!("increase {} {by}", self.name(group));
        let outcome = self.cloud.increase(now, group, by);
        self.note(call, &outcome);
        outcome
    }

    fn delete(&mut self, now: Moment, group: GroupId, instances: &[Arc<str>]) -> Result<(), CloudError> {
        let outcome = self.cloud.delete(now, group, instances);
        for id in instances {
            let node = id.rsplit('/').next().unwrap_or_default();
            self.note(format!("delete {} {node}", self.name(group)), &outcome);
        }
        outcome
    }

    fn decrease(&mut self, now: Moment, group: GroupId, by: i64) -> Result<(), CloudError> {
        let call = format!("decrease {} -{by}", self.name(group));
        let outcome = self.cloud.decrease(now, group, by);
        self.note(call, &outcome);
        outcome
    }

    fn pricing(&self) -> Option<&Pricing> {
        self.cloud.pricing()
    }

    fn gpu_label(&self) -> &str {
        self.cloud.gpu_label()
    }
}

impl Recorder<'_> {
    fn name(&self, group: GroupId) -> &str {
        &self.cloud.groups()[group.index()].name
    }
}

/// Asks a cloud for what a case says that it was asked for. What it refused it refuses again.
pub(super) fn ask(cloud: &mut SimulatedCloud, now: Moment, call: &str) {
    let call = call.trim_end_matches(": error");
    let [what, group, how] = call.split(' ').collect::<Vec<_>>()[..] else { return };
    let Some(index) = cloud.groups().iter().position(|known| &*known.name == group) else { return };
    let (group_id, number) = (GroupId(index as u32), how.trim_start_matches('-').parse().unwrap_or(0));
    let _ = match what {
        "increase" => cloud.increase(now, group_id, number),
        "decrease" => cloud.decrease(now, group_id, number),
        _ => cloud.delete(now, group_id, &[format!("fake://{group}/{how}").into()]),
    };
}

//! A cloud in virtual time: it makes and removes nodes as it is told, or fails to, and says what came of it.

mod node;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use autoscaler::{
    Cloud, CloudError, CreationError, Delay, FailureKind, GroupId, Instance, InstanceState, NodeGroup,
    Pricing, Registered, RegisteredNode,
};
use kubernetes::time::after;
use model::{Moment, Object};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

pub use node::{made_for, made_ready};

/// A cloud in virtual time. What it does shows only when it is asked to [advance](SimulatedCloud::advance).
#[derive(Clone, Debug)]
pub struct SimulatedCloud {
    groups: Vec<NodeGroup>,
    states: Vec<State>,
    /// The group of every machine there is.
    owners: BTreeMap<Arc<str>, GroupId>,
    /// Nodes that are gone, until that is told.
    gone: Vec<(Moment, Arc<str>)>,
    /// When there will be something to tell.
    wake: Option<Moment>,
    quota: Option<i64>,
    pricing: Option<Pricing>,
    gpu_label: Arc<str>,
    dice: Pcg64,
}

/// What happened to a node.
#[derive(Clone, Debug, PartialEq)]
pub enum CloudChange {
    /// It is there.
    Registered {
        /// The node.
        node: Object,
        /// What runs on every new node of its group.
        pods: Vec<Object>,
    },
    /// It is ready: see [`made_ready`].
    Ready {
        /// Its name.
        node: Arc<str>,
        /// Since when.
        at: Moment,
    },
    /// It is gone, and the pods on it with it.
    Gone {
        /// Its name.
        node: Arc<str>,
    },
}

#[derive(Clone, Debug, Default)]
struct State {
    target: i64,
    /// How many were ever made: their numbers are not used again.
    made: u64,
    /// What the next ones are called.
    names: VecDeque<Arc<str>>,
    /// In the order in which they came.
    machines: Vec<Machine>,
    /// The same as instances, once somebody asked.
    told: OnceLock<Arc<[Instance]>>,
}

#[derive(Clone, Debug)]
struct Machine {
    id: Arc<str>,
    name: Arc<str>,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Coming { registers: Moment, ready: Moment },
    Unready { ready: Moment },
    Running,
    Lost,
    Failed(CreationError),
}

impl SimulatedCloud {
    /// A cloud with these groups and no machines. The seed decides between measured delays.
    pub fn new(groups: Vec<NodeGroup>, seed: u64) -> SimulatedCloud {
        let states =
            groups.iter().map(|group| State { target: group.target.unwrap_or(0), ..State::default() });
        SimulatedCloud {
            states: states.collect(),
            groups,
            owners: BTreeMap::new(),
            gone: Vec::new(),
            wake: None,
            quota: None,
            pricing: None,
            gpu_label: Arc::from(""),
            dice: Pcg64::seed_from_u64(seed),
        }
    }

    /// So many machines at most, over all groups.
    #[must_use]
    pub fn with_quota(self, most: i64) -> SimulatedCloud {
        SimulatedCloud { quota: Some(most), ..self }
    }

    /// Pods have a price.
    #[must_use]
    pub fn with_pricing(self, pricing: Pricing) -> SimulatedCloud {
        SimulatedCloud { pricing: Some(pricing), ..self }
    }

    /// Nodes tell their GPU by this label.
    #[must_use]
    pub fn with_gpu_label(self, label: Arc<str>) -> SimulatedCloud {
        SimulatedCloud { gpu_label: label, ..self }
    }

    /// New nodes of a group get these names, one after the other, before any are made up.
    #[must_use]
    pub fn with_names(mut self, group: &str, names: impl IntoIterator<Item = Arc<str>>) -> SimulatedCloud {
        if let Some(place) = self.groups.iter().position(|known| *known.name == *group) {
            self.states[place].names.extend(names);
        }
        self
    }

    /// A node was there before the cloud was asked for anything. Says whose it is, if it is any group's.
    pub fn adopt(&mut self, node: &Object) -> Option<GroupId> {
        let known = RegisteredNode::read(node);
        let group = self.group_of(&known.registered())?;
        self.settle(group, known.instance().clone(), known.name().clone(), Stage::Running);
        Some(group)
    }

    /// A node is gone though nobody asked for that: its machine is too, and its group is to have one less.
    pub fn lose(&mut self, node: &Object) {
        let known = RegisteredNode::read(node);
        let Some(group) = self.owners.remove(&**known.instance()) else { return };
        let state = &mut self.states[group.index()];
        let machines = state.machines.len();
        state.machines.retain(|machine| machine.id != *known.instance());
        state.told.take();
        state.target -= i64::from(state.machines.len() < machines);
        self.wake = self.find_wake();
    }

    /// A machine that was there before the cloud was asked for anything, and never becomes a node.
    pub fn adopt_lost(&mut self, group: GroupId, name: &str) {
        let id = node::provider_id(&self.groups[group.index()], name);
        self.settle(group, id, name.into(), Stage::Lost);
    }

    fn settle(&mut self, group: GroupId, id: Arc<str>, name: Arc<str>, stage: Stage) {
        if self.owners.insert(id.clone(), group).is_some() {
            return;
        }
        let state = &mut self.states[group.index()];
        state.machines.push(Machine { id, name, stage });
        state.told.take();
        if self.groups[group.index()].target.is_none() {
            state.target += 1;
        }
    }

    /// What happened until now and was not told yet: by time, then by the order of groups, then by age.
    pub fn advance(&mut self, now: Moment) -> Vec<CloudChange> {
        if self.wake.is_none_or(|wake| wake > now) {
            return Vec::new();
        }
        let mut changes: Vec<(Moment, CloudChange)> = Vec::new();
        for (group, state) in self.groups.iter().zip(&mut self.states) {
            let known = changes.len();
            for machine in &mut state.machines {
                if let Stage::Coming { registers, ready } = machine.stage
                    && registers <= now
                {
                    let node = node::made(group, &machine.id, &machine.name, registers, ready <= registers);
                    let pods = node::pods_on(group, &machine.name, registers);
                    changes.push((registers, CloudChange::Registered { node, pods }));
                    machine.stage =
                        if ready <= registers { Stage::Running } else { Stage::Unready { ready } };
                }
                if let Stage::Unready { ready } = machine.stage
                    && ready <= now
                {
                    changes.push((ready, CloudChange::Ready { node: machine.name.clone(), at: ready }));
                    machine.stage = Stage::Running;
                }
            }
            if changes.len() > known {
                state.told.take();
            }
        }
        let gone = self.gone.drain(..);
        changes.extend(gone.map(|(at, node)| (at, CloudChange::Gone { node })));
        changes.sort_by_key(|(at, _)| *at);
        self.wake = self.find_wake();
        changes.into_iter().map(|(_, change)| change).collect()
    }

    /// When there will be something to tell; now, if that moment is past.
    pub fn next_wake(&self) -> Option<Moment> {
        self.wake
    }

    fn find_wake(&self) -> Option<Moment> {
        let machines = self.states.iter().flat_map(|state| &state.machines);
        let coming = machines.filter_map(|machine| match machine.stage {
            Stage::Coming { registers, .. } => Some(registers),
            Stage::Unready { ready } => Some(ready),
            Stage::Running | Stage::Lost | Stage::Failed(_) => None,
        });
        coming.chain(self.gone.iter().map(|(at, _)| *at)).min()
    }

    fn after(&mut self, moment: Moment, delay: &Delay) -> Moment {
        let duration = match delay {
            Delay::Constant(duration) => *duration,
            Delay::Measured(all) if all.is_empty() => Duration::ZERO,
            Delay::Measured(all) => all[self.dice.random_range(0..all.len())],
            Delay::ByTime(_) | Delay::ByWork(_) => delay.pick(moment, self.dice.random()),
        };
        after(moment, duration)
    }

    /// What becomes of a machine that is asked for now, when there are so many besides.
    fn stage(&mut self, now: Moment, group: GroupId, failure: Option<FailureKind>, others: i64) -> Stage {
        let none_left = |code: &str, message: &str| {
            Stage::Failed(CreationError {
                out_of_resources: true,
                code: code.into(),
                message: message.into(),
            })
        };
        match failure {
            Some(FailureKind::NeverRegister) => Stage::Lost,
            Some(FailureKind::CreateError) => none_left("STOCKOUT", "no capacity"),
            _ => match self.quota {
                Some(most) if others >= most => {
                    none_left("QUOTA_EXCEEDED", &format!("quota of {most} nodes exceeded"))
                }
                _ => {
                    let delays = self.groups[group.index()].provisioning.clone();
                    let registers = self.after(now, &delays.registers_after);
                    Stage::Coming { registers, ready: self.after(registers, &delays.ready_after) }
                }
            },
        }
    }
}

impl Cloud for SimulatedCloud {
    fn groups(&self) -> &[NodeGroup] {
        &self.groups
    }

    fn group_of(&self, node: &Registered<'_>) -> Option<GroupId> {
        if let Some(group) = self.owners.get(node.instance()) {
            return Some(*group);
        }
        let index = self.groups.iter().position(|group| node.is_of(&group.members))?;
        Some(GroupId(index as u32))
    }

    fn target(&self, group: GroupId) -> i64 {
        self.states[group.index()].target
    }

    fn instances(&self, group: GroupId) -> Arc<[Instance]> {
        let State { machines, told, .. } = &self.states[group.index()];
        told.get_or_init(|| machines.iter().map(Machine::told).collect()).clone()
    }

    /// Nodes go together with their machines, so there is never more to tell than the cluster knows.
    fn has_instance(&self, _: &Registered<'_>) -> Option<bool> {
        None
    }

    fn increase(&mut self, now: Moment, group: GroupId, by: i64) -> Result<(), CloudError> {
        let NodeGroup { name, max, failures, .. } = &self.groups[group.index()];
        let target = self.target(group).saturating_add(by);
        if by <= 0 {
            return Err(CloudError("size increase must be positive".to_owned()));
        }
        if target > *max {
            return Err(CloudError(format!("size increase too large, desired: {target} max: {max}")));
        }
        let failure = failures.iter().find(|failure| failure.from <= now && now < failure.to);
        let (name, failure) = (name.clone(), failure.map(|failure| failure.kind));
        if failure == Some(FailureKind::IncreaseError) {
            return Err(CloudError(format!("no capacity in {name}")));
        }
        self.states[group.index()].target = target;
        if failure == Some(FailureKind::NoInstance) {
            return Ok(());
        }
        let machines = self.states.iter().flat_map(|state| &state.machines);
        let mut others = machines.filter(|machine| machine.stage.is_there()).count() as i64;
        let mut stages: Vec<Stage> = Vec::new();
        for _ in 0..by {
            let stage = self.stage(now, group, failure, others);
            others += i64::from(stage.is_there());
            stages.push(stage);
        }
        // One is like the other: they are named in the order in which they come.
        stages.sort_by_key(|stage| match stage {
            Stage::Coming { registers, .. } => *registers,
            _ => Moment::MAX,
        });
        for stage in stages {
            let state = &mut self.states[group.index()];
            let told = matches!(stage, Stage::Coming { .. }).then(|| state.names.pop_front()).flatten();
            let name = told.unwrap_or_else(|| {
                state.made += 1;
                format!("{name}-new-{:03}", state.made).into()
            });
            let id = node::provider_id(&self.groups[group.index()], &name);
            self.owners.insert(id.clone(), group);
            state.machines.push(Machine { id, name, stage });
            state.told.take();
        }
        self.wake = self.find_wake();
        Ok(())
    }

    fn delete(&mut self, now: Moment, group: GroupId, instances: &[Arc<str>]) -> Result<(), CloudError> {
        let (min, state) = (self.groups[group.index()].min, &mut self.states[group.index()]);
        if state.target <= min {
            return Err(CloudError("min size reached, nodes will not be deleted".to_owned()));
        }
        let is_here = |id: &&Arc<str>| state.machines.iter().any(|machine| machine.id == **id);
        if let Some(id) = instances.iter().find(|id| !is_here(id)) {
            let name = &self.groups[group.index()].name;
            return Err(CloudError(format!("{id} is not in {name}")));
        }
        for id in instances {
            let Some(place) = state.machines.iter().position(|machine| machine.id == *id) else { continue };
            let machine = state.machines.remove(place);
            state.told.take();
            state.target -= 1;
            self.owners.remove(id);
            if matches!(machine.stage, Stage::Running | Stage::Unready { .. }) {
                self.gone.push((now, machine.name));
            }
        }
        self.wake = self.find_wake();
        Ok(())
    }

    fn decrease(&mut self, _: Moment, group: GroupId, by: i64) -> Result<(), CloudError> {
        let state = &mut self.states[group.index()];
        let (target, existing) = (state.target, state.machines.len() as i64);
        if by <= 0 {
            return Err(CloudError("size decrease must be positive".to_owned()));
        }
        if target.saturating_sub(by) < existing {
            return Err(CloudError(format!(
                "attempt to delete existing nodes, targetSize: {target} delta: -{by} existingNodes: {existing}"
            )));
        }
        state.target = target.saturating_sub(by);
        Ok(())
    }

    fn pricing(&self) -> Option<&Pricing> {
        self.pricing.as_ref()
    }

    fn gpu_label(&self) -> &str {
        &self.gpu_label
    }
}

// === impl Machine ===

impl Machine {
    fn told(&self) -> Instance {
        let state = match &self.stage {
            Stage::Coming { .. } | Stage::Lost => InstanceState::Creating,
            Stage::Unready { .. } | Stage::Running => InstanceState::Running,
            Stage::Failed(error) => InstanceState::Failed(error.clone()),
        };
        Instance { id: self.id.clone(), state }
    }
}

// === impl Stage ===

impl Stage {
    fn is_there(&self) -> bool {
        !matches!(self, Stage::Failed(_))
    }
}

//! A cloud provider in virtual time: it creates and deletes nodes on request, after delays or with failures.

mod node;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use autoscaler::{
    CloudProvider, CloudProviderError, CreationError, Delay, GroupId, Instance, InstanceState, NodeGroup,
    PodPricing, ProvisioningFailureKind,
};
use kubernetes::objects::NodeView;
use kubernetes::time::after;
use model::{Moment, Object};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

pub use node::{group_of_provider_id, with_ready_condition};

/// A cloud provider in virtual time. Its changes become visible when it is [advanced](SimulatedCloud::advance).
#[derive(Clone, Debug)]
pub struct SimulatedCloud {
    groups: Vec<NodeGroup>,
    group_states: Vec<SimulatedGroup>,
    /// The node group of every machine, by instance id.
    group_by_instance: BTreeMap<Arc<str>, GroupId>,
    /// Deleted nodes that [`SimulatedCloud::advance`] has not returned yet.
    deleted_nodes: Vec<(Moment, Arc<str>)>,
    /// When the state of a machine changes: the moment, its group and its number.
    machine_wakes: BTreeSet<(Moment, GroupId, u64)>,
    quota: Option<i64>,
    pricing: Option<PodPricing>,
    gpu_label: Arc<str>,
    rng: Pcg64,
}

/// A change of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum CloudChange {
    /// It registered.
    Registered {
        /// The node.
        node: Object,
        /// The pods that every new node of its group has.
        pods: Vec<Object>,
    },
    /// It became ready: see [`with_ready_condition`].
    Ready {
        /// Its name.
        node: Arc<str>,
        /// Since when.
        at: Moment,
    },
    /// It was deleted.
    Deleted {
        /// Its name.
        node: Arc<str>,
    },
}

#[derive(Clone, Debug, Default)]
struct SimulatedGroup {
    target: i64,
    /// The number of names ever generated; their numbers are not reused.
    names_generated: u64,
    /// Names for the next nodes.
    reserved_names: VecDeque<Arc<str>>,
    /// By number, in the order of their creation.
    machines: BTreeMap<u64, Machine>,
    /// The number of machines ever created.
    machines_created: u64,
    /// The numbers of machines by instance id. A name that is used twice has two machines.
    numbers_by_id: BTreeSet<(Arc<str>, u64)>,
    /// `machines` as instances, computed on demand.
    instances: OnceLock<Arc<[Instance]>>,
}

#[derive(Clone, Debug)]
struct Machine {
    id: Arc<str>,
    name: Arc<str>,
    state: MachineState,
}

#[derive(Clone, Debug)]
enum MachineState {
    Creating { registers: Moment, ready: Moment },
    Unready { ready: Moment },
    Running,
    NeverRegisters,
    Failed(CreationError),
}

impl SimulatedCloud {
    /// A cloud with these groups and no machines. The seed decides between measured delays.
    pub fn new(groups: Vec<NodeGroup>, seed: u64) -> SimulatedCloud {
        let states = groups
            .iter()
            .map(|group| SimulatedGroup { target: group.target.unwrap_or(0), ..SimulatedGroup::default() });
        SimulatedCloud {
            group_states: states.collect(),
            groups,
            group_by_instance: BTreeMap::new(),
            deleted_nodes: Vec::new(),
            machine_wakes: BTreeSet::new(),
            quota: None,
            pricing: None,
            gpu_label: Arc::from(""),
            rng: Pcg64::seed_from_u64(seed),
        }
    }

    /// Limits the number of machines over all groups.
    #[must_use]
    pub fn with_quota(self, max_nodes: i64) -> SimulatedCloud {
        SimulatedCloud { quota: Some(max_nodes), ..self }
    }

    /// Sets the prices of pods.
    #[must_use]
    pub fn with_pricing(self, pricing: PodPricing) -> SimulatedCloud {
        SimulatedCloud { pricing: Some(pricing), ..self }
    }

    /// Sets the label that names a node's GPU.
    #[must_use]
    pub fn with_gpu_label(self, label: Arc<str>) -> SimulatedCloud {
        SimulatedCloud { gpu_label: label, ..self }
    }

    /// New nodes of a group get these names first, one after the other; further names are generated.
    #[must_use]
    pub fn with_node_names(
        mut self,
        group: &str,
        names: impl IntoIterator<Item = Arc<str>>,
    ) -> SimulatedCloud {
        if let Some(index) = self.groups.iter().position(|candidate| *candidate.name == *group) {
            self.group_states[index].reserved_names.extend(names);
        }
        self
    }

    /// Adopts a node that exists already. Returns its node group, if it has one.
    pub fn adopt(&mut self, node: &NodeView) -> Option<GroupId> {
        let group = self.group_for_node(node)?;
        self.add_machine(group, node.instance_id().clone(), node.name.clone(), MachineState::Running);
        Some(group)
    }

    /// A node was deleted without a request to the cloud: its machine is removed, and its group's target decreases.
    pub fn node_deleted(&mut self, node: &NodeView) {
        let Some(group) = self.group_by_instance.remove(node.instance_id()) else { return };
        self.group_states[group.index()].instances.take();
        let mut is_removed = false;
        while self.remove_machine(group, node.instance_id()).is_some() {
            is_removed = true;
        }
        self.group_states[group.index()].target -= i64::from(is_removed);
    }

    /// Adds an existing machine that never registers as a node.
    pub fn adopt_unregistered(&mut self, group: GroupId, name: &str) {
        let id = node::provider_id(&self.groups[group.index()], name);
        self.add_machine(group, id, name.into(), MachineState::NeverRegisters);
    }

    fn add_machine(&mut self, group: GroupId, id: Arc<str>, name: Arc<str>, machine_state: MachineState) {
        if self.group_by_instance.insert(id.clone(), group).is_some() {
            return;
        }
        self.push_machine(group, Machine { id, name, state: machine_state });
        if self.groups[group.index()].target.is_none() {
            self.group_states[group.index()].target += 1;
        }
    }

    fn push_machine(&mut self, group: GroupId, machine: Machine) {
        let state = &mut self.group_states[group.index()];
        state.machines_created += 1;
        let number = state.machines_created;
        if let Some(wake) = machine.state.next_change() {
            self.machine_wakes.insert((wake, group, number));
        }
        state.numbers_by_id.insert((machine.id.clone(), number));
        state.machines.insert(number, machine);
        state.instances.take();
    }

    /// Removes the oldest machine with an instance id.
    fn remove_machine(&mut self, group: GroupId, id: &Arc<str>) -> Option<Machine> {
        let state = &mut self.group_states[group.index()];
        let number = state.oldest_machine(id)?;
        state.numbers_by_id.remove(&(id.clone(), number));
        state.instances.take();
        let machine = state.machines.remove(&number)?;
        if let Some(wake) = machine.state.next_change() {
            self.machine_wakes.remove(&(wake, group, number));
        }
        Some(machine)
    }

    /// The changes until now that were not returned before: by time, then by the order of groups, then by age.
    pub fn advance(&mut self, now: Moment) -> Vec<CloudChange> {
        if self.next_wake().is_none_or(|wake| wake > now) {
            return Vec::new();
        }
        let mut changes: Vec<(Moment, CloudChange)> = Vec::new();
        while let Some((at, group, number)) =
            self.machine_wakes.first().copied().filter(|(at, ..)| *at <= now)
        {
            self.machine_wakes.pop_first();
            let state = &mut self.group_states[group.index()];
            let Some(machine) = state.machines.get_mut(&number) else { continue };
            state.instances.take();
            changes.extend(machine.change_state(&self.groups[group.index()]).map(|change| (at, change)));
            if let Some(wake) = machine.state.next_change() {
                self.machine_wakes.insert((wake, group, number));
            }
        }
        let deleted = self.deleted_nodes.drain(..);
        changes.extend(deleted.map(|(at, node)| (at, CloudChange::Deleted { node })));
        changes.sort_by_key(|(at, _)| *at);
        changes.into_iter().map(|(_, change)| change).collect()
    }

    /// When the next change is due; if that moment is past, a change is due now.
    pub fn next_wake(&self) -> Option<Moment> {
        let machine_wake = self.machine_wakes.first().map(|(at, ..)| *at);
        machine_wake.into_iter().chain(self.deleted_nodes.iter().map(|(at, _)| *at)).min()
    }

    /// The number of machines that exist.
    fn count_machines(&self) -> i64 {
        let machines = self.group_states.iter().flat_map(|state| state.machines.values());
        machines.filter(|machine| machine.state.exists()).count() as i64
    }

    fn after(&mut self, moment: Moment, delay: &Delay) -> Moment {
        let duration = match delay {
            Delay::Constant(duration) => *duration,
            Delay::Samples(samples) if samples.is_empty() => Duration::ZERO,
            Delay::Samples(samples) => samples[self.rng.random_range(0..samples.len())],
            Delay::SamplesByTime(_) | Delay::PerItem(_) => delay.pick(moment, self.rng.random()),
        };
        after(moment, duration)
    }

    /// The state of a machine requested now, where so many others exist.
    fn new_machine_state(
        &mut self,
        now: Moment,
        group: GroupId,
        failure: Option<ProvisioningFailureKind>,
        existing_machines: i64,
    ) -> MachineState {
        let out_of_resources = |code: &str, message: &str| {
            MachineState::Failed(CreationError {
                out_of_resources: true,
                code: code.into(),
                message: message.into(),
            })
        };
        match failure {
            Some(ProvisioningFailureKind::NeverRegister) => MachineState::NeverRegisters,
            Some(ProvisioningFailureKind::CreateError) => out_of_resources("STOCKOUT", "no capacity"),
            _ => match self.quota {
                Some(max_nodes) if existing_machines >= max_nodes => {
                    out_of_resources("QUOTA_EXCEEDED", &format!("quota of {max_nodes} nodes exceeded"))
                }
                _ => {
                    let delays = self.groups[group.index()].provisioning.clone();
                    let registers = self.after(now, &delays.registers_after);
                    MachineState::Creating { registers, ready: self.after(registers, &delays.ready_after) }
                }
            },
        }
    }
}

impl CloudProvider for SimulatedCloud {
    fn groups(&self) -> &[NodeGroup] {
        &self.groups
    }

    fn group_for_node(&self, node: &NodeView) -> Option<GroupId> {
        if let Some(group) = self.group_by_instance.get(node.instance_id()) {
            return Some(*group);
        }
        let position = |is_member: &dyn Fn(&NodeGroup) -> bool| self.groups.iter().position(is_member);
        // A node that an earlier cloud created names its group in its provider ID.
        let index = position(&|group| group.members.matches(node)).or_else(|| {
            let name = group_of_provider_id(&node.provider_id)?;
            position(&|group| *group.name == *name)
        })?;
        Some(GroupId(index as u32))
    }

    fn target_size(&self, group: GroupId) -> i64 {
        self.group_states[group.index()].target
    }

    fn instances(&self, group: GroupId) -> Arc<[Instance]> {
        let SimulatedGroup { machines, instances: cached_instances, .. } = &self.group_states[group.index()];
        cached_instances.get_or_init(|| machines.values().map(Machine::to_instance).collect()).clone()
    }

    /// Nodes are deleted together with their machines, so the cloud knows no more than the cluster.
    fn has_instance(&self, _: &NodeView) -> Option<bool> {
        None
    }

    fn has_instance_until_node_changes(&self) -> bool {
        true
    }

    fn increase_size(&mut self, now: Moment, group: GroupId, by: i64) -> Result<(), CloudProviderError> {
        let NodeGroup { name, max, failures, .. } = &self.groups[group.index()];
        let target = self.target_size(group).saturating_add(by);
        if by <= 0 {
            return Err(CloudProviderError("size increase must be positive".to_owned()));
        }
        if target > *max {
            return Err(CloudProviderError(format!("size increase too large, desired: {target} max: {max}")));
        }
        let failure = failures.iter().find(|failure| failure.from <= now && now < failure.to);
        let (name, failure) = (name.clone(), failure.map(|failure| failure.kind));
        if failure == Some(ProvisioningFailureKind::IncreaseError) {
            return Err(CloudProviderError(format!("no capacity in {name}")));
        }
        self.group_states[group.index()].target = target;
        if failure == Some(ProvisioningFailureKind::NoInstance) {
            return Ok(());
        }
        let mut existing_machines = if self.quota.is_some() { self.count_machines() } else { 0 };
        let mut machine_states: Vec<MachineState> = Vec::new();
        for _ in 0..by {
            let machine_state = self.new_machine_state(now, group, failure, existing_machines);
            existing_machines += i64::from(machine_state.exists());
            machine_states.push(machine_state);
        }
        // Machines are interchangeable: they are named in the order in which they register.
        machine_states.sort_by_key(|machine_state| match machine_state {
            MachineState::Creating { registers, .. } => *registers,
            _ => Moment::MAX,
        });
        for machine_state in machine_states {
            let state = &mut self.group_states[group.index()];
            let reserved_name = matches!(machine_state, MachineState::Creating { .. })
                .then(|| state.reserved_names.pop_front())
                .flatten();
            let node_group = &self.groups[group.index()];
            let mut generated_name = || -> Arc<str> {
                state.names_generated += 1;
                format!("{name}-new-{:03}", state.names_generated).into()
            };
            let name = reserved_name.unwrap_or_else(|| {
                let mut name = generated_name();
                // An adopted machine may have a name that an earlier cloud generated.
                while self.group_by_instance.contains_key(&node::provider_id(node_group, &name)) {
                    name = generated_name();
                }
                name
            });
            let id = node::provider_id(node_group, &name);
            self.group_by_instance.insert(id.clone(), group);
            self.push_machine(group, Machine { id, name, state: machine_state });
        }
        Ok(())
    }

    fn delete_nodes(
        &mut self,
        now: Moment,
        group: GroupId,
        instances: &[Arc<str>],
    ) -> Result<(), CloudProviderError> {
        let (min, state) = (self.groups[group.index()].min, &self.group_states[group.index()]);
        if state.target <= min {
            return Err(CloudProviderError("min size reached, nodes will not be deleted".to_owned()));
        }
        if let Some(id) = instances.iter().find(|id| state.oldest_machine(id).is_none()) {
            let name = &self.groups[group.index()].name;
            return Err(CloudProviderError(format!("{id} is not in {name}")));
        }
        for id in instances {
            let Some(machine) = self.remove_machine(group, id) else { continue };
            self.group_states[group.index()].target -= 1;
            self.group_by_instance.remove(id);
            if matches!(machine.state, MachineState::Running | MachineState::Unready { .. }) {
                self.deleted_nodes.push((now, machine.name));
            }
        }
        Ok(())
    }

    fn decrease_target_size(&mut self, _: Moment, group: GroupId, by: i64) -> Result<(), CloudProviderError> {
        let state = &mut self.group_states[group.index()];
        let (target, existing) = (state.target, state.machines.len() as i64);
        if by <= 0 {
            return Err(CloudProviderError("size decrease must be positive".to_owned()));
        }
        if target.saturating_sub(by) < existing {
            return Err(CloudProviderError(format!(
                "attempt to delete existing nodes, targetSize: {target} delta: -{by} existingNodes: {existing}"
            )));
        }
        state.target = target.saturating_sub(by);
        Ok(())
    }

    fn pricing(&self) -> Option<&PodPricing> {
        self.pricing.as_ref()
    }

    fn gpu_label(&self) -> &str {
        &self.gpu_label
    }
}

// === impl SimulatedGroup ===

impl SimulatedGroup {
    /// The number of the oldest machine with an instance id.
    fn oldest_machine(&self, id: &Arc<str>) -> Option<u64> {
        let (found, number) = self.numbers_by_id.range((id.clone(), 0)..).next()?;
        (found == id).then_some(*number)
    }
}

// === impl Machine ===

impl Machine {
    /// Goes to its next state, if it is being provisioned.
    fn change_state(&mut self, group: &NodeGroup) -> Option<CloudChange> {
        match self.state {
            MachineState::Creating { registers, ready } => {
                let is_ready = ready <= registers;
                self.state = if is_ready { MachineState::Running } else { MachineState::Unready { ready } };
                let node = node::node_from_template(group, &self.id, &self.name, registers, is_ready);
                let pods = node::pods_from_template(group, &self.name, registers);
                Some(CloudChange::Registered { node, pods })
            }
            MachineState::Unready { ready } => {
                self.state = MachineState::Running;
                Some(CloudChange::Ready { node: self.name.clone(), at: ready })
            }
            MachineState::Running | MachineState::NeverRegisters | MachineState::Failed(_) => None,
        }
    }

    fn to_instance(&self) -> Instance {
        let state = match &self.state {
            MachineState::Creating { .. } | MachineState::NeverRegisters => InstanceState::Creating,
            MachineState::Unready { .. } | MachineState::Running => InstanceState::Running,
            MachineState::Failed(error) => InstanceState::Failed(error.clone()),
        };
        Instance { id: self.id.clone(), state }
    }
}

// === impl MachineState ===

impl MachineState {
    /// When it changes by itself, if it does.
    fn next_change(&self) -> Option<Moment> {
        match self {
            MachineState::Creating { registers, .. } => Some(*registers),
            MachineState::Unready { ready } => Some(*ready),
            MachineState::Running | MachineState::NeverRegisters | MachineState::Failed(_) => None,
        }
    }

    fn exists(&self) -> bool {
        !matches!(self, MachineState::Failed(_))
    }
}

//! Statements: changes of the cycle that are committed together, or undone.

mod log;
mod operation;
mod undo;

use std::sync::Arc;

use log::OperationLog;
pub(crate) use operation::EvictionReason;
use operation::{Operation, PreviousState};

use crate::cluster::ids::{JobId, NodeId, PodInfoId};
use crate::cluster::node::{AlreadyOnNode, NotOnNode};
use crate::cluster::pod_info::AssignedNode;
use crate::cluster::status::PodStatus;
use crate::session::Session;

/// Changes of the cycle that are committed together, or undone.
#[derive(Debug, Default)]
pub(crate) struct Statement {
    operations: OperationLog,
}

/// A position in a statement to which it can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint(usize);

/// A change that is not possible in the present state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Impossible;

impl Statement {
    /// The present position.
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.operations.len())
    }

    /// Evicts a pod.
    pub(crate) fn evict(
        &mut self,
        session: &mut Session,
        info: PodInfoId,
        reason: &Arc<EvictionReason>,
    ) -> Result<(), Impossible> {
        let state = session.cluster.info(info);
        let (pod, previous) = (state.pod, PreviousState::of(state));
        let node = previous.node.known().ok_or(Impossible)?;
        if !session.cluster.update_status(info, PodStatus::Releasing) {
            return Err(Impossible);
        }
        session.cluster.update_on_node(info, node)?;
        session.deallocate_event(info);
        self.operations.push(Operation::Evict { info, pod, previous, node, reason: reason.clone() });
        session.cluster.infos[info].is_virtual_status = true;
        Ok(())
    }

    /// Makes a pod wait for a node's resources. A pod that was evicted from this node in this statement stays there
    /// instead, unless it moves to other GPUs or `updates_existing` says otherwise.
    pub(crate) fn pipeline(
        &mut self,
        session: &mut Session,
        info: PodInfoId,
        node: NodeId,
        updates_existing: bool,
    ) -> Result<(), Impossible> {
        let state = session.cluster.info(info);
        let on_node = session.cluster.node(node).pod(state.pod);
        let groups_on_node = on_node.map(|on_node| on_node.gpu_groups.clone());
        let moves_to_other_gpus = groups_on_node.as_ref().is_some_and(|groups| {
            !state.gpu_groups.is_empty() && state.is_shared_gpu_allocation() && state.gpu_groups != *groups
        });
        if let Some(groups) = &groups_on_node
            && !updates_existing
            && !moves_to_other_gpus
        {
            session.cluster.infos[info].gpu_groups = groups.clone();
            return self.unevict_earliest(session, info);
        }
        let mut previous = PreviousState::of(state);
        // As in the original, a pod that is not in its job is moved all the same.
        session.cluster.update_status(info, PodStatus::Pipelined);
        session.cluster.infos[info].node = AssignedNode::Node(node);
        match groups_on_node {
            Some(groups) if moves_to_other_gpus => {
                previous.gpu_groups = groups;
                session.cluster.add_to_other_gpus(info, node);
            }
            Some(_) => drop(session.cluster.update_on_node(info, node)),
            None => session.cluster.add_to_node(info, node)?,
        }
        session.allocate_event(info);
        self.operations.push(Operation::Pipeline { info, previous, node });
        session.cluster.infos[info].is_virtual_status = true;
        Ok(())
    }

    /// Gives a pod a node.
    pub(crate) fn allocate(
        &mut self,
        session: &mut Session,
        info: PodInfoId,
        node: NodeId,
    ) -> Result<(), Impossible> {
        if !session.cluster.update_status(info, PodStatus::Allocated) {
            return Err(Impossible);
        }
        session.cluster.infos[info].node = AssignedNode::Node(node);
        session.cluster.add_to_node(info, node)?;
        session.allocate_event(info);
        // The copy is what is committed, with the present state of the pod.
        let copy = session.cluster.infos.copy(info);
        let was_virtual_status = session.cluster.info(info).is_virtual_status;
        self.operations.push(Operation::Allocate { info, copy, was_virtual_status, node });
        session.cluster.infos[info].is_virtual_status = true;
        Ok(())
    }

    /// Makes all pods of a job wait that were given a node.
    pub(crate) fn convert_allocated_to_pipelined(
        &mut self,
        session: &mut Session,
        job: JobId,
    ) -> Result<(), Impossible> {
        let is_of_job = |session: &Session, info: PodInfoId| session.cluster.pod_of(info).job == Some(job);
        for index in 0..self.operations.len() {
            if let Operation::Allocate { copy, node, .. } = *self.operations.get(index)
                && is_of_job(session, copy)
            {
                undo::unallocate(session, copy, true)?;
                self.pipeline(session, copy, node, true)?;
            }
        }
        self.operations.retain(|operation| match operation {
            Operation::Allocate { copy, .. } => !is_of_job(session, *copy),
            Operation::Evict { .. } | Operation::Pipeline { .. } | Operation::Undo { .. } => true,
        });
        Ok(())
    }

    /// Makes the changes final, and records them.
    pub(crate) fn commit(self, session: &mut Session) {
        for index in 0..self.operations.len() {
            if !self.operations.is_valid(index) {
                continue;
            }
            match self.operations.get(index) {
                Operation::Evict { info, reason, .. } => {
                    let pod = session.cluster.info(*info).pod;
                    session.cluster.infos[*info].is_virtual_status = false;
                    let message = reason.message(&session.cluster, pod);
                    session.record_eviction(pod, Some(reason.preemptor.clone()), reason.gang_size, message);
                    if let Some(job) = session.cluster.pod(pod).job {
                        let now = session.cluster.now;
                        session.cluster.job_mut(job).last_eviction = Some(now);
                    }
                }
                Operation::Pipeline { info, .. } => session.record_pipeline(*info),
                Operation::Allocate { copy, .. } => {
                    session.record_bind(*copy);
                    session.cluster.update_status(*copy, PodStatus::Binding);
                }
                Operation::Undo { .. } => {}
            }
        }
    }
}

impl From<AlreadyOnNode> for Impossible {
    fn from(_: AlreadyOnNode) -> Impossible {
        Impossible
    }
}

impl From<NotOnNode> for Impossible {
    fn from(_: NotOnNode) -> Impossible {
        Impossible
    }
}

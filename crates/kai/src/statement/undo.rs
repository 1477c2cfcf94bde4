//! The undoing of operations.

use super::operation::{Operation, PreviousState};
use super::{Checkpoint, Impossible, Statement};
use crate::cluster::ids::{NodeId, PodInfoId};
use crate::cluster::pod_info::AssignedNode;
use crate::cluster::status::PodStatus;
use crate::session::Session;

impl Statement {
    /// Undoes everything after a checkpoint, in reverse order.
    pub(crate) fn roll_back(&mut self, session: &mut Session, checkpoint: Checkpoint) {
        for index in (checkpoint.0..self.operations.len()).rev() {
            if self.undo(session, index).is_err() {
                return;
            }
        }
        self.operations.truncate(checkpoint.0);
    }

    /// Undoes everything.
    pub(crate) fn discard(mut self, session: &mut Session) {
        for index in (0..self.operations.len()).rev() {
            let _ = self.undo(session, index);
        }
    }

    /// Undoes the first eviction of a pod that was not undone yet.
    pub(super) fn unevict_earliest(
        &mut self,
        session: &mut Session,
        info: PodInfoId,
    ) -> Result<(), Impossible> {
        let pod = session.cluster.info(info).pod;
        let index = self.operations.first_valid_eviction(pod).ok_or(Impossible)?;
        self.undo(session, index)
    }

    /// Undoes an operation that was not undone yet.
    fn undo(&mut self, session: &mut Session, index: usize) -> Result<(), Impossible> {
        if !self.operations.is_valid(index) {
            return Ok(());
        }
        match self.operations.get(index).clone() {
            Operation::Evict { info, previous, node, .. } => unevict(session, info, previous, node),
            Operation::Pipeline { info, previous, .. } => unpipeline(session, info, previous)?,
            Operation::Allocate { info, was_virtual_status, .. } => {
                unallocate(session, info, was_virtual_status)?;
            }
            Operation::Undo { operation } => self.redo(session, operation)?,
        }
        self.operations.push(Operation::Undo { operation: index });
        Ok(())
    }

    /// Does again what was undone. That is an operation of its own, which is dropped or undone with the first one.
    fn redo(&mut self, session: &mut Session, index: usize) -> Result<(), Impossible> {
        match self.operations.get(index).clone() {
            Operation::Evict { info, reason, .. } => self.evict(session, info, &reason),
            Operation::Pipeline { info, node, .. } => self.pipeline(session, info, node, true),
            Operation::Allocate { info, node, .. } => self.allocate(session, info, node),
            Operation::Undo { operation } => self.undo(session, operation),
        }
    }
}

/// Gives a pod that was evicted its node back.
fn unevict(session: &mut Session, info: PodInfoId, previous: PreviousState, node: NodeId) {
    // As in the original, a pod that is not in its job is given back all the same.
    session.cluster.update_status(info, previous.status);
    let state = &mut session.cluster.infos[info];
    state.gpu_groups = previous.gpu_groups;
    state.is_virtual_status = previous.is_virtual_status;
    let pod = state.pod;
    // The node has not the pod any more if that moved to other GPUs of the node.
    if session.cluster.node(node).pod(pod).is_some() {
        let _ = session.cluster.update_on_node(info, node);
    } else {
        let _ = session.cluster.add_to_node(info, node);
    }
    session.allocate_event(info);
}

/// Takes a pod that waits for a node away from it.
fn unpipeline(session: &mut Session, info: PodInfoId, previous: PreviousState) -> Result<(), Impossible> {
    session.cluster.update_status(info, previous.status);
    let state = &mut session.cluster.infos[info];
    let node = state.node.known();
    state.gpu_groups = previous.gpu_groups;
    state.is_virtual_status = previous.is_virtual_status;
    // As in the original, it does not matter if the pod is not there.
    let _ = session.cluster.remove_from_node(info, node.ok_or(Impossible)?);
    session.deallocate_event(info);
    session.cluster.infos[info].node = previous.node;
    Ok(())
}

/// Takes a pod away from the node that it was given.
pub(super) fn unallocate(
    session: &mut Session,
    info: PodInfoId,
    was_virtual_status: bool,
) -> Result<(), Impossible> {
    session.cluster.update_status(info, PodStatus::Pending);
    let node = session.cluster.info(info).node.known().ok_or(Impossible)?;
    let _ = session.cluster.remove_from_node(info, node);
    session.cluster.infos[info].is_virtual_status = was_virtual_status;
    session.deallocate_event(info);
    session.cluster.infos[info].node = AssignedNode::None;
    Ok(())
}

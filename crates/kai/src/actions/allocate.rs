//! Action allocate: places pending pods on free resources, or on those that are being released.

use crate::cluster::ids::{JobId, NodeId};
use crate::placement::place_job;
use crate::session::Session;
use crate::session::job_order::{JobOrder, JobOrderOptions};
use crate::settings::Action;
use crate::statement::Statement;

pub(super) fn run(session: &mut Session) {
    let mut order = JobOrder::new(JobOrderOptions {
        skips_without_pending: true,
        skips_unready: true,
        max_depth: session.queue_depth(Action::Allocate),
        ..JobOrderOptions::default()
    });
    order.add_jobs(session, session.cluster.job_ids());
    let nodes: Vec<NodeId> = session.cluster.node_ids().collect();
    while let Some(job) = order.pop(session) {
        let was_allocated = has_allocated_pods(session, job);
        let mut statement = Statement::default();
        match allocate_job(session, &mut statement, &nodes, job) {
            Some(Outcome { is_pipelined }) => {
                statement.commit(session);
                if !is_pipelined && !was_allocated {
                    session.cluster.job_mut(job).last_start = Some(session.cluster.now);
                }
                if session.has_tasks_to_allocate(job, true) {
                    order.push(session, job);
                }
            }
            None => statement.discard(session),
        }
        session.cluster.drop_copies();
    }
}

/// A job was placed.
struct Outcome {
    /// All its pods wait for resources.
    is_pipelined: bool,
}

fn allocate_job(
    session: &mut Session,
    statement: &mut Statement,
    nodes: &[NodeId],
    job: JobId,
) -> Option<Outcome> {
    session.compute_tasks_to_allocate_resources(job, true);
    if !place_job(session, statement, nodes, job, false) {
        return None;
    }
    let is_pipelined = session.cluster.job(job).should_pipeline(&session.cluster.infos);
    if is_pipelined {
        statement.convert_allocated_to_pipelined(session, job).ok()?;
    }
    Some(Outcome { is_pipelined })
}

fn has_allocated_pods(session: &Session, job: JobId) -> bool {
    let cluster = &session.cluster;
    cluster.job(job).infos().any(|info| cluster.info(info).status.is_allocated())
}

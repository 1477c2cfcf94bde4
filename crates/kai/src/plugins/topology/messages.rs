//! The reasons why no domain has room.

use std::borrow::Cow;

use super::domains::Domain;
use crate::cluster::Cluster;
use crate::cluster::fit_errors::JobFitError;
use crate::cluster::ids::JobId;
use crate::cluster::resources::{CPU, GPU, MEMORY, ResourceVector, is_mig_resource};
use crate::cluster::sub_group::{DEFAULT_SUB_GROUP, TopologyConstraint};

const NOT_ENOUGH: &str = "Not enough resources for the workload";

/// No domain has room for a job's subgroup.
pub(super) fn no_match(
    cluster: &Cluster,
    (job, sub_group): (JobId, &str),
    constraint: &TopologyConstraint,
    reason: Option<&str>,
) -> String {
    let group = &cluster.job(job).group;
    let mut subject = format!("job <{}/{}>", group.namespace, group.name);
    if !sub_group.is_empty() && sub_group != DEFAULT_SUB_GROUP {
        subject += &format!(", subgroup {sub_group}");
    }
    let TopologyConstraint { topology, required_level, .. } = constraint;
    let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
    format!("topology {topology}, requirement {required_level} couldn't be satisfied for {subject}{reason}")
}

/// A domain has room for some of the pods.
pub(super) fn too_few_pods(domain: &Domain, pods: usize, needed: usize) -> JobFitError {
    let message = format!("node-group {} can allocate only {pods} of {needed} required pods", domain.id);
    JobFitError::new(NOT_ENOUGH, message)
}

/// A domain has less of some resources than the pods request.
pub(super) fn too_few_resources(
    domain: &Domain,
    requested: &ResourceVector,
    cluster: &Cluster,
) -> JobFitError {
    let mut messages = Vec::new();
    for (index, name) in cluster.names.names().iter().enumerate() {
        let available = domain.free.as_ref().map_or(0.0, |free| free.get(index));
        if requested.get(index) <= available {
            continue;
        }
        messages.push(match index {
            CPU => "node-group(s) didn't have enough resources: CPU cores".to_owned(),
            MEMORY => "node-group(s) didn't have enough resources: memory".to_owned(),
            GPU => "node-group(s) didn't have enough resources: GPUs".to_owned(),
            _ if is_mig_resource(name) => {
                format!("node-group(s) didn't have enough of mig profile: {name}")
            }
            _ => format!("node-group(s) didn't have enough resources: {name}"),
        });
    }
    JobFitError { reason: Cow::Borrowed(NOT_ENOUGH), messages }
}

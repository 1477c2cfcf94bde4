//! Removal of all objects that a run created, and of no others.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Kind, ObjectRef};
use serde_json::Value;
use tokio::task::JoinSet;

use super::foreign::first_foreign_dependent;
use super::target::TargetCluster;
use crate::{Connection, Result};

/// The result of a cleanup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanupReport {
    /// The number of deleted objects per kind.
    pub removed: BTreeMap<Kind, u64>,
    /// Objects that remain, and why.
    pub remaining: Vec<(ObjectRef, String)>,
}

/// The maximum number of concurrent deletions.
const MAX_CONCURRENT_DELETIONS: usize = 32;
/// Deletion order, with all other kinds in between: objects that create others first, objects that contain others last.
const DELETED_FIRST: [&str; 6] = ["CronJob", "Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicaSet"];
const DELETED_LAST: [&str; 4] = ["PriorityClass", "CustomResourceDefinition", "Namespace", "ClusterRole"];

/// Deletes all objects that carry the label of a run, or of any run. Namespaces and CustomResourceDefinitions that
/// contain foreign objects remain.
pub async fn clean(connection: Connection, run: Option<&str>) -> Result<CleanupReport> {
    let target = Arc::new(TargetCluster::connect(connection, run.unwrap_or_default()).await?);
    let run: Option<Arc<str>> = run.map(Arc::from);
    let mut report = CleanupReport::default();
    let mut kinds = target.watchable_kinds();
    kinds.sort_by_key(deletion_rank);
    for kind in kinds {
        let found = match target.list_labeled(&kind, run.as_deref()).await {
            Ok(found) => found,
            // Some kinds are read-only, or not accessible to this account.
            Err(failure) if matches!(failure.status, Some(403..=405)) => continue,
            Err(failure) => {
                report.remaining.push((any_of(&kind), failure.to_string()));
                continue;
            }
        };
        let mut found = found.into_iter();
        let mut tasks = JoinSet::new();
        loop {
            for (object_ref, object) in found.by_ref().take(MAX_CONCURRENT_DELETIONS - tasks.len()) {
                let (target, run) = (target.clone(), run.clone());
                tasks.spawn(async move {
                    let removed = remove(&target, &object_ref, &object, run.as_deref()).await;
                    removed.map_err(|why| (object_ref, why))
                });
            }
            match tasks.join_next().await {
                Some(Ok(Ok(()))) => *report.removed.entry(kind.clone()).or_default() += 1,
                Some(Ok(Err(failed))) => report.remaining.push(failed),
                Some(Err(error)) => report.remaining.push((any_of(&kind), error.to_string())),
                None => break,
            }
        }
    }
    Ok(report)
}

/// A reference that stands for objects of a kind whose names are unknown.
fn any_of(kind: &Kind) -> ObjectRef {
    ObjectRef { kind: kind.clone(), namespace: "".into(), name: "*".into() }
}

/// The position of a kind in the deletion order.
fn deletion_rank(kind: &Kind) -> usize {
    let index = |kinds: &[&str]| kinds.iter().position(|name| *name == &*kind.kind);
    match (index(&DELETED_FIRST), index(&DELETED_LAST)) {
        (Some(index), _) => index,
        (None, Some(index)) => DELETED_FIRST.len() + 1 + index,
        (None, None) => DELETED_FIRST.len(),
    }
}

async fn remove(
    target: &TargetCluster,
    object_ref: &ObjectRef,
    object: &Value,
    run: Option<&str>,
) -> std::result::Result<(), String> {
    match first_foreign_dependent(target, object_ref, run).await {
        Ok(None) => {}
        Ok(Some(dependent)) => {
            return Err(format!("{dependent}, which the run did not create, would be deleted with it"));
        }
        Err(failure) => {
            return Err(format!("cannot check for objects that the run did not create: {failure}"));
        }
    }
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    match target.delete(object_ref, uid, Some(0)).await {
        Ok(response) => {
            target.remove_finalizers(object_ref, uid, &response).await.map_err(|failure| failure.to_string())
        }
        // It was garbage collected, or another object has its name.
        Err(failure) if matches!(failure.status, Some(404 | 409)) => Ok(()),
        Err(failure) => Err(failure.to_string()),
    }
}

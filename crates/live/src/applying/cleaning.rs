//! All that a run created removed again, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Kind;
use serde_json::Value;
use tokio::task::JoinSet;

use super::foreign::first_held;
use super::target::Target;
use crate::transplant::Address;
use crate::{Connection, Result};

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// How many of each kind.
    pub removed: BTreeMap<Kind, u64>,
    /// What is still there, and why.
    pub left: Vec<(Address, String)>,
}

/// So many are removed at once.
const AT_ONCE: usize = 32;
/// Removed in this order, and all others between: what makes others first, what holds others last.
const FIRST: [&str; 6] = ["CronJob", "Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicaSet"];
const LAST: [&str; 4] = ["PriorityClass", "CustomResourceDefinition", "Namespace", "ClusterRole"];

/// Removes all that carries the label of a run, or of any run. A namespace stays that holds objects of others, and so does
/// the definition of a kind.
pub async fn clean(connection: Connection, run: Option<&str>) -> Result<Cleaned> {
    let target = Arc::new(Target::find(connection, run.unwrap_or_default()).await?);
    let run: Option<Arc<str>> = run.map(Arc::from);
    let mut cleaned = Cleaned::default();
    let mut kinds = target.kinds();
    kinds.sort_by_key(rank);
    for kind in kinds {
        let found = match target.labelled(&kind, run.as_deref()).await {
            Ok(found) => found,
            // Some kinds are there to be looked at, or by others.
            Err(failure) if matches!(failure.status, Some(403..=405)) => continue,
            Err(failure) => {
                let all = Address { kind: kind.clone(), namespace: "".into(), name: "*".into() };
                cleaned.left.push((all, failure.to_string()));
                continue;
            }
        };
        let mut found = found.into_iter();
        let mut tasks = JoinSet::new();
        loop {
            for (address, object) in found.by_ref().take(AT_ONCE - tasks.len()) {
                let (target, run) = (target.clone(), run.clone());
                tasks.spawn(async move {
                    let removed = remove(&target, &address, &object, run.as_deref()).await;
                    removed.map_err(|why| (address, why))
                });
            }
            match tasks.join_next().await {
                Some(Ok(Ok(()))) => *cleaned.removed.entry(kind.clone()).or_default() += 1,
                Some(Ok(Err(left))) => cleaned.left.push(left),
                Some(Err(_)) => {}
                None => break,
            }
        }
    }
    Ok(cleaned)
}

/// The place of a kind among others.
fn rank(kind: &Kind) -> usize {
    let place = |kinds: &[&str]| kinds.iter().position(|one| *one == &*kind.kind);
    match (place(&FIRST), place(&LAST)) {
        (Some(place), _) => place,
        (None, Some(place)) => FIRST.len() + 1 + place,
        (None, None) => FIRST.len(),
    }
}

async fn remove(
    target: &Target,
    address: &Address,
    object: &Value,
    run: Option<&str>,
) -> std::result::Result<(), String> {
    match first_held(target, address, run).await {
        Ok(None) => {}
        Ok(Some(other)) => return Err(format!("{other} is of others, and would go with it")),
        Err(failure) => return Err(format!("cannot tell whether it holds objects of others: {failure}")),
    }
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    match target.delete(address, uid, Some(0)).await {
        Ok(answer) => target.release(address, uid, &answer).await.map_err(|failure| failure.to_string()),
        // Its owner took it along, or another has its name.
        Err(failure) if matches!(failure.status, Some(404 | 409)) => Ok(()),
        Err(failure) => Err(failure.to_string()),
    }
}

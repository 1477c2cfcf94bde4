//! The queues of a snapshot, as a tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Moment;
use rustc_hash::FxHashMap;

use super::ids::QueueId;
use super::queue::{Queue, QueueResource, UNLIMITED};
use crate::objects::{QueueView, ResourceQuotaView};
use crate::snapshot::Snapshot;
use crate::{Error, Result};

/// The queues, sorted by name.
pub(super) struct QueueTable {
    pub queues: Vec<Queue>,
    pub ids: FxHashMap<Arc<str>, QueueId>,
}

const DEFAULT_PRIORITY: i64 = 100;
/// The parent of all queues where only one level shares.
const DEFAULT_QUEUE: &str = "default";
const MEGABYTE: f64 = 1e6;
/// A queue has at most this many ancestors.
const MAX_QUEUE_DEPTH: usize = 64;

/// Loads the queues of the scheduler, sorted by name. Those without their parent are left out, and so is everything
/// below them.
pub(super) fn load_queues(snapshot: &Snapshot) -> Result<QueueTable> {
    let params = &snapshot.settings.params;
    let mut loaded: BTreeMap<Arc<str>, (Queue, Arc<str>)> = BTreeMap::new();
    if !params.full_hierarchy_fairness {
        loaded.insert(DEFAULT_QUEUE.into(), (default_queue(), "".into()));
    }
    for view in snapshot.queues.iter().filter(|view| params.node_pool.contains(&view.metadata.labels)) {
        let mut parent = view.spec.parent_queue.clone();
        if !params.full_hierarchy_fairness {
            if parent.is_empty() {
                continue;
            }
            parent = DEFAULT_QUEUE.into();
        }
        let name = view.metadata.name.clone();
        let is_default = !params.full_hierarchy_fairness && *name == *DEFAULT_QUEUE;
        if loaded.insert(name.clone(), (load_queue(view)?, parent)).is_some() && !is_default {
            return Err(Error::object("Queue", &*name, "it is listed twice"));
        }
    }
    for name in loaded.keys() {
        check_path(name, &loaded)?;
    }
    let has_root = |name: &Arc<str>| {
        let mut parent = &loaded[name].1;
        while let Some((_, next)) = loaded.get(parent) {
            parent = next;
        }
        parent.is_empty()
    };
    let kept: Vec<Arc<str>> = loaded.keys().filter(|name| has_root(name)).cloned().collect();
    let ids: FxHashMap<Arc<str>, QueueId> =
        kept.iter().enumerate().map(|(index, name)| (name.clone(), QueueId::of(index))).collect();
    let mut queues: Vec<Queue> = Vec::with_capacity(kept.len());
    for name in &kept {
        let (queue, parent) = loaded.remove(name).expect("every queue is kept once");
        queues.push(Queue { parent: ids.get(&parent).copied(), ..queue });
    }
    for index in 0..queues.len() {
        if let Some(parent) = queues[index].parent {
            queues[parent.index()].children.push(QueueId::of(index));
        }
    }
    Ok(QueueTable { queues, ids })
}

/// Refuses a queue that is its own ancestor, or that is nested too deeply.
fn check_path(name: &Arc<str>, queues: &BTreeMap<Arc<str>, (Queue, Arc<str>)>) -> Result<()> {
    let mut parent = &queues[name].1;
    for _ in 0..MAX_QUEUE_DEPTH {
        if parent == name {
            let why = "it is its own ancestor: expected parent queues that lead to one without a parent";
            return Err(Error::object("Queue", &**name, why));
        }
        match queues.get(parent) {
            Some((_, next)) => parent = next,
            None => return Ok(()),
        }
    }
    let why = format!("expected at most {MAX_QUEUE_DEPTH} parent queues, of which the last has no parent");
    Err(Error::object("Queue", &**name, why))
}

fn load_queue(view: &QueueView) -> Result<Queue> {
    let name = view.metadata.name.clone();
    let quotas = &view.spec.resources;
    let resource = |resource: &str, quota: &ResourceQuotaView, unit: f64| {
        for (field, amount) in [("quota", quota.quota), ("limit", quota.limit)] {
            if !amount.is_finite() || (amount < 0.0 && amount != UNLIMITED) {
                let why =
                    format!("spec.resources.{resource}.{field}: {amount}: expected an amount, or -1 for any");
                return Err(Error::object("Queue", &*name, why));
            }
        }
        let amount = |amount: f64| if amount == UNLIMITED { UNLIMITED } else { amount * unit };
        Ok(QueueResource {
            quota: amount(quota.quota),
            limit: amount(quota.limit),
            over_quota_weight: quota.over_quota_weight,
        })
    };
    let resources = [
        resource("cpu", &quotas.cpu, 1.0)?,
        resource("memory", &quotas.memory, MEGABYTE)?,
        resource("gpu", &quotas.gpu, 1.0)?,
    ];
    let display_name = &view.spec.display_name;
    Ok(Queue {
        display_name: if display_name.is_empty() { name.clone() } else { display_name.clone() },
        name,
        parent: None,
        children: Vec::new(),
        priority: view.spec.priority.unwrap_or(DEFAULT_PRIORITY),
        created: view.metadata.creation_timestamp,
        resources,
        preempt_min_runtime: view.spec.preempt_min_runtime,
        reclaim_min_runtime: view.spec.reclaim_min_runtime,
    })
}

/// Created after all others.
fn default_queue() -> Queue {
    let unlimited = QueueResource { quota: UNLIMITED, limit: UNLIMITED, over_quota_weight: 1.0 };
    Queue {
        name: DEFAULT_QUEUE.into(),
        display_name: DEFAULT_QUEUE.into(),
        parent: None,
        children: Vec::new(),
        priority: DEFAULT_PRIORITY,
        created: Some(Moment::MAX),
        resources: [unlimited; 3],
        preempt_min_runtime: None,
        reclaim_min_runtime: None,
    }
}

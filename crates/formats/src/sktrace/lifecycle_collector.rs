//! The pod lifecycles of a trace being written: by owner, by the hash of the pod's spec, in order of their start.
//!
//! They come at the end of a trace, so all are held in memory until then, less than a hundred bytes each.

use std::collections::BTreeMap;
use std::io::{self, Write};

use kubernetes::owners::{OwnerIndex, owner_references};
use kubernetes::pod_lifecycles::{PodLifecycle, PodLifecycleData};
use model::{Object, Window};
use serde_json::Value;

use super::config::{Gvk, TracerConfig};
use super::msgpack_writer::MsgpackWriter;
use super::names::{ObjectName, owner_chain, unix_seconds};
use super::pods::{HASH_ANNOTATION, SEQUENCE_ANNOTATION};
use super::stable_spec::stable_hash;
use crate::LeftOutCounts;

#[derive(Default)]
pub(super) struct LifecycleCollector {
    /// Each with its possible owners, the nearest first: at the end of the trace it is known which of them it contains.
    lifecycles: Vec<(Vec<ObjectName>, u64, RunInterval)>,
}

/// Run intervals by owner, then by hash.
pub(super) type LifecyclesByOwner = BTreeMap<ObjectName, BTreeMap<u64, Vec<RunInterval>>>;

/// When a pod ran, in seconds. The order is that of a trace: that of the imported trace, or by start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RunInterval {
    sequence: u64,
    start: i64,
    end: Option<i64>,
    pod: String,
}

// === impl LifecycleCollector ===

impl LifecycleCollector {
    /// Adds a pod's lifecycle if it overlaps the window. One that spans the whole window counts, although SimKube drops
    /// it if it has finished.
    pub(super) fn add(
        &mut self,
        lifecycle: &PodLifecycle,
        window: Window,
        config: &TracerConfig,
        owners: &OwnerIndex,
        left_out: &mut LeftOutCounts,
    ) {
        let (start, end) = match lifecycle.data {
            PodLifecycleData::Empty => return,
            PodLifecycleData::Running(start) => (start, None),
            PodLifecycleData::Finished(start, end) => (start, Some(end)),
        };
        let first = unix_seconds(window.from);
        if start >= window.to || end.is_some_and(|end| unix_seconds(end) < first) {
            return;
        }
        let names = lifecycle_owners(&lifecycle.pod, config, owners);
        if names.is_empty() {
            return left_out.count("lifecycles of pods without a tracked owner");
        }
        let value = lifecycle.pod.value().unwrap_or_default();
        let Some(hash) = pod_hash(&value) else {
            return left_out.count("lifecycles of pods whose spec SimKube cannot read");
        };
        let sequence = annotation(&value, SEQUENCE_ANNOTATION).unwrap_or(u64::MAX);
        let span = RunInterval {
            sequence,
            start: unix_seconds(start).max(first),
            end: end.map(unix_seconds),
            pod: lifecycle.key.name.to_string(),
        };
        self.lifecycles.push((names, hash, span));
    }

    /// All lifecycles, each under its first owner that is in the trace.
    pub(super) fn finish(
        self,
        is_there: impl Fn(&ObjectName) -> bool,
        left_out: &mut LeftOutCounts,
    ) -> LifecyclesByOwner {
        let mut lifecycles = LifecyclesByOwner::new();
        for (names, hash, span) in self.lifecycles {
            match names.into_iter().find(&is_there) {
                Some(owner) => lifecycles.entry(owner).or_default().entry(hash).or_default().push(span),
                None => left_out.count("lifecycles of pods whose owner is skipped"),
            }
        }
        lifecycles.values_mut().flat_map(BTreeMap::values_mut).for_each(|spans| spans.sort_unstable());
        lifecycles
    }
}

/// Writes lifecycles as `{[kind, namespace/name]: {hash: [{"Running": start} | {"Finished": [start, end]}]}}`.
pub(super) fn write(lifecycles: &LifecyclesByOwner, pack: &mut MsgpackWriter<impl Write>) -> io::Result<()> {
    pack.map(lifecycles.len())?;
    for ((gvk, name), by_hash) in lifecycles {
        pack.list(2)?;
        pack.text(&gvk.to_string())?;
        pack.text(name)?;
        pack.map(by_hash.len())?;
        for (hash, spans) in by_hash {
            pack.unsigned(*hash)?;
            pack.list(spans.len())?;
            for span in spans {
                pack.map(1)?;
                match span.end {
                    None => {
                        pack.text("Running")?;
                        pack.signed(span.start)?;
                    }
                    Some(end) => {
                        pack.text("Finished")?;
                        pack.list(2)?;
                        pack.signed(span.start)?;
                        pack.signed(end)?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// The owners of a pod for which lifecycles are tracked; the pod itself if it has no owner.
fn lifecycle_owners(pod: &Object, config: &TracerConfig, owners: &OwnerIndex) -> Vec<ObjectName> {
    let meta = pod.meta();
    let above = if owner_references(pod).is_empty() {
        vec![(Gvk::of(&meta), format!("{}/{}", meta.namespace, meta.name))]
    } else {
        owner_chain(owners, pod)
    };
    let is_tracked = |gvk: &Gvk| config.tracked(gvk).is_some_and(|tracked| tracked.track_lifecycle);
    above.into_iter().filter(|(gvk, _)| is_tracked(gvk)).collect()
}

/// The hash a pod was imported with, or that of its spec.
fn pod_hash(pod: &Value) -> Option<u64> {
    annotation(pod, HASH_ANNOTATION).or_else(|| stable_hash(pod.get("spec")?).ok())
}

fn annotation(pod: &Value, name: &str) -> Option<u64> {
    pod.get("metadata")?.get("annotations")?.get(name)?.as_str()?.parse().ok()
}

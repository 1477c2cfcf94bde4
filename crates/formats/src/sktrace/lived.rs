//! The lives of pods as a trace holds them: by owner, by the hash of their spec, in order of their beginning.
//!
//! A trace has all of them, so they are held in memory until it is finished, under a hundred bytes each.

use std::collections::BTreeMap;
use std::io::{self, Write};

use kubernetes::owners::{Owners, owner_references};
use kubernetes::pod_lives::{Life, Ran};
use model::{Object, Window};
use serde_json::Value;

use super::config::{Gvk, TracerConfig};
use super::names::{Name, above, seconds};
use super::pack::Pack;
use super::pods::{HASH, SEQUENCE};
use super::stable_spec::stable_hash;
use crate::LeftOut;

#[derive(Default)]
pub(super) struct Lived {
    /// With those that may own them, the nearest first: which of them is in the trace shows at its end.
    lives: Vec<(Vec<Name>, u64, Span)>,
}

/// By owner, then by hash.
pub(super) type Lifecycles = BTreeMap<Name, BTreeMap<u64, Vec<Span>>>;

/// When a pod ran, in seconds. The order is that of a trace: as an imported one had it, or by start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    sequence: u64,
    start: i64,
    end: Option<i64>,
    pod: String,
}

// === impl Lived ===

impl Lived {
    /// Takes a life, if it touches the window. One that goes through all of it counts, though SimKube drops it when it
    /// ended after.
    pub(super) fn take(
        &mut self,
        life: &Life,
        window: Window,
        config: &TracerConfig,
        owners: &Owners,
        left_out: &mut LeftOut,
    ) {
        let (start, end) = match life.ran {
            Ran::Not => return,
            Ran::Since(start) => (start, None),
            Ran::Between(start, end) => (start, Some(end)),
        };
        let first = seconds(window.from);
        if start >= window.to || end.is_some_and(|end| seconds(end) < first) {
            return;
        }
        let names = names(&life.pod, config, owners);
        if names.is_empty() {
            return left_out.count("lives of pods without a tracked owner");
        }
        let value = life.pod.value().unwrap_or_default();
        let Some(hash) = hash(&value) else {
            return left_out.count("lives of pods whose spec SimKube cannot read");
        };
        let sequence = annotation(&value, SEQUENCE).unwrap_or(u64::MAX);
        let span = Span {
            sequence,
            start: seconds(start).max(first),
            end: end.map(seconds),
            pod: life.key.name.to_string(),
        };
        self.lives.push((names, hash, span));
    }

    /// All, under the first owner of each that is in the trace.
    pub(super) fn finish(self, is_there: impl Fn(&Name) -> bool, left_out: &mut LeftOut) -> Lifecycles {
        let mut lifecycles = Lifecycles::new();
        for (names, hash, span) in self.lives {
            match names.into_iter().find(&is_there) {
                Some(owner) => lifecycles.entry(owner).or_default().entry(hash).or_default().push(span),
                None => left_out.count("lives of pods whose owner is left out"),
            }
        }
        lifecycles.values_mut().flat_map(BTreeMap::values_mut).for_each(|spans| spans.sort_unstable());
        lifecycles
    }
}

/// Writes them as `{[kind, namespace/name]: {hash: [{"Running": start} | {"Finished": [start, end]}]}}`.
pub(super) fn write(lifecycles: &Lifecycles, pack: &mut Pack<impl Write>) -> io::Result<()> {
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

/// Those above a pod whose pods' lives are wanted; itself if it has no owner.
fn names(pod: &Object, config: &TracerConfig, owners: &Owners) -> Vec<Name> {
    let meta = pod.meta();
    let above = if owner_references(pod).is_empty() {
        vec![(Gvk::of(&meta), format!("{}/{}", meta.namespace, meta.name))]
    } else {
        above(owners, pod)
    };
    let wanted = |gvk: &Gvk| config.tracked(gvk).is_some_and(|tracked| tracked.track_lifecycle);
    above.into_iter().filter(|(gvk, _)| wanted(gvk)).collect()
}

/// The hash a pod was imported with, or that of its spec.
fn hash(pod: &Value) -> Option<u64> {
    annotation(pod, HASH).or_else(|| stable_hash(pod.get("spec")?).ok())
}

fn annotation(pod: &Value, name: &str) -> Option<u64> {
    pod.get("metadata")?.get("annotations")?.get(name)?.as_str()?.parse().ok()
}

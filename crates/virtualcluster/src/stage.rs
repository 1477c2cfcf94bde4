//! KWOK's Stages: which objects they match, after which delay, and the steps that they take. The subset that KWOK's
//! own stages of pods and nodes use; anything else is refused by name.

mod definition;
mod delay;
mod jq;
mod selector;
mod template;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use model::{Kind, Moment};
use rand::{Rng, RngExt};
use serde_json::Value;

pub(crate) use definition::stage_definition;
pub(crate) use template::{ClusterFunction, ClusterFunctions, TemplateValue};

use definition::StageDocument;
use delay::{StageDelay, WeightSource};
use selector::StageSelector;
use template::Template;

/// The kinds of objects that stages change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum StagedKind {
    Pod,
    Node,
}

/// A stage.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) name: Arc<str>,
    pub(crate) kind: StagedKind,
    /// `None` matches nothing.
    selector: Option<StageSelector>,
    weight: WeightSource,
    delay: Option<StageDelay>,
    pub(crate) steps: Vec<StageStep>,
}

/// A step of a stage.
#[derive(Clone, Debug)]
pub(crate) enum StageStep {
    /// Writes an Event.
    Event {
        event_type: String,
        reason: String,
        message: String,
    },
    /// Changes the finalizers.
    Finalizers(FinalizerEdit),
    Delete,
    Patch(StagePatch),
}

/// An edit of an object's finalizers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FinalizerEdit {
    add: Vec<String>,
    remove: Vec<String>,
    removes_all: bool,
}

/// A patch that a template renders.
#[derive(Clone, Debug)]
pub(crate) struct StagePatch {
    /// Whether the status is patched, or the rest of the object.
    pub(crate) is_status: bool,
    pub(crate) patch_type: StagePatchType,
    /// The field that the rendered patch is of; empty for the object itself.
    root: String,
    template: Template,
}

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StagePatchType {
    Merge,
    Strategic,
}

/// A Stage that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub(crate) struct UnsupportedStage {
    field: String,
    why: String,
}

/// A step that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stage {stage}: {why}")]
pub(crate) struct FailedStage {
    stage: Arc<str>,
    why: String,
}

/// The API group of Stages.
pub(crate) const KWOK_GROUP: &str = "kwok.x-k8s.io";

/// The kind of Stages.
pub(crate) fn stage_kind() -> Kind {
    Kind::new(KWOK_GROUP, "Stage")
}

// === impl StagedKind ===

impl StagedKind {
    pub(crate) fn kind(self) -> Kind {
        match self {
            StagedKind::Pod => Kind::new("", "Pod"),
            StagedKind::Node => Kind::new("", "Node"),
        }
    }
}

// === impl Stage ===

impl Stage {
    /// Reads a Stage object.
    pub(crate) fn parse(object: &Value) -> Result<Stage, UnsupportedStage> {
        StageDocument::read(object)?.into_stage()
    }

    fn matches(&self, object: &Value) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(object))
    }

    /// How long to wait before the stage is played.
    pub(crate) fn delay(&self, object: &Value, now: Moment, rng: &mut impl Rng) -> std::time::Duration {
        let (duration, jitter) = match self.delay_range(object, now) {
            None => return std::time::Duration::ZERO,
            Some(range) => range,
        };
        let nanos = match jitter {
            None => duration,
            Some(jitter) if jitter <= duration => jitter,
            Some(jitter) => duration + rng.random_range(0..jitter - duration),
        };
        std::time::Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// The duration and the jitter, in nanoseconds; `None` if it has no duration.
    fn delay_range(&self, object: &Value, now: Moment) -> Option<(i64, Option<i64>)> {
        self.delay.as_ref()?.range(object, now)
    }
}

/// The stage that an object is in; chance decides between several, by their weights.
pub(crate) fn matching_stage<'s>(
    stages: impl IntoIterator<Item = &'s Arc<Stage>>,
    object: &Value,
    rng: &mut impl Rng,
) -> Option<&'s Arc<Stage>> {
    let possible = possible_stages(stages, object);
    let total: i64 = possible.iter().map(|(_, weight)| *weight).sum();
    match &possible[..] {
        [] => None,
        [(only, _)] => Some(only),
        several if total == 0 => Some(several[rng.random_range(0..several.len())].0),
        several => {
            let mut position = rng.random_range(0..total);
            let chosen = several.iter().find(|(_, weight)| {
                position -= weight;
                position < 0
            });
            chosen.or(several.last()).map(|(stage, _)| *stage)
        }
    }
}

/// The stages that may follow for an object, with their weights. All weights are zero if they do not matter.
fn possible_stages<'s>(
    stages: impl IntoIterator<Item = &'s Arc<Stage>>,
    object: &Value,
) -> Vec<(&'s Arc<Stage>, i64)> {
    let matching: Vec<(&Arc<Stage>, Option<i64>)> = stages
        .into_iter()
        .filter(|stage| stage.matches(object))
        .map(|stage| (stage, stage.weight.of(object)))
        .collect();
    let total: i64 = matching.iter().filter_map(|(_, weight)| *weight).map(|weight| weight.max(0)).sum();
    if matching.len() == 1 || matching.iter().all(|(_, weight)| weight.is_none()) {
        return matching.into_iter().map(|(stage, _)| (stage, 0)).collect();
    }
    let known = matching.into_iter().filter_map(|(stage, weight)| weight.map(|weight| (stage, weight)));
    match total {
        0 => known.map(|(stage, _)| (stage, 0)).collect(),
        _ => known.filter(|(_, weight)| *weight > 0).collect(),
    }
}

// === impl StagePatch ===

impl StagePatch {
    /// The patch of an object.
    pub(crate) fn render(
        &self,
        stage: &Stage,
        object: &Value,
        functions: &dyn ClusterFunctions,
    ) -> Result<Value, FailedStage> {
        let failed = |why: String| FailedStage { stage: stage.name.clone(), why };
        let text = self.template.render(object, functions).map_err(|error| failed(error.to_string()))?;
        let patch = formats::manifests::parse_yaml("the rendered template", &text)
            .map_err(|error| failed(error.to_string()))?;
        Ok(match &*self.root {
            "" => patch,
            root => Value::Object([(root.to_owned(), patch)].into_iter().collect()),
        })
    }
}

// === impl FinalizerEdit ===

impl FinalizerEdit {
    /// The finalizers after the edit.
    pub(crate) fn apply(&self, finalizers: &[String]) -> Vec<String> {
        let is_removed = |finalizer: &String| self.removes_all || self.remove.contains(finalizer);
        let mut kept: Vec<String> = finalizers.iter().filter(|one| !is_removed(one)).cloned().collect();
        for added in &self.add {
            if !kept.contains(added) {
                kept.push(added.clone());
            }
        }
        kept
    }
}

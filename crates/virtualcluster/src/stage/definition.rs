//! Stage objects as they are written, and the definition of their kind.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::delay::{DurationSource, StageDelay, WeightSource};
use super::jq::JqQuery;
use super::selector::{Requirement, RequirementOperator, StageSelector};
use super::template::Template;
use super::{
    FinalizerEdit, KWOK_GROUP, Stage, StagePatch, StagePatchType, StageStep, StagedKind, UnsupportedStage,
};

/// A Stage object.
#[derive(Debug)]
pub(super) struct StageDocument {
    name: String,
    spec: StageSpecDocument,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StageSpecDocument {
    resource_ref: ResourceRefDocument,
    selector: Option<SelectorDocument>,
    #[serde(default)]
    weight: i64,
    weight_from: Option<ExpressionDocument>,
    delay: Option<DelayDocument>,
    next: Option<NextDocument>,
    #[serde(default)]
    steps: Vec<StepDocument>,
    /// The change that a stage makes is observed at once in any case.
    #[serde(rename = "immediateNextStage")]
    _immediate_next_stage: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceRefDocument {
    #[serde(default = "core_group")]
    api_group: String,
    kind: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct SelectorDocument {
    match_labels: BTreeMap<String, String>,
    match_annotations: BTreeMap<String, String>,
    match_expressions: Vec<RequirementDocument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RequirementDocument {
    cel: Option<Value>,
    jq: Option<JqRequirementDocument>,
    key: Option<String>,
    operator: Option<String>,
    values: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JqRequirementDocument {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ExpressionDocument {
    cel: Option<Value>,
    jq: Option<JqExpressionDocument>,
    expression_from: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JqExpressionDocument {
    expression: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct DelayDocument {
    duration_milliseconds: Option<i64>,
    duration_from: Option<ExpressionDocument>,
    jitter_duration_milliseconds: Option<i64>,
    jitter_duration_from: Option<ExpressionDocument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct NextDocument {
    event: Option<EventDocument>,
    finalizers: Option<FinalizersDocument>,
    delete: bool,
    patches: Vec<PatchDocument>,
    status_template: Option<String>,
    status_subresource: Option<String>,
    status_patch_as: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StepDocument {
    event: Option<EventDocument>,
    finalizers: Option<FinalizersDocument>,
    delete: bool,
    patch: Option<PatchDocument>,
    apply: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct EventDocument {
    #[serde(rename = "type")]
    event_type: String,
    reason: String,
    message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FinalizersDocument {
    add: Vec<FinalizerDocument>,
    remove: Vec<FinalizerDocument>,
    empty: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FinalizerDocument {
    value: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PatchDocument {
    subresource: String,
    root: String,
    template: String,
    #[serde(rename = "type")]
    patch_type: Option<String>,
    impersonation: Option<Value>,
}

/// The CustomResourceDefinition of Stages.
pub(crate) fn stage_definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("stages.{KWOK_GROUP}")},
        "spec": {
            "group": KWOK_GROUP, "scope": "Cluster",
            "names": {"kind": "Stage", "listKind": "StageList", "plural": "stages", "singular": "stage"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

fn core_group() -> String {
    "v1".to_owned()
}

// === impl StageDocument ===

impl StageDocument {
    pub(super) fn read(object: &Value) -> Result<StageDocument, UnsupportedStage> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let spec = serde_path_to_error::deserialize(&object["spec"]).map_err(|error| {
            let path = error.path().to_string();
            let field = if path == "." { "spec".to_owned() } else { format!("spec.{path}") };
            unsupported(field, error.into_inner().to_string())
        })?;
        Ok(StageDocument { name, spec })
    }

    pub(super) fn into_stage(self) -> Result<Stage, UnsupportedStage> {
        let StageSpecDocument { resource_ref, selector, weight, weight_from, delay, next, steps, .. } =
            self.spec;
        let kind = match (&*resource_ref.api_group, &*resource_ref.kind) {
            ("v1", "Pod") => StagedKind::Pod,
            ("v1", "Node") => StagedKind::Node,
            (group, kind) => {
                let why = format!("stages of {group} {kind} are not supported: expected Pod or Node of v1");
                return Err(unsupported("spec.resourceRef", why));
            }
        };
        if weight < 0 {
            return Err(unsupported("spec.weight", format!("{weight} is negative")));
        }
        let weight_query =
            weight_from.map(|expression| expression.into_query("spec.weightFrom")).transpose()?;
        let steps = match (steps.is_empty(), next) {
            (true, Some(next)) => next.into_steps()?,
            (true, None) => Vec::new(),
            (false, _) => {
                let steps = steps.into_iter().enumerate();
                let steps = steps.map(|(index, step)| step.into_steps(&format!("spec.steps[{index}]")));
                steps.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
            }
        };
        Ok(Stage {
            name: self.name.into(),
            kind,
            selector: selector.map(SelectorDocument::into_selector).transpose()?,
            weight: WeightSource { weight, query: weight_query },
            delay: delay.map(DelayDocument::into_delay).transpose()?,
            steps,
        })
    }
}

fn unsupported(field: impl Into<String>, why: impl Into<String>) -> UnsupportedStage {
    UnsupportedStage { field: field.into(), why: why.into() }
}

const NO_CEL: &str = "CEL is not supported: expected jq";

fn query(text: &str, field: &str) -> Result<JqQuery, UnsupportedStage> {
    JqQuery::parse(text).map_err(|error| unsupported(field, error.to_string()))
}

// === impl SelectorDocument ===

impl SelectorDocument {
    fn into_selector(self) -> Result<StageSelector, UnsupportedStage> {
        let requirements = self.match_expressions.into_iter().enumerate().map(|(index, requirement)| {
            requirement.into_requirement(&format!("spec.selector.matchExpressions[{index}]"))
        });
        Ok(StageSelector {
            labels: self.match_labels,
            annotations: self.match_annotations,
            requirements: requirements.collect::<Result<_, _>>()?,
        })
    }
}

impl RequirementDocument {
    fn into_requirement(self, field: &str) -> Result<Requirement, UnsupportedStage> {
        let (key, operator, values, field) = match self {
            RequirementDocument { cel: Some(_), .. } => {
                return Err(unsupported(format!("{field}.cel"), NO_CEL));
            }
            RequirementDocument { jq: Some(jq), .. } => {
                (jq.key, jq.operator, jq.values, format!("{field}.jq"))
            }
            RequirementDocument { key: Some(key), operator: Some(operator), values, .. } => {
                (key, operator, values, field.to_owned())
            }
            RequirementDocument { .. } => {
                return Err(unsupported(field, "expected jq, or key, operator and values"));
            }
        };
        let query = query(&key, &format!("{field}.key"))?;
        let operator = match (&*operator, values.is_empty()) {
            ("In", false) => RequirementOperator::In(values),
            ("NotIn", false) => RequirementOperator::NotIn(values),
            ("Exists", true) => RequirementOperator::Exists,
            ("DoesNotExist", true) => RequirementOperator::DoesNotExist,
            ("In" | "NotIn", true) => {
                return Err(unsupported(format!("{field}.values"), format!("{operator} needs values")));
            }
            ("Exists" | "DoesNotExist", false) => {
                return Err(unsupported(format!("{field}.values"), format!("{operator} has no values")));
            }
            (other, _) => {
                let why = format!("{other:?} is not supported: expected In, NotIn, Exists or DoesNotExist");
                return Err(unsupported(format!("{field}.operator"), why));
            }
        };
        Ok(Requirement { query, operator })
    }
}

// === impl ExpressionDocument ===

impl ExpressionDocument {
    fn into_query(self, field: &str) -> Result<JqQuery, UnsupportedStage> {
        match self {
            ExpressionDocument { cel: Some(_), .. } => Err(unsupported(format!("{field}.cel"), NO_CEL)),
            ExpressionDocument { jq: Some(jq), .. } => {
                query(&jq.expression, &format!("{field}.jq.expression"))
            }
            ExpressionDocument { expression_from: Some(text), .. } => {
                query(&text, &format!("{field}.expressionFrom"))
            }
            ExpressionDocument { .. } => Err(unsupported(field, "expected jq or expressionFrom")),
        }
    }
}

// === impl DelayDocument ===

impl DelayDocument {
    fn into_delay(self) -> Result<StageDelay, UnsupportedStage> {
        let source = |milliseconds: Option<i64>, from: Option<ExpressionDocument>, field: &str| {
            if milliseconds.is_some_and(|milliseconds| milliseconds < 0) {
                return Err(unsupported(format!("spec.delay.{field}Milliseconds"), "a negative duration"));
            }
            let query = from.map(|from| from.into_query(&format!("spec.delay.{field}From"))).transpose()?;
            Ok(DurationSource { milliseconds, query })
        };
        let has_jitter = self.jitter_duration_milliseconds.is_some() || self.jitter_duration_from.is_some();
        let jitter = source(self.jitter_duration_milliseconds, self.jitter_duration_from, "jitterDuration")?;
        Ok(StageDelay {
            duration: source(Some(self.duration_milliseconds.unwrap_or(0)), self.duration_from, "duration")?,
            jitter: has_jitter.then_some(jitter),
        })
    }
}

// === impl NextDocument ===

impl NextDocument {
    /// The steps in KWOK's order.
    fn into_steps(self) -> Result<Vec<StageStep>, UnsupportedStage> {
        if self.status_patch_as.is_some() {
            return Err(unsupported("spec.next.statusPatchAs", NO_IMPERSONATION));
        }
        let mut steps: Vec<StageStep> = Vec::new();
        steps.extend(self.event.map(EventDocument::into_step));
        steps.extend(self.finalizers.map(FinalizersDocument::into_step));
        let patches = match self.status_template.filter(|template| !template.is_empty()) {
            Some(template) if self.patches.is_empty() => vec![PatchDocument {
                subresource: self.status_subresource.unwrap_or_else(|| "status".to_owned()),
                root: "status".to_owned(),
                template,
                ..PatchDocument::default()
            }],
            _ => self.patches,
        };
        for (index, patch) in patches.into_iter().enumerate() {
            steps.push(patch.into_step(&format!("spec.next.patches[{index}]"))?);
        }
        steps.extend(self.delete.then_some(StageStep::Delete));
        Ok(steps)
    }
}

const NO_IMPERSONATION: &str = "impersonation is not supported";

// === impl StepDocument ===

impl StepDocument {
    fn into_steps(self, field: &str) -> Result<Vec<StageStep>, UnsupportedStage> {
        if self.apply.is_some() {
            return Err(unsupported(
                format!("{field}.apply"),
                "apply is not supported: expected event, finalizers, patch or delete",
            ));
        }
        let mut steps: Vec<StageStep> = Vec::new();
        steps.extend(self.event.map(EventDocument::into_step));
        steps.extend(self.finalizers.map(FinalizersDocument::into_step));
        if self.delete {
            // Nothing is left to patch.
            steps.push(StageStep::Delete);
        } else if let Some(patch) = self.patch {
            steps.push(patch.into_step(&format!("{field}.patch"))?);
        }
        Ok(steps)
    }
}

impl EventDocument {
    fn into_step(self) -> StageStep {
        StageStep::Event { event_type: self.event_type, reason: self.reason, message: self.message }
    }
}

impl FinalizersDocument {
    fn into_step(self) -> StageStep {
        let values = |items: Vec<FinalizerDocument>| items.into_iter().map(|item| item.value).collect();
        StageStep::Finalizers(FinalizerEdit {
            add: values(self.add),
            remove: values(self.remove),
            removes_all: self.empty,
        })
    }
}

impl PatchDocument {
    fn into_step(self, field: &str) -> Result<StageStep, UnsupportedStage> {
        if self.impersonation.is_some() {
            return Err(unsupported(format!("{field}.impersonation"), NO_IMPERSONATION));
        }
        let is_status = match &*self.subresource {
            "" => false,
            "status" => true,
            other => {
                let why = format!("{other:?} is not supported: expected status");
                return Err(unsupported(format!("{field}.subresource"), why));
            }
        };
        let patch_type = match self.patch_type.as_deref() {
            Some("merge") => StagePatchType::Merge,
            // KWOK's default for pods and nodes.
            Some("strategic") | None => StagePatchType::Strategic,
            Some(other) => {
                let why = format!("{other:?} is not supported: expected merge or strategic");
                return Err(unsupported(format!("{field}.type"), why));
            }
        };
        let template = Template::parse(&self.template)
            .map_err(|error| unsupported(format!("{field}.template"), error.to_string()))?;
        Ok(StageStep::Patch(StagePatch { is_status, patch_type, root: self.root, template }))
    }
}

//! KWOK's Stages at work: an object is matched, waits, and is changed; the change is matched again.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use apiserver::{DeleteOptions, Preconditions, Registry, UpdatedPart};
use kubernetes::strategic_merge;
use kubernetes::time::{after, whole_second};
use model::{Moment, NamespacedName, What};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use super::ComponentContext;
use super::core_event_recorder::{CoreEventRecorder, EventText, InvolvedObject};
use super::pod_addresses::{NODE_ADDRESS, PodAddresses};
use super::tasks::{ClusterTask, StagePlay};
use crate::stage::{
    ClusterFunction, ClusterFunctions, FinalizerEdit, Stage, StagePatch, StagePatchType, StageStep,
    StagedKind, TemplateValue, matching_stage,
};

/// Plays stages.
pub(super) struct StagePlayer {
    /// By name.
    stages: BTreeMap<Arc<str>, Arc<Stage>>,
    /// The last play that each object awaits.
    awaited: HashMap<(StagedKind, NamespacedName), u64>,
    /// How many plays there were.
    plays: u64,
    rng: Pcg64,
    events: CoreEventRecorder,
}

const COMPONENT: &str = "kwok_controller";

// === impl StagePlayer ===

impl StagePlayer {
    pub(super) fn new(seed: u64) -> StagePlayer {
        StagePlayer {
            stages: BTreeMap::new(),
            awaited: HashMap::new(),
            plays: 0,
            rng: Pcg64::seed_from_u64(seed),
            events: CoreEventRecorder::new(COMPONENT, Duration::ZERO),
        }
    }

    /// A Stage was added, modified or deleted. Returns the kind of objects that it is about.
    pub(super) fn observe_stage(&mut self, what: &What) -> Option<StagedKind> {
        let name: Arc<str> = (*what.object().meta().name).into();
        let known = self.stages.remove(&name);
        if let What::Added(object) | What::Modified(object) = what {
            // The API server refuses Stages that are not understood.
            let stage = Arc::new(Stage::parse(&object.value().ok()?).ok()?);
            self.stages.insert(name, stage.clone());
            return Some(stage.kind);
        }
        known.map(|stage| stage.kind)
    }

    /// Whether there are stages of a kind, which then replace the behavior that is built in.
    pub(super) fn has_stages_of(&self, kind: StagedKind) -> bool {
        self.stages.values().any(|stage| stage.kind == kind)
    }

    /// An object was added or modified: it awaits the stage that it matches now.
    pub(super) fn observe(
        &mut self,
        context: &mut ComponentContext<'_>,
        kind: StagedKind,
        name: &NamespacedName,
    ) {
        let object = context.registry.get(&kind.kind(), name);
        let Some(object) = object.and_then(|object| object.value().ok()) else { return };
        let stages = self.stages.values().filter(|stage| stage.kind == kind);
        // An object that matches nothing keeps what it awaits, as in KWOK.
        let Some(stage) = matching_stage(stages, &object, &mut self.rng) else { return };
        let delay = stage.delay(&object, context.now, &mut self.rng);
        self.plays += 1;
        self.awaited.insert((kind, name.clone()), self.plays);
        let play = StagePlay {
            kind,
            name: name.clone(),
            uid: object["metadata"]["uid"].as_str().unwrap_or_default().into(),
            stage: stage.clone(),
            number: self.plays,
        };
        context.agenda.put(after(context.now, delay), ClusterTask::PlayStage(Box::new(play)));
    }

    /// An object was deleted.
    pub(super) fn forget(&mut self, kind: StagedKind, name: &NamespacedName) {
        self.awaited.remove(&(kind, name.clone()));
    }

    /// Plays a stage that an object awaits.
    pub(super) fn play(
        &mut self,
        context: &mut ComponentContext<'_>,
        play: &StagePlay,
        addresses: &mut PodAddresses,
    ) {
        let StagePlay { kind, name, uid, stage, number } = play;
        let key = (*kind, name.clone());
        if self.awaited.get(&key) != Some(number) {
            return;
        }
        self.awaited.remove(&key);
        let object = context.registry.get(&kind.kind(), name).and_then(|object| object.value().ok());
        let Some(object) = object.filter(|object| object["metadata"]["uid"] == **uid) else { return };
        let involved = InvolvedObject {
            api_version: "v1".to_owned(),
            kind: kind.kind().kind.to_string(),
            name: name.clone(),
            uid: uid.to_string(),
        };
        for step in &stage.steps {
            match step {
                StageStep::Event { event_type, reason, message } => {
                    let text = EventText {
                        event_type: event_type.clone(),
                        reason: reason.clone(),
                        message: message.clone(),
                    };
                    self.events.record(context.registry, context.now, involved.clone(), text);
                }
                StageStep::Finalizers(edit) => edit_finalizers(context, play, edit),
                StageStep::Delete => {
                    delete(context, play);
                    return;
                }
                StageStep::Patch(patch) => {
                    let patched = patch_object(context, play, patch, &object, addresses);
                    if let Err(message) = patched {
                        let (event_type, reason) = ("Warning".to_owned(), "StageFailed".to_owned());
                        let text = EventText { event_type, reason, message };
                        self.events.record(context.registry, context.now, involved, text);
                        return;
                    }
                }
            }
        }
    }
}

fn edit_finalizers(context: &mut ComponentContext<'_>, play: &StagePlay, edit: &FinalizerEdit) {
    // An object that has gone needs no finalizers.
    let _ = context.registry.update_object(&play.kind.kind(), &play.name, UpdatedPart::Object, |object| {
        let finalizers = object["metadata"]["finalizers"].as_array();
        let texts = finalizers.into_iter().flatten().filter_map(Value::as_str);
        let edited = edit.apply(&texts.map(str::to_owned).collect::<Vec<_>>());
        object["metadata"]["finalizers"] = json!(edited);
        true
    });
}

fn delete(context: &mut ComponentContext<'_>, play: &StagePlay) {
    let preconditions = Some(Preconditions { uid: Some(play.uid.to_string()), resource_version: None });
    let options = DeleteOptions { preconditions, grace_period_seconds: Some(0), ..DeleteOptions::default() };
    // It may have gone already.
    let _ = context.registry.delete_object(&play.kind.kind(), &play.name, &options);
}

/// Applies the patch that a template renders.
fn patch_object(
    context: &mut ComponentContext<'_>,
    play: &StagePlay,
    patch: &StagePatch,
    object: &Value,
    addresses: &mut PodAddresses,
) -> Result<(), String> {
    let functions = ObjectFunctions {
        registry: context.registry,
        now: context.now,
        object,
        addresses: RefCell::new(addresses),
    };
    let rendered = patch.render(&play.stage, object, &functions).map_err(|error| error.to_string())?;
    let kind = play.kind.kind();
    let part = if patch.is_status { UpdatedPart::Status } else { UpdatedPart::Object };
    let mut failure = None;
    let updated = context.registry.update_object(&kind, &play.name, part, |object| {
        if object["metadata"]["uid"] != *play.uid {
            return false;
        }
        match patch.patch_type {
            StagePatchType::Strategic => match strategic_merge::merge(&kind, object, &rendered) {
                Ok(merged) => *object = merged,
                Err(error) => failure = Some(error.to_string()),
            },
            StagePatchType::Merge => merge(object, &rendered),
        }
        true
    });
    match (failure, updated) {
        (Some(why), _) => Err(format!("stage {}: {why}", play.stage.name)),
        (None, Err(error)) if !error.is_not_found() => Err(format!("stage {}: {error}", play.stage.name)),
        (None, _) => Ok(()),
    }
}

/// A JSON merge patch.
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        object.clone_from(patch);
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => drop(object.as_object_mut().map(|fields| fields.remove(key))),
            value => merge(&mut object[key.as_str()], value),
        }
    }
}

/// The functions of the templates of an object.
struct ObjectFunctions<'a> {
    registry: &'a Registry,
    now: Moment,
    object: &'a Value,
    addresses: RefCell<&'a mut PodAddresses>,
}

impl ObjectFunctions<'_> {
    /// The internal address of a node.
    fn node_address(&self, node: Option<&str>) -> String {
        let name = NamespacedName::new("", node.unwrap_or_default());
        let node = self.registry.get(&StagedKind::Node.kind(), &name).and_then(|node| node.value().ok());
        let addresses = node.as_ref().and_then(|node| node["status"]["addresses"].as_array());
        let mut addresses = addresses.into_iter().flatten();
        let internal = addresses.find(|address| address["type"] == "InternalIP");
        internal.and_then(|address| address["address"].as_str()).unwrap_or(NODE_ADDRESS).to_owned()
    }

    /// The address of a pod: that of its node, the one that it has, or a new one.
    fn pod_address(&self, arguments: &[TemplateValue<'_>]) -> String {
        let is_on_host_network = arguments.get(1).is_some_and(|argument| argument.to_json() == true);
        if is_on_host_network {
            return self.node_address(arguments.first().and_then(TemplateValue::as_text));
        }
        match self.object["status"]["podIP"].as_str() {
            Some(address) if !address.is_empty() => address.to_owned(),
            _ => self.addresses.borrow_mut().next(),
        }
    }
}

impl ClusterFunctions for ObjectFunctions<'_> {
    fn call(&self, function: ClusterFunction, arguments: &[TemplateValue<'_>]) -> TemplateValue<'static> {
        let node = || arguments.first().and_then(TemplateValue::as_text);
        match function {
            // An API server stores times of objects in whole seconds.
            ClusterFunction::Now => TemplateValue::owned(whole_second(self.now).to_string()),
            ClusterFunction::Version => TemplateValue::owned(env!("CARGO_PKG_VERSION")),
            ClusterFunction::NodeIp => TemplateValue::owned(NODE_ADDRESS),
            ClusterFunction::NodeName => TemplateValue::owned(self.object["metadata"]["name"].clone()),
            // No kubelet listens.
            ClusterFunction::NodePort => TemplateValue::Integer(0),
            ClusterFunction::NodeIpWith => TemplateValue::owned(self.node_address(node())),
            ClusterFunction::NodeIpsWith => TemplateValue::owned(json!([self.node_address(node())])),
            ClusterFunction::PodIpWith => TemplateValue::owned(self.pod_address(arguments)),
            ClusterFunction::PodIpsWith => TemplateValue::owned(json!([self.pod_address(arguments)])),
        }
    }
}

//! KWOK's Stages at work: an object is matched, waits, and is changed; the change is matched again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::strategic_merge;
use apiserver::{DeleteOptions, Preconditions, Registry, UpdatedPart, resource_version_of};
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
    awaited: HashMap<StagedObject, u64>,
    /// The stages that followed each other without delay until now.
    immediate_runs: HashMap<StagedObject, ImmediateRun>,
    /// The objects whose runs are too long.
    endless: BTreeSet<StagedObject>,
    /// How many plays there were.
    plays: u64,
    rng: Pcg64,
    events: CoreEventRecorder,
}

type StagedObject = (StagedKind, NamespacedName);

/// Stages of an object that follow each other without delay, each because of what the one before changed.
#[derive(Default)]
struct ImmediateRun {
    plays: usize,
    stages: BTreeSet<Arc<str>>,
    /// How often a play was postponed.
    postponed: u32,
}

/// Stages of an object that follow each other without delay and without end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndlessStages {
    kind: StagedKind,
    name: NamespacedName,
    stages: BTreeSet<Arc<str>>,
    /// How many other objects have such stages.
    others: usize,
}

const COMPONENT: &str = "kwok_controller";
/// A shorter delay is none: KWOK counts delays in milliseconds.
const MIN_DELAY: Duration = Duration::from_millis(1);
/// The most stages of an object that follow each other without delay. KWOK's own stages of a pod are fewer than ten.
const MAX_IMMEDIATE_PLAYS: usize = 100;
/// After that, the delay of the next one, which doubles each time up to a maximum.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

// === impl StagePlayer ===

impl StagePlayer {
    pub(super) fn new(seed: u64) -> StagePlayer {
        StagePlayer {
            stages: BTreeMap::new(),
            awaited: HashMap::new(),
            immediate_runs: HashMap::new(),
            endless: BTreeSet::new(),
            plays: 0,
            rng: Pcg64::seed_from_u64(seed),
            events: CoreEventRecorder::new(COMPONENT, Duration::ZERO),
        }
    }

    /// A Stage was added, modified or deleted. Returns the kind of objects that it is about.
    pub(super) fn observe_stage(&mut self, what: &What) -> Option<StagedKind> {
        let name: Arc<str> = (*what.object().meta().name).into();
        let known = self.stages.remove(&name).map(|stage| stage.kind);
        let mut changed = known;
        if let What::Added(object) | What::Modified(object) = what {
            // The API server refuses Stages that are not understood, and another kind for one that exists.
            let stage = Arc::new(Stage::parse(&object.value().ok()?).ok()?);
            changed = Some(stage.kind);
            self.stages.insert(name, stage);
        }
        // All objects of the kind are matched again.
        self.immediate_runs.retain(|(kind, _), _| Some(*kind) != changed);
        self.endless.retain(|(kind, _)| Some(*kind) != changed);
        changed
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
        let Some(stage) = matching_stage(stages, &object, &mut self.rng).cloned() else {
            return self.end_run(kind, name);
        };
        let key = (kind, name.clone());
        let delay = stage.delay(&object, context.now, &mut self.rng);
        let is_immediate = delay < MIN_DELAY;
        let mut backoff = Duration::ZERO;
        if !is_immediate {
            self.end_run(kind, name);
        } else if let Some(run) =
            self.immediate_runs.get_mut(&key).filter(|run| run.plays >= MAX_IMMEDIATE_PLAYS)
        {
            backoff = FIRST_BACKOFF.saturating_mul(1 << run.postponed.min(16)).min(MAX_BACKOFF);
            run.postponed += 1;
            if self.endless.insert(key.clone()) {
                self.report_endless(context, &key, &object);
            }
        }
        self.plays += 1;
        self.awaited.insert(key, self.plays);
        let play = StagePlay {
            kind,
            name: name.clone(),
            uid: object["metadata"]["uid"].as_str().unwrap_or_default().into(),
            stage,
            number: self.plays,
            is_immediate,
        };
        context.agenda.put(after(context.now, delay + backoff), ClusterTask::PlayStage(Box::new(play)));
    }

    /// An object was deleted.
    pub(super) fn forget(&mut self, kind: StagedKind, name: &NamespacedName) {
        self.awaited.remove(&(kind, name.clone()));
        self.end_run(kind, name);
    }

    /// No stage of an object follows at once.
    pub(super) fn end_run(&mut self, kind: StagedKind, name: &NamespacedName) {
        let key = (kind, name.clone());
        if self.immediate_runs.remove(&key).is_some() {
            self.endless.remove(&key);
        }
    }

    /// The stages that do not come to an end at the present moment.
    pub(super) fn endless(&self) -> Option<EndlessStages> {
        let (kind, name) = self.endless.first()?;
        let stages = self.immediate_runs.get(&(*kind, name.clone())).map(|run| run.stages.clone());
        Some(EndlessStages {
            kind: *kind,
            name: name.clone(),
            stages: stages.unwrap_or_default(),
            others: self.endless.len() - 1,
        })
    }

    fn report_endless(&mut self, context: &mut ComponentContext<'_>, key: &StagedObject, object: &Value) {
        let (kind, name) = key;
        let stages = self.immediate_runs.get(key).map(|run| run.stages.clone()).unwrap_or_default();
        let endless = EndlessStages { kind: *kind, name: name.clone(), stages, others: 0 };
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        self.record_failure(context, involved_object(*kind, name, uid), endless.to_string());
    }

    fn record_failure(
        &mut self,
        context: &mut ComponentContext<'_>,
        involved: InvolvedObject,
        message: String,
    ) {
        let (event_type, reason) = ("Warning".to_owned(), "StageFailed".to_owned());
        let text = EventText { event_type, reason, message };
        self.events.record(context.registry, context.now, involved, text);
    }

    /// Plays a stage that an object awaits.
    pub(super) fn play(
        &mut self,
        context: &mut ComponentContext<'_>,
        play: &StagePlay,
        addresses: &mut PodAddresses,
    ) {
        let StagePlay { kind, name, uid, stage, number, is_immediate } = play;
        let key = (*kind, name.clone());
        if self.awaited.get(&key) != Some(number) {
            return;
        }
        self.awaited.remove(&key);
        let version = |context: &ComponentContext<'_>| {
            context.registry.get(&kind.kind(), name).as_ref().map(resource_version_of)
        };
        let before = version(context);
        let object = context.registry.get(&kind.kind(), name).and_then(|object| object.value().ok());
        let Some(object) = object.filter(|object| object["metadata"]["uid"] == **uid) else { return };
        self.play_steps(context, play, &object, addresses);
        if *is_immediate && version(context) != before {
            let run = self.immediate_runs.entry(key).or_default();
            run.plays += 1;
            run.stages.insert(stage.name.clone());
        } else {
            self.end_run(*kind, name);
        }
    }

    fn play_steps(
        &mut self,
        context: &mut ComponentContext<'_>,
        play: &StagePlay,
        object: &Value,
        addresses: &mut PodAddresses,
    ) {
        let involved = involved_object(play.kind, &play.name, &play.uid);
        for step in &play.stage.steps {
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
                    if let Err(message) = patch_object(context, play, patch, object, addresses) {
                        return self.record_failure(context, involved, message);
                    }
                }
            }
        }
    }
}

// === impl EndlessStages ===

impl fmt::Display for EndlessStages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &*self.name.namespace {
            "" => self.name.name.to_string(),
            namespace => format!("{namespace}/{}", self.name.name),
        };
        let stages: Vec<String> = self.stages.iter().map(|stage| format!("{stage:?}")).collect();
        let (stages, follow) = match &stages[..] {
            [one] => (format!("stage {one}"), "follows itself"),
            _ => (format!("stages {}", stages.join(", ")), "follow each other"),
        };
        let kind = self.kind.kind().kind;
        write!(f, "{kind} {name}: {stages} {follow} without delay and without end")?;
        if self.others > 0 {
            write!(f, " (as those of {} other objects do)", self.others)?;
        }
        write!(f, ": give a stage a delay, or a selector that its result does not match")
    }
}

fn involved_object(kind: StagedKind, name: &NamespacedName, uid: &str) -> InvolvedObject {
    InvolvedObject {
        api_version: "v1".to_owned(),
        kind: kind.kind().kind.to_string(),
        name: name.clone(),
        uid: uid.to_owned(),
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

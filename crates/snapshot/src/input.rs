//! The settings and objects of a scheduler at one moment, as read from a file or a history.

use anyhow::Context;
use formats::kai_snapshot::{self, Partition, SchedulerSettings};
use formats::{Format, ImportItem, Input};
use history::Selection;
use kai::{Settings, Snapshot};
use model::{Kind, Moment, Object};
use query::OpenHistory;
use serde_json::{Value, json};

/// The settings and objects of a scheduler at one moment.
#[derive(Clone, Debug)]
pub struct SchedulerSnapshot {
    /// Its name for users: that of the file or of the history.
    pub name: String,
    /// The time of the scheduler's clock.
    pub time: Moment,
    /// Where the time comes from.
    pub time_origin: TimeOrigin,
    /// The scheduler's configuration.
    pub config: Value,
    /// The scheduler's command line parameters.
    pub scheduler_params: Value,
    /// The objects.
    pub objects: Vec<Object>,
    /// What is noteworthy about it.
    pub warnings: Vec<String>,
}

/// The origin of a snapshot's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeOrigin {
    /// The user.
    Given,
    /// The file.
    CaptureTime,
    /// The moment of the history.
    History,
    /// The newest time inside the objects, because the file has none.
    NewestObject,
    /// There is no time anywhere.
    None,
}

/// The treatment of configurations that search for victims and list no scenario generator, as before v0.16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeneratorChoice {
    /// Both generators are used, so that victims are found as in the release that wrote the configuration.
    AsInItsRelease,
    /// None is used, as by v0.16 and later: no victim is found.
    AsListed,
}

/// A moment of a history.
#[derive(Clone, Copy)]
pub struct HistoryMoment<'a> {
    /// The history.
    pub open_history: &'a OpenHistory,
    /// The moment.
    pub moment: Moment,
    /// The source, if the history has several.
    pub source: Option<&'a str>,
    /// The objects of the scheduler; `None` for those of the recorded settings, or else those without the label.
    pub partition: Option<&'a Partition>,
}

/// The most bytes of objects, without the data of ConfigMaps.
const MAX_OBJECT_BYTES: usize = 4 << 30;
/// Actions that search for victims; since v0.16 they need generators.
const VICTIM_SEARCH_ACTIONS: [&str; 3] = ["consolidation", "reclaim", "preempt"];
const GENERATOR_PREFIX: &str = "sg-";
const GENERATORS: [&str; 2] = ["sg-nodelocalgreedy", "sg-multinodegang"];

// === impl SchedulerSnapshot ===

impl SchedulerSnapshot {
    /// Reads a snapshot of any release, as a ZIP or as its JSON.
    pub fn read(input: Input, generators: GeneratorChoice) -> anyhow::Result<SchedulerSnapshot> {
        let name = input.name.clone();
        if let Some(other) = input.format.filter(|format| *format != Format::KaiSnapshot) {
            anyhow::bail!("{name}: not a KAI snapshot: its format is {}", other.name());
        }
        let mut objects = Vec::new();
        let mut settings = None;
        let mut bytes = 0;
        let mut capture_time = None;
        let mut warnings = Vec::new();
        for item in kai_snapshot::read(input)? {
            match item? {
                ImportItem::Object(object) if object.meta().kind == kai_snapshot::SETTINGS_KIND => {
                    settings = Some(object);
                }
                ImportItem::Object(object) => {
                    let object = without_data(object)?;
                    bytes += object.as_str().len();
                    if bytes > MAX_OBJECT_BYTES {
                        let limit = query::format_bytes(MAX_OBJECT_BYTES as u64);
                        anyhow::bail!("{name}: more than {limit} of objects, which is too much to be run");
                    }
                    objects.push(object);
                }
                ImportItem::CaptureTime(time) => capture_time = Some(time),
                ImportItem::Warning(text) => warnings.push(text),
                ImportItem::Change(_) | ImportItem::Gap(_) | ImportItem::TimesInferred(_) => {}
            }
        }
        let newest = || objects.iter().filter_map(formats::newest_time).max();
        let (time, time_origin) = match (capture_time, capture_time.map_or_else(newest, |_| None)) {
            (Some(time), _) => (time, TimeOrigin::CaptureTime),
            (None, Some(time)) => (time, TimeOrigin::NewestObject),
            (None, None) => (Moment::from_nanos(0), TimeOrigin::None),
        };
        let recorded = settings.unwrap_or_else(empty_settings);
        let settings = SchedulerSettings::new(Some(&recorded), None);
        let snapshot = SchedulerSnapshot {
            name,
            time,
            time_origin,
            config: settings.config,
            scheduler_params: settings.scheduler_params,
            objects,
            warnings,
        };
        Ok(snapshot.with_notes(&settings.added, generators))
    }

    /// The snapshot that a scheduler would have served at a moment of a history.
    pub fn at(history: &HistoryMoment<'_>) -> anyhow::Result<SchedulerSnapshot> {
        let HistoryMoment { open_history, moment, partition, .. } = *history;
        let (settings, mut objects) = history.read()?;
        // Where there are topologies of the scheduler's own kind, those of Kueue belong to another system.
        let is_own = |object: &Object| is_topology(object, "kai.scheduler/");
        if objects.iter().any(is_own) {
            objects.retain(|object| !is_topology(object, "kueue.x-k8s.io/"));
        }
        let SchedulerSettings { config, scheduler_params, added, .. } =
            SchedulerSettings::new(settings.as_ref(), partition.cloned());
        let snapshot = SchedulerSnapshot {
            name: open_history.history.path().display().to_string(),
            time: moment,
            time_origin: TimeOrigin::History,
            config,
            scheduler_params,
            objects,
            warnings: Vec::new(),
        };
        let added = if settings.is_some() { added } else { Vec::new() };
        let mut snapshot = snapshot.with_notes(&added, GeneratorChoice::AsInItsRelease);
        if settings.is_none() {
            let why = "no scheduler settings were recorded: the defaults of v0.17 apply";
            snapshot.warnings.push(why.to_owned());
        }
        Ok(snapshot)
    }

    /// The same at another time of the scheduler's clock.
    #[must_use]
    pub fn at_time(self, now: Option<Moment>) -> SchedulerSnapshot {
        match now {
            Some(time) => SchedulerSnapshot { time, time_origin: TimeOrigin::Given, ..self },
            None => self,
        }
    }

    /// The scheduler's settings, parsed.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let settings = Settings::parse(&self.config.to_string(), &self.scheduler_params.to_string());
        settings.with_context(|| self.name.clone())
    }

    /// The input of a cycle on these objects, with some settings.
    pub(crate) fn parse(objects: &[Object], settings: Settings) -> kai::Result<Snapshot> {
        let mut snapshot = Snapshot::new(settings);
        for object in objects {
            snapshot.add(object)?;
        }
        Ok(snapshot)
    }

    fn with_notes(mut self, added: &[String], generators: GeneratorChoice) -> SchedulerSnapshot {
        // Without it, the partition is the default one, as of the scheduler's flags.
        let added = added.iter().filter(|what| *what != "schedulerParams.partitionParams");
        self.warnings.extend(added.map(|what| format!("{}: {what}: missing in the snapshot", self.name)));
        if lacks_generators(&self.config) {
            let why = match generators {
                GeneratorChoice::AsInItsRelease => {
                    let tiers = self.config["tiers"].as_array_mut();
                    let plugins = tiers.and_then(|tiers| tiers.last_mut()?["plugins"].as_array_mut());
                    if let Some(plugins) = plugins {
                        plugins.extend(GENERATORS.map(|name| json!({"name": name})));
                    }
                    "the configuration lists no scenario generators, like those before v0.16: both are used, as in these releases"
                }
                GeneratorChoice::AsListed => {
                    "the configuration lists no scenario generators: consolidation, reclaim and preempt find no victims"
                }
            };
            self.warnings.push(why.to_owned());
        }
        self
    }
}

// === impl HistoryMoment ===

impl HistoryMoment<'_> {
    /// The settings of the scheduler, if they were recorded, and the objects that snapshots have.
    pub(crate) fn read(&self) -> anyhow::Result<(Option<Object>, Vec<Object>)> {
        let selection =
            Selection { source: self.open_history.source(self.source, "--source")?, ..Selection::default() };
        let settings_kind = Kind::of(kai_snapshot::SETTINGS_API_VERSION, kai_snapshot::SETTINGS_KIND);
        let (mut settings, mut objects) = (None, Vec::new());
        for version in self.open_history.history.at(self.moment, &selection)?.into_objects() {
            if version.key.kind == settings_kind {
                settings.get_or_insert(version.object);
            } else if kai_snapshot::is_listed(&version.key.kind) {
                objects.push(version.object);
            }
        }
        Ok((settings, objects))
    }
}

// === impl TimeOrigin ===

impl TimeOrigin {
    /// The origin in words.
    pub fn as_str(self) -> &'static str {
        match self {
            TimeOrigin::Given => "given",
            TimeOrigin::CaptureTime => "captureTime",
            TimeOrigin::History => "history",
            TimeOrigin::NewestObject => "newestObject",
            TimeOrigin::None => "none",
        }
    }
}

/// The object without the data of a ConfigMap, which snapshots may have gigabytes of: only its name matters.
fn without_data(object: Object) -> anyhow::Result<Object> {
    let meta = object.meta();
    if meta.kind != "ConfigMap" {
        return Ok(object);
    }
    let metadata = json!({"name": meta.name, "namespace": meta.namespace});
    Ok(Object::parse(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string())?)
}

/// The settings of a file without any.
fn empty_settings() -> Object {
    let (api_version, kind) = (kai_snapshot::SETTINGS_API_VERSION, kai_snapshot::SETTINGS_KIND);
    let text = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "none"}}).to_string();
    Object::parse(&text).expect("a name and a kind make an object")
}

fn is_topology(object: &Object, group: &str) -> bool {
    let meta = object.meta();
    meta.kind == "Topology" && meta.api_version.starts_with(group)
}

/// Whether a configuration searches for victims without generators, as before v0.16.
fn lacks_generators(config: &Value) -> bool {
    let actions = config["actions"].as_str().unwrap_or_default();
    let searches = actions.split(',').any(|action| VICTIM_SEARCH_ACTIONS.contains(&action.trim()));
    let tiers = config["tiers"].as_array().into_iter().flatten();
    let mut plugins = tiers.flat_map(|tier| tier["plugins"].as_array().into_iter().flatten());
    let is_generator =
        |plugin: &Value| plugin["name"].as_str().is_some_and(|name| name.starts_with(GENERATOR_PREFIX));
    searches && config["scenarioSearchBudgets"].is_null() && !plugins.any(is_generator)
}

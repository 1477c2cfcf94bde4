//! Changes of settings and of queues and pod groups, as users write them: `queue/team-a.gpu.quota=16`.

use std::str::FromStr;

use anyhow::{Context, bail};
use kai::{Action, Plugin};
use kubernetes::go::duration;
use model::Object;
use serde_json::{Map, Value, json};

use crate::input::SchedulerSnapshot;

/// A change of a setting or of a field of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingOverride {
    path: String,
    value: String,
}

/// The form of a value.
#[derive(Clone, Copy)]
enum ValueForm {
    /// A number that may have a fraction, or -1 for any amount.
    Amount,
    /// A number that may have a fraction, at least this one.
    Factor(f64),
    Integer,
    /// An integer from 0.
    Count,
    /// A duration such as `30s` or `2m`.
    Duration,
    /// The same, stored in nanoseconds.
    Nanoseconds,
    Boolean,
    Text,
    /// The name of an object of this kind, or empty.
    Name(&'static str),
    /// One of these words.
    Word(&'static [&'static str]),
}

/// A field that can be changed: its name in a path, where it is in the JSON, and its form.
type Field = (&'static str, &'static str, ValueForm);

const QUEUE_FIELDS: [Field; 13] = [
    ("gpu.quota", "/spec/resources/gpu/quota", ValueForm::Amount),
    ("gpu.limit", "/spec/resources/gpu/limit", ValueForm::Amount),
    ("gpu.overQuotaWeight", "/spec/resources/gpu/overQuotaWeight", ValueForm::Amount),
    ("cpu.quota", "/spec/resources/cpu/quota", ValueForm::Amount),
    ("cpu.limit", "/spec/resources/cpu/limit", ValueForm::Amount),
    ("cpu.overQuotaWeight", "/spec/resources/cpu/overQuotaWeight", ValueForm::Amount),
    ("memory.quota", "/spec/resources/memory/quota", ValueForm::Amount),
    ("memory.limit", "/spec/resources/memory/limit", ValueForm::Amount),
    ("memory.overQuotaWeight", "/spec/resources/memory/overQuotaWeight", ValueForm::Amount),
    ("priority", "/spec/priority", ValueForm::Integer),
    ("parentQueue", "/spec/parentQueue", ValueForm::Name("Queue")),
    ("preemptMinRuntime", "/spec/preemptMinRuntime", ValueForm::Duration),
    ("reclaimMinRuntime", "/spec/reclaimMinRuntime", ValueForm::Duration),
];
const POD_GROUP_FIELDS: [Field; 5] = [
    ("minMember", "/spec/minMember", ValueForm::Count),
    ("minSubGroup", "/spec/minSubGroup", ValueForm::Count),
    ("priorityClassName", "/spec/priorityClassName", ValueForm::Name("PriorityClass")),
    ("queue", "/spec/queue", ValueForm::Name("Queue")),
    ("preemptibility", "/spec/preemptibility", ValueForm::Word(&["preemptible", "non-preemptible"])),
];
const PARAMS: [Field; 9] = [
    ("schedulerName", "/schedulerName", ValueForm::Text),
    ("restrictSchedulingNodes", "/restrictSchedulingNodes", ValueForm::Boolean),
    ("maxNumberConsolidationPreemptees", "/maxNumberConsolidationPreemptees", ValueForm::Integer),
    ("useSchedulingSignatures", "/useSchedulingSignatures", ValueForm::Boolean),
    ("fullHierarchyFairness", "/fullHierarchyFairness", ValueForm::Boolean),
    ("allowConsolidatingReclaim", "/allowConsolidatingReclaim", ValueForm::Boolean),
    ("globalDefaultStalenessGracePeriod", "/globalDefaultStalenessGracePeriod", ValueForm::Nanoseconds),
    ("stuckInReleasingThreshold", "/stuckInReleasingThreshold", ValueForm::Nanoseconds),
    ("schedulePeriod", "/schedulePeriod", ValueForm::Nanoseconds),
];
/// The arguments of plugins that decisions depend on.
const PLUGIN_ARGUMENTS: [(Plugin, &str, ValueForm); 7] = [
    (Plugin::NodePlacement, "cpu", PLACEMENT),
    (Plugin::NodePlacement, "gpu", PLACEMENT),
    (Plugin::Proportion, "kValue", ValueForm::Factor(0.0)),
    (Plugin::Proportion, "relcaimerSaturationMultiplier", ValueForm::Factor(1.0)),
    (Plugin::MinRuntime, "defaultPreemptMinRuntime", ValueForm::Duration),
    (Plugin::MinRuntime, "defaultReclaimMinRuntime", ValueForm::Duration),
    (Plugin::MinRuntime, "reclaimResolveMethod", ValueForm::Word(&["lca", "queue"])),
];
const PLACEMENT: ValueForm = ValueForm::Word(&["binpack", "spread"]);
const DEPTHS: &str = "config.queueDepthPerAction.";

// === impl SettingOverride ===

impl FromStr for SettingOverride {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<SettingOverride> {
        match text.split_once('=') {
            Some((path, value)) if !path.is_empty() => {
                Ok(SettingOverride { path: path.to_owned(), value: value.to_owned() })
            }
            _ => bail!("invalid setting {text:?}: expected PATH=VALUE, such as queue/team-a.gpu.quota=16"),
        }
    }
}

impl std::fmt::Display for SettingOverride {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.path, self.value)
    }
}

impl SettingOverride {
    /// Changes a snapshot. A path that names nothing in it is an error, with the nearest that does.
    pub fn apply(&self, snapshot: &mut SchedulerSnapshot) -> anyhow::Result<()> {
        let path = self.path.as_str();
        if let Some(rest) = path.strip_prefix("queue/") {
            self.set_field(snapshot, "Queue", rest, &QUEUE_FIELDS)
        } else if let Some(rest) = path.strip_prefix("podgroup/") {
            self.set_field(snapshot, "PodGroup", rest, &POD_GROUP_FIELDS)
        } else if let Some(key) = path.strip_prefix("params.") {
            let Some((_, pointer, form)) = PARAMS.iter().find(|(name, ..)| *name == key) else {
                bail!(self.unknown("parameter", key, PARAMS.iter().map(|(name, ..)| *name)));
            };
            let value = form.parse(&self.value).with_context(|| self.context())?;
            set(&mut snapshot.scheduler_params, pointer, value);
            Ok(())
        } else if let Some(action) = path.strip_prefix(DEPTHS) {
            let names = Action::ALL.map(Action::name);
            if !names.contains(&action) {
                bail!(self.unknown("action", action, names.into_iter()));
            }
            let depth = ValueForm::Integer.parse(&self.value).with_context(|| self.context())?;
            set(&mut snapshot.config, &format!("/queueDepthPerAction/{action}"), depth);
            Ok(())
        } else if let Some(rest) = path.strip_prefix("plugin/") {
            self.set_argument(snapshot, rest)
        } else {
            let forms = [
                "queue/NAME.FIELD",
                "podgroup/[NAMESPACE/]NAME.FIELD",
                "params.NAME",
                "config.queueDepthPerAction.ACTION",
                "plugin/NAME.ARGUMENT",
            ];
            bail!("{}: unknown path: expected {}", self.path, one_of(forms.into_iter()));
        }
    }

    fn set_field(
        &self,
        snapshot: &mut SchedulerSnapshot,
        kind: &str,
        rest: &str,
        fields: &[Field],
    ) -> anyhow::Result<()> {
        // Names may contain dots.
        let found = fields.iter().find_map(|(field, pointer, form)| {
            let name = rest.strip_suffix(field)?.strip_suffix('.')?;
            Some((name, *pointer, *form))
        });
        let names = || snapshot.objects.iter().filter(|object| object.meta().kind == kind);
        let Some((name, pointer, form)) = found else {
            let owned: Vec<String> = names().map(|object| object.meta().name.into_owned()).collect();
            let name =
                owned.iter().filter(|name| rest.starts_with(name.as_str())).max_by_key(|name| name.len());
            let field = match name {
                Some(name) => rest[name.len()..].trim_start_matches('.'),
                None => rest.split_once('.').map_or("", |(_, field)| field),
            };
            bail!(self.unknown("field", field, fields.iter().map(|(name, ..)| *name)));
        };
        let value = form.parse(&self.value).with_context(|| self.context())?;
        if let ValueForm::Name(kind) = form
            && !self.value.is_empty()
        {
            let named = snapshot.objects.iter().filter(|object| object.meta().kind == kind);
            let names: Vec<String> = named.map(|object| object.meta().name.into_owned()).collect();
            if !names.contains(&self.value) {
                bail!(self.unknown(kind, &self.value, names.iter().map(String::as_str)));
            }
        }
        let (namespace, name) = match name.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, name),
        };
        let is_named = |object: &Object| {
            let meta = object.meta();
            meta.kind == kind && meta.name == name && namespace.is_none_or(|space| meta.namespace == space)
        };
        let matching: Vec<usize> =
            (0..snapshot.objects.len()).filter(|index| is_named(&snapshot.objects[*index])).collect();
        match matching[..] {
            [index] => {
                let mut object = snapshot.objects[index].value()?;
                set(&mut object, pointer, value);
                snapshot.objects[index] =
                    Object::parse(&object.to_string()).with_context(|| self.context())?;
                Ok(())
            }
            [] => {
                let known: Vec<String> = names().map(|object| object.meta().name.into_owned()).collect();
                bail!(self.unknown(kind, name, known.iter().map(String::as_str)))
            }
            _ => bail!("{}: several {kind}s have this name: put the namespace before it", self.path),
        }
    }

    fn set_argument(&self, snapshot: &mut SchedulerSnapshot, rest: &str) -> anyhow::Result<()> {
        let (name, argument) = rest.split_once('.').unwrap_or((rest, ""));
        let Some(plugin) = Plugin::ALL.into_iter().find(|plugin| plugin.name() == name) else {
            bail!(self.unknown("plugin", name, Plugin::ALL.iter().map(|plugin| plugin.name())));
        };
        let own = || PLUGIN_ARGUMENTS.iter().filter(|(of, ..)| *of == plugin);
        let Some((.., form)) = own().find(|(_, name, _)| *name == argument) else {
            if own().next().is_none() {
                let plugins = PLUGIN_ARGUMENTS.iter().map(|(plugin, ..)| plugin.name());
                bail!("{}: the plugin {name} has no arguments; these have: {}", self.path, one_of(plugins));
            }
            bail!(self.unknown("argument", argument, own().map(|(_, name, _)| *name)));
        };
        form.parse(&self.value).with_context(|| self.context())?;
        let tiers = snapshot.config["tiers"].as_array_mut().into_iter().flatten();
        let mut plugins = tiers.flat_map(|tier| tier["plugins"].as_array_mut().into_iter().flatten());
        match plugins.find(|plugin| plugin["name"] == name) {
            Some(plugin) => {
                set(plugin, &format!("/arguments/{argument}"), json!(self.value));
                Ok(())
            }
            None => bail!("{}: the plugin {name} is not in the scheduler's configuration", self.path),
        }
    }

    fn context(&self) -> String {
        format!("{}={}", self.path, self.value)
    }

    /// Says that a part of the path is unknown, and what is similar or possible.
    fn unknown<'a>(&self, what: &str, word: &str, known: impl Iterator<Item = &'a str>) -> String {
        let mut known: Vec<&str> = known.collect();
        known.sort_unstable();
        known.dedup();
        let hint = match query::similar(word, &known) {
            Some(similar) => format!("did you mean {similar}?"),
            None if known.is_empty() => "the snapshot has none".to_owned(),
            None => format!("expected {}", one_of(known.iter().copied())),
        };
        format!("{}: unknown {what} {word:?}: {hint}", self.path)
    }
}

// === impl ValueForm ===

impl ValueForm {
    fn parse(self, text: &str) -> anyhow::Result<Value> {
        Ok(match self {
            ValueForm::Amount => match text.parse::<f64>() {
                Ok(amount) if amount.is_finite() && (amount >= 0.0 || amount == -1.0) => json!(amount),
                _ => bail!("invalid amount: expected a number, or -1 for any amount"),
            },
            ValueForm::Integer => match text.parse::<i64>() {
                Ok(number) => json!(number),
                Err(_) => bail!("invalid number: expected an integer"),
            },
            ValueForm::Count => match text.parse::<u32>() {
                Ok(number) => json!(number),
                Err(_) => bail!("invalid number: expected an integer from 0"),
            },
            ValueForm::Factor(least) => match text.parse::<f64>() {
                Ok(factor) if factor.is_finite() && factor >= least => json!(factor),
                _ => bail!("invalid number: expected one from {least}"),
            },
            ValueForm::Duration | ValueForm::Nanoseconds => match duration::parse(text) {
                Some(nanos) if matches!(self, ValueForm::Nanoseconds) => json!(nanos),
                Some(_) => json!(text),
                None => bail!("invalid duration: expected one such as 30s or 2m"),
            },
            ValueForm::Boolean => match text {
                "true" => json!(true),
                "false" => json!(false),
                _ => bail!("invalid value: expected true or false"),
            },
            ValueForm::Word(words) if !words.contains(&text) => {
                bail!("invalid value: expected {}", one_of(words.iter().copied()))
            }
            ValueForm::Text | ValueForm::Name(_) | ValueForm::Word(_) => json!(text),
        })
    }
}

/// The most names in a message.
const MAX_NAMES: usize = 13;

fn one_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    if names.len() > MAX_NAMES {
        names.truncate(MAX_NAMES);
        names.push("...");
    }
    match names.as_slice() {
        [only] => (*only).to_owned(),
        names => format!("one of {}", names.join(", ")),
    }
}

/// Sets the value at a JSON pointer, and makes the objects on the way to it.
fn set(document: &mut Value, pointer: &str, value: Value) {
    let mut target = document;
    for key in pointer.split('/').skip(1) {
        if !target.is_object() {
            *target = Value::Object(Map::new());
        }
        target = &mut target[key];
    }
    *target = value;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::TimeOrigin;
    use model::Moment;

    fn snapshot() -> SchedulerSnapshot {
        let object = |kind: &str, api: &str, namespace: &str, name: &str| {
            let object =
                json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
            Object::parse(&object.to_string()).unwrap()
        };
        SchedulerSnapshot {
            name: "file".to_owned(),
            time: Moment::from_nanos(0),
            time_origin: TimeOrigin::None,
            config: json!({"tiers": [{"plugins": [{"name": "proportion"}, {"name": "priority"}]}]}),
            scheduler_params: json!({}),
            objects: vec![
                object("Queue", "scheduling.run.ai/v2", "", "team.a"),
                object("PodGroup", "scheduling.run.ai/v2alpha2", "x", "job"),
                object("PodGroup", "scheduling.run.ai/v2alpha2", "y", "job"),
            ],
            warnings: Vec::new(),
        }
    }

    fn apply(text: &str) -> anyhow::Result<SchedulerSnapshot> {
        let mut snapshot = snapshot();
        text.parse::<SettingOverride>()?.apply(&mut snapshot)?;
        Ok(snapshot)
    }

    #[test]
    fn fields_and_settings_are_changed() {
        let object = |text: &str, index: usize| apply(text).unwrap().objects[index].value().unwrap();
        let queue = object("queue/team.a.gpu.quota=2.5", 0);
        assert_eq!(queue["spec"]["resources"]["gpu"]["quota"], 2.5);
        assert_eq!(object("podgroup/y/job.minMember=3", 2)["spec"]["minMember"], 3);
        assert_eq!(
            apply("plugin/proportion.kValue=2").unwrap().config["tiers"][0]["plugins"][0]["arguments"]["kValue"],
            "2"
        );
        assert_eq!(
            apply("config.queueDepthPerAction.reclaim=5").unwrap().config["queueDepthPerAction"]["reclaim"],
            5
        );
        let params = apply("params.stuckInReleasingThreshold=2m").unwrap().scheduler_params;
        assert_eq!(params["stuckInReleasingThreshold"], 120_000_000_000_i64);
    }

    #[test]
    fn unknown_paths_name_the_nearest() {
        for (text, expected) in [
            ("queue/team.a.gpu.qouta=1", "unknown field \"gpu.qouta\": did you mean gpu.quota?"),
            ("queue/team.b.gpu.quota=1", "unknown Queue \"team.b\": did you mean team.a?"),
            ("queue/team.a.gpu.quota=-2", "invalid amount"),
            ("podgroup/job.minMember=1", "several PodGroups have this name"),
            ("params.fullHierachyFairness=true", "did you mean fullHierarchyFairness?"),
            ("params.fullHierarchyFairness=yes", "expected true or false"),
            ("config.queueDepthPerAction.alocate=1", "did you mean allocate?"),
            ("plugin/proportin.kValue=1", "did you mean proportion?"),
            ("plugin/proportion.k=1", "expected one of kValue, relcaimerSaturationMultiplier"),
            ("plugin/priority.k=1", "has no arguments"),
            ("plugin/proportion.kValue=x", "invalid number: expected one from 0"),
            ("plugin/nodeplacement.gpu=spreed", "expected one of binpack, spread"),
            ("podgroup/y/job.minMember=-3", "expected an integer from 0"),
            ("podgroup/y/job.queue=team.b", "unknown Queue \"team.b\": did you mean team.a?"),
            (
                "podgroup/y/job.priorityClassName=nope",
                "unknown PriorityClass \"nope\": the snapshot has none",
            ),
            ("podgroup/y/job.preemptibility=no", "expected one of preemptible, non-preemptible"),
            ("plugin/minruntime.defaultPreemptMinRuntime=1m", "not in the scheduler's configuration"),
            ("queues.team=1", "unknown path"),
            ("queue/team.a", "expected PATH=VALUE"),
        ] {
            let error = format!("{:#}", apply(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}

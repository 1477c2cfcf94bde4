//! Reader of recordings: JSON lines of watch events.

use std::borrow::Cow;

use model::{Moment, Object, What};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::decisions::{SchedulerEvent, find_decisions};
use super::{PodFields, WatchEvent, WatchRecording};
use crate::{Error, JsonLines, Result};

/// A line of a recording.
#[derive(Deserialize)]
pub(crate) struct WatchEventLine<'a> {
    /// Microseconds since 1970.
    at: i64,
    #[serde(rename = "type", borrow)]
    event_type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pod<'a> {
    #[serde(borrow)]
    metadata: PodMetadata<'a>,
    #[serde(borrow, default)]
    spec: PodSpec<'a>,
    #[serde(borrow, default)]
    status: PodStatus<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMetadata<'a> {
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    #[serde(borrow, default)]
    owner_references: Vec<Owner<'a>>,
}

#[derive(Deserialize)]
struct Owner<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec<'a> {
    #[serde(borrow, default)]
    node_name: Cow<'a, str>,
    #[serde(default)]
    priority: Option<i64>,
    #[serde(default)]
    volumes: Vec<Volume>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    #[serde(default)]
    persistent_volume_claim: Option<IgnoredAny>,
    #[serde(default)]
    ephemeral: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus<'a> {
    #[serde(borrow, default)]
    nominated_node_name: Cow<'a, str>,
    #[serde(borrow, default)]
    conditions: Vec<Condition<'a>>,
}

#[derive(Deserialize)]
struct Condition<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    #[serde(borrow, default)]
    reason: Cow<'a, str>,
    #[serde(borrow, default)]
    action: Cow<'a, str>,
    #[serde(borrow, default)]
    note: Cow<'a, str>,
    #[serde(borrow, default)]
    event_time: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    series: Option<Series<'a>>,
    #[serde(borrow, default)]
    regarding: Regarding<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series<'a> {
    #[serde(borrow, default)]
    last_observed_time: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Regarding<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
}

/// A number for each uid.
#[derive(Default)]
struct UidNumbers(FxHashMap<String, usize>);

// === impl WatchRecording ===

impl WatchRecording {
    /// Reads a recording: `{"at": µs since 1970, "type": "ADDED|MODIFIED|DELETED", "object": {…}}`, one per line.
    pub fn read(mut lines: JsonLines) -> Result<WatchRecording> {
        let name = lines.file().rsplit('/').next().unwrap_or_default();
        let name = name.split('.').next().unwrap_or_default().to_owned();
        let (mut events, mut scheduler_events, mut uid_numbers) =
            (Vec::new(), Vec::new(), UidNumbers::default());
        while let Some(line) = lines.read()? {
            if let Err(why) = read_line(line, &mut events, &mut scheduler_events, &mut uid_numbers) {
                return Err(lines.line_error(why));
            }
        }
        if events.is_empty() {
            return Err(Error::Empty { file: lines.file().to_owned(), what: "no event" });
        }
        let (decisions, not_compared) = find_decisions(&events, scheduler_events);
        Ok(WatchRecording { name, events, decisions, not_compared })
    }
}

fn read_line(
    line: &str,
    events: &mut Vec<WatchEvent>,
    scheduler_events: &mut Vec<SchedulerEvent>,
    uid_numbers: &mut UidNumbers,
) -> std::result::Result<(), String> {
    let Some((at, what)) = WatchEventLine::read(line)? else { return Ok(()) };
    let object = what.object();
    let meta = object.meta();
    let (group, _) = meta.api_version.split_once('/').unwrap_or_default();
    match (group, &*meta.kind) {
        ("events.k8s.io", "Event") => {
            let exists = !matches!(what, What::Deleted(_));
            let event: Event<'_> = object.view().map_err(|error| format!("not an Event: {error}"))?;
            scheduler_events.extend(scheduler_event(&event, uid_numbers).filter(|_| exists));
            return Ok(());
        }
        ("", "Event") => return Ok(()),
        _ => {}
    }
    // An object without a uid is identified by group, kind, namespace and name.
    let uid_index = match &meta.uid {
        Some(uid) => uid_numbers.number(uid),
        None => uid_numbers.number(&format!("{group}/{}/{}/{}", meta.kind, meta.namespace, meta.name)),
    };
    let is_pod = group.is_empty() && meta.kind == "Pod";
    let pod = is_pod.then(|| pod_fields(object)).transpose()?;
    events.push(WatchEvent { at, uid_index, pod, what });
    Ok(())
}

// === impl WatchEventLine ===

impl WatchEventLine<'_> {
    /// Returns the change and its time; `None` for a bookmark.
    pub(crate) fn read(line: &str) -> std::result::Result<Option<(Moment, What)>, String> {
        let line: WatchEventLine<'_> =
            serde_json::from_str(line).map_err(|error| format!("not an event: {error}"))?;
        let change = match &*line.event_type {
            "ADDED" => What::Added,
            "MODIFIED" => What::Modified,
            "DELETED" => What::Deleted,
            "BOOKMARK" => return Ok(None),
            other => return Err(format!("{other:?} is not ADDED, MODIFIED or DELETED")),
        };
        let at = Moment::from_micros(line.at).ok_or_else(|| format!("{} is not a valid time", line.at))?;
        let object = Object::parse(line.object.get()).map_err(|error| error.to_string())?;
        Ok(Some((at, change(object))))
    }
}

fn pod_fields(object: &Object) -> std::result::Result<PodFields, String> {
    let pod: Pod<'_> = object.view().map_err(|error| format!("not a pod: {error}"))?;
    let mut conditions = pod.status.conditions.iter();
    let unschedulable = conditions.find(|one| one.kind == "PodScheduled" && one.status == "False");
    Ok(PodFields {
        version: pod.metadata.resource_version.parse().unwrap_or_default(),
        node: pod.spec.node_name.into_owned(),
        nominated: pod.status.nominated_node_name.into_owned(),
        priority: pod.spec.priority.unwrap_or_default(),
        has_claims: pod
            .spec
            .volumes
            .iter()
            .any(|one| one.persistent_volume_claim.is_some() || one.ephemeral.is_some()),
        is_daemon: pod.metadata.owner_references.iter().any(|owner| owner.kind == "DaemonSet"),
        message: unschedulable.map(|one| one.message.to_string()).unwrap_or_default(),
    })
}

/// Reads the scheduler decision that an Event object reports; `None` if it is about something else.
fn scheduler_event(event: &Event<'_>, uid_numbers: &mut UidNumbers) -> Option<SchedulerEvent> {
    if event.regarding.kind != "Pod" {
        return None;
    }
    let last = event.series.as_ref().and_then(|series| series.last_observed_time.as_deref());
    let is_series = last.is_some();
    let event_time = last.or(event.event_time.as_deref())?.parse().ok()?;
    let (uid_index, seen_version) =
        (uid_numbers.number(&event.regarding.uid), event.regarding.resource_version.parse().ok());
    match (&*event.reason, &*event.action) {
        ("Scheduled", _) => {
            Some(SchedulerEvent { uid_index, event_time, seen_version, failure_message: None, is_series })
        }
        // Other components use the same reason, with another action.
        ("FailedScheduling", "Scheduling") => Some(SchedulerEvent {
            uid_index,
            event_time,
            seen_version,
            failure_message: Some(event.note.to_string()),
            is_series,
        }),
        _ => None,
    }
}

// === impl UidNumbers ===

impl UidNumbers {
    fn number(&mut self, uid: &str) -> usize {
        if let Some(number) = self.0.get(uid) {
            return *number;
        }
        let number = self.0.len();
        self.0.insert(uid.to_owned(), number);
        number
    }
}

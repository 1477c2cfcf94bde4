//! Recordings of clusters with a real autoscaler: its decisions in each loop, compared with ours on the same state.
//!
//! The real autoscaler writes the time at which each loop began into its status ConfigMap. Ours receives the recording
//! up to that time, and its decisions have no effect: the recording continues as it was. The real one has watches of
//! its own, which at that time had delivered a little more or less than the recording's. So the recording is played
//! several times, with our loops that much earlier or later.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use autoscaler::{Autoscaler, InvolvedObject, ObservedCloud, loop_start_from_status};
use calibration::{DerivedGroups, derive_node_groups};
use model::{Moment, What};
use serde_json::Value;

use crate::recording::WatchEventLine;
use crate::{Error, JsonLines, Result};

/// The result of the comparison on one recording.
#[derive(Debug)]
pub struct AutoscalerReport {
    /// The recording's name.
    pub name: String,
    /// The number of loops.
    pub loops: usize,
    /// Every `TriggeredScaleUp` of the real one.
    pub scale_ups: Vec<AutoscalerStatement>,
    /// Every node whose deletion the real one began.
    pub scale_downs: Vec<AutoscalerStatement>,
    /// The status of each group after each loop: sizes, health, scale-down candidates.
    pub statuses: Vec<AutoscalerStatement>,
}

/// An Event or a group's status written by the real autoscaler, compared with ours.
#[derive(Debug)]
pub struct AutoscalerStatement {
    /// The time.
    pub at: Moment,
    /// The pod, node or node group concerned.
    pub subject: String,
    /// The real text.
    pub theirs: String,
    /// Our texts without a lag: for Events those of any loop, since Events arrive late; otherwise those of the same
    /// loop.
    pub ours: BTreeSet<String>,
    /// The lag at which our text is equal, in milliseconds.
    pub equal_at_lag: Option<i64>,
    /// Whether ours has the same text for another pod. Which of the pending pods fit on existing nodes, and which
    /// trigger a scale-up, is random in the real autoscaler.
    pub equal_for_other_pod: bool,
}

/// Our Events and statuses in one playback of a recording.
#[derive(Default)]
struct PlaybackResult {
    triggered: BTreeMap<String, BTreeSet<String>>,
    deleted: BTreeSet<String>,
    /// The status of each group after each loop.
    statuses: Vec<BTreeMap<String, String>>,
}

/// How much later than the real loops ours run, in milliseconds.
const LAGS: [i64; 13] = [0, 5, -5, 10, -10, 20, -20, 50, -50, 100, -100, 200, -200];

struct AutoscalerRecording {
    events: Vec<(Moment, What)>,
    /// The beginning of each loop, and the status written at its end.
    loops: Vec<(Moment, Value)>,
    triggered: Vec<(Moment, String, String)>,
    marked_nodes: Vec<(Moment, String)>,
}

/// Compares our autoscaler with the real one of a recording. `None` if the recording contains no autoscaler.
pub fn compare_autoscaler(lines: JsonLines) -> Result<Option<AutoscalerReport>> {
    let name = lines.file().rsplit('/').next().unwrap_or_default().to_owned();
    let recording = AutoscalerRecording::read(lines)?;
    let Some((first, _)) = recording.loops.first() else { return Ok(None) };
    // The state of the cluster when the first loop began.
    let mut objects = BTreeMap::new();
    for (_, what) in recording.events.iter().take_while(|(at, _)| at <= first) {
        let object = what.object();
        match what {
            What::Added(_) | What::Modified(_) => objects.insert(object.key(&"".into()), object.clone()),
            What::Deleted(_) => objects.remove(&object.key(&"".into())),
        };
    }
    let derived = derive_node_groups(objects.values());
    let runs: Vec<PlaybackResult> = LAGS.iter().map(|lag| play_back(&recording, &derived, *lag)).collect();
    let statement =
        |at: Moment, subject: &str, theirs: &str, of: &dyn Fn(&PlaybackResult) -> BTreeSet<String>| {
            AutoscalerStatement {
                at,
                subject: subject.to_owned(),
                theirs: theirs.to_owned(),
                ours: of(&runs[0]),
                equal_at_lag: LAGS
                    .iter()
                    .zip(&runs)
                    .find(|(_, run)| of(run).contains(theirs))
                    .map(|(lag, _)| *lag),
                equal_for_other_pod: runs[0].triggered.values().any(|messages| messages.contains(theirs)),
            }
        };
    let scale_ups = recording.triggered.iter().map(|(at, subject, theirs)| {
        statement(*at, subject, theirs, &|run| run.triggered.get(subject).cloned().unwrap_or_default())
    });
    let scale_downs = recording.marked_nodes.iter().map(|(at, subject)| {
        let of = |run: &PlaybackResult| {
            run.deleted.contains(subject).then(|| DELETED.to_owned()).into_iter().collect()
        };
        statement(*at, subject, DELETED, &of)
    });
    let mut statuses = Vec::new();
    for (index, (now, status)) in recording.loops.iter().enumerate() {
        for (group, theirs) in group_summaries(status) {
            let of = |run: &PlaybackResult| run.statuses[index].get(&group).cloned().into_iter().collect();
            statuses.push(statement(*now, &group, &theirs, &of));
        }
    }
    Ok(Some(AutoscalerReport {
        name,
        loops: recording.loops.len(),
        scale_ups: scale_ups.collect(),
        scale_downs: scale_downs.collect(),
        statuses,
    }))
}

const DELETED: &str = "deleted";

/// Plays a recording to our autoscaler, with each loop `lag` milliseconds after the real one.
fn play_back(recording: &AutoscalerRecording, derived: &DerivedGroups, lag: i64) -> PlaybackResult {
    let settings = derived.settings.clone().unwrap_or_default();
    let mut cloud = ObservedCloud::new(derived.groups.clone(), None, derived.gpu_label.clone());
    let mut autoscaler = Autoscaler::new(settings, recording.loops[0].0);
    let mut ours = PlaybackResult::default();
    let mut rest = recording.events.iter().peekable();
    for (now, _) in &recording.loops {
        let until = now.plus_nanos(lag * 1_000_000);
        while let Some((_, what)) = rest.next_if(|(at, _)| *at <= until) {
            cloud.apply(what);
            autoscaler.apply(what);
        }
        cloud.begin_loop();
        autoscaler.background(*now, &mut cloud);
        let result = autoscaler.run_once(*now, &mut cloud);
        for event in result.events {
            if let (InvolvedObject::Pod(pod), "TriggeredScaleUp") = (&event.involved_object, event.reason) {
                ours.triggered.entry(pod.name.to_string()).or_default().insert(event.message);
            }
        }
        ours.deleted.extend(result.scale_down.removed_nodes.iter().map(|node| node.node.to_string()));
        ours.statuses.push(group_summaries(&autoscaler.status().unwrap_or_default()));
    }
    ours
}

/// Summarizes the status of each group in a line.
fn group_summaries(status: &Value) -> BTreeMap<String, String> {
    let groups = status["nodeGroups"].as_array().map_or(&[][..], Vec::as_slice);
    let summaries = groups.iter().map(|group| {
        let health = &group["health"];
        let counts = &health["nodeCounts"]["registered"];
        let number = |value: &Value| value.as_i64().unwrap_or(0);
        let line = format!(
            "target {}, registered {}, ready {}, {}, {}, {} candidates",
            number(&health["cloudProviderTarget"]),
            number(&counts["total"]),
            number(&counts["ready"]),
            health["status"].as_str().unwrap_or_default(),
            group["scaleUp"]["status"].as_str().unwrap_or_default(),
            number(&group["scaleDown"]["candidates"]),
        );
        (group["name"].as_str().unwrap_or_default().to_owned(), line)
    });
    summaries.collect()
}

// === impl AutoscalerRecording ===

impl AutoscalerRecording {
    fn read(mut lines: JsonLines) -> Result<AutoscalerRecording> {
        let mut recording = AutoscalerRecording {
            events: Vec::new(),
            loops: Vec::new(),
            triggered: Vec::new(),
            marked_nodes: Vec::new(),
        };
        while let Some(line) = lines.read()? {
            if let Err(why) = recording.read_line(line) {
                return Err(lines.line_error(why));
            }
        }
        if recording.events.is_empty() {
            return Err(Error::Empty { file: lines.file().to_owned(), what: "no event" });
        }
        Ok(recording)
    }

    fn read_line(&mut self, line: &str) -> std::result::Result<(), String> {
        let Some((at, what)) = WatchEventLine::read(line)? else { return Ok(()) };
        let object = what.object();
        let meta = object.meta();
        match &*meta.kind {
            "Event" => {
                if let What::Added(_) = what {
                    self.read_event(at, &object.value().map_err(|error| error.to_string())?);
                }
                return Ok(());
            }
            "ConfigMap" if !matches!(what, What::Deleted(_)) => {
                let value = object.value().map_err(|error| error.to_string())?;
                if let Some(status) = value["data"]["status"].as_str()
                    && let Some(began) = loop_start_from_status(status)
                {
                    let status = formats::manifests::parse_yaml("status", status)
                        .map_err(|error| error.to_string())?;
                    self.loops.push((began, status));
                }
            }
            _ => {}
        }
        self.events.push((at, what));
        Ok(())
    }

    /// Records the autoscaler's decision that an Event reports, if it reports one.
    fn read_event(&mut self, at: Moment, event: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let subject = text(&event["regarding"]["name"]);
        match (text(&event["reason"]).as_str(), text(&event["note"])) {
            ("TriggeredScaleUp", note) => self.triggered.push((at, subject, note)),
            ("ScaleDown", note) if note.starts_with("marked the node as toBeDeleted") => {
                self.marked_nodes.push((at, subject));
            }
            _ => {}
        }
    }
}

// === impl AutoscalerStatement ===

impl AutoscalerStatement {
    /// Whether our text is equal without a lag.
    pub fn is_equal(&self) -> bool {
        self.equal_at_lag == Some(0)
    }
}

impl fmt::Display for AutoscalerStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ours: Vec<&str> = self.ours.iter().map(String::as_str).collect();
        write!(f, "{} {}\n  real: {}\n  ours: {}", self.at, self.subject, self.theirs, ours.join("; "))
    }
}

// === impl AutoscalerReport ===

impl AutoscalerReport {
    /// Texts that ours has at no lag.
    pub fn differing(&self) -> impl Iterator<Item = &AutoscalerStatement> {
        let all = self.scale_ups.iter().chain(&self.scale_downs).chain(&self.statuses);
        all.filter(|statement| statement.equal_at_lag.is_none())
    }
}

impl fmt::Display for AutoscalerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} loops of a real cluster-autoscaler", self.name, self.loops)?;
        let parts = [
            ("scale-ups", &self.scale_ups),
            ("scale-downs", &self.scale_downs),
            ("statuses", &self.statuses),
        ];
        for (title, statements) in parts {
            let equal = statements.iter().filter(|one| one.is_equal()).count();
            write!(f, "  {title:<14}{equal}/{} equal", statements.len())?;
            for lag in [5, 10, 20, 50, 100, 200] {
                let near = |one: &&AutoscalerStatement| {
                    one.equal_at_lag.is_some_and(|equal_lag| equal_lag.abs() == lag)
                };
                match statements.iter().filter(near).count() {
                    0 => {}
                    count => write!(f, ", {count} more with a lag of ±{lag} ms")?,
                }
            }
            match statements
                .iter()
                .filter(|one| one.equal_at_lag.is_none() && one.equal_for_other_pod)
                .count()
            {
                0 => {}
                count => write!(f, ", {count} more for other pods")?,
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

//! What the autoscaler writes into its status ConfigMap.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Moment, Object};
use serde::Deserialize;
use serde_json::{Value, json};

use super::clock::Clock;
use super::cloud::{Cloud, GroupId};
use super::registry::{Counts, Registry, Safety, ids};
use super::settings::Settings;

/// What was written last: each condition keeps the moment at which it last changed.
#[derive(Debug, Default)]
pub(crate) struct Status {
    conditions: BTreeMap<(Option<GroupId>, &'static str), Condition>,
    /// Nodes that could go, by group.
    candidates: BTreeMap<GroupId, i64>,
    /// When they were last looked for.
    looked: Option<Moment>,
    written: Option<Written>,
}

/// How things are, and since when.
type Condition = (&'static str, Option<Moment>);

/// What a loop has to write.
#[derive(Debug)]
enum Written {
    /// The cluster cannot be worked with.
    Initializing {
        at: Moment,
        message: &'static str,
    },
    Running {
        at: Moment,
        counted: Moment,
        cluster: Box<Part>,
        groups: Vec<(OfGroup, Part)>,
    },
}

/// The cluster, or a group.
#[derive(Debug)]
struct Part {
    counts: Counts,
    /// Whether nodes were counted.
    is_counted: bool,
    health: Condition,
    scale_up: Condition,
    scale_down: Condition,
    candidates: i64,
}

/// What is written of groups only.
#[derive(Debug)]
struct OfGroup {
    name: Arc<str>,
    target: i64,
    min: i64,
    max: i64,
    /// The code and the message of its last failure.
    failure: Option<(String, String)>,
}

/// An error message is cut to this length.
const LONGEST_MESSAGE: usize = 500;
const CUT: &str = "<truncated>";
const UTC: &str = " +0000 UTC";

// === impl Status ===

impl Status {
    /// Nodes that could go were looked for.
    pub(crate) fn set_candidates(&mut self, candidates: BTreeMap<GroupId, i64>, now: Moment) {
        self.candidates = candidates;
        self.looked = Some(now);
    }

    /// A loop ends that could not work with the cluster.
    pub(crate) fn initialize(&mut self, at: Moment, message: &'static str) {
        self.written = Some(Written::Initializing { at, message });
    }

    /// A loop ends.
    pub(crate) fn update(
        &mut self,
        clock: &Clock,
        settings: &Settings,
        cloud: &dyn Cloud,
        registry: &Registry,
    ) {
        let mut groups = Vec::new();
        let mut any_growing = false;
        for group in ids(cloud) {
            let (of, known) = (&cloud.groups()[group.index()], registry.group(group));
            let mut failure = None;
            let growth = match registry.safety(group, clock, settings) {
                _ if registry.is_scaling_up(group) => "InProgress",
                Safety::Unhealthy => "Unhealthy",
                Safety::BackedOff => {
                    let why = registry.backed_off(group, clock);
                    failure = why.map(|why| (why.code.clone(), cut(&why.message)));
                    "Backoff"
                }
                Safety::Safe => "NoActivity",
            };
            any_growing |= growth == "InProgress";
            let of_group = OfGroup {
                name: of.name.clone(),
                target: known.acceptable.unwrap_or_default().target,
                min: of.min,
                max: of.max,
                failure,
            };
            let probed = known.counts.as_ref().map(|_| registry.counted);
            let is_healthy = registry.is_healthy(group, settings);
            let candidates = self.candidates.get(&group).copied().unwrap_or(0);
            let counts = known.counts.clone().unwrap_or_default();
            groups.push((of_group, self.part(Some(group), counts, probed, is_healthy, growth, candidates)));
        }
        let growth = if any_growing { "InProgress" } else { "NoActivity" };
        let is_healthy = registry.is_cluster_healthy(settings);
        let (probed, candidates) = (Some(registry.counted), self.candidates.values().sum());
        let cluster =
            Box::new(self.part(None, registry.total.clone(), probed, is_healthy, growth, candidates));
        self.written = Some(Written::Running { at: clock.now(), counted: registry.counted, cluster, groups });
    }

    /// A loop at that moment would have written the same.
    pub(crate) fn written_again(&mut self, last: Moment, now: Moment) {
        let renew = |moment: &mut Moment| {
            if *moment == last {
                *moment = now;
            }
        };
        self.looked.as_mut().map(renew);
        match &mut self.written {
            Some(Written::Initializing { at, .. }) => renew(at),
            Some(Written::Running { at, counted, .. }) => [at, counted].into_iter().for_each(renew),
            None => {}
        }
    }

    /// What the last loop wrote; `None` if there was none yet.
    pub(crate) fn document(&self) -> Option<Value> {
        Some(match self.written.as_ref()? {
            Written::Initializing { at, message } => {
                let nothing = json!({ "lastProbeTime": null, "lastTransitionTime": null });
                let mut health = nothing.clone();
                health["nodeCounts"] = node_counts(&Counts::default());
                json!({
                    "autoscalerStatus": "Initializing",
                    "clusterWide": { "health": health, "scaleDown": nothing, "scaleUp": nothing },
                    "message": message,
                    "time": go_time(*at),
                })
            }
            Written::Running { at, counted, cluster, groups } => {
                let mut status = json!({
                    "autoscalerStatus": "Running",
                    "clusterWide": cluster.document(*counted, self.looked),
                    "time": go_time(*at),
                });
                if !groups.is_empty() {
                    let groups = groups.iter().map(|(of, part)| {
                        let mut group = part.document(*counted, self.looked);
                        of.put_into(&mut group);
                        group
                    });
                    status["nodeGroups"] = groups.collect();
                }
                status
            }
        })
    }

    fn part(
        &mut self,
        group: Option<GroupId>,
        counts: Counts,
        probed: Option<Moment>,
        is_healthy: bool,
        growth: &'static str,
        candidates: i64,
    ) -> Part {
        let health = if is_healthy { "Healthy" } else { "Unhealthy" };
        let shrinking = if candidates > 0 { "CandidatesPresent" } else { "NoCandidates" };
        Part {
            counts,
            is_counted: probed.is_some(),
            health: self.condition(group, "health", health, probed),
            scale_up: self.condition(group, "scaleUp", growth, probed),
            scale_down: self.condition(group, "scaleDown", shrinking, self.looked),
            candidates,
        }
    }

    fn condition(
        &mut self,
        group: Option<GroupId>,
        name: &'static str,
        status: &'static str,
        probed: Option<Moment>,
    ) -> Condition {
        let last = self.conditions.get(&(group, name)).copied();
        let changed = last.filter(|(before, _)| *before == status).map_or(probed, |(_, changed)| changed);
        self.conditions.insert((group, name), (status, changed));
        (status, changed)
    }
}

// === impl Part ===

impl Part {
    fn document(&self, counted: Moment, looked: Option<Moment>) -> Value {
        let condition = |(status, changed): Condition, probed: Option<Moment>| json!({ "status": status, "lastProbeTime": seconds(probed), "lastTransitionTime": seconds(changed) });
        let counted = self.is_counted.then_some(counted);
        let mut health = condition(self.health, counted);
        health["nodeCounts"] = node_counts(&self.counts);
        let mut scale_down = condition(self.scale_down, looked);
        if self.candidates > 0 {
            scale_down["candidates"] = self.candidates.into();
        }
        json!({ "health": health, "scaleUp": condition(self.scale_up, counted), "scaleDown": scale_down })
    }
}

// === impl OfGroup ===

impl OfGroup {
    fn put_into(&self, group: &mut Value) {
        group["name"] = (*self.name).into();
        group["health"]["cloudProviderTarget"] = self.target.into();
        group["health"]["minSize"] = self.min.into();
        group["health"]["maxSize"] = self.max.into();
        let mut backoff = json!({});
        if let Some((code, message)) = &self.failure {
            put_text(&mut backoff, "errorCode", code);
            put_text(&mut backoff, "errorMessage", message);
        }
        group["scaleUp"]["backoffInfo"] = backoff;
    }
}

/// When the loop began that wrote a recorded status; `None` if none did yet.
pub fn loop_of(status: &str) -> Option<Moment> {
    status.lines().find(|line| *line == "autoscalerStatus: Running")?;
    let time = status.lines().find_map(|line| line.strip_prefix("time: "))?;
    let text = time.trim_matches('"').strip_suffix(UTC)?;
    format!("{}Z", text.replacen(' ', "T", 1)).parse().ok()
}

/// When the loop began whose status a ConfigMap holds.
pub fn loop_told(map: &Object) -> Option<Moment> {
    #[derive(Deserialize)]
    struct MapJson {
        #[serde(default)]
        data: DataJson,
    }
    #[derive(Default, Deserialize)]
    struct DataJson {
        status: Option<String>,
    }
    loop_of(&map.view::<MapJson>().ok()?.data.status?)
}

fn node_counts(counts: &Counts) -> Value {
    let mut registered = json!({
        "total": counts.registered,
        "ready": counts.ready,
        "notStarted": counts.not_started.len(),
        "suspended": counts.suspended,
        "unready": { "total": counts.unready, "resourceUnready": counts.lacks_device },
    });
    if counts.deleted > 0 {
        registered["beingDeleted"] = counts.deleted.into();
    }
    json!({
        "registered": registered,
        "longUnregistered": counts.long_unregistered,
        "unregistered": counts.unregistered,
    })
}

fn put_text(object: &mut Value, key: &str, text: &str) {
    if !text.is_empty() {
        object[key] = text.into();
    }
}

/// A moment as Kubernetes writes it: whole seconds.
fn seconds(moment: Option<Moment>) -> Value {
    let text = |moment: Moment| {
        let whole = Moment::from_nanos(moment.nanos().div_euclid(1_000_000_000) * 1_000_000_000);
        whole.timestamp().to_string()
    };
    moment.map_or(Value::Null, |moment| text(moment).into())
}

/// A moment as Go prints it: `2026-11-15 04:09:50.305659287 +0000 UTC`.
fn go_time(moment: Moment) -> String {
    let text = moment.timestamp().to_string();
    format!("{}{UTC}", text.trim_end_matches('Z').replacen('T', " ", 1))
}

/// A message that is too long is cut, in bytes, at the start of a character.
fn cut(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let mut end = LONGEST_MESSAGE - CUT.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{CUT}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_found_by_the_status_that_it_wrote() {
        let moment: Moment = "2026-11-15T04:09:50.305659287Z".parse().unwrap();
        assert_eq!(go_time(moment), "2026-11-15 04:09:50.305659287 +0000 UTC");
        let status = format!("autoscalerStatus: Running\nclusterWide: {{}}\ntime: {}\n", go_time(moment));
        assert_eq!(loop_of(&status), Some(moment));
        assert_eq!(loop_of(&status.replace("Running", "Initializing")), None);
        assert_eq!(loop_of("autoscalerStatus: Running\ntime: yesterday\n"), None);
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(cut(&"a".repeat(500)).len(), 500);
        let long = cut(&"ä".repeat(400));
        assert!(long.ends_with("ä<truncated>") && long.len() <= 500, "{long}");
    }
}

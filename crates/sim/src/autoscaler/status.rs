//! What the autoscaler writes into its status ConfigMap.

use std::collections::BTreeMap;

use model::{Moment, Object};
use serde::Deserialize;
use serde_json::{Value, json};

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
}

/// How things are, and since when.
type Condition = (&'static str, Option<Moment>);

/// An error message is cut to this length.
const LONGEST_MESSAGE: usize = 500;
const CUT: &str = "<truncated>";
const UTC: &str = " +0000 UTC";

impl Status {
    /// Nodes that could go were looked for.
    pub(crate) fn set_candidates(&mut self, candidates: BTreeMap<GroupId, i64>, now: Moment) {
        self.candidates = candidates;
        self.looked = Some(now);
    }

    /// What is written when the cluster cannot be worked with.
    pub(crate) fn initializing(now: Moment, message: &str) -> Value {
        let nothing = json!({ "lastProbeTime": null, "lastTransitionTime": null });
        let mut health = nothing.clone();
        health["nodeCounts"] = node_counts(&Counts::default());
        json!({
            "autoscalerStatus": "Initializing",
            "clusterWide": { "health": health, "scaleDown": nothing, "scaleUp": nothing },
            "message": message,
            "time": go_time(now),
        })
    }

    /// What is written at the end of a loop.
    pub(crate) fn write(
        &mut self,
        now: Moment,
        settings: &Settings,
        cloud: &dyn Cloud,
        registry: &Registry,
    ) -> Value {
        let mut groups = Vec::new();
        let mut any_growing = false;
        for group in ids(cloud) {
            let of = &cloud.groups()[group.index()];
            let known = registry.group(group);
            let nothing = Counts::default();
            let counts = known.counts.as_ref().unwrap_or(&nothing);
            let probed = known.counts.as_ref().map(|counts| counts.at);
            let healthy = healthy(registry.is_healthy(group, settings));
            let mut health = self.condition(Some(group), "health", healthy, probed);
            health["nodeCounts"] = node_counts(counts);
            health["cloudProviderTarget"] = known.acceptable.unwrap_or_default().target.into();
            health["minSize"] = of.min.into();
            health["maxSize"] = of.max.into();
            let mut backoff = json!({});
            let growth = match registry.safety(group, now, settings) {
                _ if registry.is_scaling_up(group) => "InProgress",
                Safety::Unhealthy => "Unhealthy",
                Safety::BackedOff => {
                    if let Some(why) = registry.backed_off(group, now) {
                        put_text(&mut backoff, "errorCode", &why.code);
                        put_text(&mut backoff, "errorMessage", &cut(&why.message));
                    }
                    "Backoff"
                }
                Safety::Safe => "NoActivity",
            };
            any_growing |= growth == "InProgress";
            let mut scale_up = self.condition(Some(group), "scaleUp", growth, probed);
            scale_up["backoffInfo"] = backoff;
            let candidates = self.candidates.get(&group).copied().unwrap_or(0);
            let scale_down = self.scale_down(Some(group), candidates);
            groups.push(json!({
                "name": &*of.name,
                "health": health,
                "scaleUp": scale_up,
                "scaleDown": scale_down,
            }));
        }
        let probed = Some(registry.total.at);
        let mut health =
            self.condition(None, "health", healthy(registry.is_cluster_healthy(settings)), probed);
        health["nodeCounts"] = node_counts(&registry.total);
        let growth = if any_growing { "InProgress" } else { "NoActivity" };
        let scale_up = self.condition(None, "scaleUp", growth, probed);
        let scale_down = self.scale_down(None, self.candidates.values().sum());
        let mut status = json!({
            "autoscalerStatus": "Running",
            "clusterWide": { "health": health, "scaleUp": scale_up, "scaleDown": scale_down },
            "time": go_time(now),
        });
        if !groups.is_empty() {
            status["nodeGroups"] = groups.into();
        }
        status
    }

    fn scale_down(&mut self, group: Option<GroupId>, candidates: i64) -> Value {
        let status = if candidates > 0 { "CandidatesPresent" } else { "NoCandidates" };
        let mut condition = self.condition(group, "scaleDown", status, self.looked);
        if candidates > 0 {
            condition["candidates"] = candidates.into();
        }
        condition
    }

    fn condition(
        &mut self,
        group: Option<GroupId>,
        name: &'static str,
        status: &'static str,
        probed: Option<Moment>,
    ) -> Value {
        let last = self.conditions.get(&(group, name)).copied();
        let changed = last.filter(|(before, _)| *before == status).map_or(probed, |(_, changed)| changed);
        self.conditions.insert((group, name), (status, changed));
        json!({ "status": status, "lastProbeTime": seconds(probed), "lastTransitionTime": seconds(changed) })
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
pub(crate) fn loop_told(map: &Object) -> Option<Moment> {
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

fn healthy(healthy: bool) -> &'static str {
    if healthy { "Healthy" } else { "Unhealthy" }
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

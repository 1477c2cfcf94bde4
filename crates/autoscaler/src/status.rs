//! The content of the status ConfigMap.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Moment, Object};
use serde::Deserialize;
use serde_json::{Value, json};

use super::clock::LoopClock;
use super::cloud::{CloudProvider, GroupId};
use super::cluster_state::{ClusterStateRegistry, NodeCounts, NodeGroupScalingSafety, group_ids};
use super::settings::Settings;

/// The status as last written: each condition keeps the time of its last transition.
#[derive(Debug, Default)]
pub(crate) struct ClusterAutoscalerStatus {
    conditions: BTreeMap<(Option<GroupId>, &'static str), StatusCondition>,
    /// The number of scale-down candidates by group.
    candidates: BTreeMap<GroupId, i64>,
    /// When they were last computed.
    candidates_probed: Option<Moment>,
    written: Option<WrittenStatus>,
}

/// A status and its last transition.
type StatusCondition = (&'static str, Option<Moment>);

/// The status that a loop writes.
#[derive(Debug)]
enum WrittenStatus {
    /// There are no nodes, or no ready nodes.
    Initializing { at: Moment, message: &'static str },
    Running {
        at: Moment,
        counted: Moment,
        cluster: Box<StatusSection>,
        groups: Vec<(GroupStatusFields, StatusSection)>,
    },
}

/// The fields that the cluster and each group have.
#[derive(Debug)]
struct StatusSection {
    counts: NodeCounts,
    /// Whether the registry has node counts for it.
    is_probed: bool,
    health: StatusCondition,
    scale_up: StatusCondition,
    scale_down: StatusCondition,
    candidates: i64,
}

/// The fields that only groups have.
#[derive(Debug)]
struct GroupStatusFields {
    name: Arc<str>,
    target: i64,
    min: i64,
    max: i64,
    /// The code and the message of its last failure.
    backoff_error: Option<(String, String)>,
}

/// The maximum length of an error message, in bytes.
const MAX_ERROR_MESSAGE_SIZE: usize = 500;
const TRUNCATED_SUFFIX: &str = "<truncated>";
const UTC_SUFFIX: &str = " +0000 UTC";

// === impl ClusterAutoscalerStatus ===

impl ClusterAutoscalerStatus {
    /// Sets the number of scale-down candidates by group.
    pub(crate) fn set_scale_down_candidates(&mut self, candidates: BTreeMap<GroupId, i64>, now: Moment) {
        self.candidates = candidates;
        self.candidates_probed = Some(now);
    }

    /// Sets the status of a loop without nodes, or without ready nodes.
    pub(crate) fn set_initializing(&mut self, at: Moment, message: &'static str) {
        self.written = Some(WrittenStatus::Initializing { at, message });
    }

    /// Updates the status at the end of a loop.
    pub(crate) fn update(
        &mut self,
        clock: &LoopClock,
        settings: &Settings,
        cloud: &dyn CloudProvider,
        registry: &ClusterStateRegistry,
    ) {
        let mut groups = Vec::new();
        let mut any_scaling_up = false;
        for group in group_ids(cloud) {
            let (node_group, group_entry) = (&cloud.groups()[group.index()], registry.group(group));
            let mut failure = None;
            let scale_up_status = match registry.node_group_scale_up_safety(group, clock, settings) {
                _ if registry.is_scaling_up(group) => "InProgress",
                NodeGroupScalingSafety::Unhealthy => "Unhealthy",
                NodeGroupScalingSafety::BackedOff => {
                    let info = registry.backoff_info(group, clock);
                    failure = info.map(|info| (info.code.clone(), truncate_message(&info.message)));
                    "Backoff"
                }
                NodeGroupScalingSafety::Safe => "NoActivity",
            };
            any_scaling_up |= scale_up_status == "InProgress";
            let group_fields = GroupStatusFields {
                name: node_group.name.clone(),
                target: group_entry.acceptable_range.unwrap_or_default().target,
                min: node_group.min,
                max: node_group.max,
                backoff_error: failure,
            };
            let probed = group_entry.counts.as_ref().map(|_| registry.last_update);
            let is_healthy = registry.is_healthy(group, settings);
            let candidates = self.candidates.get(&group).copied().unwrap_or(0);
            let counts = group_entry.counts.clone().unwrap_or_default();
            groups.push((
                group_fields,
                self.section(Some(group), counts, probed, is_healthy, scale_up_status, candidates),
            ));
        }
        let scale_up_status = if any_scaling_up { "InProgress" } else { "NoActivity" };
        let is_healthy = registry.is_cluster_healthy(settings);
        let (probed, candidates) = (Some(registry.last_update), self.candidates.values().sum());
        let cluster = Box::new(self.section(
            None,
            registry.total.clone(),
            probed,
            is_healthy,
            scale_up_status,
            candidates,
        ));
        self.written =
            Some(WrittenStatus::Running { at: clock.now(), counted: registry.last_update, cluster, groups });
    }

    /// Records a repeated loop, which would have written the same status.
    pub(crate) fn repeat_write(&mut self, last: Moment, now: Moment) {
        let update_time = |moment: &mut Moment| {
            if *moment == last {
                *moment = now;
            }
        };
        self.candidates_probed.as_mut().map(update_time);
        match &mut self.written {
            Some(WrittenStatus::Initializing { at, .. }) => update_time(at),
            Some(WrittenStatus::Running { at, counted, .. }) => {
                [at, counted].into_iter().for_each(update_time)
            }
            None => {}
        }
    }

    /// The status that the last loop wrote; `None` before the first loop.
    pub(crate) fn document(&self) -> Option<Value> {
        Some(match self.written.as_ref()? {
            WrittenStatus::Initializing { at, message } => {
                let empty_condition = json!({ "lastProbeTime": null, "lastTransitionTime": null });
                let mut health = empty_condition.clone();
                health["nodeCounts"] = node_counts(&NodeCounts::default());
                json!({
                    "autoscalerStatus": "Initializing",
                    "clusterWide": { "health": health, "scaleDown": empty_condition, "scaleUp": empty_condition },
                    "message": message,
                    "time": go_time(*at),
                })
            }
            WrittenStatus::Running { at, counted, cluster, groups } => {
                let mut status = json!({
                    "autoscalerStatus": "Running",
                    "clusterWide": cluster.document(*counted, self.candidates_probed),
                    "time": go_time(*at),
                });
                if !groups.is_empty() {
                    let groups = groups.iter().map(|(fields, section)| {
                        let mut group = section.document(*counted, self.candidates_probed);
                        fields.write_to(&mut group);
                        group
                    });
                    status["nodeGroups"] = groups.collect();
                }
                status
            }
        })
    }

    fn section(
        &mut self,
        group: Option<GroupId>,
        counts: NodeCounts,
        probed: Option<Moment>,
        is_healthy: bool,
        scale_up_status: &'static str,
        candidates: i64,
    ) -> StatusSection {
        let health = if is_healthy { "Healthy" } else { "Unhealthy" };
        let scale_down_status = if candidates > 0 { "CandidatesPresent" } else { "NoCandidates" };
        StatusSection {
            counts,
            is_probed: probed.is_some(),
            health: self.condition(group, "health", health, probed),
            scale_up: self.condition(group, "scaleUp", scale_up_status, probed),
            scale_down: self.condition(group, "scaleDown", scale_down_status, self.candidates_probed),
            candidates,
        }
    }

    fn condition(
        &mut self,
        group: Option<GroupId>,
        name: &'static str,
        status: &'static str,
        probed: Option<Moment>,
    ) -> StatusCondition {
        let last = self.conditions.get(&(group, name)).copied();
        let changed = last.filter(|(before, _)| *before == status).map_or(probed, |(_, changed)| changed);
        self.conditions.insert((group, name), (status, changed));
        (status, changed)
    }
}

// === impl StatusSection ===

impl StatusSection {
    fn document(&self, counted: Moment, candidates_probed: Option<Moment>) -> Value {
        let condition = |(status, changed): StatusCondition, probed: Option<Moment>| json!({ "status": status, "lastProbeTime": seconds(probed), "lastTransitionTime": seconds(changed) });
        let counted = self.is_probed.then_some(counted);
        let mut health = condition(self.health, counted);
        health["nodeCounts"] = node_counts(&self.counts);
        let mut scale_down = condition(self.scale_down, candidates_probed);
        if self.candidates > 0 {
            scale_down["candidates"] = self.candidates.into();
        }
        json!({ "health": health, "scaleUp": condition(self.scale_up, counted), "scaleDown": scale_down })
    }
}

// === impl GroupStatusFields ===

impl GroupStatusFields {
    fn write_to(&self, group: &mut Value) {
        group["name"] = (*self.name).into();
        group["health"]["cloudProviderTarget"] = self.target.into();
        group["health"]["minSize"] = self.min.into();
        group["health"]["maxSize"] = self.max.into();
        let mut backoff = json!({});
        if let Some((code, message)) = &self.backoff_error {
            put_text(&mut backoff, "errorCode", code);
            put_text(&mut backoff, "errorMessage", message);
        }
        group["scaleUp"]["backoffInfo"] = backoff;
    }
}

/// The start time of the loop that wrote a status; `None` if the autoscaler was still initializing.
pub fn loop_start_from_status(status: &str) -> Option<Moment> {
    status.lines().find(|line| *line == "autoscalerStatus: Running")?;
    let time = status.lines().find_map(|line| line.strip_prefix("time: "))?;
    let text = time.trim_matches('"').strip_suffix(UTC_SUFFIX)?;
    format!("{}Z", text.replacen(' ', "T", 1)).parse().ok()
}

/// The start time of the loop that wrote a status ConfigMap.
pub fn loop_start_from_config_map(map: &Object) -> Option<Moment> {
    #[derive(Deserialize)]
    struct MapJson {
        #[serde(default)]
        data: DataJson,
    }
    #[derive(Default, Deserialize)]
    struct DataJson {
        status: Option<String>,
    }
    loop_start_from_status(&map.view::<MapJson>().ok()?.data.status?)
}

fn node_counts(counts: &NodeCounts) -> Value {
    let mut registered = json!({
        "total": counts.registered,
        "ready": counts.ready,
        "notStarted": counts.not_started.len(),
        "suspended": counts.suspended,
        "unready": { "total": counts.unready, "resourceUnready": counts.resource_unready },
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

/// A moment in Kubernetes' format: whole seconds.
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
    format!("{}{UTC_SUFFIX}", text.trim_end_matches('Z').replacen('T', " ", 1))
}

/// Truncates a message that is too long in bytes, at a character boundary.
fn truncate_message(message: &str) -> String {
    if message.len() <= MAX_ERROR_MESSAGE_SIZE {
        return message.to_owned();
    }
    let mut end = MAX_ERROR_MESSAGE_SIZE - TRUNCATED_SUFFIX.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{TRUNCATED_SUFFIX}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_found_by_the_status_that_it_wrote() {
        let moment: Moment = "2026-11-15T04:09:50.305659287Z".parse().unwrap();
        assert_eq!(go_time(moment), "2026-11-15 04:09:50.305659287 +0000 UTC");
        let status = format!("autoscalerStatus: Running\nclusterWide: {{}}\ntime: {}\n", go_time(moment));
        assert_eq!(loop_start_from_status(&status), Some(moment));
        assert_eq!(loop_start_from_status(&status.replace("Running", "Initializing")), None);
        assert_eq!(loop_start_from_status("autoscalerStatus: Running\ntime: yesterday\n"), None);
    }

    #[test]
    fn long_messages_are_truncated_between_characters() {
        assert_eq!(truncate_message(&"a".repeat(500)).len(), 500);
        let long = truncate_message(&"ä".repeat(400));
        assert!(long.ends_with("ä<truncated>") && long.len() <= 500, "{long}");
    }
}

//! The cluster autoscaler's settings: flags of its Deployment, and the priorities of its ConfigMap.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::hash::InfoHasher;
use super::{InfoResult, SnapshotMeta, list};

/// A row of `ca_settings_info`. Flags that are not set are zero, empty or false.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsInfo {
    /// `--expander`
    pub expander: String,
    /// The smallest and largest size of each node group.
    pub groups: BTreeMap<String, (i64, i64)>,
    /// `--max-node-provision-time`
    pub max_node_provision_millis: i64,
    /// `--scan-interval`
    pub scan_interval_millis: i64,
    /// `--max-graceful-termination-sec`
    pub max_graceful_termination_seconds: i64,
    /// `--new-pod-scale-up-delay`
    pub new_pod_scale_up_delay_millis: i64,
    /// `--max-empty-bulk-delete`
    pub max_empty_bulk_delete: i64,
    /// `--ignore-daemonsets-utilization`
    pub ignore_daemon_sets: bool,
    /// `--max-nodes-total`
    pub max_nodes_total: i64,
    /// The content of the priority expander's ConfigMap.
    pub priorities: String,
}

/// The Deployment whose flags are recorded.
pub(crate) const AUTOSCALER_DEPLOYMENT: &str = "cluster-autoscaler";
/// The ConfigMap whose priorities are recorded.
pub(crate) const PRIORITIES_CONFIG_MAP: &str = "cluster-autoscaler-priority-expander";

// === impl SettingsInfo ===

impl SettingsInfo {
    /// The recorder's row for the flags of the first container's command. The recorder reads only these flags, and
    /// rejects all of them if one is invalid.
    pub(crate) fn of(deployment: &Value) -> InfoResult<SettingsInfo> {
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        if !container["command"].is_array() {
            return Err("the first container has no command".to_owned());
        }
        let mut settings = SettingsInfo::default();
        for flag in list(&container["command"]) {
            let flag = flag.as_str().ok_or("the command is not a list of strings")?;
            // As in the recorder, text after a second `=` is lost.
            let mut parts = flag.split('=');
            let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
            settings.set(name, value).map_err(|why| format!("{flag}: {why}"))?;
        }
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &str) -> InfoResult<()> {
        match name {
            "--max-graceful-termination-sec" => self.max_graceful_termination_seconds = parse_integer(value)?,
            "--max-node-provision-time" => self.max_node_provision_millis = parse_millis(value)?,
            "--scan-interval" => self.scan_interval_millis = parse_millis(value)?,
            "--max-empty-bulk-delete" => self.max_empty_bulk_delete = parse_integer(value)?,
            "--new-pod-scale-up-delay" => self.new_pod_scale_up_delay_millis = parse_millis(value)?,
            "--ignore-daemonsets-utilization" => self.ignore_daemon_sets = parse_bool(value)?,
            "--max-nodes-total" => self.max_nodes_total = parse_integer(value)?,
            "--expander" => value.clone_into(&mut self.expander),
            "--nodes" => {
                let mut parts = value.split(':');
                let (min, max, group) = (parts.next(), parts.next(), parts.next());
                let (Some(min), Some(max), Some(group)) = (min, max, group) else {
                    return Err("expected min:max:name".to_owned());
                };
                // The recorder checks only the second of the two errors.
                self.groups.insert(group.to_owned(), (parse_integer(min).unwrap_or(0), parse_integer(max)?));
            }
            _ => {}
        }
        Ok(())
    }

    /// The recorder's hash, which does not include the names of the groups.
    pub(crate) fn hash(&self) -> String {
        let mut hash = InfoHasher::default();
        hash.text(&self.expander);
        for (min, max) in self.groups.values() {
            hash.number(*min);
            hash.number(*max);
        }
        for number in [
            self.max_node_provision_millis,
            self.scan_interval_millis,
            self.max_graceful_termination_seconds,
            self.new_pod_scale_up_delay_millis,
            self.max_empty_bulk_delete,
        ] {
            hash.number(number);
        }
        // Zero for true, as in the recorder.
        hash.bytes(&[u8::from(!self.ignore_daemon_sets)]);
        hash.number(self.max_nodes_total);
        hash.text(&self.priorities);
        hash.hex()
    }

    /// A Deployment with these flags. Its namespace is not recorded.
    pub(crate) fn object(&self) -> Value {
        let numbers = [
            ("--max-graceful-termination-sec", self.max_graceful_termination_seconds),
            ("--max-empty-bulk-delete", self.max_empty_bulk_delete),
            ("--max-nodes-total", self.max_nodes_total),
        ];
        let spans = [
            ("--max-node-provision-time", self.max_node_provision_millis),
            ("--scan-interval", self.scan_interval_millis),
            ("--new-pod-scale-up-delay", self.new_pod_scale_up_delay_millis),
        ];
        let mut command = vec!["./cluster-autoscaler".to_owned()];
        if !self.expander.is_empty() {
            command.push(format!("--expander={}", self.expander));
        }
        command.extend(
            numbers
                .iter()
                .filter(|(_, number)| *number != 0)
                .map(|(flag, number)| format!("{flag}={number}")),
        );
        command.extend(spans.iter().filter(|(_, millis)| *millis != 0).map(|(flag, millis)| {
            match millis % 1_000 {
                0 => format!("{flag}={}s", millis / 1_000),
                _ => format!("{flag}={millis}ms"),
            }
        }));
        if self.ignore_daemon_sets {
            command.push("--ignore-daemonsets-utilization=true".to_owned());
        }
        command.extend(self.groups.iter().map(|(group, (min, max))| format!("--nodes={min}:{max}:{group}")));
        let meta = SnapshotMeta {
            name: AUTOSCALER_DEPLOYMENT.to_owned(),
            namespace: "kube-system".to_owned(),
            ..SnapshotMeta::default()
        };
        let mut object = meta.object("apps/v1", "Deployment");
        object["spec"] = json!({ "template": { "spec": { "containers": [
            { "name": AUTOSCALER_DEPLOYMENT, "command": command },
        ] } } });
        object
    }
}

/// The ConfigMap with these priorities.
pub(crate) fn priorities_config_map(priorities: &str) -> Value {
    let meta = SnapshotMeta {
        name: PRIORITIES_CONFIG_MAP.to_owned(),
        namespace: "kube-system".to_owned(),
        ..SnapshotMeta::default()
    };
    let mut object = meta.object("v1", "ConfigMap");
    object["data"] = json!({ "priorities": priorities });
    object
}

/// An integer as Go parses it.
fn parse_integer(text: &str) -> InfoResult<i64> {
    text.parse().map_err(|_| "not an integer".to_owned())
}

/// A boolean as Go parses it.
fn parse_bool(text: &str) -> InfoResult<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// A duration as Go parses it, such as `1h0m10s` or `1.5m`, in whole milliseconds.
fn parse_millis(text: &str) -> InfoResult<i64> {
    let invalid = || "expected a duration such as 10s or 1h30m".to_owned();
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    let mut rest = rest;
    let mut nanos: i64 = 0;
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
        let (amount, after) = rest.split_at(digits);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: i64 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(invalid()),
        };
        let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(invalid());
        }
        let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        let part = if fraction.is_empty() {
            0.0
        } else {
            format!("0.{fraction}").parse::<f64>().map_err(|_| invalid())? * unit as f64
        };
        nanos = whole
            .checked_mul(unit)
            .and_then(|span| span.checked_add(part as i64))
            .and_then(|span| span.checked_add(nanos))
            .ok_or_else(invalid)?;
        rest = after;
    }
    let millis = nanos / 1_000_000;
    Ok(if negative { -millis } else { millis })
}

//! Pods: the whole spec, and their scheduling status.

use std::cmp::Ordering;
use std::fmt::Write;

use model::{Moment, Object};
use serde_json::{Value, json};

use super::hash::InfoHasher;
use super::{
    InfoResult, Labels, Resources, SnapshotMeta, labels, last_changed, list, resources, set_if_not_empty,
    text,
};

/// A row of `pod_info`.
#[derive(Clone, Debug, PartialEq)]
pub struct PodInfo {
    /// Its name and times.
    pub meta: SnapshotMeta,
    /// The last transition of a condition, or else the creation.
    pub changed: Option<Moment>,
    /// Its uid.
    pub uid: String,
    /// Its nominated node. The recorder leaves it empty; files of other programs may have it.
    pub nominated: String,
    /// Its phase.
    pub phase: String,
    /// Its labels.
    pub labels: Labels,
    /// The sum of the regular containers' requests: without init containers and overhead.
    pub requests: Resources,
    /// Its whole spec.
    pub spec: Value,
    /// Its scheduling status.
    pub status: ScheduleStatus,
}

/// The scheduling status of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleStatus {
    /// Not yet attempted by the scheduler: such pods are not recorded.
    Pending = -2,
    /// It has a nominated node.
    Nominated = -1,
    /// It is unschedulable.
    Unscheduled = 0,
    /// It is bound to a node, or its owner is a DaemonSet or a Node.
    Committed = 1,
}

// === impl PodInfo ===

impl PodInfo {
    /// The row for a pod. Unlike the recorder's it has the nominated node, for which Gardener's type has a field. The
    /// error says why the pod cannot be parsed.
    pub fn read(pod: &Object) -> InfoResult<PodInfo> {
        let pod = pod.value().map_err(|error| error.to_string())?;
        let mut info = PodInfo::of(&pod)?;
        if info.status == ScheduleStatus::Nominated {
            text(&pod["status"], "nominatedNodeName").clone_into(&mut info.nominated);
        }
        Ok(info)
    }

    /// The recorder's row for a pod.
    pub(crate) fn of(object: &Value) -> InfoResult<PodInfo> {
        let meta = SnapshotMeta::of(object)?;
        let status = &object["status"];
        let mut spec = object["spec"].clone();
        check_spec(&spec)?;
        // The first container determines the sum's format, so the sum is computed before sorting.
        let requests = requests(&spec)?;
        // The recorder's hash sorts these lists in place before the spec is written. Go's sort is stable up to twelve
        // entries; beyond that this one differs where tolerations share a key.
        for (field, by) in
            [("containers", "name"), ("tolerations", "key"), ("topologySpreadConstraints", "topologyKey")]
        {
            if let Some(entries) = spec.get_mut(field).and_then(Value::as_array_mut) {
                entries.sort_by(|a, b| -> Ordering { text(a, by).cmp(text(b, by)) });
            }
        }
        Ok(PodInfo {
            changed: last_changed(meta.created, &status["conditions"])?,
            meta,
            uid: text(&object["metadata"], "uid").to_owned(),
            nominated: String::new(),
            phase: text(status, "phase").to_owned(),
            labels: labels(&object["metadata"]["labels"])?,
            requests,
            spec,
            status: ScheduleStatus::of(object),
        })
    }

    /// The node it is on; empty if it has none.
    pub fn node_name(&self) -> &str {
        text(&self.spec, "nodeName")
    }

    /// The recorder's hash, of a spec whose lists [`of`](PodInfo::of) has sorted. Among others it does not include
    /// phase, conditions, affinity, priority and volumes.
    pub(crate) fn hash(&self) -> InfoResult<String> {
        let mut hash = InfoHasher::default();
        for part in [&*self.meta.name, &self.meta.namespace, self.node_name(), &self.nominated] {
            hash.text(part);
        }
        hash.labels(&self.labels);
        hash.text(text(&self.spec, "schedulerName"));
        hash.number(self.status as i64);
        for container in list(&self.spec["containers"]) {
            hash.text(text(container, "name"));
            hash.texts(&container["args"]);
            hash.texts(&container["command"]);
            hash.text(text(container, "image"));
            for variable in list(&container["env"]) {
                hash.text(text(variable, "name"));
                hash.text(text(variable, "value"));
            }
        }
        hash.resources(&self.requests);
        for toleration in list(&self.spec["tolerations"]) {
            for field in ["key", "operator", "value", "effect"] {
                hash.text(text(toleration, field));
            }
        }
        for constraint in list(&self.spec["topologySpreadConstraints"]) {
            hash.number(constraint["maxSkew"].as_i64().unwrap_or_default());
            hash.text(text(constraint, "topologyKey"));
            hash.text(text(constraint, "whenUnsatisfiable"));
            if constraint["labelSelector"].is_object() {
                hash.text(&selector_text(&constraint["labelSelector"])?);
            }
            if let Some(domains) = constraint["minDomains"].as_i64() {
                hash.number(domains);
            }
            hash.text(text(constraint, "nodeAffinityPolicy"));
            hash.text(text(constraint, "nodeTaintsPolicy"));
            hash.texts(&constraint["matchLabelKeys"]);
        }
        Ok(hash.hex())
    }

    /// A pod from which the recorder would make this row.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.meta.object("v1", "Pod");
        let metadata = &mut object["metadata"];
        set_if_not_empty(metadata, "uid", json!(self.uid));
        set_if_not_empty(metadata, "labels", json!(self.labels));
        if self.status == ScheduleStatus::Committed && self.node_name().is_empty() {
            // Without a node only pods of a DaemonSet or a Node count as committed. Their owner is not recorded.
            metadata["ownerReferences"] =
                json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "unknown", "uid": "" }]);
        }
        object["spec"] = self.spec.clone();
        let mut condition = match self.status {
            ScheduleStatus::Committed => json!({ "type": "PodScheduled", "status": "True" }),
            _ => json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }),
        };
        set_if_not_empty(&mut condition, "lastTransitionTime", json!(self.changed.map(|at| at.to_string())));
        object["status"] = json!({ "conditions": [condition] });
        let phase = match (&*self.phase, self.status) {
            // Files from before 2024-10-10 do not contain the phase.
            ("", ScheduleStatus::Committed) => "Running",
            ("", _) => "Pending",
            (phase, _) => phase,
        };
        object["status"]["phase"] = json!(phase);
        if self.status == ScheduleStatus::Nominated {
            let node = if self.nominated.is_empty() { "unknown" } else { &self.nominated };
            object["status"]["nominatedNodeName"] = json!(node);
        }
        object
    }
}

fn requests(spec: &Value) -> InfoResult<Resources> {
    let mut sum = Resources::new();
    for container in list(&spec["containers"]) {
        for (name, amount) in resources(&container["resources"]["requests"])? {
            match sum.get_mut(&name) {
                Some(sum) => *sum += &amount,
                None => drop(sum.insert(name, amount)),
            }
        }
    }
    Ok(sum)
}

/// Checks what other functions rely on: the spec is an object, and its containers are a list of objects.
pub(crate) fn check_spec(spec: &Value) -> InfoResult<()> {
    let containers = spec.as_object().map(|spec| spec.get("containers"));
    match containers {
        Some(None | Some(Value::Null)) => Ok(()),
        Some(Some(Value::Array(containers))) if containers.iter().all(Value::is_object) => Ok(()),
        Some(Some(_)) => Err("containers is not a list of objects".to_owned()),
        None => Err("not an object".to_owned()),
    }
}

/// A label selector as Kubernetes' generated Go code prints it.
fn selector_text(selector: &Value) -> InfoResult<String> {
    let mut out = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    let add = |out: &mut String, parts: std::fmt::Arguments<'_>| {
        out.write_fmt(parts).expect("writing to a String cannot fail");
    };
    for (name, value) in labels(&selector["matchLabels"])? {
        add(&mut out, format_args!("{name}: {value},"));
    }
    out.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for term in list(&selector["matchExpressions"]) {
        let values: Vec<&str> = list(&term["values"]).iter().filter_map(Value::as_str).collect();
        let (key, operator) = (text(term, "key"), text(term, "operator"));
        add(
            &mut out,
            format_args!(
                "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},",
                values.join(" ")
            ),
        );
    }
    out.push_str("},}");
    Ok(out)
}

// === impl ScheduleStatus ===

impl ScheduleStatus {
    fn of(pod: &Value) -> ScheduleStatus {
        let status = &pod["status"];
        let conditions = list(&status["conditions"]);
        if conditions.is_empty() && text(status, "phase") == "Pending" {
            return ScheduleStatus::Pending;
        }
        if !text(&pod["spec"], "nodeName").is_empty() {
            return ScheduleStatus::Committed;
        }
        if !text(status, "nominatedNodeName").is_empty() {
            return ScheduleStatus::Nominated;
        }
        let tied = list(&pod["metadata"]["ownerReferences"]).iter().any(|owner| {
            matches!(
                (text(owner, "apiVersion"), text(owner, "kind")),
                ("apps/v1", "DaemonSet") | ("v1", "Node")
            )
        });
        if tied {
            return ScheduleStatus::Committed;
        }
        let is_unschedulable = conditions.iter().any(|condition| {
            text(condition, "type") == "PodScheduled" && text(condition, "reason") == "Unschedulable"
        });
        if is_unschedulable { ScheduleStatus::Unscheduled } else { ScheduleStatus::Pending }
    }

    /// The status with the number that a row contains.
    pub(crate) fn from_number(number: i64) -> InfoResult<ScheduleStatus> {
        Ok(match number {
            -1 => ScheduleStatus::Nominated,
            0 => ScheduleStatus::Unscheduled,
            1 => ScheduleStatus::Committed,
            other => {
                return Err(format!(
                    "unknown value {other}: expected -1 (nominated), 0 (unscheduled) or 1 (scheduled)"
                ));
            }
        })
    }
}

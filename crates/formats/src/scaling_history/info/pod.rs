//! Pods: the whole spec, and what the scheduler had to say.

use std::cmp::Ordering;
use std::fmt::Write;

use model::{Moment, Object};
use serde_json::{Value, json};

use super::hash::Hash;
use super::{Fit, Labels, Meta, Resources, changed, labels, list, put, resources, text};

/// What `pod_info` keeps of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodInfo {
    /// What names it.
    pub meta: Meta,
    /// The last change of a condition, or else when it was made.
    pub changed: Option<Moment>,
    /// Its uid.
    pub uid: String,
    /// The node that is cleared for it. The recorder never fills it; files of others may.
    pub nominated: String,
    /// Its phase.
    pub phase: String,
    /// Its labels.
    pub labels: Labels,
    /// The sum over the containers proper: no init containers, no overhead.
    pub requests: Resources,
    /// All of its spec.
    pub spec: Value,
    /// What the scheduler had to say.
    pub status: ScheduleStatus,
}

/// What the scheduler had to say about a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleStatus {
    /// Nothing yet: such pods are not recorded.
    Pending = -2,
    /// There is a node to be cleared for it.
    Nominated = -1,
    /// No node fits.
    Unscheduled = 0,
    /// It has its node, or belongs to one by its owner.
    Committed = 1,
}

// === impl PodInfo ===

impl PodInfo {
    /// What is kept of this pod, and beside what the recorder keeps the node that is being cleared for it: their type
    /// has the place. Says why it cannot be understood.
    pub fn read(pod: &Object) -> Fit<PodInfo> {
        let pod = pod.value().map_err(|error| error.to_string())?;
        let mut info = PodInfo::of(&pod)?;
        if info.status == ScheduleStatus::Nominated {
            text(&pod["status"], "nominatedNodeName").clone_into(&mut info.nominated);
        }
        Ok(info)
    }

    /// What the recorder keeps of this pod.
    pub(crate) fn of(object: &Value) -> Fit<PodInfo> {
        let meta = Meta::of(object)?;
        let status = &object["status"];
        let mut spec = object["spec"].clone();
        check_spec(&spec)?;
        // The first to ask decides how the sum is written, so it is made before the order changes.
        let requests = requests(&spec)?;
        // Their hash sorts these lists in place, before the spec is written. Their sort keeps the order of equals up to
        // twelve entries; beyond that this one differs where tolerations share a key.
        for (field, by) in
            [("containers", "name"), ("tolerations", "key"), ("topologySpreadConstraints", "topologyKey")]
        {
            if let Some(entries) = spec.get_mut(field).and_then(Value::as_array_mut) {
                entries.sort_by(|a, b| -> Ordering { text(a, by).cmp(text(b, by)) });
            }
        }
        Ok(PodInfo {
            changed: changed(meta.created, &status["conditions"])?,
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

    /// Of a spec whose lists [`of`](PodInfo::of) has sorted. Phase, conditions, affinity, priority, volumes and much
    /// else are no part of it.
    pub(crate) fn hash(&self) -> Fit<String> {
        let mut hash = Hash::default();
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

    /// A pod that the recorder would have seen so.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.meta.object("v1", "Pod");
        let metadata = &mut object["metadata"];
        put(metadata, "uid", json!(self.uid));
        put(metadata, "labels", json!(self.labels));
        if self.status == ScheduleStatus::Committed && self.node_name().is_empty() {
            // Only pods of these owners count as committed without a node. Whose they are is not recorded.
            metadata["ownerReferences"] =
                json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "unknown", "uid": "" }]);
        }
        object["spec"] = self.spec.clone();
        let mut condition = match self.status {
            ScheduleStatus::Committed => json!({ "type": "PodScheduled", "status": "True" }),
            _ => json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }),
        };
        put(&mut condition, "lastTransitionTime", json!(self.changed.map(|at| at.to_string())));
        object["status"] = json!({ "conditions": [condition] });
        let phase = match (&*self.phase, self.status) {
            // Files from before 2024-10-10 do not tell.
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

fn requests(spec: &Value) -> Fit<Resources> {
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

/// The least a spec must be for others to read it.
pub(crate) fn check_spec(spec: &Value) -> Fit<()> {
    let containers = spec.as_object().map(|spec| spec.get("containers"));
    match containers {
        Some(None | Some(Value::Null)) => Ok(()),
        Some(Some(Value::Array(containers))) if containers.iter().all(Value::is_object) => Ok(()),
        Some(Some(_)) => Err("its containers are no list of objects".to_owned()),
        None => Err("it is no object".to_owned()),
    }
}

/// A label selector as Kubernetes' generated Go code prints it.
fn selector_text(selector: &Value) -> Fit<String> {
    let mut out = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    let add = |out: &mut String, parts: std::fmt::Arguments<'_>| {
        out.write_fmt(parts).expect("a String takes all that is written to it");
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
        let refused = conditions.iter().any(|condition| {
            text(condition, "type") == "PodScheduled" && text(condition, "reason") == "Unschedulable"
        });
        if refused { ScheduleStatus::Unscheduled } else { ScheduleStatus::Pending }
    }

    /// By the number it is recorded as.
    pub(crate) fn numbered(number: i64) -> Fit<ScheduleStatus> {
        Ok(match number {
            -1 => ScheduleStatus::Nominated,
            0 => ScheduleStatus::Unscheduled,
            1 => ScheduleStatus::Committed,
            other => {
                return Err(format!("{other} is none of -1 (nominated), 0 (unscheduled), 1 (scheduled)"));
            }
        })
    }
}

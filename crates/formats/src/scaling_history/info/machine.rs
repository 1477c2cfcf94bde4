//! Machine deployments and machine classes of Gardener's machine-controller-manager.

use kubernetes::quantity::Quantity;
use serde_json::{Value, json};

use super::hash::InfoHasher;
use super::{InfoResult, Labels, Resources, SnapshotMeta, labels, set_if_not_empty};
use crate::scaling_history::timestamps::go_millis;

const API_VERSION: &str = "machine.sapcloud.io/v1alpha1";

/// Labels that may hold the pool's name, in the recorder's order.
const POOL_LABELS: [&str; 3] =
    ["worker.gardener.cloud/pool", "worker_gardener_cloud_pool", "worker.gardener.cloud_pool"];

/// Labels that may hold the zone, in the recorder's order.
const ZONE_LABELS: [&str; 5] = [
    "topology.kubernetes.io/zone",
    "topology.gke.io/zone",
    "topology.ebs.csi.aws.com/zone",
    "topology.disk.csi.azure.com/zone",
    "failure-domain.beta.kubernetes.io/zone",
];

/// A row of `mcd_info`: a MachineDeployment.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineDeploymentInfo {
    /// Its name and times.
    pub meta: SnapshotMeta,
    /// The desired number of machines.
    pub replicas: i64,
    /// Its worker pool.
    pub pool: String,
    /// Its zone.
    pub zone: String,
    /// `maxSurge` of a rolling update, a number or a percentage.
    pub max_surge: String,
    /// `maxUnavailable` of a rolling update, a number or a percentage.
    pub max_unavailable: String,
    /// The machine class of its machines.
    pub class: String,
    /// Labels of its nodes.
    pub labels: Labels,
    /// Taints of its nodes.
    pub taints: Vec<Value>,
}

/// A row of `mcc_info`: a MachineClass.
#[derive(Clone, Debug)]
pub(crate) struct MachineClassInfo {
    pub(crate) meta: SnapshotMeta,
    pub(crate) instance_type: String,
    pub(crate) pool: String,
    pub(crate) region: String,
    pub(crate) zone: String,
    pub(crate) labels: Labels,
    pub(crate) capacity: Resources,
}

// === impl MachineDeploymentInfo ===

impl MachineDeploymentInfo {
    /// The recorder's row for a machine deployment. The recorder rejects one without labels, a pool, a strategy or a
    /// class.
    pub(crate) fn of(object: &Value) -> InfoResult<MachineDeploymentInfo> {
        let spec = &object["spec"];
        let template = &spec["template"]["spec"];
        let labels =
            required_labels(&template["nodeTemplate"]["metadata"]["labels"], "the labels of nodeTemplate")?;
        let update = &spec["strategy"]["rollingUpdate"];
        Ok(MachineDeploymentInfo {
            meta: SnapshotMeta::of(object)?,
            replicas: match &spec["replicas"] {
                Value::Null if spec.get("replicas").is_none() => 0,
                replicas => replicas.as_i64().ok_or("replicas is not an integer")?,
            },
            pool: pool_name(&labels)?,
            zone: ZONE_LABELS.iter().find_map(|label| labels.get(*label)).cloned().unwrap_or_default(),
            max_surge: int_or_string_text(&update["maxSurge"], "maxSurge")?,
            max_unavailable: int_or_string_text(&update["maxUnavailable"], "maxUnavailable")?,
            class: required(&template["class"], "name")?,
            labels,
            taints: template_taints(template)?,
        })
    }

    pub(crate) fn hash(&self) -> String {
        let mut hash = InfoHasher::default();
        for part in [&self.meta.name, &self.meta.namespace, &self.pool, &self.zone] {
            hash.text(part);
        }
        hash.number(self.replicas);
        for part in [&self.max_surge, &self.max_unavailable, &self.class] {
            hash.text(part);
        }
        hash.taints(&self.taints);
        hash.hex()
    }

    /// A machine deployment from which the recorder would make this row.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.meta.object(API_VERSION, "MachineDeployment");
        object["spec"] = json!({
            "replicas": self.replicas,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": {
                "maxSurge": int_or_string(&self.max_surge),
                "maxUnavailable": int_or_string(&self.max_unavailable),
            } },
            "template": { "spec": {
                "class": { "kind": "MachineClass", "name": self.class },
                "nodeTemplate": { "metadata": { "labels": self.labels }, "spec": {} },
            } },
        });
        let mut taints = self.taints.clone();
        for taint in &mut taints {
            // Rows omit an empty value, but the recorder would drop a taint without one.
            if taint.get("value").is_none() {
                taint["value"] = json!("");
            }
        }
        set_if_not_empty(
            &mut object["spec"]["template"]["spec"]["nodeTemplate"]["spec"],
            "taints",
            json!(taints),
        );
        object
    }
}

/// The recorder drops taints that lack a key, a value or an effect.
fn template_taints(template: &Value) -> InfoResult<Vec<Value>> {
    let taints = match template["nodeTemplate"]["spec"].get("taints") {
        None => return Ok(Vec::new()),
        Some(Value::Array(taints)) => taints,
        Some(_) => return Err("taints is not a list".to_owned()),
    };
    let mut valid_taints = Vec::new();
    for taint in taints {
        let [key, value, effect] = ["key", "value", "effect"].map(|field| taint.get(field));
        if let (Some(key), Some(value), Some(effect)) = (key, value, effect) {
            let [key, value, effect] = [key, value, effect].map(Value::as_str);
            let (Some(key), Some(value), Some(effect)) = (key, value, effect) else {
                return Err("key, value or effect of a taint is not a string".to_owned());
            };
            let mut taint = json!({ "key": key, "effect": effect });
            set_if_not_empty(&mut taint, "value", json!(value));
            valid_taints.push(taint);
        }
    }
    Ok(valid_taints)
}

// === impl MachineClassInfo ===

impl MachineClassInfo {
    /// The recorder's row for a machine class. The recorder rejects one without a node template or a pool.
    pub(crate) fn of(object: &Value) -> InfoResult<MachineClassInfo> {
        let template = &object["nodeTemplate"];
        let provider = &object["providerSpec"];
        let mut labels = match provider.get("labels") {
            Some(labels) => required_labels(labels, "the labels of providerSpec")?,
            None => required_labels(&provider["tags"], "the tags of providerSpec")?,
        };
        labels.extend(super::labels(&object["metadata"]["labels"]).unwrap_or_default());
        let capacity = template["capacity"].as_object().ok_or("nodeTemplate has no capacity")?;
        let amount = |(name, amount): (&String, &Value)| {
            let text = amount.as_str().ok_or_else(|| format!("the capacity of {name} is not a string"))?;
            let amount = Quantity::parse(text).map_err(|error| error.to_string())?;
            // Printed and parsed again, as the recorder does.
            let printed = Quantity::parse(&amount.to_string()).map_err(|error| error.to_string())?;
            Ok((name.clone(), printed))
        };
        Ok(MachineClassInfo {
            meta: SnapshotMeta::of(object)?,
            instance_type: required(template, "instanceType")?,
            pool: pool_name(&labels)?,
            region: required(template, "region")?,
            zone: required(template, "zone")?,
            labels,
            capacity: capacity.iter().map(amount).collect::<InfoResult<Resources>>()?,
        })
    }

    pub(crate) fn hash(&self) -> String {
        let mut hash = InfoHasher::default();
        hash.text(&self.meta.name);
        hash.text(&self.meta.namespace);
        hash.number(go_millis(self.meta.created));
        for part in [&self.instance_type, &self.pool, &self.region, &self.zone] {
            hash.text(part);
        }
        hash.labels(&self.labels);
        hash.resources(&self.capacity);
        hash.hex()
    }

    /// A machine class from which the recorder would make this row.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.meta.object(API_VERSION, "MachineClass");
        object["nodeTemplate"] = json!({
            "instanceType": self.instance_type,
            "region": self.region,
            "zone": self.zone,
            "capacity": self.capacity,
        });
        object["providerSpec"] = json!({ "labels": self.labels });
        object
    }
}

fn required(value: &Value, field: &str) -> InfoResult<String> {
    value[field].as_str().map(str::to_owned).ok_or_else(|| format!("{field} is missing"))
}

fn required_labels(value: &Value, field_name: &str) -> InfoResult<Labels> {
    if value.is_object() { labels(value) } else { Err(format!("{field_name} are missing")) }
}

fn pool_name(labels: &Labels) -> InfoResult<String> {
    let found = POOL_LABELS.iter().find_map(|label| labels.get(*label));
    found.cloned().ok_or_else(|| format!("no label with the worker pool, such as {}", POOL_LABELS[0]))
}

/// An IntOrString as a text, `3` or `25%`. Numbers are truncated to 32 bits, as in the recorder.
pub(super) fn int_or_string_text(value: &Value, field: &str) -> InfoResult<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => match other.as_i64() {
            Some(number) => Ok((number as i32).to_string()),
            None => Err(format!("{field} is neither an integer nor a string")),
        },
    }
}

/// An IntOrString: a number if the text is one, or else the text.
pub(crate) fn int_or_string(text: &str) -> Value {
    match text.parse::<i32>() {
        Ok(number) if number.to_string() == text => json!(number),
        _ => json!(text),
    }
}

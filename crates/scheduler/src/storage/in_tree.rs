//! Disks of the clouds that Kubernetes once attached itself, and the CSI drivers that do so now.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::selector::NodeSelector;
use serde::Deserialize;
use serde_json::{Value, json};

use super::attachable::Attachable;
use super::read::{Fields, Unreadable};

/// A plugin of Kubernetes' own whose work a CSI driver has taken over, also in the scheduler's eyes.
///
/// The disks of `kubernetes.io/azure-file` and `kubernetes.io/vsphere-volume` moved too, but the scheduler does not
/// count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InTree {
    AwsEbs,
    GcePd,
    AzureDisk,
    Cinder,
    Portworx,
}

/// A PersistentVolume that is written as such a disk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InTreeDisk {
    pub(crate) plugin: InTree,
    /// What it is to the CSI driver, or why it is nothing.
    pub(crate) migrated: Result<Migrated, String>,
}

/// An in-tree volume as its CSI driver sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Migrated {
    pub(crate) attachable: Attachable,
    /// Where it can be reached from, in labels that the driver puts on nodes.
    pub(crate) affinity: Option<NodeSelector>,
}

/// `spec.azureDisk`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AzureDisk {
    #[serde(rename = "diskURI")]
    disk_uri: Option<Arc<str>>,
    kind: Option<Arc<str>>,
}

/// The labels that say where a volume is: the one of old and the one of today.
pub(crate) const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
pub(crate) const OLD_REGION: &str = "failure-domain.beta.kubernetes.io/region";
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const REGION: &str = "topology.kubernetes.io/region";

/// Between the zones of a volume that is in several.
pub(crate) const BETWEEN_ZONES: &str = "__";

// === impl InTree ===

impl InTree {
    const ALL: [InTree; 5] =
        [InTree::GcePd, InTree::AwsEbs, InTree::Cinder, InTree::AzureDisk, InTree::Portworx];

    /// What storage classes and CSINodes call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            InTree::AwsEbs => "kubernetes.io/aws-ebs",
            InTree::GcePd => "kubernetes.io/gce-pd",
            InTree::AzureDisk => "kubernetes.io/azure-disk",
            InTree::Cinder => "kubernetes.io/cinder",
            InTree::Portworx => "kubernetes.io/portworx-volume",
        }
    }

    /// The CSI driver that took over.
    fn driver(self) -> &'static str {
        match self {
            InTree::AwsEbs => "ebs.csi.aws.com",
            InTree::GcePd => "pd.csi.storage.gke.io",
            InTree::AzureDisk => "disk.csi.azure.com",
            InTree::Cinder => "cinder.csi.openstack.org",
            InTree::Portworx => "pxd.portworx.com",
        }
    }

    /// The label by which the driver says in which zone a node is, where it takes over the volume's zone at all.
    fn zone_label(self) -> Option<&'static str> {
        match self {
            InTree::AwsEbs => Some("topology.ebs.csi.aws.com/zone"),
            InTree::GcePd => Some("topology.gke.io/zone"),
            InTree::Cinder => Some("topology.cinder.csi.openstack.org/zone"),
            InTree::AzureDisk | InTree::Portworx => None,
        }
    }

    fn field(self) -> &'static str {
        match self {
            InTree::AwsEbs => "spec.awsElasticBlockStore",
            InTree::GcePd => "spec.gcePersistentDisk",
            InTree::AzureDisk => "spec.azureDisk",
            InTree::Cinder => "spec.cinder",
            InTree::Portworx => "spec.portworxVolume",
        }
    }

    /// A disk by what the driver calls it.
    pub(crate) fn attachable(self, handle: &str) -> Attachable {
        Attachable::volume(&self.driver().into(), &handle.into())
    }

    /// The driver that provisions for a storage class: its own, or the one that took over from it. `None` where
    /// volumes of the class do not count.
    pub(crate) fn provisioning_driver(provisioner: &Arc<str>) -> Option<Arc<str>> {
        match &**provisioner {
            "kubernetes.io/azure-file" | "kubernetes.io/vsphere-volume" => None,
            name => match InTree::ALL.into_iter().find(|plugin| plugin.name() == name) {
                Some(plugin) => Some(plugin.driver().into()),
                None => Some(provisioner.clone()),
            },
        }
    }

    /// What a volume requires of nodes, with the zone under the driver's own label.
    fn required(self, required: Option<Value>, labels: &Labels) -> Option<Value> {
        let Some(own) = self.zone_label() else { return required };
        let (zone, region) = topology_labels(required.as_ref(), labels);
        let mut required = required;
        if has_values(required.as_ref(), zone) {
            rename(required.as_mut(), zone, own);
        } else if let Some(zones) = labels.get(zone) {
            let zones: BTreeSet<&str> =
                zones.split(BETWEEN_ZONES).map(str::trim).filter(|zone| !zone.is_empty()).collect();
            if !zones.is_empty() {
                required = Some(with_zones(required, own, &zones));
            }
        }
        if region == OLD_REGION && has_values(required.as_ref(), region) {
            rename(required.as_mut(), region, REGION);
        }
        required
    }
}

// === impl InTreeDisk ===

impl InTreeDisk {
    /// The disk of a PersistentVolume, if it is written as one.
    pub(super) fn read(volume: &Fields<'_>, labels: &Labels) -> Result<Option<InTreeDisk>, Unreadable> {
        for plugin in InTree::ALL {
            let Some(source) = volume.part(plugin.field())? else { continue };
            let handle = match plugin {
                InTree::AwsEbs => {
                    ebs_handle(source.text("volumeID")?.unwrap_or_default()).map(Cow::into_owned)
                }
                InTree::GcePd => gce_volume_handle(labels, source.text("pdName")?.unwrap_or_default()),
                InTree::AzureDisk => {
                    let disk: AzureDisk = volume.parsed(plugin.field())?.unwrap_or_default();
                    disk.handle().map(|handle| handle.to_string())
                }
                InTree::Cinder | InTree::Portworx => {
                    Ok(source.text("volumeID")?.unwrap_or_default().to_owned())
                }
            };
            let required = volume.find("spec.nodeAffinity.required")?;
            let migrated = match handle {
                Ok(handle) => {
                    let required = plugin.required(required.cloned(), labels);
                    let affinity = required.map(|required| NodeSelector::deserialize(&required)).transpose();
                    let affinity = affinity
                        .map_err(|error| volume.bad("spec.nodeAffinity.required", error.to_string()))?;
                    Ok(Migrated { attachable: plugin.attachable(&handle), affinity })
                }
                Err(why) => Err(why),
            };
            return Ok(Some(InTreeDisk { plugin, migrated }));
        }
        Ok(None)
    }
}

// === impl AzureDisk ===

impl AzureDisk {
    pub(super) fn handle(&self) -> Result<Arc<str>, String> {
        match &self.kind {
            Some(kind) if !kind.eq_ignore_ascii_case("Managed") => {
                Err(format!("kind({kind}) is not supported in csi migration"))
            }
            _ => Ok(self.disk_uri.clone().unwrap_or_default()),
        }
    }
}

/// What the driver calls a disk: the last part of `aws://ZONE/vol-…`, or all of it.
pub(super) fn ebs_handle(id: &str) -> Result<Cow<'_, str>, String> {
    let Some(rest) = id.strip_prefix("aws://") else { return Ok(id.into()) };
    let bad = |why: String| format!("failed to translate Kubernetes ID to EBS Volume ID {why}");
    let rest = rest.split(['#', '?']).next().unwrap_or_default();
    let path = rest.find('/').map_or("", |slash| &rest[slash..]);
    let path = unescape(path).map_err(|escape| {
        bad(format!("Invalid disk name ({id}): parse {id:?}: invalid URL escape {escape:?}"))
    })?;
    let handle = path.trim_matches('/');
    if !handle.starts_with("vol-") || handle.contains('/') {
        return Err(bad(format!("Invalid format for AWS volume ({id})")));
    }
    Ok(Cow::Owned(handle.to_owned()))
}

/// What the driver calls a disk in a zone or in an unknown one.
pub(super) fn gce_handle(zone: Option<&str>, disk: &str) -> String {
    format!("projects/UNSPECIFIED/zones/{}/disks/{disk}", zone.unwrap_or("UNSPECIFIED"))
}

fn gce_volume_handle(labels: &Labels, disk: &str) -> Result<String, String> {
    let old = labels.get(OLD_ZONE).filter(|zones| !zones.is_empty());
    let zones = old.or_else(|| labels.get(ZONE)).unwrap_or_default();
    if zones.is_empty() {
        return Ok(gce_handle(None, disk));
    }
    if !zones.contains(BETWEEN_ZONES) {
        return Ok(gce_handle(Some(zones), disk));
    }
    let bad = |why: String| format!("failed to get region from zones: {why}");
    let mut regions = BTreeSet::new();
    for zone in zones.split(BETWEEN_ZONES) {
        let parts: Vec<&str> = zone.split('-').collect();
        let [locale, region, _] = parts[..] else {
            return Err(bad(format!(
                "zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )));
        };
        regions.insert(format!("{locale}-{region}"));
    }
    match regions.first() {
        Some(region) if regions.len() == 1 => {
            Ok(format!("projects/UNSPECIFIED/regions/{region}/disks/{disk}"))
        }
        _ => {
            let regions: Vec<String> = regions.iter().map(|region| format!("{region}:{{}}")).collect();
            let regions = regions.join(" ");
            Err(bad(format!("multiple or no regions gotten from zones, got: map[{regions}]")))
        }
    }
}

/// The labels for zone and region that a volume uses.
fn topology_labels(required: Option<&Value>, labels: &Labels) -> (&'static str, &'static str) {
    let new = (ZONE, REGION);
    let old = (OLD_ZONE, OLD_REGION);
    let required_by = |label: &str| expressions(required).any(|expression| expression["key"] == label);
    if required_by(ZONE) {
        new
    } else if required_by(OLD_ZONE) {
        old
    } else if labels.get(ZONE).is_some() {
        new
    } else if labels.get(OLD_ZONE).is_some() {
        old
    } else {
        new
    }
}

fn terms(required: Option<&Value>) -> impl Iterator<Item = &Value> {
    required.and_then(|required| required["nodeSelectorTerms"].as_array()).into_iter().flatten()
}

fn expressions(required: Option<&Value>) -> impl Iterator<Item = &Value> {
    terms(required).filter_map(|term| term["matchExpressions"].as_array()).flatten()
}

fn has_values(required: Option<&Value>, key: &str) -> bool {
    let has = |expression: &Value| expression["values"].as_array().is_some_and(|values| !values.is_empty());
    expressions(required).any(|expression| expression["key"] == key && has(expression))
}

fn rename(required: Option<&mut Value>, from: &str, to: &str) {
    let terms = required.and_then(|required| required.get_mut("nodeSelectorTerms")?.as_array_mut());
    for term in terms.into_iter().flatten() {
        let expressions = term.get_mut("matchExpressions").and_then(Value::as_array_mut);
        for expression in expressions.into_iter().flatten() {
            if expression["key"] == from {
                expression["key"] = to.into();
            }
        }
    }
}

/// What is required, and in each term one of the zones too.
fn with_zones(required: Option<Value>, key: &str, zones: &BTreeSet<&str>) -> Value {
    let zone = json!({"key": key, "operator": "In", "values": zones});
    let mut old: Vec<Value> = terms(required.as_ref()).cloned().collect();
    if old.is_empty() {
        old.push(json!({}));
    }
    let with_zone = |mut term: Value| {
        if let Value::Object(fields) = &mut term {
            let expressions = fields.entry("matchExpressions").or_insert(Value::Null);
            match expressions {
                Value::Array(expressions) => expressions.push(zone.clone()),
                _ => *expressions = json!([zone]),
            }
        }
        term
    };
    let terms: Vec<Value> = old.into_iter().map(with_zone).collect();
    json!({ "nodeSelectorTerms": terms })
}

/// Undoes percent signs in a URL's path; an error is the escape that is none.
fn unescape(path: &str) -> Result<Cow<'_, str>, String> {
    if !path.contains('%') {
        return Ok(path.into());
    }
    let bytes = path.as_bytes();
    let (mut text, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        if byte != b'%' {
            text.push(byte);
            at += 1;
            continue;
        }
        let digits = bytes.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        let Some(code) = code else {
            let end = (at + 3).min(bytes.len());
            return Err(String::from_utf8_lossy(&bytes[at..end]).into_owned());
        };
        text.push(code);
        at += 3;
    }
    Ok(String::from_utf8_lossy(&text).into_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::objects::Volume;

    const VOLUMES: &str = include_str!("../../../../testdata/scheduler/in_tree.jsonl");

    #[test]
    fn disks_are_what_their_drivers_call_them() {
        let mut rows = 0;
        for line in VOLUMES.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let volume = Volume::read(&Fields::of(&row["volume"], "v")).unwrap();
            let InTreeDisk { plugin, migrated } = volume.in_tree.unwrap();
            assert_eq!(plugin.name(), row["plugin"], "{row}");
            match migrated {
                Err(why) => assert_eq!(why, row["error"], "{row}"),
                Ok(migrated) => {
                    let driver: Arc<str> = row["driver"].as_str().unwrap().into();
                    let handle: Arc<str> = row["handle"].as_str().unwrap().into();
                    assert_eq!(migrated.attachable, Attachable::volume(&driver, &handle), "{row}");
                    let required =
                        row.get("required").map(|required| NodeSelector::deserialize(required).unwrap());
                    assert_eq!(migrated.affinity, required, "{row}");
                }
            }
            rows += 1;
        }
        assert_eq!(rows, 260);
    }

    #[test]
    fn classes_provision_with_the_driver_that_took_over() {
        let check = |provisioner: &str, expected: Option<&str>| {
            assert_eq!(InTree::provisioning_driver(&provisioner.into()).as_deref(), expected);
        };
        check("kubernetes.io/gce-pd", Some("pd.csi.storage.gke.io"));
        check("kubernetes.io/vsphere-volume", None);
        check("kubernetes.io/azure-file", None);
        check("csi.example.com", Some("csi.example.com"));
        check("kubernetes.io/no-provisioner", Some("kubernetes.io/no-provisioner"));
    }
}

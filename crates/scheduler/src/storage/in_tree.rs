//! In-tree volume plugins, and the translation of their volumes to CSI drivers.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::objects::AzureDisk;
use kubernetes::selector::NodeSelector;
use kubernetes::well_known::{BETA_REGION, BETA_ZONE, REGION, ZONE};
use serde::Deserialize;
use serde_json::{Value, json};

use super::attachable::AttachableVolume;
use super::read::{ObjectFields, UnreadableObject};

/// An in-tree volume plugin that is migrated to a CSI driver and counted by the scheduler.
///
/// `kubernetes.io/azure-file` and `kubernetes.io/vsphere-volume` are migrated too, but the scheduler does not count
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InTreePlugin {
    AwsEbs,
    GcePd,
    AzureDisk,
    Cinder,
    Portworx,
}

/// The in-tree source of a PersistentVolume.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InTreeVolume {
    pub(crate) plugin: InTreePlugin,
    /// Its translation, or why it cannot be translated.
    pub(crate) migrated: Result<MigratedVolume, String>,
}

/// An in-tree volume translated to CSI.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MigratedVolume {
    pub(crate) attachable: AttachableVolume,
    /// The nodes it is reachable from, by the driver's topology labels.
    pub(crate) affinity: Option<NodeSelector>,
}

/// Separates the zones of a volume that is in several.
pub(crate) const ZONE_SEPARATOR: &str = "__";

// === impl InTreePlugin ===

impl InTreePlugin {
    const ALL: [InTreePlugin; 5] = [
        InTreePlugin::GcePd,
        InTreePlugin::AwsEbs,
        InTreePlugin::Cinder,
        InTreePlugin::AzureDisk,
        InTreePlugin::Portworx,
    ];

    /// The plugin of that name.
    pub(crate) fn named(name: &str) -> Option<InTreePlugin> {
        InTreePlugin::ALL.into_iter().find(|plugin| plugin.name() == name)
    }

    /// Its name in storage classes and CSINodes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            InTreePlugin::AwsEbs => "kubernetes.io/aws-ebs",
            InTreePlugin::GcePd => "kubernetes.io/gce-pd",
            InTreePlugin::AzureDisk => "kubernetes.io/azure-disk",
            InTreePlugin::Cinder => "kubernetes.io/cinder",
            InTreePlugin::Portworx => "kubernetes.io/portworx-volume",
        }
    }

    /// The CSI driver it is migrated to.
    fn driver(self) -> &'static str {
        match self {
            InTreePlugin::AwsEbs => "ebs.csi.aws.com",
            InTreePlugin::GcePd => "pd.csi.storage.gke.io",
            InTreePlugin::AzureDisk => "disk.csi.azure.com",
            InTreePlugin::Cinder => "cinder.csi.openstack.org",
            InTreePlugin::Portworx => "pxd.portworx.com",
        }
    }

    /// The driver's topology label for zones, if the translation sets one.
    fn zone_label(self) -> Option<&'static str> {
        match self {
            InTreePlugin::AwsEbs => Some("topology.ebs.csi.aws.com/zone"),
            InTreePlugin::GcePd => Some("topology.gke.io/zone"),
            InTreePlugin::Cinder => Some("topology.cinder.csi.openstack.org/zone"),
            InTreePlugin::AzureDisk | InTreePlugin::Portworx => None,
        }
    }

    fn field(self) -> &'static str {
        match self {
            InTreePlugin::AwsEbs => "spec.awsElasticBlockStore",
            InTreePlugin::GcePd => "spec.gcePersistentDisk",
            InTreePlugin::AzureDisk => "spec.azureDisk",
            InTreePlugin::Cinder => "spec.cinder",
            InTreePlugin::Portworx => "spec.portworxVolume",
        }
    }

    /// A volume by its CSI handle.
    pub(crate) fn attachable(self, handle: &str) -> AttachableVolume {
        AttachableVolume::volume(&self.driver().into(), &handle.into())
    }

    /// The driver that provisions for a storage class: its provisioner, or the one that this is migrated to. `None` if
    /// volumes of the class do not count.
    pub(crate) fn provisioning_driver(provisioner: &Arc<str>) -> Option<Arc<str>> {
        match &**provisioner {
            "kubernetes.io/azure-file" | "kubernetes.io/vsphere-volume" => None,
            name => match InTreePlugin::named(name) {
                Some(plugin) => Some(plugin.driver().into()),
                None => Some(provisioner.clone()),
            },
        }
    }

    /// The volume's node affinity with the zone label replaced by the driver's.
    fn translate_required(self, required: Option<Value>, labels: &Labels) -> Option<Value> {
        let Some(own) = self.zone_label() else { return required };
        let (zone, region) = topology_labels(required.as_ref(), labels);
        let mut required = required;
        if has_values(required.as_ref(), zone) {
            rename(required.as_mut(), zone, own);
        } else if let Some(zones) = labels.get(zone) {
            let zones: BTreeSet<&str> =
                zones.split(ZONE_SEPARATOR).map(str::trim).filter(|zone| !zone.is_empty()).collect();
            if !zones.is_empty() {
                required = Some(with_zones(required, own, &zones));
            }
        }
        if region == BETA_REGION && has_values(required.as_ref(), region) {
            rename(required.as_mut(), region, REGION);
        }
        required
    }
}

// === impl InTreeVolume ===

impl InTreeVolume {
    /// Reads the in-tree source of a PersistentVolume, if it has one.
    pub(super) fn read(
        volume: &ObjectFields<'_>,
        labels: &Labels,
    ) -> Result<Option<InTreeVolume>, UnreadableObject> {
        for plugin in InTreePlugin::ALL {
            let Some(source) = volume.object(plugin.field())? else { continue };
            let handle = match plugin {
                InTreePlugin::AwsEbs => {
                    ebs_handle(source.text("volumeID")?.unwrap_or_default()).map(Cow::into_owned)
                }
                InTreePlugin::GcePd => gce_volume_handle(labels, source.text("pdName")?.unwrap_or_default()),
                InTreePlugin::AzureDisk => {
                    let disk: AzureDisk = volume.parsed(plugin.field())?.unwrap_or_default();
                    azure_handle(&disk).map(|handle| handle.to_string())
                }
                InTreePlugin::Cinder | InTreePlugin::Portworx => {
                    Ok(source.text("volumeID")?.unwrap_or_default().to_owned())
                }
            };
            let required = volume.get("spec.nodeAffinity.required")?;
            let migrated = match handle {
                Ok(handle) => {
                    let required = plugin.translate_required(required.cloned(), labels);
                    let affinity = required.map(|required| NodeSelector::deserialize(&required)).transpose();
                    let affinity = affinity
                        .map_err(|error| volume.error("spec.nodeAffinity.required", error.to_string()))?;
                    Ok(MigratedVolume { attachable: plugin.attachable(&handle), affinity })
                }
                Err(why) => Err(why),
            };
            return Ok(Some(InTreeVolume { plugin, migrated }));
        }
        Ok(None)
    }
}

/// The handle of an Azure disk. Only managed disks can be migrated.
pub(super) fn azure_handle(disk: &AzureDisk) -> Result<Arc<str>, String> {
    match &disk.kind {
        Some(kind) if !kind.eq_ignore_ascii_case("Managed") => {
            Err(format!("kind({kind}) is not supported in csi migration"))
        }
        _ => Ok(disk.disk_uri.clone().unwrap_or_default()),
    }
}

/// The handle of an EBS volume: the last part of `aws://ZONE/vol-…`, or the whole ID.
pub(super) fn ebs_handle(id: &str) -> Result<Cow<'_, str>, String> {
    let Some(rest) = id.strip_prefix("aws://") else { return Ok(id.into()) };
    let bad = |error: String| format!("failed to translate Kubernetes ID to EBS Volume ID {error}");
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

/// The handle of a GCE disk in a zone, or in an unknown one.
pub(super) fn gce_handle(zone: Option<&str>, disk: &str) -> String {
    format!("projects/UNSPECIFIED/zones/{}/disks/{disk}", zone.unwrap_or("UNSPECIFIED"))
}

fn gce_volume_handle(labels: &Labels, disk: &str) -> Result<String, String> {
    let old = labels.get(BETA_ZONE).filter(|zones| !zones.is_empty());
    let zones = old.or_else(|| labels.get(ZONE)).unwrap_or_default();
    if zones.is_empty() {
        return Ok(gce_handle(None, disk));
    }
    if !zones.contains(ZONE_SEPARATOR) {
        return Ok(gce_handle(Some(zones), disk));
    }
    let bad = |error: String| format!("failed to get region from zones: {error}");
    let mut regions = BTreeSet::new();
    for zone in zones.split(ZONE_SEPARATOR) {
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
    let old = (BETA_ZONE, BETA_REGION);
    let required_by = |label: &str| expressions(required).any(|expression| expression["key"] == label);
    if required_by(ZONE) {
        new
    } else if required_by(BETA_ZONE) {
        old
    } else if labels.get(ZONE).is_some() {
        new
    } else if labels.get(BETA_ZONE).is_some() {
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

/// Adds a requirement for one of the zones to each term.
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

/// Decodes percent escapes in a URL path. The error is the invalid escape.
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
    use crate::storage::objects::PersistentVolume;

    const VOLUMES: &str = include_str!("../../../../testdata/scheduler/in_tree.jsonl");

    #[test]
    fn in_tree_volumes_are_translated_as_by_the_csi_library() {
        let mut rows = 0;
        for line in VOLUMES.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let volume = PersistentVolume::read(&ObjectFields::of(&row["volume"], "v")).unwrap();
            let InTreeVolume { plugin, migrated } = volume.in_tree.unwrap();
            assert_eq!(plugin.name(), row["plugin"], "{row}");
            match migrated {
                Err(error) => assert_eq!(error, row["error"], "{row}"),
                Ok(migrated) => {
                    let driver: Arc<str> = row["driver"].as_str().unwrap().into();
                    let handle: Arc<str> = row["handle"].as_str().unwrap().into();
                    assert_eq!(migrated.attachable, AttachableVolume::volume(&driver, &handle), "{row}");
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
    fn classes_provision_with_the_migrated_driver() {
        let check = |provisioner: &str, expected: Option<&str>| {
            assert_eq!(InTreePlugin::provisioning_driver(&provisioner.into()).as_deref(), expected);
        };
        check("kubernetes.io/gce-pd", Some("pd.csi.storage.gke.io"));
        check("kubernetes.io/vsphere-volume", None);
        check("kubernetes.io/azure-file", None);
        check("csi.example.com", Some("csi.example.com"));
        check("kubernetes.io/no-provisioner", Some("kubernetes.io/no-provisioner"));
    }
}

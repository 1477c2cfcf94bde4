//! Node objects.

use std::sync::Arc;

use model::Moment;

use super::{ExtraMetadata, FieldManager, Meta, WriteJson, append, json_map, write_seconds};

/// A node with 4 CPUs and 16 GiB.
pub(crate) struct Node {
    pub(crate) meta: Meta,
    pub(crate) zone: &'static str,
    pub(crate) ip: Arc<str>,
    /// The third number of its pods' IP addresses.
    pub(crate) subnet: usize,
    pub(crate) unschedulable: bool,
    pub(crate) taints: Vec<Taint>,
    /// The transition time of its `Ready` condition.
    pub(crate) ready_since: Moment,
    pub(crate) heartbeat: Moment,
    pub(crate) started: Moment,
    pub(crate) kernel: &'static str,
    pub(crate) machine_id: String,
    pub(crate) boot_id: String,
    /// Its images, each with its digest, the newest first.
    pub(crate) images: Vec<(String, String)>,
}

/// A taint.
#[derive(Clone)]
pub(crate) struct Taint {
    pub(crate) key: &'static str,
    pub(crate) value: String,
    pub(crate) effect: &'static str,
    pub(crate) added: Option<Moment>,
}

/// A node's allocatable resources, in milli-CPU and MiB.
pub(crate) const ALLOCATABLE: (i64, i64) = (3_920, 14_848);

const STATUS_FIELDS: &str = r#"{"f:status":{"f:conditions":{"k:{\"type\":\"DiskPressure\"}":{"f:lastHeartbeatTime":{}},"k:{\"type\":\"MemoryPressure\"}":{"f:lastHeartbeatTime":{}},"k:{\"type\":\"PIDPressure\"}":{"f:lastHeartbeatTime":{}},"k:{\"type\":\"Ready\"}":{"f:lastHeartbeatTime":{},"f:lastTransitionTime":{},"f:message":{},"f:reason":{},"f:status":{}}},"f:images":{}}}"#;
const METADATA_FIELDS: &str = r#"{"f:metadata":{"f:annotations":{".":{},"f:volumes.kubernetes.io/controller-managed-attach-detach":{}},"f:labels":{".":{},"f:kubernetes.io/arch":{},"f:kubernetes.io/hostname":{},"f:kubernetes.io/os":{},"f:node.kubernetes.io/instance-type":{},"f:pool":{},"f:topology.kubernetes.io/region":{},"f:topology.kubernetes.io/zone":{}}},"f:spec":{"f:providerID":{}}}"#;

// === impl Node ===

impl Node {
    /// The value of its `dedicated` taint.
    pub(crate) fn dedicated(&self) -> Option<&str> {
        self.taints.iter().find(|taint| taint.key == "dedicated").map(|taint| &*taint.value)
    }

    fn write_spec(&self, out: &mut String) {
        let name = &self.meta.key.name;
        append(
            out,
            format_args!(
                r#","spec":{{"podCIDR":"10.244.{0}.0/24","podCIDRs":["10.244.{0}.0/24"],"providerID":"cloud:///{1}/{name}""#,
                self.subnet, self.zone
            ),
        );
        if self.unschedulable {
            out.push_str(r#","unschedulable":true"#);
        }
        for (index, Taint { key, value, effect, added }) in self.taints.iter().enumerate() {
            out.push_str(if index == 0 { r#","taints":["# } else { "," });
            append(out, format_args!(r#"{{"key":"{key}","#));
            if !value.is_empty() {
                append(out, format_args!(r#""value":"{value}","#));
            }
            append(out, format_args!(r#""effect":"{effect}""#));
            if let Some(added) = added {
                out.push_str(r#","timeAdded":"#);
                write_seconds(out, *added);
            }
            out.push('}');
        }
        out.push_str(if self.taints.is_empty() { "}" } else { "]}" });
    }

    fn write_status(&self, out: &mut String) {
        let (cpu, memory) = ALLOCATABLE;
        append(
            out,
            format_args!(
                r#","status":{{"capacity":{{"cpu":"4","ephemeral-storage":"101430960Ki","hugepages-1Gi":"0","hugepages-2Mi":"0","memory":"16Gi","pods":"110"}},"allocatable":{{"cpu":"{cpu}m","ephemeral-storage":"93478772582","hugepages-1Gi":"0","hugepages-2Mi":"0","memory":"{memory}Mi","pods":"110"}},"conditions":["#
            ),
        );
        for (kind, reason, message) in [
            ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ] {
            self.write_condition(out, kind, "False", self.started, reason, message);
            out.push(',');
        }
        self.write_condition(
            out,
            "Ready",
            "True",
            self.ready_since,
            "KubeletReady",
            "kubelet is posting ready status",
        );
        append(
            out,
            format_args!(
                r#"],"addresses":[{{"type":"InternalIP","address":"{}"}},{{"type":"Hostname","address":"{}"}}],"daemonEndpoints":{{"kubeletEndpoint":{{"Port":10250}}}},"nodeInfo":{{"machineID":"{machine}","systemUUID":"{machine}","bootID":"{}","kernelVersion":"{}","osImage":"Debian GNU/Linux 13 (trixie)","containerRuntimeVersion":"containerd://2.2.1","kubeletVersion":"v1.36.4","kubeProxyVersion":"","operatingSystem":"linux","architecture":"amd64"}}"#,
                self.ip,
                self.meta.key.name,
                self.boot_id,
                self.kernel,
                machine = self.machine_id,
            ),
        );
        for (index, (image, digest)) in self.images.iter().enumerate() {
            out.push_str(if index == 0 { r#","images":["# } else { "," });
            let repository = image.rsplit_once(':').map_or(&**image, |(repository, _)| repository);
            // A size derived from the digest, so that an image always has the same.
            let size = u32::from_str_radix(digest.get(..7).unwrap_or_default(), 16).unwrap_or_default();
            append(
                out,
                format_args!(
                    r#"{{"names":["{repository}@sha256:{digest}","{image}"],"sizeBytes":{}}}"#,
                    20_000_000 + size
                ),
            );
        }
        out.push_str(if self.images.is_empty() { "}" } else { "]}" });
    }

    fn write_condition(
        &self,
        out: &mut String,
        kind: &str,
        status: &str,
        since: Moment,
        reason: &str,
        message: &str,
    ) {
        append(out, format_args!(r#"{{"type":"{kind}","status":"{status}","lastHeartbeatTime":"#));
        write_seconds(out, self.heartbeat);
        out.push_str(r#","lastTransitionTime":"#);
        write_seconds(out, since);
        append(out, format_args!(r#","reason":"{reason}","message":"{message}"}}"#));
    }
}

impl WriteJson for Node {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"{"kind":"Node","apiVersion":"v1","#);
        let name = &*self.meta.key.name;
        let pool = self.dedicated().unwrap_or("general");
        let labels = json_map(&[
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/hostname", name),
            ("kubernetes.io/os", "linux"),
            ("node.kubernetes.io/instance-type", "standard-4"),
            ("pool", pool),
            ("topology.kubernetes.io/region", "north"),
            ("topology.kubernetes.io/zone", self.zone),
        ]);
        let managed = if self.meta.managed_fields {
            let made = FieldManager {
                name: "kubelet",
                api_version: "v1",
                at: self.meta.created,
                fields: METADATA_FIELDS,
                is_status: false,
            };
            FieldManager::list(&[
                made,
                FieldManager {
                    name: "kubelet",
                    api_version: "v1",
                    at: self.heartbeat,
                    fields: STATUS_FIELDS,
                    is_status: true,
                },
            ])
        } else {
            String::new()
        };
        let annotations = r#"{"node.alpha.kubernetes.io/ttl":"0","volumes.kubernetes.io/controller-managed-attach-detach":"true"}"#;
        self.meta.write(
            out,
            &ExtraMetadata {
                labels: &labels,
                annotations,
                managed_fields: &managed,
                ..ExtraMetadata::default()
            },
        );
        self.write_spec(out);
        self.write_status(out);
        out.push('}');
    }
}

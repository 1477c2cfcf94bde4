//! Objects that never change through a day: namespaces, classes, services, volumes.

use super::template::Class;
use super::{Extra, Manager, Meta, Printed, put, second};

/// An object whose text after `metadata` is known from the start.
pub(crate) struct Fixed {
    pub(crate) meta: Meta,
    pub(crate) api_version: &'static str,
    pub(crate) labels: String,
    pub(crate) annotations: String,
    pub(crate) finalizers: &'static str,
    /// `,"spec":{…}` and what follows.
    pub(crate) body: String,
}

// === impl Fixed ===

impl Fixed {
    fn new(meta: Meta, api_version: &'static str, body: String) -> Fixed {
        let (labels, annotations) = Default::default();
        Fixed { meta, api_version, labels, annotations, finalizers: "", body }
    }

    pub(crate) fn namespace(mut meta: Meta) -> Fixed {
        meta.generation = 0;
        let labels = format!(r#"{{"kubernetes.io/metadata.name":"{}"}}"#, meta.key.name);
        let body = r#","spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}"#;
        Fixed { labels, ..Fixed::new(meta, "v1", body.to_owned()) }
    }

    pub(crate) fn priority_class(meta: Meta, class: Class, is_default: bool, description: &str) -> Fixed {
        let Class { value, preempts, .. } = class;
        let is_default = if is_default { r#","globalDefault":true"# } else { "" };
        let policy = if preempts { "PreemptLowerPriority" } else { "Never" };
        let body = format!(
            r#","value":{value}{is_default},"description":"{description}","preemptionPolicy":"{policy}""#
        );
        Fixed::new(meta, "scheduling.k8s.io/v1", body)
    }

    pub(crate) fn storage_class(mut meta: Meta) -> Fixed {
        meta.generation = 0;
        let body = r#","provisioner":"disk.csi.cloud.example","parameters":{"type":"ssd"},"reclaimPolicy":"Delete","allowVolumeExpansion":true,"volumeBindingMode":"WaitForFirstConsumer""#;
        let annotations = r#"{"storageclass.kubernetes.io/is-default-class":"true"}"#.to_owned();
        Fixed { annotations, ..Fixed::new(meta, "storage.k8s.io/v1", body.to_owned()) }
    }

    /// A service of the pods of an app; `None` is the address of one that only names them.
    pub(crate) fn service(mut meta: Meta, app: &str, port: u16, address: &str) -> Fixed {
        meta.generation = 0;
        let body = format!(
            r#","spec":{{"ports":[{{"name":"main","protocol":"TCP","port":{port},"targetPort":"main"}}],"selector":{{"app":"{app}"}},"clusterIP":"{address}","clusterIPs":["{address}"],"type":"ClusterIP","sessionAffinity":"None","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","internalTrafficPolicy":"Cluster"}},"status":{{"loadBalancer":{{}}}}"#
        );
        Fixed { labels: format!(r#"{{"app":"{app}"}}"#), ..Fixed::new(meta, "v1", body) }
    }

    /// A claim of a StatefulSet that is bound to `volume`.
    pub(crate) fn claim(mut meta: Meta, app: &str, volume: &Meta) -> Fixed {
        meta.generation = 0;
        let body = format!(
            r#","spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"50Gi"}}}},"volumeName":"{}","storageClassName":"ssd","volumeMode":"Filesystem"}},"status":{{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{{"storage":"50Gi"}}}}"#,
            volume.key.name
        );
        let annotations = r#"{"pv.kubernetes.io/bind-completed":"yes","pv.kubernetes.io/bound-by-controller":"yes","volume.kubernetes.io/storage-provisioner":"disk.csi.cloud.example"}"#.to_owned();
        let labels = format!(r#"{{"app":"{app}"}}"#);
        let finalizers = r#"["kubernetes.io/pvc-protection"]"#;
        Fixed { labels, annotations, finalizers, ..Fixed::new(meta, "v1", body) }
    }

    /// The volume of `claim`, reachable from one zone only.
    pub(crate) fn volume(mut meta: Meta, claim: &Meta, zone: &str) -> Fixed {
        meta.generation = 0;
        let mut body = format!(
            r#","spec":{{"capacity":{{"storage":"50Gi"}},"csi":{{"driver":"disk.csi.cloud.example","volumeHandle":"vol-{}","fsType":"ext4"}},"accessModes":["ReadWriteOnce"],"claimRef":{{"kind":"PersistentVolumeClaim","namespace":"{}","name":"{}","uid":"{}","apiVersion":"v1"}},"persistentVolumeReclaimPolicy":"Delete","storageClassName":"ssd","volumeMode":"Filesystem","nodeAffinity":{{"required":{{"nodeSelectorTerms":[{{"matchExpressions":[{{"key":"topology.kubernetes.io/zone","operator":"In","values":["{zone}"]}}]}}]}}}}}},"status":{{"phase":"Bound","lastPhaseTransitionTime":"#,
            &meta.uid[..8],
            claim.key.namespace,
            claim.key.name,
            claim.uid,
        );
        second(&mut body, meta.created);
        body.push('}');
        let annotations = r#"{"pv.kubernetes.io/provisioned-by":"disk.csi.cloud.example"}"#.to_owned();
        let finalizers =
            r#"["external-provisioner.volume.kubernetes.io/finalizer","kubernetes.io/pv-protection"]"#;
        Fixed { annotations, finalizers, ..Fixed::new(meta, "v1", body) }
    }
}

impl Printed for Fixed {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        let Fixed { meta, api_version, labels, annotations, finalizers, body } = self;
        let kind = &meta.key.kind.kind;
        put(out, format_args!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","#));
        let managed = Manager::list(&[Manager {
            name: "helm",
            api_version,
            at: meta.created,
            fields: r#"{"f:metadata":{"f:labels":{}}}"#,
            of_status: false,
        }]);
        meta.write(out, &Extra { labels, annotations, finalizers, managed: &managed, ..Extra::default() });
        out.push_str(body);
        out.push('}');
    }
}

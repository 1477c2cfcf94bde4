//! Descriptions of the built-in rules, as `--show-rules` prints them.

use kubernetes::change_filter::RuleDescription;

/// Describes all rules.
pub fn describe() -> Vec<RuleDescription> {
    let rule = |kind: &str, field: &str, effect, why| RuleDescription {
        kind: kind.to_owned(),
        field: field.to_owned(),
        effect,
        why,
    };
    vec![
        rule(
            "all kinds",
            "metadata the API server writes, finalizers",
            "removed",
            "the target writes its own; nothing there would remove the finalizers",
        ),
        rule(
            "all kinds",
            "metadata.ownerReferences",
            "changed to the target's objects; removed if the owner is not applied",
            "the garbage collector would delete the object",
        ),
        rule(
            "all kinds",
            "a label and an annotation",
            "added",
            "replay clean deletes exactly the objects that have them",
        ),
        rule(
            "Event, Lease, Endpoints, EndpointSlice, ServiceAccount, ControllerRevision",
            "the object",
            "not applied",
            "the target's components create their own",
        ),
        rule("Secret", "the object", "never applied, even if selected", "contains passwords and keys"),
        rule(
            "all kinds that workloads and schedulers do not need",
            "the object",
            "not applied, unless in --kinds or with --allow-external-effects",
            "may act outside the target: Ingresses and Gateways with their classes, webhook configurations, \
             APIServices, VolumeSnapshots, objects of Karpenter, Cluster API, Crossplane, ACK, Config Connector, \
             cert-manager, external-dns and similar",
        ),
        rule(
            "custom resources",
            "the object",
            "applied if the target did not serve the kind before, if the tracer configuration has its pod template paths, or as above",
            "a controller in the target may act outside it",
        ),
        rule(
            "VolumeAttachment, NodeClaim, BindRequest",
            "the object",
            "not applied",
            "placement is decided by the target's components",
        ),
        rule(
            "ResourceClaim",
            "status",
            "removed; with --keep-placement kept",
            "its devices are on the recorded node",
        ),
        rule(
            "PersistentVolumeClaim",
            "the annotation volume.kubernetes.io/selected-node",
            "removed; with --keep-placement kept",
            "names the recorded node; claims are bound to their recorded volumes",
        ),
        rule(
            "PersistentVolumeClaim",
            "its binding to a volume",
            "removed if volumes are not applied",
            "otherwise the claim's phase becomes Lost",
        ),
        rule(
            "ResourceQuota, LimitRange, HorizontalPodAutoscaler",
            "the object",
            "not applied",
            "their effects are in the recorded pods and workloads",
        ),
        rule(
            "Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, ReplicationController",
            "the object",
            "not applied at level pods",
            "all pods are applied; workloads would create more",
        ),
        rule(
            "Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, ReplicationController",
            "status; Jobs already finished when first seen",
            "removed; not applied",
            "the target's controllers write it; the Job would run again",
        ),
        rule(
            "all kinds",
            "objects created by a workload",
            "not applied at level workloads",
            "the target's controllers create them",
        ),
        rule(
            "Pod",
            "spec.nodeName",
            "removed, except for static pods; with --keep-placement bound as recorded",
            "the target's scheduler decides; pods of a DaemonSet still select their node",
        ),
        rule(
            "Pod",
            "the labels topology.kubernetes.io/zone and /region",
            "removed; with --keep-placement kept",
            "the API server copies them from the recorded node",
        ),
        rule(
            "Pod",
            "status",
            "removed, except for the phase of a completed pod; with --keep-placement kept",
            "the target's kubelets report it",
        ),
        rule("Pod", "a pod already completed when first seen", "not applied", "the pod would run again"),
        rule(
            "pods and pod templates",
            "spec.serviceAccountName",
            "removed",
            "ServiceAccounts are not applied; a pod whose account is missing is rejected",
        ),
        rule("Pod", "the token volume", "removed", "the target adds its own"),
        rule("Pod", "spec.ephemeralContainers", "removed", "a pod with them cannot be created"),
        rule(
            "Service",
            "clusterIP, clusterIPs, nodePort, healthCheckNodePort",
            "removed",
            "the target allocates its own",
        ),
        rule(
            "Service",
            "type LoadBalancer, its fields, externalIPs, status",
            "changed to ClusterIP; removed; with --allow-external-effects as recorded",
            "a cloud provider would create a load balancer",
        ),
        rule(
            "Service",
            "type ExternalName",
            "not applied, unless with --allow-external-effects",
            "it points outside the cluster",
        ),
        rule(
            "all kinds, and pod templates",
            "annotations of clouds, load balancers, DNS names and certificates, all of Services; copies of the object",
            "removed; with --allow-external-effects kept",
            "controllers in the target would act on them",
        ),
        rule(
            "Node, Pod",
            "addresses in their status, and the kubelet's port",
            "removed, except for a node's host name; with --allow-external-effects kept",
            "the target's components would connect to the recorded kubelets and pods",
        ),
        rule(
            "Node",
            "spec.providerID, unless KWOK's; the annotation csi.volume.kubernetes.io/nodeid",
            "replaced by an invalid one; removed; with --allow-external-effects as recorded",
            "an autoscaler in the target would delete the recorded instance",
        ),
        rule(
            "Node",
            "status.volumesAttached, status.volumesInUse",
            "removed",
            "the target's controllers would detach the recorded volumes",
        ),
        rule(
            "CSINode",
            "spec.drivers[].nodeID",
            "replaced by an invalid one",
            "a driver in the target would attach volumes to the recorded instance",
        ),
        rule(
            "ConfigMap",
            "ConfigMaps of kube-system, kube-public and kube-node-lease",
            "not applied, unless in --kinds or with --allow-external-effects",
            "they configure the cluster's components and its access",
        ),
        rule(
            "CustomResourceDefinition",
            "spec.conversion; definitions of kinds that are not applied",
            "removed; not applied",
            "the conversion webhook is missing or another one",
        ),
        rule("Namespace", "spec, status", "removed", "the target writes its own"),
        rule(
            "PersistentVolume",
            "spec.claimRef.uid",
            "that of the target's claim; an unused one if this run did not create the claim",
            "otherwise the volume becomes Released; other claims must not be bound to it",
        ),
        rule(
            "PersistentVolume",
            "spec.persistentVolumeReclaimPolicy, annotations of provisioners",
            "Retain; removed",
            "a provisioner with access to the recorded cluster's account would delete its disk",
        ),
        rule(
            "PersistentVolume, volumes of pods and pod templates",
            "volume handles and names in all volume sources; secrets and options",
            "replaced by invalid names, equal for equal ones; removed; with --keep-volume-handles as recorded",
            "a node of the target would mount the recorded cluster's storage",
        ),
        rule(
            "PersistentVolumeClaim, claim templates of StatefulSets and pods",
            "spec.selector; spec.dataSource, annotations of provisioners",
            "selects only volumes of the run; removed; with --allow-external-effects as recorded",
            "another volume would be reclaimed with the claim; claims with a selector are not provisioned",
        ),
        rule(
            "PersistentVolumeClaim",
            "spec.volumeName",
            "removed if the target has such a volume from elsewhere",
            "the volume would be reclaimed with the claim",
        ),
        rule(
            "StorageClass",
            "provisioner, unless kubernetes.io/no-provisioner; reclaimPolicy; parameters",
            "replay.kinescope.io/no-provisioner, which does not exist; Retain; removed; with \
             --allow-external-effects as recorded",
            "a provisioner in the target would create real disks",
        ),
        rule(
            "Job",
            "spec.selector and its labels",
            "removed unless manualSelector",
            "the target generates them from the new uid",
        ),
    ]
}

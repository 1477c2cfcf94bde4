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
            "every kind",
            "metadata the API server writes, finalizers",
            "removed",
            "the target writes its own; nobody there would take the finalizers away",
        ),
        rule(
            "every kind",
            "metadata.ownerReferences",
            "point to the target's objects; those to what is not applied are removed",
            "its garbage collector would delete the object",
        ),
        rule(
            "every kind",
            "a label and an annotation",
            "added",
            "replay clean removes exactly what carries it",
        ),
        rule(
            "Event, Lease, Endpoints, EndpointSlice, ServiceAccount, ControllerRevision",
            "the object",
            "not applied",
            "the target's components make their own",
        ),
        rule("Secret", "the object", "never applied, whatever is chosen", "it holds passwords and keys"),
        rule(
            "every kind that workloads and schedulers do not need",
            "the object",
            "not applied, unless --kinds names it or with --allow-external-effects",
            "it may act outside the target: Ingresses and Gateways with their classes, webhook configurations, \
             APIServices, VolumeSnapshots, objects of Karpenter, Cluster API, Crossplane, ACK, Config Connector, \
             cert-manager, external-dns and their like",
        ),
        rule(
            "kinds of others",
            "the object",
            "applied if the target did not have the kind before, if a tracer's configuration says where it describes \
             pods, or as above",
            "a controller that is at work in the target may act outside it",
        ),
        rule(
            "VolumeAttachment, NodeClaim, BindRequest",
            "the object",
            "not applied",
            "it says where something was put; the target's components decide that",
        ),
        rule(
            "ResourceClaim",
            "status",
            "removed; with --keep-placement kept",
            "its devices are on the node that was chosen",
        ),
        rule(
            "PersistentVolumeClaim",
            "the annotation volume.kubernetes.io/selected-node",
            "removed; with --keep-placement kept",
            "it names the node that was chosen; claims are bound to the volumes that they had",
        ),
        rule(
            "PersistentVolumeClaim",
            "its binding to a volume",
            "removed where volumes are not applied",
            "else it is taken for lost",
        ),
        rule(
            "ResourceQuota, LimitRange, HorizontalPodAutoscaler",
            "the object",
            "not applied",
            "what they did is in the recorded pods and workloads",
        ),
        rule(
            "Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, ReplicationController",
            "the object",
            "not applied at level pods",
            "every pod is given; they would make more",
        ),
        rule(
            "Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, ReplicationController",
            "status; Jobs that had ended when they were first seen",
            "removed; not applied",
            "the target's controllers write it; it would run again",
        ),
        rule(
            "every kind",
            "objects that a workload made",
            "not applied at level workloads",
            "the target's controllers make them",
        ),
        rule(
            "Pod",
            "spec.nodeName",
            "removed, but for pods of a kubelet's own files; with --keep-placement bound as recorded",
            "another scheduler decides; pods of a DaemonSet still ask for the node that they were made for",
        ),
        rule(
            "Pod",
            "the labels topology.kubernetes.io/zone and /region",
            "removed; with --keep-placement kept",
            "an API server copies them from the node that was chosen",
        ),
        rule(
            "Pod",
            "status",
            "removed but for the phase of one that has ended; with --keep-placement kept",
            "the target's kubelets say how it fares",
        ),
        rule("Pod", "a pod that had ended when it was first seen", "not applied", "it would run again"),
        rule(
            "what describes pods",
            "spec.serviceAccountName",
            "removed",
            "the account is not applied, and without it no pod is taken",
        ),
        rule("Pod", "the volume of its token", "removed", "the target adds one of its own"),
        rule("Pod", "spec.ephemeralContainers", "removed", "no pod can be created with them"),
        rule(
            "Service",
            "clusterIP, clusterIPs, nodePort, healthCheckNodePort",
            "removed",
            "the target gives out its own",
        ),
        rule(
            "Service",
            "type LoadBalancer, its fields, externalIPs, status",
            "a ClusterIP without them; with --allow-external-effects as recorded",
            "a cloud would make a load balancer",
        ),
        rule(
            "Service",
            "one of type ExternalName",
            "not applied, unless with --allow-external-effects",
            "it leads out of the cluster",
        ),
        rule(
            "every kind, and what describes pods",
            "annotations of clouds, load balancers, DNS names and certificates, all of Services; copies of the object",
            "removed; with --allow-external-effects kept",
            "controllers in the target would act upon them",
        ),
        rule(
            "Node, Pod",
            "addresses in their status, and the kubelet's port",
            "removed, but for a node's host name; with --allow-external-effects kept",
            "the target's components would turn to the recorded kubelets and pods",
        ),
        rule(
            "Node",
            "spec.providerID, unless KWOK's; the annotation csi.volume.kubernetes.io/nodeid",
            "one that no cloud has; removed; with --allow-external-effects as recorded",
            "an autoscaler in the target would remove the recorded instance",
        ),
        rule(
            "Node",
            "status.volumesAttached, status.volumesInUse",
            "removed",
            "the target's controllers would detach what they did not attach",
        ),
        rule(
            "CSINode",
            "spec.drivers[].nodeID",
            "one that cannot exist",
            "a driver in the target would attach volumes to the recorded instance",
        ),
        rule(
            "ConfigMap",
            "those of kube-system, kube-public and kube-node-lease",
            "not applied, unless --kinds names the kind or with --allow-external-effects",
            "they set up a cluster's own components, and let others into it",
        ),
        rule(
            "CustomResourceDefinition",
            "spec.conversion; definitions of kinds that are not applied",
            "without a webhook; not applied",
            "a webhook leads to a program, which is not there or is another one",
        ),
        rule("Namespace", "spec, status", "removed", "the target writes its own"),
        rule(
            "PersistentVolume",
            "spec.claimRef.uid",
            "that of the target's claim; one that nobody has if this run did not make the claim",
            "else the volume is taken for released; a claim of others must not be bound to it",
        ),
        rule(
            "PersistentVolume",
            "spec.persistentVolumeReclaimPolicy, annotations of provisioners",
            "Retain; removed",
            "a provisioner that has the recorded cluster's account would delete its disk with the claim",
        ),
        rule(
            "PersistentVolume, volumes of pods and of what describes pods",
            "what the volume source names, of CSI and of all others; secrets and options",
            "names that cannot exist, the same for the same; removed; with --keep-volume-handles as recorded",
            "a node of the target would mount the recorded cluster's storage",
        ),
        rule(
            "PersistentVolumeClaim, claim templates of StatefulSets and pods",
            "spec.selector; spec.dataSource, annotations of provisioners",
            "selects volumes of the run alone; removed; with --allow-external-effects as recorded",
            "a volume of others would be reclaimed with the claim; provisioners make none for claims that select",
        ),
        rule(
            "PersistentVolumeClaim",
            "spec.volumeName",
            "removed where the target has such a volume of others",
            "the volume would be reclaimed with the claim",
        ),
        rule(
            "StorageClass",
            "provisioner, unless kubernetes.io/no-provisioner; reclaimPolicy; parameters",
            "replay.kinescope.io/no-provisioner, to which nobody answers; Retain; removed; with \
             --allow-external-effects as recorded",
            "a provisioner in the target would make real disks",
        ),
        rule(
            "Job",
            "spec.selector and the labels it stands for",
            "removed unless manualSelector",
            "the target makes them of the new uid",
        ),
    ]
}

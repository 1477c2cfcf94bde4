//! Marks of the OpenAPI schemas of Kubernetes 1.36 that follow neither from types nor from merge types, as `tests/openapi`
//! prints them.
//!
//! A line is a type with its fields, each with its marks:
//!
//! * `containers!` is required;
//! * `type|Recreate|RollingUpdate` is one of these values, `accessModes[]|ReadOnlyMany|ReadWriteMany` a list of them,
//!   `allocatedResourceStatuses{}|NodeResizePending` a map of them, with underscores in place of spaces;
//! * `strategy~` is patched with the strategy `retainKeys`, `volumes~` with it in addition;
//! * `+type:localhostProfile` says that the struct is a union: `type` names the field that is set. Without a discriminator
//!   the word begins with `+:`.

use rustc_hash::FxHashMap;

/// The marks of a type.
#[derive(Default)]
pub(crate) struct TypeMarkers {
    fields: FxHashMap<&'static str, FieldMarkers>,
    pub(crate) union: Option<Union>,
}

/// The marks of a field.
#[derive(Default)]
pub(crate) struct FieldMarkers {
    pub(crate) is_required: bool,
    /// The values that it can have; empty if that is not limited.
    pub(crate) values: Vec<String>,
    /// The same for the entries of a list or map.
    pub(crate) entry_values: Vec<String>,
    /// Whether a strategic merge patch removes the fields that it does not name.
    pub(crate) retains_keys: bool,
}

/// A struct of which one field is set.
pub(crate) struct Union {
    /// The field that names the one that is set, if there is such a field.
    pub(crate) discriminator: Option<&'static str>,
    pub(crate) fields: Vec<&'static str>,
}

/// The marks of a type, none if it is unknown.
pub(crate) fn of(type_name: &str) -> TypeMarkers {
    let index = MARKERS.binary_search_by(|(name, _)| (*name).cmp(type_name));
    let mut markers = TypeMarkers::default();
    for word in index.map_or("", |index| MARKERS[index].1).split_ascii_whitespace() {
        if let Some((discriminator, fields)) = word.strip_prefix('+').and_then(|word| word.split_once(':')) {
            let discriminator = Some(discriminator).filter(|name| !name.is_empty());
            markers.union = Some(Union { discriminator, fields: fields.split(',').collect() });
        } else {
            let (name, field) = parse_field(word);
            markers.fields.insert(name, field);
        }
    }
    markers
}

/// Parses a word such as `type!|Localhost|RuntimeDefault`.
fn parse_field(word: &'static str) -> (&'static str, FieldMarkers) {
    let mut markers = FieldMarkers::default();
    let (word, retains_keys) = word.strip_suffix('~').map_or((word, false), |word| (word, true));
    markers.retains_keys = retains_keys;
    let mut parts = word.split('|');
    let name = parts.next().unwrap_or_default();
    let values = parts.map(|value| value.replace('_', " ")).collect();
    let name = match name.strip_suffix("[]").or_else(|| name.strip_suffix("{}")) {
        Some(name) => {
            markers.entry_values = values;
            name
        }
        None => {
            markers.values = values;
            name
        }
    };
    let (name, is_required) = name.strip_suffix('!').map_or((name, false), |name| (name, true));
    markers.is_required = is_required;
    (name, markers)
}

// === impl TypeMarkers ===

impl TypeMarkers {
    /// The marks of a field; `None` if it has none.
    pub(crate) fn field(&self, name: &str) -> Option<&FieldMarkers> {
        self.fields.get(name)
    }
}

/// The whole table.
#[cfg(test)]
pub(crate) fn all() -> &'static [(&'static str, &'static str)] {
    MARKERS
}

/// Each type with its words, sorted by name.
#[rustfmt::skip]
static MARKERS: &[(&str, &str)] = &[
    ("admissionregistration.AuditAnnotation", "key! valueExpression!"),
    ("admissionregistration.ExpressionWarning", "fieldRef! warning!"),
    ("admissionregistration.MatchCondition", "expression! name!"),
    ("admissionregistration.MatchResources", "matchPolicy|Equivalent|Exact"),
    ("admissionregistration.MutatingAdmissionPolicySpec", "failurePolicy|Fail|Ignore reinvocationPolicy|IfNeeded|Never"),
    ("admissionregistration.MutatingWebhook", "admissionReviewVersions! clientConfig! failurePolicy|Fail|Ignore matchPolicy|Equivalent|Exact name! reinvocationPolicy|IfNeeded|Never sideEffects!|None|NoneOnDryRun|Some|Unknown"),
    ("admissionregistration.Mutation", "patchType!|ApplyConfiguration|JSONPatch"),
    ("admissionregistration.NamedRuleWithOperations", "operations[]|*|CONNECT|CREATE|DELETE|UPDATE scope|*|Cluster|Namespaced"),
    ("admissionregistration.RuleWithOperations", "operations[]|*|CONNECT|CREATE|DELETE|UPDATE scope|*|Cluster|Namespaced"),
    ("admissionregistration.ServiceReference", "name! namespace!"),
    ("admissionregistration.ValidatingAdmissionPolicyBinding", "spec!"),
    ("admissionregistration.ValidatingAdmissionPolicyBindingSpec", "policyName! validationActions![]|Audit|Deny|Warn"),
    ("admissionregistration.ValidatingAdmissionPolicySpec", "failurePolicy|Fail|Ignore"),
    ("admissionregistration.ValidatingWebhook", "admissionReviewVersions! clientConfig! failurePolicy|Fail|Ignore matchPolicy|Equivalent|Exact name! sideEffects!|None|NoneOnDryRun|Some|Unknown"),
    ("admissionregistration.Validation", "expression!"),
    ("admissionregistration.Variable", "expression! name!"),
    ("apiextensions.CustomResourceColumnDefinition", "jsonPath! name! type!"),
    ("apiextensions.CustomResourceConversion", "strategy!"),
    ("apiextensions.CustomResourceDefinition", "spec!"),
    ("apiextensions.CustomResourceDefinitionCondition", "status! type!"),
    ("apiextensions.CustomResourceDefinitionNames", "kind! plural!"),
    ("apiextensions.CustomResourceDefinitionSpec", "group! names! scope! versions!"),
    ("apiextensions.CustomResourceDefinitionVersion", "name! served! storage!"),
    ("apiextensions.CustomResourceSubresourceScale", "specReplicasPath! statusReplicasPath!"),
    ("apiextensions.SelectableField", "jsonPath!"),
    ("apiextensions.ServiceReference", "name! namespace!"),
    ("apiextensions.ValidationRule", "reason|FieldValueDuplicate|FieldValueForbidden|FieldValueInvalid|FieldValueRequired rule!"),
    ("apiextensions.WebhookConversion", "conversionReviewVersions!"),
    ("apiregistration.APIServiceCondition", "status! type!"),
    ("apiregistration.APIServiceSpec", "groupPriorityMinimum! versionPriority!"),
    ("apiserverinternal.ServerStorageVersion", "apiServerID! decodableVersions! encodingVersion!"),
    ("apiserverinternal.StorageVersion", "metadata!"),
    ("apiserverinternal.StorageVersionCondition", "message! reason! status! type!"),
    ("apps.ControllerRevision", "revision!"),
    ("apps.DaemonSetCondition", "status! type!"),
    ("apps.DaemonSetSpec", "selector! template!"),
    ("apps.DaemonSetStatus", "currentNumberScheduled! desiredNumberScheduled! numberMisscheduled! numberReady!"),
    ("apps.DaemonSetUpdateStrategy", "type|OnDelete|RollingUpdate"),
    ("apps.DeploymentCondition", "status! type!"),
    ("apps.DeploymentSpec", "selector! strategy~ template!"),
    ("apps.DeploymentStrategy", "type|Recreate|RollingUpdate"),
    ("apps.ReplicaSetCondition", "status! type!"),
    ("apps.ReplicaSetSpec", "selector!"),
    ("apps.ReplicaSetStatus", "replicas!"),
    ("apps.StatefulSetCondition", "status! type!"),
    ("apps.StatefulSetSpec", "podManagementPolicy|OrderedReady|Parallel selector! template!"),
    ("apps.StatefulSetStatus", "replicas!"),
    ("apps.StatefulSetUpdateStrategy", "type|OnDelete|RollingUpdate"),
    ("authentication.TokenReview", "spec!"),
    ("authentication.TokenReviewSpec", "token!"),
    ("authorization.LocalSubjectAccessReview", "spec!"),
    ("authorization.NonResourceRule", "verbs!"),
    ("authorization.ResourceRule", "verbs!"),
    ("authorization.SelfSubjectAccessReview", "spec!"),
    ("authorization.SelfSubjectRulesReview", "spec!"),
    ("authorization.SubjectAccessReview", "spec!"),
    ("authorization.SubjectAccessReviewStatus", "allowed!"),
    ("authorization.SubjectRulesReviewStatus", "incomplete! nonResourceRules! resourceRules!"),
    ("autoscaling.ContainerResourceMetricSource", "container! name! target!"),
    ("autoscaling.ContainerResourceMetricStatus", "container! current! name!"),
    ("autoscaling.CrossVersionObjectReference", "kind! name!"),
    ("autoscaling.ExternalMetricSource", "metric! target!"),
    ("autoscaling.ExternalMetricStatus", "current! metric!"),
    ("autoscaling.HPAScalingPolicy", "periodSeconds! type! value!"),
    ("autoscaling.HorizontalPodAutoscaler", "spec!"),
    ("autoscaling.HorizontalPodAutoscalerCondition", "status! type!"),
    ("autoscaling.HorizontalPodAutoscalerSpec", "maxReplicas! scaleTargetRef!"),
    ("autoscaling.HorizontalPodAutoscalerStatus", "desiredReplicas!"),
    ("autoscaling.MetricIdentifier", "name!"),
    ("autoscaling.MetricSpec", "type!"),
    ("autoscaling.MetricStatus", "type!"),
    ("autoscaling.MetricTarget", "type!"),
    ("autoscaling.ObjectMetricSource", "describedObject! metric! target!"),
    ("autoscaling.ObjectMetricStatus", "current! describedObject! metric!"),
    ("autoscaling.PodsMetricSource", "metric! target!"),
    ("autoscaling.PodsMetricStatus", "current! metric!"),
    ("autoscaling.ResourceMetricSource", "name! target!"),
    ("autoscaling.ResourceMetricStatus", "current! name!"),
    ("autoscaling.ScaleStatus", "replicas!"),
    ("batch.CronJob", "spec!"),
    ("batch.CronJobSpec", "concurrencyPolicy|Allow|Forbid|Replace jobTemplate! schedule!"),
    ("batch.JobCondition", "status! type!"),
    ("batch.JobSpec", "completionMode|Indexed|NonIndexed podReplacementPolicy|Failed|TerminatingOrFailed template!"),
    ("batch.PodFailurePolicy", "rules!"),
    ("batch.PodFailurePolicyOnExitCodesRequirement", "operator!|In|NotIn values!"),
    ("batch.PodFailurePolicyOnPodConditionsPattern", "type!"),
    ("batch.PodFailurePolicyRule", "action!|Count|FailIndex|FailJob|Ignore"),
    ("batch.SuccessPolicy", "rules!"),
    ("certificates.CertificateSigningRequest", "spec!"),
    ("certificates.CertificateSigningRequestCondition", "status! type!"),
    ("certificates.CertificateSigningRequestSpec", "request! signerName! usages[]|any|cert_sign|client_auth|code_signing|content_commitment|crl_sign|data_encipherment|decipher_only|digital_signature|email_protection|encipher_only|ipsec_end_system|ipsec_tunnel|ipsec_user|key_agreement|key_encipherment|microsoft_sgc|netscape_sgc|ocsp_signing|s/mime|server_auth|signing|timestamping"),
    ("certificates.ClusterTrustBundle", "spec!"),
    ("certificates.ClusterTrustBundleSpec", "trustBundle!"),
    ("certificates.PodCertificateRequest", "spec!"),
    ("certificates.PodCertificateRequestSpec", "nodeName! nodeUID! podName! podUID! serviceAccountName! serviceAccountUID! signerName! stubPKCS10Request!"),
    ("coordination.LeaseCandidate", "spec!"),
    ("coordination.LeaseCandidateSpec", "binaryVersion! leaseName! strategy!"),
    ("core.AWSElasticBlockStoreVolumeSource", "volumeID!"),
    ("core.AppArmorProfile", "type!|Localhost|RuntimeDefault|Unconfined +type:localhostProfile"),
    ("core.AttachedVolume", "devicePath! name!"),
    ("core.AzureDiskVolumeSource", "cachingMode|None|ReadOnly|ReadWrite diskName! diskURI! kind|Dedicated|Managed|Shared"),
    ("core.AzureFilePersistentVolumeSource", "secretName! shareName!"),
    ("core.AzureFileVolumeSource", "secretName! shareName!"),
    ("core.Binding", "target!"),
    ("core.CSIPersistentVolumeSource", "driver! volumeHandle!"),
    ("core.CSIVolumeSource", "driver!"),
    ("core.CephFSPersistentVolumeSource", "monitors!"),
    ("core.CephFSVolumeSource", "monitors!"),
    ("core.CinderPersistentVolumeSource", "volumeID!"),
    ("core.CinderVolumeSource", "volumeID!"),
    ("core.ClusterTrustBundleProjection", "path!"),
    ("core.ComponentCondition", "status! type!"),
    ("core.ConfigMapKeySelector", "key!"),
    ("core.ConfigMapNodeConfigSource", "kubeletConfigKey! name! namespace!"),
    ("core.Container", "imagePullPolicy|Always|IfNotPresent|Never name! terminationMessagePolicy|FallbackToLogsOnError|File"),
    ("core.ContainerExtendedResourceRequest", "containerName! requestName! resourceName!"),
    ("core.ContainerPort", "containerPort! protocol|SCTP|TCP|UDP"),
    ("core.ContainerResizePolicy", "resourceName! restartPolicy!"),
    ("core.ContainerRestartRule", "action!"),
    ("core.ContainerRestartRuleOnExitCodes", "operator!"),
    ("core.ContainerStateTerminated", "exitCode!"),
    ("core.ContainerStatus", "image! imageID! name! ready! restartCount! stopSignal|SIGABRT|SIGALRM|SIGBUS|SIGCHLD|SIGCLD|SIGCONT|SIGFPE|SIGHUP|SIGILL|SIGINT|SIGIO|SIGIOT|SIGKILL|SIGPIPE|SIGPOLL|SIGPROF|SIGPWR|SIGQUIT|SIGRTMAX|SIGRTMAX-1|SIGRTMAX-10|SIGRTMAX-11|SIGRTMAX-12|SIGRTMAX-13|SIGRTMAX-14|SIGRTMAX-2|SIGRTMAX-3|SIGRTMAX-4|SIGRTMAX-5|SIGRTMAX-6|SIGRTMAX-7|SIGRTMAX-8|SIGRTMAX-9|SIGRTMIN|SIGRTMIN+1|SIGRTMIN+10|SIGRTMIN+11|SIGRTMIN+12|SIGRTMIN+13|SIGRTMIN+14|SIGRTMIN+15|SIGRTMIN+2|SIGRTMIN+3|SIGRTMIN+4|SIGRTMIN+5|SIGRTMIN+6|SIGRTMIN+7|SIGRTMIN+8|SIGRTMIN+9|SIGSEGV|SIGSTKFLT|SIGSTOP|SIGSYS|SIGTERM|SIGTRAP|SIGTSTP|SIGTTIN|SIGTTOU|SIGURG|SIGUSR1|SIGUSR2|SIGVTALRM|SIGWINCH|SIGXCPU|SIGXFSZ"),
    ("core.DaemonEndpoint", "Port!"),
    ("core.DownwardAPIVolumeFile", "path!"),
    ("core.EndpointAddress", "ip!"),
    ("core.EndpointPort", "port! protocol|SCTP|TCP|UDP"),
    ("core.EnvVar", "name!"),
    ("core.EphemeralContainer", "imagePullPolicy|Always|IfNotPresent|Never name! terminationMessagePolicy|FallbackToLogsOnError|File"),
    ("core.Event", "involvedObject! metadata!"),
    ("core.FileKeySelector", "key! path! volumeName!"),
    ("core.FlexPersistentVolumeSource", "driver!"),
    ("core.FlexVolumeSource", "driver!"),
    ("core.GCEPersistentDiskVolumeSource", "pdName!"),
    ("core.GRPCAction", "port!"),
    ("core.GitRepoVolumeSource", "repository!"),
    ("core.GlusterfsPersistentVolumeSource", "endpoints! path!"),
    ("core.GlusterfsVolumeSource", "endpoints! path!"),
    ("core.HTTPGetAction", "port! scheme|HTTP|HTTPS"),
    ("core.HTTPHeader", "name! value!"),
    ("core.HostAlias", "ip!"),
    ("core.HostIP", "ip!"),
    ("core.HostPathVolumeSource", "path! type||BlockDevice|CharDevice|Directory|DirectoryOrCreate|File|FileOrCreate|Socket"),
    ("core.ISCSIPersistentVolumeSource", "iqn! lun! targetPortal!"),
    ("core.ISCSIVolumeSource", "iqn! lun! targetPortal!"),
    ("core.ImageVolumeSource", "pullPolicy|Always|IfNotPresent|Never"),
    ("core.ImageVolumeStatus", "imageRef!"),
    ("core.KeyToPath", "key! path!"),
    ("core.Lifecycle", "stopSignal|SIGABRT|SIGALRM|SIGBUS|SIGCHLD|SIGCLD|SIGCONT|SIGFPE|SIGHUP|SIGILL|SIGINT|SIGIO|SIGIOT|SIGKILL|SIGPIPE|SIGPOLL|SIGPROF|SIGPWR|SIGQUIT|SIGRTMAX|SIGRTMAX-1|SIGRTMAX-10|SIGRTMAX-11|SIGRTMAX-12|SIGRTMAX-13|SIGRTMAX-14|SIGRTMAX-2|SIGRTMAX-3|SIGRTMAX-4|SIGRTMAX-5|SIGRTMAX-6|SIGRTMAX-7|SIGRTMAX-8|SIGRTMAX-9|SIGRTMIN|SIGRTMIN+1|SIGRTMIN+10|SIGRTMIN+11|SIGRTMIN+12|SIGRTMIN+13|SIGRTMIN+14|SIGRTMIN+15|SIGRTMIN+2|SIGRTMIN+3|SIGRTMIN+4|SIGRTMIN+5|SIGRTMIN+6|SIGRTMIN+7|SIGRTMIN+8|SIGRTMIN+9|SIGSEGV|SIGSTKFLT|SIGSTOP|SIGSYS|SIGTERM|SIGTRAP|SIGTSTP|SIGTTIN|SIGTTOU|SIGURG|SIGUSR1|SIGUSR2|SIGVTALRM|SIGWINCH|SIGXCPU|SIGXFSZ"),
    ("core.LimitRangeItem", "type!"),
    ("core.LimitRangeSpec", "limits!"),
    ("core.LinuxContainerUser", "gid! uid!"),
    ("core.LocalVolumeSource", "path!"),
    ("core.ModifyVolumeStatus", "status!|InProgress|Infeasible|Pending"),
    ("core.NFSVolumeSource", "path! server!"),
    ("core.NamespaceCondition", "status! type!"),
    ("core.NamespaceStatus", "phase|Active|Terminating"),
    ("core.NodeAddress", "address! type!"),
    ("core.NodeAllocatableResourceClaimStatus", "resourceClaimName! resources!"),
    ("core.NodeCondition", "status! type!"),
    ("core.NodeSelector", "nodeSelectorTerms!"),
    ("core.NodeSelectorRequirement", "key! operator!|DoesNotExist|Exists|Gt|In|Lt|NotIn"),
    ("core.NodeStatus", "phase|Pending|Running|Terminated"),
    ("core.NodeSystemInfo", "architecture! bootID! containerRuntimeVersion! kernelVersion! kubeProxyVersion! kubeletVersion! machineID! operatingSystem! osImage! systemUUID!"),
    ("core.ObjectFieldSelector", "fieldPath!"),
    ("core.PersistentVolumeClaimCondition", "status! type!"),
    ("core.PersistentVolumeClaimSpec", "accessModes[]|ReadOnlyMany|ReadWriteMany|ReadWriteOnce|ReadWriteOncePod volumeMode|Block|Filesystem"),
    ("core.PersistentVolumeClaimStatus", "accessModes[]|ReadOnlyMany|ReadWriteMany|ReadWriteOnce|ReadWriteOncePod allocatedResourceStatuses{}|ControllerResizeInProgress|ControllerResizeInfeasible|NodeResizeInProgress|NodeResizeInfeasible|NodeResizePending phase|Bound|Lost|Pending"),
    ("core.PersistentVolumeClaimTemplate", "spec!"),
    ("core.PersistentVolumeClaimVolumeSource", "claimName!"),
    ("core.PersistentVolumeSpec", "accessModes[]|ReadOnlyMany|ReadWriteMany|ReadWriteOnce|ReadWriteOncePod persistentVolumeReclaimPolicy|Delete|Recycle|Retain volumeMode|Block|Filesystem"),
    ("core.PersistentVolumeStatus", "phase|Available|Bound|Failed|Pending|Released"),
    ("core.PhotonPersistentDiskVolumeSource", "pdID!"),
    ("core.PodAffinityTerm", "topologyKey!"),
    ("core.PodCertificateProjection", "keyType! signerName!"),
    ("core.PodCondition", "status! type!"),
    ("core.PodExtendedResourceClaimStatus", "requestMappings! resourceClaimName!"),
    ("core.PodIP", "ip!"),
    ("core.PodOS", "name!"),
    ("core.PodReadinessGate", "conditionType!"),
    ("core.PodResourceClaim", "name!"),
    ("core.PodResourceClaimStatus", "name!"),
    ("core.PodSchedulingGate", "name!"),
    ("core.PodSchedulingGroup", "+:podGroupName"),
    ("core.PodSecurityContext", "fsGroupChangePolicy|Always|OnRootMismatch supplementalGroupsPolicy|Merge|Strict"),
    ("core.PodSpec", "containers! dnsPolicy|ClusterFirst|ClusterFirstWithHostNet|Default|None preemptionPolicy|Never|PreemptLowerPriority resourceClaims~ restartPolicy|Always|Never|OnFailure volumes~"),
    ("core.PodStatus", "phase|Failed|Pending|Running|Succeeded|Unknown qosClass|BestEffort|Burstable|Guaranteed resourceClaimStatuses~"),
    ("core.PortStatus", "port! protocol!|SCTP|TCP|UDP"),
    ("core.PortworxVolumeSource", "volumeID!"),
    ("core.PreferredSchedulingTerm", "preference! weight!"),
    ("core.QuobyteVolumeSource", "registry! volume!"),
    ("core.RBDPersistentVolumeSource", "image! monitors!"),
    ("core.RBDVolumeSource", "image! monitors!"),
    ("core.RangeAllocation", "data! range!"),
    ("core.ReplicationControllerCondition", "status! type!"),
    ("core.ReplicationControllerStatus", "replicas!"),
    ("core.ResourceClaim", "name!"),
    ("core.ResourceFieldSelector", "resource!"),
    ("core.ResourceHealth", "resourceID!"),
    ("core.ResourceQuotaSpec", "scopes[]|BestEffort|CrossNamespacePodAffinity|NotBestEffort|NotTerminating|PriorityClass|Terminating|VolumeAttributesClass"),
    ("core.ResourceStatus", "name!"),
    ("core.ScaleIOPersistentVolumeSource", "gateway! secretRef! system!"),
    ("core.ScaleIOVolumeSource", "gateway! secretRef! system!"),
    ("core.ScopedResourceSelectorRequirement", "operator!|DoesNotExist|Exists|In|NotIn scopeName!|BestEffort|CrossNamespacePodAffinity|NotBestEffort|NotTerminating|PriorityClass|Terminating|VolumeAttributesClass"),
    ("core.SeccompProfile", "type!|Localhost|RuntimeDefault|Unconfined +type:localhostProfile"),
    ("core.SecretKeySelector", "key!"),
    ("core.SecurityContext", "procMount|Default|Unmasked"),
    ("core.ServiceAccountTokenProjection", "path!"),
    ("core.ServicePort", "port! protocol|SCTP|TCP|UDP"),
    ("core.ServiceSpec", "externalTrafficPolicy|Cluster|Local internalTrafficPolicy|Cluster|Local ipFamilies[]||IPv4|IPv6 ipFamilyPolicy|PreferDualStack|RequireDualStack|SingleStack sessionAffinity|ClientIP|None type|ClusterIP|ExternalName|LoadBalancer|NodePort"),
    ("core.SleepAction", "seconds!"),
    ("core.Sysctl", "name! value!"),
    ("core.TCPSocketAction", "port!"),
    ("core.Taint", "effect!|NoExecute|NoSchedule|PreferNoSchedule key!"),
    ("core.Toleration", "effect|NoExecute|NoSchedule|PreferNoSchedule operator|Equal|Exists|Gt|Lt"),
    ("core.TopologySelectorLabelRequirement", "key! values!"),
    ("core.TopologySpreadConstraint", "maxSkew! nodeAffinityPolicy|Honor|Ignore nodeTaintsPolicy|Honor|Ignore topologyKey! whenUnsatisfiable!|DoNotSchedule|ScheduleAnyway"),
    ("core.TypedLocalObjectReference", "kind! name!"),
    ("core.TypedObjectReference", "kind! name!"),
    ("core.Volume", "name!"),
    ("core.VolumeDevice", "devicePath! name!"),
    ("core.VolumeMount", "mountPath! mountPropagation|Bidirectional|HostToContainer|None name!"),
    ("core.VolumeMountStatus", "mountPath! name!"),
    ("core.VsphereVirtualDiskVolumeSource", "volumePath!"),
    ("core.WeightedPodAffinityTerm", "podAffinityTerm! weight!"),
    ("discovery.Endpoint", "addresses!"),
    ("discovery.EndpointPort", "protocol|SCTP|TCP|UDP"),
    ("discovery.EndpointSlice", "addressType!|FQDN|IPv4|IPv6"),
    ("discovery.ForNode", "name!"),
    ("discovery.ForZone", "name!"),
    ("events.Event", "eventTime!"),
    ("events.EventSeries", "count! lastObservedTime!"),
    ("flowcontrol.FlowDistinguisherMethod", "type!"),
    ("flowcontrol.FlowSchemaSpec", "priorityLevelConfiguration!"),
    ("flowcontrol.GroupSubject", "name!"),
    ("flowcontrol.LimitResponse", "type! +type:queuing"),
    ("flowcontrol.NonResourcePolicyRule", "nonResourceURLs! verbs!"),
    ("flowcontrol.PolicyRulesWithSubjects", "subjects!"),
    ("flowcontrol.PriorityLevelConfigurationReference", "name!"),
    ("flowcontrol.PriorityLevelConfigurationSpec", "type! +type:exempt,limited"),
    ("flowcontrol.ResourcePolicyRule", "apiGroups! resources! verbs!"),
    ("flowcontrol.ServiceAccountSubject", "name! namespace!"),
    ("flowcontrol.Subject", "kind! +kind:group,serviceAccount,user"),
    ("flowcontrol.UserSubject", "name!"),
    ("meta.Condition", "lastTransitionTime! message! reason! status! type!"),
    ("meta.FieldSelectorRequirement", "key! operator!"),
    ("meta.GroupResource", "group! resource!"),
    ("meta.LabelSelectorRequirement", "key! operator!"),
    ("meta.OwnerReference", "apiVersion! kind! name! uid!"),
    ("meta.ShardInfo", "selector!"),
    ("meta.WatchEvent", "object! type!"),
    ("networking.HTTPIngressPath", "backend! pathType!|Exact|ImplementationSpecific|Prefix"),
    ("networking.HTTPIngressRuleValue", "paths!"),
    ("networking.IPAddress", "spec!"),
    ("networking.IPAddressSpec", "parentRef!"),
    ("networking.IPBlock", "cidr!"),
    ("networking.IngressClassParametersReference", "kind! name!"),
    ("networking.IngressPortStatus", "port! protocol!|SCTP|TCP|UDP"),
    ("networking.IngressServiceBackend", "name!"),
    ("networking.NetworkPolicyPort", "protocol|SCTP|TCP|UDP"),
    ("networking.NetworkPolicySpec", "policyTypes[]|Egress|Ingress"),
    ("networking.ParentReference", "name! resource!"),
    ("node.RuntimeClass", "handler!"),
    ("policy.PodDisruptionBudgetSpec", "unhealthyPodEvictionPolicy|AlwaysAllow|IfHealthyBudget"),
    ("rbac.ClusterRoleBinding", "roleRef!"),
    ("rbac.PolicyRule", "verbs!"),
    ("rbac.RoleBinding", "roleRef!"),
    ("rbac.RoleRef", "kind! name!"),
    ("rbac.Subject", "kind! name!"),
    ("resource.AllocatedDeviceStatus", "device! driver! pool!"),
    ("resource.CELDeviceSelector", "expression!"),
    ("resource.CapacityRequestPolicyRange", "min!"),
    ("resource.Counter", "value!"),
    ("resource.CounterSet", "counters! name!"),
    ("resource.Device", "name!"),
    ("resource.DeviceAllocationConfiguration", "source!|FromClaim|FromClass"),
    ("resource.DeviceCapacity", "value!"),
    ("resource.DeviceClass", "spec!"),
    ("resource.DeviceCounterConsumption", "counterSet! counters!"),
    ("resource.DeviceRequest", "name!"),
    ("resource.DeviceRequestAllocationResult", "device! driver! pool! request!"),
    ("resource.DeviceSubRequest", "allocationMode|All|ExactCount deviceClassName! name!"),
    ("resource.DeviceTaint", "effect!|NoExecute|NoSchedule|None key!"),
    ("resource.DeviceTaintRule", "spec!"),
    ("resource.DeviceTaintRuleSpec", "taint!"),
    ("resource.DeviceToleration", "effect|NoExecute|NoSchedule|None operator|Equal|Exists"),
    ("resource.ExactDeviceRequest", "allocationMode|All|ExactCount deviceClassName!"),
    ("resource.OpaqueDeviceConfiguration", "driver! parameters!"),
    ("resource.PoolStatus", "driver! generation! poolName!"),
    ("resource.ResourceClaim", "spec!"),
    ("resource.ResourceClaimConsumerReference", "name! resource! uid!"),
    ("resource.ResourceClaimTemplate", "spec!"),
    ("resource.ResourceClaimTemplateSpec", "spec!"),
    ("resource.ResourcePool", "generation! name! resourceSliceCount!"),
    ("resource.ResourcePoolStatusRequest", "metadata! spec!"),
    ("resource.ResourcePoolStatusRequestSpec", "driver!"),
    ("resource.ResourcePoolStatusRequestStatus", "poolCount!"),
    ("resource.ResourceSlice", "spec!"),
    ("resource.ResourceSliceSpec", "driver! pool!"),
    ("scheduling.GangSchedulingPolicy", "minCount!"),
    ("scheduling.PodGroup", "spec!"),
    ("scheduling.PodGroupResourceClaim", "name!"),
    ("scheduling.PodGroupResourceClaimStatus", "name!"),
    ("scheduling.PodGroupSchedulingPolicy", "+:basic,gang"),
    ("scheduling.PodGroupSpec", "disruptionMode|Pod|PodGroup resourceClaims~ schedulingPolicy!"),
    ("scheduling.PodGroupStatus", "resourceClaimStatuses~"),
    ("scheduling.PodGroupTemplate", "disruptionMode|Pod|PodGroup name! resourceClaims~ schedulingPolicy!"),
    ("scheduling.PodGroupTemplateReference", "+:workload"),
    ("scheduling.PriorityClass", "preemptionPolicy|Never|PreemptLowerPriority"),
    ("scheduling.TopologyConstraint", "key!"),
    ("scheduling.TypedLocalObjectReference", "kind! name!"),
    ("scheduling.Workload", "spec!"),
    ("scheduling.WorkloadPodGroupTemplateReference", "podGroupTemplateName! workloadName!"),
    ("scheduling.WorkloadSpec", "podGroupTemplates!"),
    ("storage.CSIDriver", "spec!"),
    ("storage.CSINode", "spec!"),
    ("storage.CSINodeDriver", "name! nodeID!"),
    ("storage.CSINodeSpec", "drivers!"),
    ("storage.CSIStorageCapacity", "storageClassName!"),
    ("storage.StorageClass", "provisioner! reclaimPolicy|Delete|Recycle|Retain volumeBindingMode|Immediate|WaitForFirstConsumer"),
    ("storage.TokenRequest", "audience!"),
    ("storage.VolumeAttachment", "spec!"),
    ("storage.VolumeAttachmentSpec", "attacher! nodeName! source!"),
    ("storage.VolumeAttachmentStatus", "attached!"),
    ("storage.VolumeAttributesClass", "driverName!"),
    ("storagemigration.StorageVersionMigrationSpec", "resource!"),
];

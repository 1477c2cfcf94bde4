//! The objects of one moment of a report.

use std::collections::BTreeMap;

use model::{Moment, Object};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::Fields;
use crate::Result;
use crate::scaling_history::info::{
    CsiNodeInfo, EventInfo, Labels, MachineClassInfo, MachineDeploymentInfo, Meta, NodeInfo, PodInfo,
    ScheduleStatus, SettingsInfo, WorkerPoolInfo, check_spec, labels, priorities_object, resources, taints,
};

/// The cluster at one moment.
pub(super) struct Snapshot {
    /// When; `None` if the report does not say.
    pub(super) at: Option<Moment>,
    pub(super) objects: Vec<Object>,
    /// Events with their times.
    pub(super) events: Vec<(Moment, Object)>,
    pub(super) warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Sizes {
    min: i64,
    max: i64,
}

// === impl Snapshot ===

impl Snapshot {
    /// A ClusterSnapshot.
    pub(super) fn read(fields: &Fields<'_>, begin: Option<Moment>) -> Result<Snapshot> {
        let at = fields.time("SnapshotTime")?.or(begin);
        let mut snapshot = Snapshot::new(at);
        for class in fields.list("PriorityClasses")? {
            snapshot.add(&class, &priority_class(&class)?)?;
        }
        for pool in fields.list("WorkerPools")? {
            snapshot.add(&pool, &worker_pool(&pool)?.object())?;
        }
        let config = fields.object("AutoscalerConfig")?;
        if let Some(config) = &config {
            snapshot.groups(config)?;
        }
        let mut nodes = fields.list("Nodes")?;
        if let Some(config) = &config
            && nodes.is_empty()
        {
            nodes = config.list("ExistingNodes")?;
        }
        for fields in nodes {
            snapshot.node(&fields)?;
        }
        for pod in fields.list("Pods")? {
            let status = pod.number("PodScheduleStatus")?;
            let status = ScheduleStatus::numbered(status).map_err(|why| pod.bad("PodScheduleStatus", why))?;
            snapshot.add(&pod, &read_pod(&pod, status)?.object())?;
        }
        Ok(snapshot.without_doubles())
    }

    /// A scenario of May 2024.
    pub(super) fn read_old(fields: &Fields<'_>) -> Result<Snapshot> {
        let mut snapshot = Snapshot::new(fields.time("StartTime")?);
        let mut sizes = BTreeMap::new();
        for group in fields.list("NodeGroups")? {
            let name = group.text("Name")?;
            sizes.insert(name.clone(), (group.number("MinSize")?, group.number("MaxSize")?));
            let (deployment, class) = machines(&name, &group, None)?;
            snapshot.add(&group, &deployment.object())?;
            let class = MachineClassInfo { instance_type: group.text("MachineType")?, ..class };
            snapshot.add(&group, &class.object())?;
        }
        if let Some(settings) = fields.object("CASettings")? {
            snapshot.settings(&settings, sizes)?;
        }
        for node in fields.list("Nodes")? {
            snapshot.node(&node)?;
        }
        for (list, status) in
            [("UnscheduledPods", ScheduleStatus::Unscheduled), ("ScheduledPods", ScheduleStatus::Committed)]
        {
            for pod in fields.list(list)? {
                snapshot.add(&pod, &read_pod(&pod, status)?.object())?;
            }
        }
        for event in fields.list("ScaleUpEvents")? {
            let info = read_event(&event)?;
            snapshot.events.push((info.at, parsed(&event, &info.object())?));
        }
        snapshot.events.sort_by_key(|(at, _)| *at);
        Ok(snapshot.without_doubles())
    }

    fn new(at: Option<Moment>) -> Snapshot {
        Snapshot { at, objects: Vec::new(), events: Vec::new(), warnings: Vec::new() }
    }

    fn add(&mut self, fields: &Fields<'_>, object: &Value) -> Result<()> {
        self.objects.push(parsed(fields, object)?);
        Ok(())
    }

    /// Node groups and their templates are made of machine deployments and classes, and become such again.
    fn groups(&mut self, config: &Fields<'_>) -> Result<()> {
        let mut templates: BTreeMap<String, Fields<'_>> = config.map("NodeTemplates")?.into_iter().collect();
        let mut sizes = BTreeMap::new();
        for (name, group) in config.map("NodeGroups")? {
            sizes.insert(name.clone(), (group.number("MinSize")?, group.number("MaxSize")?));
            let template = templates.remove(&name);
            let (deployment, class) = machines(&name, &group, template.as_ref())?;
            self.add(&group, &deployment.object())?;
            self.add(&group, &class.object())?;
        }
        match config.object("CASettings")? {
            Some(settings) => self.settings(&settings, sizes),
            None => Ok(()),
        }
    }

    fn settings(&mut self, fields: &Fields<'_>, sizes: BTreeMap<String, (i64, i64)>) -> Result<()> {
        let millis = |field: &str| fields.number(field).map(|nanos| nanos / 1_000_000);
        let mut groups = sizes;
        let named: Option<BTreeMap<String, Sizes>> = fields.get("NodeGroupsMinMax")?;
        groups.extend(named.unwrap_or_default().into_iter().map(|(name, size)| (name, (size.min, size.max))));
        let settings = SettingsInfo {
            expander: fields.text("Expander")?,
            groups,
            max_node_provision_millis: millis("MaxNodeProvisionTime")?,
            scan_interval_millis: millis("ScanInterval")?,
            max_graceful_termination_seconds: fields.number("MaxGracefulTerminationSeconds")?,
            new_pod_scale_up_delay_millis: millis("NewPodScaleUpDelay")?,
            max_empty_bulk_delete: fields.number("MaxEmptyBulkDelete")?,
            ignore_daemon_sets: fields.get("IgnoreDaemonSetUtilization")?.unwrap_or_default(),
            max_nodes_total: fields.number("MaxNodesTotal")?,
            priorities: fields.text("Priorities")?,
        };
        self.add(fields, &settings.object())?;
        if !settings.priorities.is_empty() {
            self.add(fields, &priorities_object(&settings.priorities))?;
        }
        Ok(())
    }

    fn node(&mut self, fields: &Fields<'_>) -> Result<()> {
        let info = NodeInfo {
            meta: meta(fields)?,
            changed: changed(fields)?,
            provider_id: fields.text("ProviderID")?,
            volumes: fields.number("AllocatableVolumes")?,
            labels: fields.read("Labels", labels)?,
            taints: fields.read("Taints", taints)?,
            allocatable: fields.read("Allocatable", resources)?,
            capacity: fields.read("Capacity", resources)?,
        };
        self.add(fields, &info.object())?;
        if info.volumes > 0 {
            self.add(fields, &CsiNodeInfo { meta: info.meta, volumes: info.volumes }.object())?;
        }
        Ok(())
    }

    /// One object a name. The recorder misses deletions, so a pod may be there beside the one that took its name.
    fn without_doubles(mut self) -> Snapshot {
        let name = |object: &Object| {
            let meta = object.meta();
            (meta.kind.into_owned(), meta.namespace.into_owned(), meta.name.into_owned())
        };
        let created = |object: &Object| Meta::of(&object.value().ok()?).ok().and_then(|meta| meta.created);
        let mut kept: Vec<Object> = Vec::new();
        let mut places = BTreeMap::new();
        let mut doubles = 0;
        for object in self.objects {
            match places.get(&name(&object)) {
                None => {
                    places.insert(name(&object), kept.len());
                    kept.push(object);
                }
                Some(&index) => {
                    doubles += 1;
                    if created(&object) > created(&kept[index]) {
                        kept[index] = object;
                    }
                }
            }
        }
        if doubles > 0 {
            let warning =
                format!("{doubles} objects have the name of another: the one that was created last is taken");
            self.warnings.push(warning);
        }
        Snapshot { objects: kept, ..self }
    }
}

/// An object as its text: a tree would take many times its room.
fn parsed(fields: &Fields<'_>, object: &Value) -> Result<Object> {
    Object::parse(&object.to_string()).map_err(|error| fields.unfit(error.to_string()))
}

fn meta(fields: &Fields<'_>) -> Result<Meta> {
    Ok(Meta {
        name: fields.text("Name")?,
        namespace: fields.text("Namespace")?,
        created: fields.time("CreationTimestamp")?,
        // Theirs is always Go's zero time: their own reader does not find the column.
        deleted: fields.time("DeletionTimestamp")?,
    })
}

fn changed(fields: &Fields<'_>) -> Result<Option<Moment>> {
    Ok(fields.time("SnapshotTimestamp")?.or(fields.time("CreationTimestamp")?))
}

fn read_pod(fields: &Fields<'_>, status: ScheduleStatus) -> Result<PodInfo> {
    let mut spec = fields.get::<Value>("Spec")?.unwrap_or_else(|| json!({}));
    check_spec(&spec).map_err(|why| fields.bad("Spec", why))?;
    let node = fields.text("NodeName")?;
    if !node.is_empty() && spec.get("nodeName").is_none_or(Value::is_null) {
        spec["nodeName"] = json!(node);
    }
    // The replayer unbinds pods whose node is gone, and leaves their status as it was recorded.
    let bound = spec["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let status = match status {
        ScheduleStatus::Committed if !bound => ScheduleStatus::Unscheduled,
        status => status,
    };
    Ok(PodInfo {
        meta: meta(fields)?,
        changed: changed(fields)?,
        uid: fields.text("UID")?,
        nominated: fields.text("NominatedNodeName")?,
        phase: if bound { fields.text("PodPhase")? } else { String::new() },
        labels: fields.read("Labels", labels)?,
        requests: fields.read("Requests", resources)?,
        spec,
        status,
    })
}

/// The object is inlined; what is not of it goes.
fn priority_class(fields: &Fields<'_>) -> Result<Value> {
    let mut object = fields.values()?;
    for field in ["RowID", "SnapshotTimestamp", "Hash"] {
        object.remove(field);
    }
    object.insert("apiVersion".to_owned(), json!("scheduling.k8s.io/v1"));
    object.insert("kind".to_owned(), json!("PriorityClass"));
    Ok(Value::Object(object))
}

fn worker_pool(fields: &Fields<'_>) -> Result<WorkerPoolInfo> {
    Ok(WorkerPoolInfo {
        meta: meta(fields)?,
        changed: changed(fields)?,
        machine_type: fields.text("MachineType")?,
        architecture: fields.text("Architecture")?,
        minimum: fields.number("Minimum")?,
        maximum: fields.number("Maximum")?,
        max_surge: fields.number_or_text("MaxSurge")?,
        max_unavailable: fields.number_or_text("MaxUnavailable")?,
        zones: fields.get("Zones")?.unwrap_or_default(),
    })
}

/// The machine deployment and class that a group and its template were made of. A group is called by the namespace and
/// the deployment, the class by the deployment and a suffix that is lost.
fn machines(
    name: &str,
    group: &Fields<'_>,
    template: Option<&Fields<'_>>,
) -> Result<(MachineDeploymentInfo, MachineClassInfo)> {
    let (namespace, deployment) = name.split_once('.').unwrap_or(("", name));
    let (pool, zone) = (group.text("PoolName")?, group.text("Zone")?);
    let mut found = Labels::from([
        ("worker.gardener.cloud/pool".to_owned(), pool.clone()),
        ("topology.kubernetes.io/zone".to_owned(), zone.clone()),
    ]);
    if let Some(template) = template {
        found.extend(template.read("Labels", labels)?);
    }
    let meta = |name: String| Meta {
        name,
        namespace: namespace.to_owned(),
        created: group.time("CreationTimestamp").ok().flatten(),
        deleted: None,
    };
    let class = format!("{deployment}-template");
    let of = |field: &str| template.map_or(Ok(String::new()), |template| template.text(field));
    Ok((
        MachineDeploymentInfo {
            meta: meta(deployment.to_owned()),
            replicas: group.number("TargetSize")?,
            pool: pool.clone(),
            zone: zone.clone(),
            max_surge: String::new(),
            max_unavailable: String::new(),
            class: class.clone(),
            labels: found.clone(),
            taints: template.map_or(Ok(Vec::new()), |template| template.read("Taints", taints))?,
        },
        MachineClassInfo {
            meta: meta(class),
            instance_type: of("InstanceType")?,
            pool,
            region: of("Region")?,
            zone,
            labels: found,
            capacity: template
                .map_or(Ok(BTreeMap::new()), |template| template.read("Capacity", resources))?,
        },
    ))
}

fn read_event(fields: &Fields<'_>) -> Result<EventInfo> {
    Ok(EventInfo {
        uid: fields.text("UID")?,
        at: fields.time("EventTime")?.ok_or_else(|| fields.bad("EventTime", "is missing"))?,
        controller: fields.text("ReportingController")?,
        reason: fields.text("Reason")?,
        message: fields.text("Message")?,
        involved_kind: fields.text("InvolvedObjectKind")?,
        involved_name: fields.text("InvolvedObjectName")?,
        involved_namespace: fields.text("InvolvedObjectNamespace")?,
        involved_uid: fields.text("InvolvedObjectUID")?,
    })
}

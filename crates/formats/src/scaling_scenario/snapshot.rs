//! The objects of one cluster snapshot in a report.

use std::collections::BTreeMap;

use model::{Moment, Object};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::ReportFields;
use crate::Result;
use crate::scaling_history::info::{
    CsiNodeInfo, EventInfo, Labels, MachineClassInfo, MachineDeploymentInfo, NodeInfo, PodInfo,
    ScheduleStatus, SettingsInfo, SnapshotMeta, WorkerPoolInfo, check_spec, labels, priorities_config_map,
    resources, taints,
};

/// A cluster snapshot read from a report.
pub(super) struct ReportSnapshot {
    /// Its time; `None` if the report does not contain it.
    pub(super) at: Option<Moment>,
    pub(super) objects: Vec<Object>,
    /// Events with their times.
    pub(super) events: Vec<(Moment, Object)>,
    pub(super) warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MinMaxJson {
    min: i64,
    max: i64,
}

// === impl ReportSnapshot ===

impl ReportSnapshot {
    /// Reads a `ClusterSnapshot`.
    pub(super) fn read(fields: &ReportFields<'_>, begin: Option<Moment>) -> Result<ReportSnapshot> {
        let at = fields.time("SnapshotTime")?.or(begin);
        let mut snapshot = ReportSnapshot::new(at);
        for class in fields.list("PriorityClasses")? {
            snapshot.add(&class, &priority_class(&class)?)?;
        }
        for pool in fields.list("WorkerPools")? {
            snapshot.add(&pool, &worker_pool(&pool)?.object())?;
        }
        let config = fields.object("AutoscalerConfig")?;
        if let Some(config) = &config {
            snapshot.add_node_groups(config)?;
        }
        let mut nodes = fields.list("Nodes")?;
        if let Some(config) = &config
            && nodes.is_empty()
        {
            nodes = config.list("ExistingNodes")?;
        }
        for fields in nodes {
            snapshot.add_node(&fields)?;
        }
        for pod in fields.list("Pods")? {
            let status = pod.number("PodScheduleStatus")?;
            let status = ScheduleStatus::from_number(status)
                .map_err(|why| pod.field_error("PodScheduleStatus", why))?;
            snapshot.add(&pod, &read_pod(&pod, status)?.object())?;
        }
        Ok(snapshot.without_duplicates())
    }

    /// Reads a scenario in the form of May 2024.
    pub(super) fn read_legacy(fields: &ReportFields<'_>) -> Result<ReportSnapshot> {
        let mut snapshot = ReportSnapshot::new(fields.time("StartTime")?);
        let mut sizes = BTreeMap::new();
        for group in fields.list("NodeGroups")? {
            let name = group.text("Name")?;
            sizes.insert(name.clone(), (group.number("MinSize")?, group.number("MaxSize")?));
            let (deployment, class) = machine_infos(&name, &group, None)?;
            snapshot.add(&group, &deployment.object())?;
            let class = MachineClassInfo { instance_type: group.text("MachineType")?, ..class };
            snapshot.add(&group, &class.object())?;
        }
        if let Some(settings) = fields.object("CASettings")? {
            snapshot.add_settings(&settings, sizes)?;
        }
        for node in fields.list("Nodes")? {
            snapshot.add_node(&node)?;
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
            snapshot.events.push((info.at, parse_object(&event, &info.object())?));
        }
        snapshot.events.sort_by_key(|(at, _)| *at);
        Ok(snapshot.without_duplicates())
    }

    fn new(at: Option<Moment>) -> ReportSnapshot {
        ReportSnapshot { at, objects: Vec::new(), events: Vec::new(), warnings: Vec::new() }
    }

    fn add(&mut self, fields: &ReportFields<'_>, object: &Value) -> Result<()> {
        self.objects.push(parse_object(fields, object)?);
        Ok(())
    }

    /// Gardener derives node groups and templates from machine deployments and classes; they are turned back into
    /// those.
    fn add_node_groups(&mut self, config: &ReportFields<'_>) -> Result<()> {
        let mut templates: BTreeMap<String, ReportFields<'_>> =
            config.map("NodeTemplates")?.into_iter().collect();
        let mut sizes = BTreeMap::new();
        for (name, group) in config.map("NodeGroups")? {
            sizes.insert(name.clone(), (group.number("MinSize")?, group.number("MaxSize")?));
            let template = templates.remove(&name);
            let (deployment, class) = machine_infos(&name, &group, template.as_ref())?;
            self.add(&group, &deployment.object())?;
            self.add(&group, &class.object())?;
        }
        match config.object("CASettings")? {
            Some(settings) => self.add_settings(&settings, sizes),
            None => Ok(()),
        }
    }

    fn add_settings(&mut self, fields: &ReportFields<'_>, sizes: BTreeMap<String, (i64, i64)>) -> Result<()> {
        let millis = |field: &str| fields.number(field).map(|nanos| nanos / 1_000_000);
        let mut groups = sizes;
        let named: Option<BTreeMap<String, MinMaxJson>> = fields.get("NodeGroupsMinMax")?;
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
            self.add(fields, &priorities_config_map(&settings.priorities))?;
        }
        Ok(())
    }

    fn add_node(&mut self, fields: &ReportFields<'_>) -> Result<()> {
        let info = NodeInfo {
            meta: meta(fields)?,
            changed: snapshot_timestamp(fields)?,
            provider_id: fields.text("ProviderID")?,
            volumes: fields.number("AllocatableVolumes")?,
            labels: fields.parse_with("Labels", labels)?,
            taints: fields.parse_with("Taints", taints)?,
            allocatable: fields.parse_with("Allocatable", resources)?,
            capacity: fields.parse_with("Capacity", resources)?,
        };
        self.add(fields, &info.object())?;
        if info.volumes > 0 {
            self.add(fields, &CsiNodeInfo { meta: info.meta, volumes: info.volumes }.object())?;
        }
        Ok(())
    }

    /// Keeps one object per name. The recorder misses deletions, so a pod and its successor of the same name may both
    /// be in a snapshot.
    fn without_duplicates(mut self) -> ReportSnapshot {
        let name = |object: &Object| {
            let meta = object.meta();
            (meta.kind.into_owned(), meta.namespace.into_owned(), meta.name.into_owned())
        };
        let created =
            |object: &Object| SnapshotMeta::of(&object.value().ok()?).ok().and_then(|meta| meta.created);
        let mut objects: Vec<Object> = Vec::new();
        let mut index_by_name = BTreeMap::new();
        let mut duplicates = 0;
        for object in self.objects {
            match index_by_name.get(&name(&object)) {
                None => {
                    index_by_name.insert(name(&object), objects.len());
                    objects.push(object);
                }
                Some(&index) => {
                    duplicates += 1;
                    if created(&object) > created(&objects[index]) {
                        objects[index] = object;
                    }
                }
            }
        }
        if duplicates > 0 {
            let warning =
                format!("{duplicates} objects have a duplicate name: only the last created one is kept");
            self.warnings.push(warning);
        }
        ReportSnapshot { objects, ..self }
    }
}

/// An object as text, which needs a fraction of a parsed value's memory.
fn parse_object(fields: &ReportFields<'_>, object: &Value) -> Result<Object> {
    Object::parse(&object.to_string()).map_err(|error| fields.object_error(error.to_string()))
}

fn meta(fields: &ReportFields<'_>) -> Result<SnapshotMeta> {
    Ok(SnapshotMeta {
        name: fields.text("Name")?,
        namespace: fields.text("Namespace")?,
        created: fields.time("CreationTimestamp")?,
        // In Gardener's reports this is always Go's zero time: its own reader does not find the column.
        deleted: fields.time("DeletionTimestamp")?,
    })
}

fn snapshot_timestamp(fields: &ReportFields<'_>) -> Result<Option<Moment>> {
    Ok(fields.time("SnapshotTimestamp")?.or(fields.time("CreationTimestamp")?))
}

fn read_pod(fields: &ReportFields<'_>, status: ScheduleStatus) -> Result<PodInfo> {
    let mut spec = fields.get::<Value>("Spec")?.unwrap_or_else(|| json!({}));
    check_spec(&spec).map_err(|why| fields.field_error("Spec", why))?;
    let node = fields.text("NodeName")?;
    if !node.is_empty() && spec.get("nodeName").is_none_or(Value::is_null) {
        spec["nodeName"] = json!(node);
    }
    // The replayer unbinds pods whose node is gone, but keeps their recorded status.
    let bound = spec["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let status = match status {
        ScheduleStatus::Committed if !bound => ScheduleStatus::Unscheduled,
        status => status,
    };
    Ok(PodInfo {
        meta: meta(fields)?,
        changed: snapshot_timestamp(fields)?,
        uid: fields.text("UID")?,
        nominated: fields.text("NominatedNodeName")?,
        phase: if bound { fields.text("PodPhase")? } else { String::new() },
        labels: fields.parse_with("Labels", labels)?,
        requests: fields.parse_with("Requests", resources)?,
        spec,
        status,
    })
}

/// The object's fields are inlined; the row's own fields are removed.
fn priority_class(fields: &ReportFields<'_>) -> Result<Value> {
    let mut object = fields.values()?;
    for field in ["RowID", "SnapshotTimestamp", "Hash"] {
        object.remove(field);
    }
    object.insert("apiVersion".to_owned(), json!("scheduling.k8s.io/v1"));
    object.insert("kind".to_owned(), json!("PriorityClass"));
    Ok(Value::Object(object))
}

fn worker_pool(fields: &ReportFields<'_>) -> Result<WorkerPoolInfo> {
    Ok(WorkerPoolInfo {
        meta: meta(fields)?,
        changed: snapshot_timestamp(fields)?,
        machine_type: fields.text("MachineType")?,
        architecture: fields.text("Architecture")?,
        minimum: fields.number("Minimum")?,
        maximum: fields.number("Maximum")?,
        max_surge: fields.int_or_string_text("MaxSurge")?,
        max_unavailable: fields.int_or_string_text("MaxUnavailable")?,
        zones: fields.get("Zones")?.unwrap_or_default(),
    })
}

/// The machine deployment and class from which a group and its template were derived. The group's name consists of the
/// namespace and the deployment's name; the class's name is the deployment's and a suffix that is not recorded.
fn machine_infos(
    name: &str,
    group: &ReportFields<'_>,
    template: Option<&ReportFields<'_>>,
) -> Result<(MachineDeploymentInfo, MachineClassInfo)> {
    let (namespace, deployment) = name.split_once('.').unwrap_or(("", name));
    let (pool, zone) = (group.text("PoolName")?, group.text("Zone")?);
    let mut found = Labels::from([
        ("worker.gardener.cloud/pool".to_owned(), pool.clone()),
        ("topology.kubernetes.io/zone".to_owned(), zone.clone()),
    ]);
    if let Some(template) = template {
        found.extend(template.parse_with("Labels", labels)?);
    }
    let meta = |name: String| SnapshotMeta {
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
            taints: template.map_or(Ok(Vec::new()), |template| template.parse_with("Taints", taints))?,
        },
        MachineClassInfo {
            meta: meta(class),
            instance_type: of("InstanceType")?,
            pool,
            region: of("Region")?,
            zone,
            labels: found,
            capacity: template
                .map_or(Ok(BTreeMap::new()), |template| template.parse_with("Capacity", resources))?,
        },
    ))
}

fn read_event(fields: &ReportFields<'_>) -> Result<EventInfo> {
    Ok(EventInfo {
        uid: fields.text("UID")?,
        at: fields.time("EventTime")?.ok_or_else(|| fields.field_error("EventTime", "is missing"))?,
        controller: fields.text("ReportingController")?,
        reason: fields.text("Reason")?,
        message: fields.text("Message")?,
        involved_kind: fields.text("InvolvedObjectKind")?,
        involved_name: fields.text("InvolvedObjectName")?,
        involved_namespace: fields.text("InvolvedObjectNamespace")?,
        involved_uid: fields.text("InvolvedObjectUID")?,
    })
}

//! The reader of a database, which makes of each row an object from which the recorder would have made it.

use std::collections::{BTreeMap, VecDeque};

use model::{Gap, IncomingChange, Moment, Object, What};
use serde::Deserialize;
use serde_json::{Value, json};

use super::info::{
    CsiNodeInfo, EventInfo, InfoResult, MachineClassInfo, MachineDeploymentInfo, NodeInfo, PodInfo,
    PriorityClassInfo, ScheduleStatus, SettingsInfo, SnapshotMeta, WorkerPoolInfo, check_spec, labels,
    priorities_config_map, resources, taints,
};
use super::row_order::{RowChange, RowChangeType, RowOrder};
use super::tables::{HistoryDatabase, RowCells, Table};
use super::timestamps;
use crate::input::FileOnDisk;
use crate::{ImportItem, Input, ReadOptions, Result};

/// Reads rows in order of time.
pub(super) struct ScalingHistoryReader {
    database: HistoryDatabase,
    row_order: RowOrder,
    options: ReadOptions,
    /// Items to be returned before the next row.
    ready: VecDeque<ImportItem>,
    /// The time of the previous change.
    last: Option<Moment>,
    /// The autoscaler's latest settings.
    settings: Option<SettingsInfo>,
    ended: bool,
    _file: FileOnDisk,
}

/// A node group's sizes in `NodeGroupsMinMax`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MinMaxColumn {
    min: i64,
    max: i64,
}

// === impl ScalingHistoryReader ===

impl ScalingHistoryReader {
    /// Opens a database and sorts its rows.
    pub(super) fn open(input: Input, options: ReadOptions) -> Result<ScalingHistoryReader> {
        let name = input.name.clone();
        let file = input.into_file()?;
        let tables = HistoryDatabase::open(&file.path, &name)?;
        let plan = RowOrder::build(&tables)?;
        let mut ready = VecDeque::new();
        for table in tables.missing_tables() {
            ready.push_back(ImportItem::Warning(format!("{name} has no table {}", table.name())));
        }
        if plan.untimed_starts > 0 {
            let times = plan.untimed_starts;
            ready.push_back(ImportItem::Warning(format!(
                "{name}: the recorder reconnected {times} times, at unknown times: changes may be missing"
            )));
        }
        let last = plan.first_start;
        Ok(ScalingHistoryReader {
            database: tables,
            row_order: plan,
            options,
            ready,
            last,
            settings: None,
            ended: false,
            _file: file,
        })
    }

    fn read(&mut self) -> Result<Option<ImportItem>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            let Some(step) = self.row_order.next()? else { return Ok(None) };
            if step.table == Table::RecorderState {
                self.ready.push_back(ImportItem::Gap(Gap {
                    source: self.options.source.clone(),
                    kinds: Vec::new(),
                    from: self.last.unwrap_or(step.at),
                    to: step.at,
                    why: "recorder restarted".to_owned(),
                }));
            } else {
                self.push_changes(step)?;
            }
            self.last = Some(step.at);
        }
    }

    /// Reads a row and appends its changes.
    fn push_changes(&mut self, step: RowChange) -> Result<()> {
        let (changes, settings) = self.database.with_row(step.table, step.row, |cells| {
            let mut settings = None;
            let objects = match step.table {
                Table::RecorderState => Vec::new(),
                Table::PriorityClass => vec![(step.change_type, priority_class(cells)?.object())],
                Table::WorkerPool => vec![(step.change_type, worker_pool(cells)?.object())],
                Table::MachineClass => vec![(step.change_type, machine_class(cells)?.object())],
                Table::MachineDeployment => vec![(step.change_type, machine_deployment(cells)?.object())],
                Table::Settings => {
                    let now = settings_row(cells)?;
                    let objects = settings_change(self.settings.as_ref(), &now);
                    settings = Some(now);
                    objects
                }
                Table::CsiNode => vec![(step.change_type, csi_node(cells)?.object())],
                Table::Node => self.node(cells, step.change_type)?,
                Table::Pod => vec![(step.change_type, pod(cells)?.object())],
                Table::Event => vec![(step.change_type, event(cells)?.object())],
            };
            let mut changes = Vec::new();
            for (change_type, mut object) in objects {
                if change_type != RowChangeType::Deleted {
                    // All rows of an object carry the time of its deletion.
                    object["metadata"].as_object_mut().and_then(|fields| fields.remove("deletionTimestamp"));
                }
                let object =
                    Object::parse(&object.to_string()).map_err(|error| cells.row_error(error.to_string()))?;
                changes.push(inferred_change(&self.options, step.at, change_type, object));
            }
            Ok((changes, settings))
        })?;
        self.ready.extend(changes.into_iter().map(ImportItem::Change));
        self.settings = settings.or(self.settings.take());
        Ok(())
    }

    /// A node, and its CSINode in files without a table for those: there the node's row has the volume limit.
    fn node(&self, cells: &RowCells<'_>, change_type: RowChangeType) -> Result<Vec<(RowChangeType, Value)>> {
        let info = node(cells)?;
        let mut objects = vec![(change_type, info.object())];
        if info.volumes > 0 && !self.database.has(Table::CsiNode) {
            objects.push((change_type, CsiNodeInfo { meta: info.meta, volumes: info.volumes }.object()));
        }
        Ok(objects)
    }
}

impl Iterator for ScalingHistoryReader {
    type Item = Result<ImportItem>;

    fn next(&mut self) -> Option<Result<ImportItem>> {
        if self.ended {
            return None;
        }
        let item = self.read().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

fn inferred_change(options: &ReadOptions, at: Moment, what: RowChangeType, object: Object) -> IncomingChange {
    let what = match what {
        RowChangeType::Added => What::Added(object),
        RowChangeType::Modified => What::Modified(object),
        RowChangeType::Deleted => What::Deleted(object),
    };
    IncomingChange { inferred: true, ..IncomingChange::received(at, &options.source, what) }
}

/// The changes that a row of settings stands for: to the Deployment, the ConfigMap, or both.
pub(crate) fn settings_change(
    previous: Option<&SettingsInfo>,
    now: &SettingsInfo,
) -> Vec<(RowChangeType, Value)> {
    let mut objects = Vec::new();
    let change_type = |exists: bool| if exists { RowChangeType::Modified } else { RowChangeType::Added };
    let flags = |settings: &SettingsInfo| SettingsInfo { priorities: String::new(), ..settings.clone() };
    if previous.map(flags) != Some(flags(now)) {
        objects.push((change_type(previous.is_some()), now.object()));
    }
    let priorities = previous.map_or("", |previous| &previous.priorities);
    if priorities != now.priorities {
        objects.push((change_type(!priorities.is_empty()), priorities_config_map(&now.priorities)));
    }
    objects
}

fn meta(cells: &RowCells<'_>, namespaced: bool) -> Result<SnapshotMeta> {
    Ok(SnapshotMeta {
        name: cells.string("Name")?,
        namespace: if namespaced { cells.string("Namespace")? } else { String::new() },
        created: cells.time("CreationTimestamp")?,
        deleted: cells.optional_time("DeletionTimestamp")?,
    })
}

/// Parses the JSON of a column.
fn read_json<T>(cells: &RowCells<'_>, column: &str, read: impl Fn(&Value) -> InfoResult<T>) -> Result<T> {
    read(&cells.json(column)?).map_err(|why| cells.column_error(column, why))
}

fn read_bool(cells: &RowCells<'_>, column: &str) -> Result<bool> {
    match cells.number(column)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(cells.column_error(column, format!("expected 0 or 1, found {other}"))),
    }
}

fn pod(cells: &RowCells<'_>) -> Result<PodInfo> {
    let mut spec = cells.json("Spec")?;
    if spec.is_null() {
        spec = json!({});
    }
    check_spec(&spec).map_err(|why| cells.column_error("Spec", why))?;
    let node = cells.text("NodeName")?;
    if !node.is_empty() && spec.get("nodeName").is_none_or(Value::is_null) {
        spec["nodeName"] = json!(node);
    }
    let status = cells.number("ScheduleStatus")?;
    Ok(PodInfo {
        meta: meta(cells, true)?,
        changed: cells.time("SnapshotTimestamp")?,
        uid: cells.string("UID")?,
        nominated: cells.string("NominatedNodeName")?,
        phase: cells.string("Phase")?,
        labels: read_json(cells, "Labels", labels)?,
        requests: read_json(cells, "Requests", resources)?,
        spec,
        status: ScheduleStatus::from_number(status)
            .map_err(|why| cells.column_error("ScheduleStatus", why))?,
    })
}

fn node(cells: &RowCells<'_>) -> Result<NodeInfo> {
    Ok(NodeInfo {
        meta: meta(cells, true)?,
        changed: cells.time("SnapshotTimestamp")?,
        provider_id: cells.string("ProviderID")?,
        volumes: cells.number("AllocatableVolumes")?,
        labels: read_json(cells, "Labels", labels)?,
        taints: read_json(cells, "Taints", taints)?,
        allocatable: read_json(cells, "Allocatable", resources)?,
        capacity: read_json(cells, "Capacity", resources)?,
    })
}

fn csi_node(cells: &RowCells<'_>) -> Result<CsiNodeInfo> {
    Ok(CsiNodeInfo { meta: meta(cells, true)?, volumes: cells.number("AllocatableVolumes")? })
}

fn priority_class(cells: &RowCells<'_>) -> Result<PriorityClassInfo> {
    let value = cells.number("Value")?;
    Ok(PriorityClassInfo {
        meta: meta(cells, false)?,
        uid: cells.string("UID")?,
        value: i32::try_from(value)
            .map_err(|_| cells.column_error("Value", format!("{value} does not fit 32 bits")))?,
        global_default: read_bool(cells, "GlobalDefault")?,
        preemption_policy: cells.string("PreemptionPolicy")?,
        description: cells.string("Description")?,
        labels: read_json(cells, "Labels", labels)?,
    })
}

fn machine_deployment(cells: &RowCells<'_>) -> Result<MachineDeploymentInfo> {
    Ok(MachineDeploymentInfo {
        meta: meta(cells, true)?,
        replicas: cells.number("Replicas")?,
        pool: cells.string("PoolName")?,
        zone: cells.string("Zone")?,
        max_surge: cells.string("MaxSurge")?,
        max_unavailable: cells.string("MaxUnavailable")?,
        class: cells.string("MachineClassName")?,
        labels: read_json(cells, "Labels", labels)?,
        taints: read_json(cells, "Taints", taints)?,
    })
}

fn machine_class(cells: &RowCells<'_>) -> Result<MachineClassInfo> {
    Ok(MachineClassInfo {
        meta: meta(cells, true)?,
        instance_type: cells.string("InstanceType")?,
        pool: cells.string("PoolName")?,
        region: cells.string("Region")?,
        zone: cells.string("Zone")?,
        labels: read_json(cells, "Labels", labels)?,
        capacity: read_json(cells, "Capacity", resources)?,
    })
}

fn worker_pool(cells: &RowCells<'_>) -> Result<WorkerPoolInfo> {
    Ok(WorkerPoolInfo {
        meta: meta(cells, true)?,
        changed: cells.time("SnapshotTimestamp")?,
        machine_type: cells.string("MachineType")?,
        architecture: cells.string("Architecture")?,
        minimum: cells.number("Minimum")?,
        maximum: cells.number("Maximum")?,
        max_surge: cells.string("MaxSurge")?,
        max_unavailable: cells.string("MaxUnavailable")?,
        zones: cells.text("Zones")?.split_whitespace().map(str::to_owned).collect(),
    })
}

fn settings_row(cells: &RowCells<'_>) -> Result<SettingsInfo> {
    let groups = cells.json("NodeGroupsMinMax")?;
    let groups = Option::<BTreeMap<String, MinMaxColumn>>::deserialize(groups)
        .map_err(|error| cells.column_error("NodeGroupsMinMax", error.to_string()))?;
    Ok(SettingsInfo {
        expander: cells.string("Expander")?,
        groups: groups
            .unwrap_or_default()
            .into_iter()
            .map(|(name, size)| (name, (size.min, size.max)))
            .collect(),
        max_node_provision_millis: cells.number("MaxNodeProvisionTime")?,
        scan_interval_millis: cells.number("ScanInterval")?,
        max_graceful_termination_seconds: cells.number("MaxGracefulTerminationSeconds")?,
        new_pod_scale_up_delay_millis: cells.number("NewPodScaleUpDelay")?,
        max_empty_bulk_delete: cells.number("MaxEmptyBulkDelete")?,
        ignore_daemon_sets: read_bool(cells, "IgnoreDaemonSetUtilization")?,
        max_nodes_total: cells.number("MaxNodesTotal")?,
        priorities: cells.string("Priorities")?,
    })
}

fn event(cells: &RowCells<'_>) -> Result<EventInfo> {
    Ok(EventInfo {
        uid: cells.string("UID")?,
        at: timestamps::parse_text(cells.text("EventTime")?)
            .map_err(|why| cells.column_error("EventTime", why))?,
        controller: cells.string("ReportingController")?,
        reason: cells.string("Reason")?,
        message: cells.string("Message")?,
        involved_kind: cells.string("InvolvedObjectKind")?,
        involved_name: cells.string("InvolvedObjectName")?,
        involved_namespace: cells.string("InvolvedObjectNamespace")?,
        involved_uid: cells.string("InvolvedObjectUID")?,
    })
}

//! Reading a database: each row becomes an object that the recorder would have seen so.

use std::collections::{BTreeMap, VecDeque};

use model::{Gap, Moment, Object, Observed, What};
use serde::Deserialize;
use serde_json::{Value, json};

use super::info::{
    CsiNodeInfo, EventInfo, Fit, MachineClassInfo, MachineDeploymentInfo, Meta, NodeInfo, PodInfo,
    PriorityClassInfo, ScheduleStatus, SettingsInfo, WorkerPoolInfo, check_spec, labels, priorities_object,
    resources, taints,
};
use super::plan::{Plan, Step, Word};
use super::tables::{Cells, Table, Tables};
use super::times;
use crate::input::FileOnDisk;
use crate::{Given, Input, Item, Result};

/// Reads rows in order of time.
pub(super) struct Reader {
    tables: Tables,
    plan: Plan,
    given: Given,
    /// What is to be told before the next row.
    ready: VecDeque<Item>,
    /// The time of what was told last.
    last: Option<Moment>,
    /// The autoscaler's settings as they were told last.
    settings: Option<SettingsInfo>,
    ended: bool,
    _file: FileOnDisk,
}

/// A group's sizes.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Sizes {
    min: i64,
    max: i64,
}

// === impl Reader ===

impl Reader {
    /// Opens a database and puts its rows in order.
    pub(super) fn open(input: Input, given: Given) -> Result<Reader> {
        let name = input.name.clone();
        let file = input.into_file()?;
        let tables = Tables::open(&file.path, &name)?;
        let plan = Plan::make(&tables)?;
        let mut ready = VecDeque::new();
        for table in tables.missing() {
            ready.push_back(Item::Warning(format!("{name} has no table {}", table.name())));
        }
        if plan.untimed_starts > 0 {
            let times = plan.untimed_starts;
            ready.push_back(Item::Warning(format!(
                "{name}: the recorder connected anew {times} times and did not say when: something may be missing"
            )));
        }
        let last = plan.began;
        Ok(Reader { tables, plan, given, ready, last, settings: None, ended: false, _file: file })
    }

    fn read(&mut self) -> Result<Option<Item>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            let Some(step) = self.plan.next()? else { return Ok(None) };
            if step.table == Table::Begin {
                self.ready.push_back(Item::Gap(Gap {
                    source: self.given.source.clone(),
                    kinds: Vec::new(),
                    from: self.last.unwrap_or(step.at),
                    to: step.at,
                    why: "recorder restarted".to_owned(),
                }));
            } else {
                self.tell(step)?;
            }
            self.last = Some(step.at);
        }
    }

    /// What a row says.
    fn tell(&mut self, step: Step) -> Result<()> {
        let (told, settings) = self.tables.row(step.table, step.row, |cells| {
            let mut settings = None;
            let objects = match step.table {
                Table::Begin => Vec::new(),
                Table::PriorityClass => vec![(step.what, priority_class(cells)?.object())],
                Table::WorkerPool => vec![(step.what, worker_pool(cells)?.object())],
                Table::MachineClass => vec![(step.what, machine_class(cells)?.object())],
                Table::MachineDeployment => vec![(step.what, machine_deployment(cells)?.object())],
                Table::Settings => {
                    let now = settings_row(cells)?;
                    let objects = settings_change(self.settings.as_ref(), &now);
                    settings = Some(now);
                    objects
                }
                Table::CsiNode => vec![(step.what, csi_node(cells)?.object())],
                Table::Node => self.node(cells, step.what)?,
                Table::Pod => vec![(step.what, pod(cells)?.object())],
                Table::Event => vec![(step.what, event(cells)?.object())],
            };
            let mut told = Vec::new();
            for (what, mut object) in objects {
                if what != Word::Deleted {
                    // All rows of a life carry the time of its end.
                    object["metadata"].as_object_mut().and_then(|fields| fields.remove("deletionTimestamp"));
                }
                let object =
                    Object::parse(&object.to_string()).map_err(|error| cells.unfit(error.to_string()))?;
                told.push(observed(&self.given, step.at, what, object));
            }
            Ok((told, settings))
        })?;
        self.ready.extend(told.into_iter().map(Item::Change));
        self.settings = settings.or(self.settings.take());
        Ok(())
    }

    /// A node; and its CSINode in files that have no table for those: they tell its volumes here.
    fn node(&self, cells: &Cells<'_>, what: Word) -> Result<Vec<(Word, Value)>> {
        let info = node(cells)?;
        let mut objects = vec![(what, info.object())];
        if info.volumes > 0 && !self.tables.has(Table::CsiNode) {
            objects.push((what, CsiNodeInfo { meta: info.meta, volumes: info.volumes }.object()));
        }
        Ok(objects)
    }
}

impl Iterator for Reader {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
        if self.ended {
            return None;
        }
        let item = self.read().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

fn observed(given: &Given, at: Moment, what: Word, object: Object) -> Observed {
    let what = match what {
        Word::Added => What::Added(object),
        Word::Modified => What::Modified(object),
        Word::Deleted => What::Deleted(object),
    };
    Observed { inferred: true, ..Observed::received(at, &given.source, what) }
}

/// A row of settings is a new Deployment, a new ConfigMap, or both.
pub(crate) fn settings_change(before: Option<&SettingsInfo>, now: &SettingsInfo) -> Vec<(Word, Value)> {
    let mut objects = Vec::new();
    let word = |there: bool| if there { Word::Modified } else { Word::Added };
    let flags = |settings: &SettingsInfo| SettingsInfo { priorities: String::new(), ..settings.clone() };
    if before.map(flags) != Some(flags(now)) {
        objects.push((word(before.is_some()), now.object()));
    }
    let priorities = before.map_or("", |before| &before.priorities);
    if priorities != now.priorities {
        objects.push((word(!priorities.is_empty()), priorities_object(&now.priorities)));
    }
    objects
}

fn meta(cells: &Cells<'_>, namespaced: bool) -> Result<Meta> {
    Ok(Meta {
        name: cells.owned("Name")?,
        namespace: if namespaced { cells.owned("Namespace")? } else { String::new() },
        created: cells.time("CreationTimestamp")?,
        deleted: cells.time_if_any("DeletionTimestamp")?,
    })
}

/// The JSON of a column, read further.
fn parsed<T>(cells: &Cells<'_>, column: &str, read: impl Fn(&Value) -> Fit<T>) -> Result<T> {
    read(&cells.json(column)?).map_err(|why| cells.bad(column, why))
}

fn truth(cells: &Cells<'_>, column: &str) -> Result<bool> {
    match cells.number(column)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(cells.bad(column, format!("{other} where 0 or 1 should be"))),
    }
}

fn pod(cells: &Cells<'_>) -> Result<PodInfo> {
    let mut spec = cells.json("Spec")?;
    if spec.is_null() {
        spec = json!({});
    }
    check_spec(&spec).map_err(|why| cells.bad("Spec", why))?;
    let node = cells.text("NodeName")?;
    if !node.is_empty() && spec.get("nodeName").is_none_or(Value::is_null) {
        spec["nodeName"] = json!(node);
    }
    let status = cells.number("ScheduleStatus")?;
    Ok(PodInfo {
        meta: meta(cells, true)?,
        changed: cells.time("SnapshotTimestamp")?,
        uid: cells.owned("UID")?,
        nominated: cells.owned("NominatedNodeName")?,
        phase: cells.owned("Phase")?,
        labels: parsed(cells, "Labels", labels)?,
        requests: parsed(cells, "Requests", resources)?,
        spec,
        status: ScheduleStatus::numbered(status).map_err(|why| cells.bad("ScheduleStatus", why))?,
    })
}

fn node(cells: &Cells<'_>) -> Result<NodeInfo> {
    Ok(NodeInfo {
        meta: meta(cells, true)?,
        changed: cells.time("SnapshotTimestamp")?,
        provider_id: cells.owned("ProviderID")?,
        volumes: cells.number("AllocatableVolumes")?,
        labels: parsed(cells, "Labels", labels)?,
        taints: parsed(cells, "Taints", taints)?,
        allocatable: parsed(cells, "Allocatable", resources)?,
        capacity: parsed(cells, "Capacity", resources)?,
    })
}

fn csi_node(cells: &Cells<'_>) -> Result<CsiNodeInfo> {
    Ok(CsiNodeInfo { meta: meta(cells, true)?, volumes: cells.number("AllocatableVolumes")? })
}

fn priority_class(cells: &Cells<'_>) -> Result<PriorityClassInfo> {
    let value = cells.number("Value")?;
    Ok(PriorityClassInfo {
        meta: meta(cells, false)?,
        uid: cells.owned("UID")?,
        value: i32::try_from(value)
            .map_err(|_| cells.bad("Value", format!("{value} takes more than 32 bits")))?,
        global_default: truth(cells, "GlobalDefault")?,
        preemption_policy: cells.owned("PreemptionPolicy")?,
        description: cells.owned("Description")?,
        labels: parsed(cells, "Labels", labels)?,
    })
}

fn machine_deployment(cells: &Cells<'_>) -> Result<MachineDeploymentInfo> {
    Ok(MachineDeploymentInfo {
        meta: meta(cells, true)?,
        replicas: cells.number("Replicas")?,
        pool: cells.owned("PoolName")?,
        zone: cells.owned("Zone")?,
        max_surge: cells.owned("MaxSurge")?,
        max_unavailable: cells.owned("MaxUnavailable")?,
        class: cells.owned("MachineClassName")?,
        labels: parsed(cells, "Labels", labels)?,
        taints: parsed(cells, "Taints", taints)?,
    })
}

fn machine_class(cells: &Cells<'_>) -> Result<MachineClassInfo> {
    Ok(MachineClassInfo {
        meta: meta(cells, true)?,
        instance_type: cells.owned("InstanceType")?,
        pool: cells.owned("PoolName")?,
        region: cells.owned("Region")?,
        zone: cells.owned("Zone")?,
        labels: parsed(cells, "Labels", labels)?,
        capacity: parsed(cells, "Capacity", resources)?,
    })
}

fn worker_pool(cells: &Cells<'_>) -> Result<WorkerPoolInfo> {
    Ok(WorkerPoolInfo {
        meta: meta(cells, true)?,
        changed: cells.time("SnapshotTimestamp")?,
        machine_type: cells.owned("MachineType")?,
        architecture: cells.owned("Architecture")?,
        minimum: cells.number("Minimum")?,
        maximum: cells.number("Maximum")?,
        max_surge: cells.owned("MaxSurge")?,
        max_unavailable: cells.owned("MaxUnavailable")?,
        zones: cells.text("Zones")?.split_whitespace().map(str::to_owned).collect(),
    })
}

fn settings_row(cells: &Cells<'_>) -> Result<SettingsInfo> {
    let groups = cells.json("NodeGroupsMinMax")?;
    let groups = Option::<BTreeMap<String, Sizes>>::deserialize(groups)
        .map_err(|error| cells.bad("NodeGroupsMinMax", error.to_string()))?;
    Ok(SettingsInfo {
        expander: cells.owned("Expander")?,
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
        ignore_daemon_sets: truth(cells, "IgnoreDaemonSetUtilization")?,
        max_nodes_total: cells.number("MaxNodesTotal")?,
        priorities: cells.owned("Priorities")?,
    })
}

fn event(cells: &Cells<'_>) -> Result<EventInfo> {
    Ok(EventInfo {
        uid: cells.owned("UID")?,
        at: times::of_text(cells.text("EventTime")?).map_err(|why| cells.bad("EventTime", why))?,
        controller: cells.owned("ReportingController")?,
        reason: cells.owned("Reason")?,
        message: cells.owned("Message")?,
        involved_kind: cells.owned("InvolvedObjectKind")?,
        involved_name: cells.owned("InvolvedObjectName")?,
        involved_namespace: cells.owned("InvolvedObjectNamespace")?,
        involved_uid: cells.owned("InvolvedObjectUID")?,
    })
}

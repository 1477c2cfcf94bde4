//! The objects of the next cycle: what the binder, kubelets and controllers make of a cycle's decisions.
//!
//! Bound pods run. Evicted pods leave, and so do pods that were being deleted. A pod that leaves comes back pending, under
//! its name, if its pod group is there, is not being deleted and does not belong to the pod itself. Pods that wait for
//! resources wait on. Reservation pods of shared GPUs are not created.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kai::{ActionDecisions, GpuGroup, JobReport, Placement, PodState, PodStatus};
use kubernetes::time::whole_second;
use model::{Moment, NamespacedName, Object};
use serde_json::{Value, json};

/// The names of new groups of pods that share a GPU, unique in a run.
#[derive(Debug)]
pub(crate) struct GpuGroupNames {
    next: usize,
    /// The first number of the present cycle.
    first: usize,
}

/// The outcome of a cycle.
pub(crate) struct CycleOutcome<'a> {
    pub decisions: &'a [ActionDecisions],
    /// The jobs at the start.
    pub jobs: &'a [JobReport],
    /// The pods at the end.
    pub pods: &'a [PodState],
    pub now: Moment,
}

/// What happens to a pod between two cycles.
enum PodChange<'a> {
    Starts(&'a Placement),
    /// It was bound in an earlier cycle.
    Runs(Arc<str>),
    Leaves,
}

/// The jobs that decisions concern.
#[derive(Default)]
struct JobChanges<'a> {
    bound: BTreeSet<&'a str>,
    evicted: BTreeSet<&'a str>,
}

const LAST_START: &str = "kai.scheduler/last-start-timestamp";
const LAST_EVICTION: &str = "kai.scheduler/last-eviction-timestamp";
const STALE_SINCE: &str = "kai.scheduler/stale-podgroup-timestamp";
const POD_GROUP: &str = "pod-group-name";
const RECEIVED_TYPE: &str = "received-resource-type";
const GPU_GROUP: &str = "runai-gpu-group";
const NEW_GROUP: &str = "new-";

// === impl GpuGroupNames ===

impl GpuGroupNames {
    /// Names that no pod or bind request has.
    pub(crate) fn for_objects(objects: &[Object]) -> GpuGroupNames {
        let quoted = format!("\"{NEW_GROUP}");
        let numbers = objects.iter().flat_map(|object| object.as_str().split(quoted.as_str()).skip(1));
        let numbers = numbers.filter_map(|rest| rest.split('"').next()?.parse::<usize>().ok());
        let next = numbers.max().map_or(0, |last| last.saturating_add(1));
        GpuGroupNames { next, first: next }
    }

    /// Starts a cycle with these decisions.
    pub(crate) fn start_cycle(&mut self, decisions: &[ActionDecisions]) {
        self.first = self.next;
        let placements = decisions.iter().flat_map(|action| action.bound.iter().chain(&action.pipelined));
        for group in placements.flat_map(|placement| &placement.gpu_groups) {
            if let GpuGroup::New(number) = group {
                self.next = self.next.max(self.first + number + 1);
            }
        }
    }

    /// The name of a group of the present cycle.
    pub(crate) fn name(&self, group: &GpuGroup) -> String {
        match group {
            GpuGroup::Known(name) => name.to_string(),
            GpuGroup::New(number) => format!("{NEW_GROUP}{}", self.first + number),
        }
    }
}

// === impl CycleOutcome ===

impl CycleOutcome<'_> {
    /// The objects of the next cycle; `None` if they are the same.
    pub(crate) fn next_objects(
        &self,
        objects: &[Object],
        names: &GpuGroupNames,
    ) -> anyhow::Result<Option<Vec<Object>>> {
        let changes = self.pod_changes(objects);
        if changes.is_empty() {
            return Ok(None);
        }
        let returning = returning_groups(objects)?;
        let of_jobs = self.job_changes();
        let mut next = Vec::with_capacity(objects.len() + changes.len());
        for object in objects {
            let meta = object.meta();
            match &*meta.kind {
                "Pod" => match changes.get(&object_name(object)) {
                    None => next.push(object.clone()),
                    Some(PodChange::Leaves) => next.extend(pending_again(object, &returning, self.now)?),
                    Some(PodChange::Starts(placement)) => {
                        next.push(started(object, placement, names)?);
                        next.push(bind_request(placement, names)?);
                    }
                    Some(PodChange::Runs(node)) => next.push(running(object.value()?, node)?),
                },
                // Each start adds its own; those of pods that leave are gone.
                "BindRequest" => match changes.get(&requested_pod(object)?) {
                    None | Some(PodChange::Runs(_)) => next.push(object.clone()),
                    Some(_) => {}
                },
                "PodGroup" => next.push(self.pod_group(object, &of_jobs)?),
                _ => next.push(object.clone()),
            }
        }
        Ok(Some(next))
    }

    fn pod_changes(&self, objects: &[Object]) -> BTreeMap<NamespacedName, PodChange<'_>> {
        let mut changes = BTreeMap::new();
        for decisions in self.decisions {
            for placement in &decisions.bound {
                changes.insert(placement.pod.clone(), PodChange::Starts(placement));
            }
            for eviction in &decisions.evicted {
                changes.insert(eviction.pod.clone(), PodChange::Leaves);
            }
        }
        let deleted: BTreeSet<NamespacedName> =
            objects.iter().filter(|object| is_deleted_pod(object)).map(object_name).collect();
        for state in self.pods {
            if changes.contains_key(&state.pod) {
                continue;
            }
            match (state.status, &state.node) {
                (PodStatus::Binding | PodStatus::Bound, Some(node)) => {
                    changes.insert(state.pod.clone(), PodChange::Runs(node.clone()));
                }
                (PodStatus::Releasing, _) if deleted.contains(&state.pod) => {
                    changes.insert(state.pod.clone(), PodChange::Leaves);
                }
                _ => {}
            }
        }
        changes
    }

    /// The jobs whose pods were bound, and those whose pods were evicted.
    fn job_changes(&self) -> JobChanges<'_> {
        let job_of = |pod: &NamespacedName| {
            let found = self.pods.binary_search_by(|state| state.pod.cmp(pod));
            found.ok().map(|index| &*self.pods[index].job)
        };
        let mut changes = JobChanges::default();
        for decisions in self.decisions {
            changes.bound.extend(decisions.bound.iter().filter_map(|placement| job_of(&placement.pod)));
            changes.evicted.extend(decisions.evicted.iter().filter_map(|eviction| job_of(&eviction.pod)));
        }
        changes
    }

    /// A pod group with the times that the scheduler notes.
    fn pod_group(&self, object: &Object, changes: &JobChanges<'_>) -> anyhow::Result<Object> {
        let name = object.meta().name.into_owned();
        let Ok(job) = self.jobs.binary_search_by(|job| (*job.name).cmp(&name)) else {
            return Ok(object.clone());
        };
        let job = &self.jobs[job];
        let had_pods = job.statuses.keys().any(|status| status.is_allocated());
        let is_started = !had_pods && changes.bound.contains(&*name);
        let is_evicted = changes.evicted.contains(&*name);
        let mut value = object.value()?;
        let was_stale = !value["metadata"]["annotations"][STALE_SINCE].is_null();
        if !(is_started || is_evicted || job.is_stale != was_stale) {
            return Ok(object.clone());
        }
        let now = json!(whole_second(self.now).to_string());
        let annotations = &mut value["metadata"]["annotations"];
        if !annotations.is_object() {
            *annotations = json!({});
        }
        if is_started {
            annotations[LAST_START] = now.clone();
        }
        if is_evicted {
            annotations[LAST_EVICTION] = now.clone();
        }
        if job.is_stale && !was_stale {
            annotations[STALE_SINCE] = now;
        } else if !job.is_stale && was_stale {
            remove(annotations, STALE_SINCE);
        }
        parse(&value)
    }
}

/// The pod groups that want back the pods that leave, each with the pod that it belongs to, if any.
fn returning_groups(objects: &[Object]) -> anyhow::Result<BTreeMap<String, Option<String>>> {
    let mut groups = BTreeMap::new();
    for object in objects.iter().filter(|object| object.meta().kind == "PodGroup") {
        let value = object.value()?;
        let metadata = &value["metadata"];
        if metadata["deletionTimestamp"].is_null() {
            let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
            let pod = owners.find(|owner| owner["kind"] == "Pod");
            let pod = pod.and_then(|owner| owner["name"].as_str()).map(str::to_owned);
            groups.insert(object.meta().name.into_owned(), pod);
        }
    }
    Ok(groups)
}

fn started(object: &Object, placement: &Placement, names: &GpuGroupNames) -> anyhow::Result<Object> {
    let mut value = object.value()?;
    value["metadata"]["annotations"][RECEIVED_TYPE] = json!(placement.received.name());
    // The groups of a pod with several are those of its bind request.
    if let [group] = placement.gpu_groups.as_slice() {
        let labels = &mut value["metadata"]["labels"];
        if !labels.is_object() {
            *labels = json!({});
        }
        labels[GPU_GROUP] = json!(names.name(group));
    }
    running(value, &placement.node)
}

fn running(mut pod: Value, node: &str) -> anyhow::Result<Object> {
    pod["spec"]["nodeName"] = json!(node);
    if !pod["status"].is_object() {
        pod["status"] = json!({});
    }
    pod["status"]["phase"] = json!("Running");
    remove(&mut pod["status"], "nominatedNodeName");
    parse(&pod)
}

fn bind_request(placement: &Placement, names: &GpuGroupNames) -> anyhow::Result<Object> {
    let NamespacedName { namespace, name } = &placement.pod;
    let groups: Vec<String> = placement.gpu_groups.iter().map(|group| names.name(group)).collect();
    parse(&json!({
        "apiVersion": "scheduling.run.ai/v1alpha2",
        "kind": "BindRequest",
        "metadata": {"name": &**name, "namespace": &**namespace},
        "spec": {
            "podName": &**name,
            "selectedNode": &*placement.node,
            "receivedResourceType": placement.received.name(),
            "receivedGPU": {"count": placement.gpu_count, "portion": format!("{:.2}", placement.gpu_portion)},
            "selectedGPUGroups": groups,
        },
        "status": {"phase": "Succeeded"},
    }))
}

/// The pod that takes the place of one that leaves, if its pod group wants one.
fn pending_again(
    object: &Object,
    returning: &BTreeMap<String, Option<String>>,
    now: Moment,
) -> anyhow::Result<Option<Object>> {
    let mut value = object.value()?;
    let group = value["metadata"]["annotations"][POD_GROUP].as_str().and_then(|group| returning.get(group));
    let name = &object.meta().name;
    match group {
        Some(owner) if owner.as_deref() != Some(&**name) => {}
        _ => return Ok(None),
    }
    let metadata = &mut value["metadata"];
    metadata["creationTimestamp"] = json!(whole_second(now).to_string());
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "finalizers"] {
        remove(metadata, field);
    }
    remove(&mut metadata["annotations"], RECEIVED_TYPE);
    if let Some(labels) = metadata["labels"].as_object_mut() {
        labels.retain(|label, _| !label.starts_with(GPU_GROUP));
    }
    remove(&mut value["spec"], "nodeName");
    value["status"] = json!({"phase": "Pending"});
    parse(&value).map(Some)
}

fn is_deleted_pod(object: &Object) -> bool {
    object.meta().kind == "Pod"
        && object.value().is_ok_and(|value| !value["metadata"]["deletionTimestamp"].is_null())
}

fn object_name(object: &Object) -> NamespacedName {
    let meta = object.meta();
    NamespacedName { namespace: (*meta.namespace).into(), name: (*meta.name).into() }
}

fn requested_pod(object: &Object) -> anyhow::Result<NamespacedName> {
    let value = object.value()?;
    let name = value["spec"]["podName"].as_str().unwrap_or_default().into();
    Ok(NamespacedName { name, ..object_name(object) })
}

fn remove(value: &mut Value, field: &str) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove(field);
    }
}

fn parse(value: &Value) -> anyhow::Result<Object> {
    Ok(Object::parse(&value.to_string())?)
}

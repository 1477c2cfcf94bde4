//! KAI's own table tests, read in place where they are present.
//!
//! A case becomes the objects of a snapshot. The cases of one action run it once; the cases of whole rounds run all
//! actions repeatedly, and what was bound runs in the next round. Statuses, nodes and the most bindings, evictions and
//! waiting pods must be as the tables say. Not covered: cases with dynamic resource allocation, and cases that start
//! with a pod that waits for resources, which no snapshot can have.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops where something is not as it should be"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kai::{ActionDecisions, GpuGroup, Session, Settings, Snapshot};
use model::{Moment, Object};
use serde_json::{Map, Value, json};

const NOW: &str = "2026-06-01T12:00:00Z";
/// The unit of durations in the tables.
const SECOND: f64 = 1e9;
/// The GPUs of the tables have 100 MiB; in a cluster, only larger ones count when the smallest is looked for.
const MEMORY_UNIT: u64 = 100;

/// The pods of a case: status, node and groups of shared GPUs.
type Pods = BTreeMap<String, PodState>;

#[derive(Clone, Debug)]
struct PodState {
    status: String,
    node: String,
    group: Option<String>,
}

/// What the scheduler did in a round.
#[derive(Debug, Default)]
struct Counts {
    bound: usize,
    evicted: usize,
    pipelined: usize,
}

fn tables() -> Option<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/kai");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).ok()?.map(|file| file.unwrap().path()).collect();
    files.sort_unstable();
    Some(files)
}

#[test]
fn tables_of_the_original_come_out_as_they_say() {
    let Some(files) = tables() else {
        println!("skipped: the tables are absent");
        return;
    };
    let (mut equal, mut outside, mut report) = (0, 0, String::new());
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        for (index, case) in cases.iter().enumerate() {
            if name.ends_with("dra") || statuses(case).any(|status| status == "Pipelined") {
                outside += 1;
                continue;
            }
            let differences = differences(&name, case);
            if differences.is_empty() {
                equal += 1;
            } else {
                let title = text(case, "Name");
                report += &format!("{name} {index} {title}\n  {}\n", differences.join("\n  "));
            }
        }
    }
    println!("{equal} as the tables say, {outside} outside");
    assert!(report.is_empty(), "\n{report}{equal} as the tables say, {outside} outside");
}

fn statuses(case: &Value) -> impl Iterator<Item = &str> {
    list(case, "Jobs").iter().flat_map(|job| list(job, "Tasks")).map(|task| text(task, "State"))
}

/// Runs a case and says what is not as the table says.
fn differences(table: &str, case: &Value) -> Vec<String> {
    let mut pods = initial_pods(case);
    let mut differences = Vec::new();
    if !table.starts_with("integration_tests__") {
        let (action, _) = table.split_once("__").unwrap();
        let grace = if action == "stalegangeviction" { 60.0 } else { 0.0 };
        let (counts, idle) = run(case, &mut pods, action, grace, 0);
        compare(case, &pods, &mut differences);
        compare_counts(case, &counts, &mut differences);
        compare_idle(case, &idle, &mut differences);
        return differences;
    }
    let number =
        |name: &str, default: u64| case["_meta"][name].as_u64().filter(|it| *it != 0).unwrap_or(default);
    let until = number("RoundsUntilMatch", 2);
    let actions = "allocate, consolidation, reclaim, preempt, stalegangeviction";
    for round in 0..until + number("RoundsAfterMatch", 5) {
        run(case, &mut pods, actions, 0.0, round);
        // A round that follows shows the pods before they are rebuilt.
        if round >= until {
            compare(case, &pods, &mut differences);
        }
        rebuild(case, &mut pods);
        if round + 1 == until {
            compare(case, &pods, &mut differences);
        }
        if !differences.is_empty() {
            differences.push(format!("in round {round}"));
            break;
        }
    }
    differences
}

fn initial_pods(case: &Value) -> Pods {
    let mut pods = Pods::new();
    for job in list(case, "Jobs") {
        for (index, task) in list(job, "Tasks").iter().enumerate() {
            let name = format!("{}-{index}", text(job, "Name"));
            let group = list(task, "GPUGroups").first().and_then(Value::as_str).map(str::to_owned);
            let status = text(task, "State").to_owned();
            let state = PodState { status, node: text(task, "NodeName").to_owned(), group };
            pods.insert(name, state);
        }
    }
    pods
}

/// Makes the pods of the next round from those after a round.
fn rebuild(case: &Value, pods: &mut Pods) {
    for job in list(case, "Jobs") {
        let is_deleted = job["DeleteJobInTest"] == true;
        for index in 0..list(job, "Tasks").len() {
            let pod = pods.get_mut(&format!("{}-{index}", text(job, "Name"))).unwrap();
            match pod.status.as_str() {
                "Releasing" if !is_deleted => (pod.status, pod.node) = ("Pending".to_owned(), String::new()),
                "Pipelined" => (pod.status, pod.node) = ("Pending".to_owned(), String::new()),
                "Binding" => pod.status = "Running".to_owned(),
                _ => {}
            }
        }
    }
}

/// Runs the actions. Returns what they did, and the idle GPUs of the nodes afterwards.
fn run(
    case: &Value,
    pods: &mut Pods,
    actions: &str,
    grace: f64,
    round: u64,
) -> (Counts, BTreeMap<String, f64>) {
    let snapshot = snapshot(case, pods, actions, grace);
    let now: Moment = NOW.parse().unwrap();
    let mut session = Session::open(&snapshot, now).unwrap();
    let mut counts = Counts::default();
    for decisions in session.run() {
        apply(decisions, pods, round);
        counts.bound += decisions.bound.len();
        counts.evicted += decisions.evicted.len();
        counts.pipelined += decisions.pipelined.len();
    }
    let nodes = session.report().nodes;
    (counts, nodes.iter().map(|node| (node.name.to_string(), node.idle_after.gpu)).collect())
}

fn apply(decisions: &ActionDecisions, pods: &mut Pods, round: u64) {
    for eviction in &decisions.evicted {
        pods.get_mut(&eviction.pod.name.to_string()).unwrap().status = "Releasing".to_owned();
    }
    for (placements, status) in [(&decisions.bound, "Binding"), (&decisions.pipelined, "Pipelined")] {
        for placement in placements {
            let group = placement.gpu_groups.first().map(|group| match group {
                GpuGroup::Known(name) => name.to_string(),
                GpuGroup::New(number) => format!("round-{round}-{number}"),
            });
            let state = PodState { status: status.to_owned(), node: placement.node.to_string(), group };
            pods.insert(placement.pod.name.to_string(), state);
        }
    }
}

// === comparison ===

fn compare(case: &Value, pods: &Pods, differences: &mut Vec<String>) {
    let mut check = |name: &str, pod: &PodState, expected: &Value| {
        let (status, node) = (text(expected, "Status"), text(expected, "NodeName"));
        if pod.status != status || (!node.is_empty() && pod.node != node) {
            let (ours, at) = (&pod.status, &pod.node);
            differences.push(format!("{name}: {ours} at {at:?} instead of {status} at {node:?}"));
        }
    };
    for job in list(case, "Jobs") {
        let job_name = text(job, "Name");
        for index in 0..list(job, "Tasks").len() {
            let name = format!("{job_name}-{index}");
            for expected in [&case["JobExpectedResults"][job_name], &case["TaskExpectedResults"][&name]] {
                if expected.is_object() {
                    check(&name, &pods[&name], expected);
                }
            }
        }
    }
}

fn compare_counts(case: &Value, counts: &Counts, differences: &mut Vec<String>) {
    let allowed = &case["Mocks"]["CacheRequirements"];
    let numbers = [
        ("NumberOfCacheBinds", counts.bound),
        ("NumberOfCacheEvictions", counts.evicted),
        ("NumberOfPipelineActions", counts.pipelined),
    ];
    for (name, ours) in numbers {
        if allowed.is_object() && ours as u64 > allowed[name].as_u64().unwrap_or(0) {
            differences.push(format!("{name}: {ours} instead of {}", allowed[name]));
        }
    }
}

fn compare_idle(case: &Value, idle: &BTreeMap<String, f64>, differences: &mut Vec<String>) {
    for (node, expected) in entries(&case["ExpectedNodesResources"]) {
        let (ours, theirs) = (idle[node], number(expected, "IdleGPUs").unwrap_or(0.0));
        if ours != theirs {
            differences.push(format!("{node}: {ours} idle GPUs instead of {theirs}"));
        }
    }
}

// === objects ===

fn snapshot(case: &Value, pods: &Pods, actions: &str, grace: f64) -> Snapshot {
    let params = json!({
        "schedulerName": "kai-scheduler",
        "maxNumberConsolidationPreemptees": -1,
        "allowConsolidatingReclaim": true,
        "fullHierarchyFairness": true,
        "globalDefaultStalenessGracePeriod": (grace * SECOND) as i64,
    });
    let config = json!({"actions": actions, "tiers": [{"plugins": plugins(case)}]});
    let mut snapshot = Snapshot::new(Settings::parse(&config.to_string(), &params.to_string()).unwrap());
    let mut add = |value: Value| {
        let object = Object::parse(&value.to_string()).unwrap();
        snapshot.add(&object).unwrap();
    };
    queues(case).into_iter().for_each(&mut add);
    entries(&case["Nodes"]).map(|(name, node)| node_object(name, node)).for_each(&mut add);
    list(case, "Topologies").iter().map(topology).for_each(&mut add);
    let mut jobs: Vec<&Value> = list(case, "Jobs").iter().collect();
    jobs.sort_by_key(|job| -priority(job));
    for (index, job) in jobs.iter().enumerate() {
        let value = priority(job);
        add(json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": format!("p{value}")}, "value": value}));
        let age = job["JobAgeInMinutes"].as_u64().unwrap_or((jobs.len() - index) as u64);
        add(pod_group(job, age, pods));
        for (index, task) in list(job, "Tasks").iter().enumerate() {
            add(pod(job, index, task, pods));
        }
    }
    snapshot
}

fn plugins(case: &Value) -> Vec<Value> {
    let configured = list(&case["Mocks"]["SchedulerConf"]["Tiers"][0], "Plugins");
    let names = [
        "predicates",
        "proportion",
        "priority",
        "elastic",
        "kubeflow",
        "ray",
        "nodeavailability",
        "gpusharingorder",
        "gpupack",
        "resourcetype",
        "subgrouporder",
        "taskorder",
        "nominatednode",
        "nodeplacement",
        "minruntime",
        "topology",
        "sg-nodelocalgreedy",
        "sg-multinodegang",
    ];
    let mut plugins: Vec<Value> = configured
        .iter()
        .map(|plugin| json!({"name": plugin["Name"], "arguments": plugin["Arguments"]}))
        .collect();
    if plugins.is_empty() {
        let arguments = json!({"cpu": "binpack", "gpu": "binpack"});
        plugins = names.iter().map(|name| json!({"name": name})).collect();
        plugins
            .iter_mut()
            .filter(|it| it["name"] == "nodeplacement")
            .for_each(|it| it["arguments"] = arguments.clone());
    }
    if !case["Mocks"]["CacheRequirements"].is_object() {
        plugins.retain(|plugin| plugin["name"] != "predicates");
    }
    plugins
}

fn queues(case: &Value) -> Vec<Value> {
    let queue = |value: &Value, index: i64, parent: &str, weight: f64| {
        let amount = |name: &str| number(value, name).unwrap_or(-1.0);
        let limit = number(value, "MaxAllowedGPUs").filter(|it| *it != 0.0).unwrap_or(-1.0);
        json!({
            "apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
            "metadata": {"name": value["Name"], "uid": value["Name"], "creationTimestamp": minutes(index)},
            "spec": {"parentQueue": parent, "priority": value["Priority"], "resources": {
                "gpu": {"quota": number(value, "DeservedGPUs").unwrap_or(0.0), "limit": limit,
                    "overQuotaWeight": weight},
                "cpu": {"quota": amount("DeservedCPUs"), "limit": amount("MaxAllowedCPUs"), "overQuotaWeight": 1},
                "memory": {"quota": amount("DeservedMemory"), "limit": amount("MaxAllowedMemory"),
                    "overQuotaWeight": 1},
            }},
        })
    };
    let departments = list(case, "Departments");
    let has_default = departments.is_empty() && case["DisableDefaultDepartment"] != true;
    let mut objects = Vec::new();
    for (index, value) in list(case, "Queues").iter().enumerate() {
        let parent = if has_default { "default" } else { text(value, "ParentQueue") };
        let weight = number(value, "GPUOverQuotaWeight").unwrap_or(0.0);
        objects.push(queue(value, index as i64, parent, weight));
    }
    let default = json!({"Name": "default", "DeservedGPUs": -1.0, "MaxAllowedGPUs": -1.0});
    let departments = if has_default { std::slice::from_ref(&default) } else { departments };
    for (index, value) in departments.iter().enumerate() {
        objects.push(queue(value, index as i64, "", number(value, "DeservedGPUs").unwrap_or(0.0)));
    }
    objects
}

fn node_object(name: &str, node: &Value) -> Value {
    let gpus = node["GPUs"].as_u64().unwrap_or(0);
    let strategy = text(node, "MigStrategy");
    let mut allocatable = json!({
        "cpu": number(node, "CPUMillis").unwrap_or(20000.0).to_string(),
        "memory": number(node, "CPUMemory").unwrap_or(20e9).to_string(),
        "nvidia.com/gpu": if strategy == "mixed" { 0 } else { gpus }.to_string(),
        "pods": "110",
    });
    for (resource, count) in entries(&node["MigInstances"]) {
        allocatable[resource] = json!(count.to_string());
    }
    let mut labels = json!({
        "nvidia.com/gpu.count": gpus.to_string(),
        "nvidia.com/gpu.memory": (node["GPUMemory"].as_u64().unwrap_or(100) * MEMORY_UNIT).to_string(),
        "node-role.kubernetes.io/mig-enabled": if strategy.is_empty() { "false" } else { "true" },
        "nvidia.com/mig.strategy": strategy,
        "kai.scheduler/type": name,
    });
    for (label, value) in entries(&node["Labels"]) {
        labels[label] = value.clone();
    }
    let conditions = json!([{"type": "Ready", "status": "True"}]);
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable, "conditions": conditions}})
}

fn topology(topology: &Value) -> Value {
    let levels =
        list(&topology["Spec"], "Levels").iter().map(|level| json!({"nodeLabel": level["NodeLabel"]}));
    json!({"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology",
        "metadata": {"name": topology["ObjectMeta"]["Name"]}, "spec": {"levels": levels.collect::<Vec<Value>>()}})
}

fn pod_group(job: &Value, age: u64, pods: &Pods) -> Value {
    let name = text(job, "Name");
    let tasks = list(job, "Tasks");
    let mut annotations = Map::new();
    let is_started =
        |index: usize| ["Running", "Binding"].contains(&pods[&format!("{name}-{index}")].status.as_str());
    if (0..tasks.len()).any(is_started) {
        annotations.insert("kai.scheduler/last-start-timestamp".to_owned(), minutes(-1));
    }
    if let Some(duration) = number(job, "StaleDuration") {
        annotations.insert("kai.scheduler/stale-podgroup-timestamp".to_owned(), seconds(-duration / SECOND));
    }
    let mut spec = json!({"queue": job["QueueName"], "priorityClassName": format!("p{}", priority(job))});
    for (field, name) in
        [("PerJobStalenessGracePeriod", "stalenessGracePeriod"), ("PreemptionDelay", "preemptionDelay")]
    {
        if let Some(duration) = number(&job[field], "Duration") {
            spec[name] = json!(format!("{}s", duration / SECOND));
        }
    }
    let root = &job["RootSubGroupSet"];
    let mut sub_groups = Vec::new();
    if root.is_object() {
        if !root["minSubGroup"].is_null() {
            spec["minSubGroup"] = root["minSubGroup"].clone();
        }
        if root["topology"].is_object() {
            spec["topologyConstraint"] = constraint(&root["topology"]);
        }
        add_sub_groups(root, "", &mut sub_groups);
    }
    // A group without subgroups has one with all its pods.
    match sub_groups.as_slice() {
        [] => spec["minMember"] = json!(tasks.len()),
        [only] if only["name"] == "default" => {
            spec["minMember"] = only["minMember"].clone();
            sub_groups.clear();
        }
        groups
            if tasks.iter().any(|task| text(task, "SubGroupName").is_empty())
                && !groups.iter().any(|group| group["name"] == "default") =>
        {
            sub_groups.push(json!({"name": "default", "minMember": tasks.len()}));
        }
        _ => {}
    }
    spec["subGroups"] = json!(sub_groups);
    json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "spec": spec,
        "metadata": {"name": name, "uid": name, "annotations": annotations,
            "creationTimestamp": minutes(-(age as i64))}})
}

fn add_sub_groups(set: &Value, parent: &str, sub_groups: &mut Vec<Value>) {
    let mut add = |group: &Value, field: &str, amount: &str| {
        let mut object = json!({"name": group["name"]});
        if !group[amount].is_null() {
            object[field] = group[amount].clone();
        }
        if !parent.is_empty() {
            object["parent"] = json!(parent);
        }
        if group["topology"].is_object() {
            object["topologyConstraint"] = constraint(&group["topology"]);
        }
        sub_groups.push(object);
    };
    list(set, "podSets").iter().for_each(|group| add(group, "minMember", "minAvailable"));
    list(set, "groups").iter().for_each(|group| add(group, "minSubGroup", "minSubGroup"));
    for group in list(set, "groups") {
        add_sub_groups(group, text(group, "name"), sub_groups);
    }
}

fn constraint(topology: &Value) -> Value {
    json!({"topology": text(topology, "Topology"), "requiredTopologyLevel": text(topology, "RequiredLevel"),
        "preferredTopologyLevel": text(topology, "PreferredLevel")})
}

fn pod(job: &Value, index: usize, task: &Value, pods: &Pods) -> Value {
    let job_name = text(job, "Name");
    let name = format!("{job_name}-{index}");
    let state = &pods[&name];
    let mut annotations = json!({"pod-group-name": job_name});
    let mut labels = json!({"job-name": name});
    let mut requests = json!({
        "cpu": number(job, "RequiredCPUsPerTask").unwrap_or(1.0).to_string(),
        "memory": number(job, "RequiredMemoryPerTask").unwrap_or(1e9).to_string(),
    });
    let gpus = number(job, "RequiredGPUsPerTask").unwrap_or(0.0);
    let is_fraction = gpus.fract() != 0.0;
    let has_node = !["Pending", "Succeeded", "Failed"].contains(&state.status.as_str());
    if is_fraction {
        annotations["gpu-fraction"] = json!(gpus.to_string());
    } else {
        requests["nvidia.com/gpu"] = json!(gpus.to_string());
    }
    if let Some(memory) = job["RequiredGpuMemory"].as_u64() {
        annotations["gpu-memory"] = json!((memory * MEMORY_UNIT).to_string());
    }
    let mut received = if is_fraction { "Fraction" } else { "Regular" };
    for (resource, count) in entries(&task["RequiredMigInstances"]) {
        received = "MigInstance";
        requests[resource] = json!(count.to_string());
    }
    // Pods are that for their annotations, of which the tables say nothing.
    if task["IsLegacyMigTask"] == true {
        annotations["nvidia.com/mig-1g.10gb"] = json!("0");
    }
    if let Some(count) = task["RequiredGPUs"].as_u64() {
        requests["nvidia.com/gpu"] = json!(count.to_string());
    }
    if has_node {
        annotations["received-resource-type"] = json!(received);
        let own_group = is_fraction.then(|| format!("{name}-group"));
        if let Some(group) = state.group.clone().or(own_group) {
            labels["runai-gpu-group"] = json!(group);
        }
    }
    if let Some(priority) = task["Priority"].as_i64() {
        labels["kai.scheduler/task-priority"] = json!(priority.to_string());
    }
    if !text(task, "SubGroupName").is_empty() {
        labels["kai.scheduler/subgroup-name"] = task["SubGroupName"].clone();
    }
    for (label, value) in entries(&task["PodAffinityLabels"]) {
        labels[label] = value.clone();
    }
    let mut metadata = json!({"name": name, "uid": name, "labels": labels, "annotations": annotations});
    let phase = match state.status.as_str() {
        "Pending" => "Pending",
        "Succeeded" => "Succeeded",
        "Failed" => "Failed",
        "Releasing" => {
            metadata["deletionTimestamp"] = seconds(-1.0);
            "Running"
        }
        "StuckInReleasing" => {
            metadata["deletionTimestamp"] = minutes(-600);
            "Running"
        }
        _ => "Running",
    };
    let mut spec = json!({"schedulerName": "kai-scheduler", "affinity": affinity(task),
        "containers": [{"name": "main", "resources": {"requests": requests}}]});
    if has_node {
        spec["nodeName"] = json!(state.node);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}})
}

fn affinity(task: &Value) -> Value {
    let mut affinity = json!({});
    if !list(task, "NodeAffinityNames").is_empty() {
        let expression =
            json!({"key": "kai.scheduler/type", "operator": "In", "values": task["NodeAffinityNames"]});
        affinity["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}});
    }
    for (field, name) in
        [("PodAffinityTopologyKey", "podAffinity"), ("PodAntiAffinityTopologyKey", "podAntiAffinity")]
    {
        if task["PodAffinityLabels"].is_object() && !text(task, field).is_empty() {
            affinity[name] = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": task[field], "labelSelector": {"matchLabels": task["PodAffinityLabels"]}}]});
        }
    }
    affinity
}

// === values ===

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// A number that is not zero; the tables leave out zeros.
fn number(value: &Value, field: &str) -> Option<f64> {
    value[field].as_f64()
}

fn priority(job: &Value) -> i64 {
    job["Priority"].as_i64().unwrap_or(0)
}

fn minutes(offset: i64) -> Value {
    seconds(offset as f64 * 60.0)
}

/// A time, so many seconds from now.
fn seconds(offset: f64) -> Value {
    let now: Moment = NOW.parse().unwrap();
    json!(now.plus_nanos((offset * SECOND) as i64).to_string())
}

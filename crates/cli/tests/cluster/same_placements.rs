//! The same pods on the same nodes: placed by the real kube-scheduler on a real cluster and on a virtual one, and by the
//! scheduler of a virtual cluster.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};
use testcluster::{Cluster, ClusterOptions, Components, Kubectl};

use crate::common::command;
use crate::server::Server;

const NODES: usize = 100;
const PODS: usize = 1_000;
/// Decisions do not depend on the timing of threads, nor on the order of a hash table.
const REPRODUCIBLE: [&str; 1] = ["--feature-gates=WatchListClient=false"];

/// A cluster on which pods are placed.
struct PlacedCluster<'a>(&'a Kubectl);

impl PlacedCluster<'_> {
    fn run(&self, arguments: &[&str]) -> String {
        self.0.run(arguments).unwrap()
    }

    fn create(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.0.run_with_input(&["create", "-f", "-", "--validate=false"], &list.to_string()).unwrap();
    }

    fn wait_until_placed(&self) {
        self.wait_for("every pod has a node", || {
            self.run(&["get", "pods", "-o", "name", "--field-selector", "spec.nodeName="]).is_empty()
        });
    }

    /// `kubectl wait` watches each object on its own, which takes minutes for a thousand of them.
    fn wait_for(&self, what: &str, is_met: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(120);
        while !is_met() {
            assert!(Instant::now() < end, "{what}: not so after two minutes");
        }
    }

    /// Creates nodes and pods, and returns the node of each pod, or the reason why it has none.
    fn place(&self, nodes: &[Value], pods: &[Value], preemptor: &Value) -> BTreeMap<String, String> {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000,
        });
        self.create(&[class]);
        self.create(nodes);
        self.wait_for("every node is ready", || {
            let statuses = self.run(&["get", "nodes", "--no-headers"]);
            statuses.lines().filter(|line| line.contains(" Ready ")).count() == NODES
        });
        self.create(pods);
        self.wait_until_placed();
        self.create(std::slice::from_ref(preemptor));
        self.wait_until_placed();
        let columns = "jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName}{\"\\n\"}{end}";
        let pods = self.run(&["get", "pods", "-o", columns]);
        pods.lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(pod, node)| (pod.into(), node.into()))
            .collect()
    }
}

/// Nodes of three zones and different sizes, some of them tainted. The last one is for one pod.
fn nodes(rng: &mut Pcg64) -> Vec<Value> {
    (0..NODES)
        .map(|number| {
            let (cpu, zone) = ([8, 16, 32][rng.random_range(0..3)], rng.random_range(0..3));
            let taint = json!([{"key": "team", "value": "batch", "effect": "NoSchedule"}]);
            let is_last = number == NODES - 1;
            let capacity = json!({"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4), "pods": "110"});
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {
                    "name": format!("n{number:03}"),
                    "labels": {
                        "kubernetes.io/hostname": format!("n{number:03}"),
                        "topology.kubernetes.io/zone": format!("z{zone}"),
                        "only": if is_last { "urgent" } else { "none" },
                    },
                },
                "spec": if !is_last && rng.random_ratio(1, 8) { json!({"taints": taint}) } else { json!({}) },
                "status": {"capacity": capacity, "allocatable": capacity},
            })
        })
        .collect()
}

/// Pods of ten applications with different requests; some spread over zones, avoid each other, or tolerate the taint. The
/// first one fills the last node.
fn pods(rng: &mut Pcg64) -> Vec<Value> {
    let spread = |app: &str| {
        json!([{
            "maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }])
    };
    let apart = |app: &str| {
        json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 50,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}},
            },
        }]}})
    };
    let applications: Vec<Value> = (0..10)
        .map(|number| {
            let app = format!("app{number}");
            let requests = json!({
                "cpu": format!("{}m", rng.random_range(1..10) * 50),
                "memory": format!("{}Mi", rng.random_range(1..16) * 64),
            });
            let mut spec =
                json!({"containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}]});
            match number % 4 {
                0 => spec["topologySpreadConstraints"] = spread(&app),
                1 => spec["affinity"] = apart(&app),
                2 => spec["tolerations"] = json!([{"key": "team", "operator": "Exists"}]),
                _ => {}
            }
            spec["automountServiceAccountToken"] = false.into();
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"app": app}}, "spec": spec})
        })
        .collect();
    let mut pods = vec![on_last_node("victim", 0)];
    pods.extend((1..PODS).map(|number| {
        let mut pod = applications[rng.random_range(0..applications.len())].clone();
        pod["metadata"]["name"] = format!("p{number:04}").into();
        pod
    }));
    pods
}

/// A pod for the last node, of which only one fits.
fn on_last_node(name: &str, grace_seconds: u32) -> Value {
    let requests = json!({"cpu": "5"});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"only": "urgent"}, "terminationGracePeriodSeconds": grace_seconds,
            "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}],
        },
    })
}

#[test]
fn the_same_pods_get_the_same_nodes() {
    let Some(mut real) = Cluster::start(ClusterOptions::default()).unwrap() else {
        // Written directly: the test runner captures the output of print macros.
        std::io::stderr().write_all(b"skipped: no go\n").unwrap();
        return;
    };
    let seed: u64 = std::env::var("KINESCOPE_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("KINESCOPE_SEED={seed}");
    let rng = &mut Pcg64::seed_from_u64(seed);
    let mut nodes = nodes(rng);
    let resources = json!({"cpu": "8", "memory": "32Gi", "pods": "2"});
    nodes[NODES - 1]["status"] = json!({"capacity": resources, "allocatable": resources});
    let pods = pods(rng);
    let mut preemptor = on_last_node("urgent", 0);
    preemptor["spec"]["priorityClassName"] = "urgent".into();

    let stages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testcluster/stages.yaml");
    let place = |kubectl: &Kubectl| PlacedCluster(kubectl).place(&nodes, &pods, &preemptor);
    real.start_kwok(&stages).unwrap();
    real.start_scheduler(1, &REPRODUCIBLE).unwrap();
    let on_real = place(real.client());
    real.check_running().unwrap();
    drop(real);

    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str, controllers: &str| {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let server = Server::of(command(&folder).args(["cluster", "--controllers", controllers]));
        (server, folder.join("kinescope.kubeconfig"))
    };
    let (server, kubeconfig) = start("hosting", "none");
    let mut components = Components::new(&kubeconfig, &folder.path().join("hosting"));
    components.start_kwok(&stages).unwrap();
    components.start_scheduler(1, &REPRODUCIBLE).unwrap();
    let on_virtual = place(&Kubectl::new(&kubeconfig).unwrap().unwrap());
    components.check_running().unwrap();
    drop((components, server));
    let (_server, kubeconfig) = start("own", "scheduler,kubelet");
    let by_ours = place(&Kubectl::new(&kubeconfig).unwrap().unwrap());

    assert_eq!(on_real.len(), PODS);
    assert!(on_real.values().all(|node| !node.is_empty()));
    assert_eq!(on_real.get("urgent").map(String::as_str), Some("n099"));
    assert_eq!(on_real.get("victim"), None, "it was preempted");
    assert_eq!(on_virtual, on_real, "kube-scheduler on the virtual cluster, seed {seed}");
    assert_eq!(by_ours, on_real, "the scheduler of the virtual cluster, seed {seed}");
}

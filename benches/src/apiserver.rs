//! Benchmarks of the virtual cluster: its start, creations compared with a real API server, watches, and memory.

mod http2_client;
mod http_client;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use testcluster::{Cluster, ClusterOptions, Components};

use crate::bench_env::BenchEnv;
use crate::machine::memory_of;
use crate::replay::child::program;
use crate::results::{BenchResults, Measurement, Unit};
use crate::samples::Samples;
use crate::{Bench, Result};
use http_client::{Endpoint, HttpConnection};
use http2_client::Http2Connection;

/// The benchmarks of the virtual cluster.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        name: "apiserver.start",
        about: "from the start of a virtual cluster to its first list",
        run: start,
    },
    Bench {
        name: "apiserver.create",
        about: "creating pods over HTTP, beside a real API server",
        run: create,
    },
    Bench {
        name: "apiserver.scheduler",
        about: "pods that the real kube-scheduler binds, beside a real API server",
        run: scheduler,
    },
    Bench { name: "apiserver.watch", about: "from a change to each of twenty watches", run: watch },
    Bench { name: "apiserver.memory", about: "the memory of pods in a virtual cluster", run: memory },
];

/// The longest time from the start to the first list, in seconds.
const START_BUDGET: f64 = 0.05;
const STARTS: usize = 11;
/// Creations, relative to those of kube-apiserver with etcd.
const CREATE_RATIO: f64 = 10.0;
const CREATE_ROUNDS: usize = 3;
const CREATED_PODS: usize = 4_000;
/// The number of creations at the same time over one HTTP/2 connection.
const IN_FLIGHT: usize = 64;
/// The number of HTTP/1.1 connections that create the pods of the other benchmarks at the same time.
const CONNECTIONS: usize = 16;
/// The cluster and the pods of the real scheduler.
const SCHEDULED_NODES: usize = 500;
const SCHEDULED_PODS: usize = 5_000;
const WARM_UP_PODS: usize = 500;
/// The longest time from a change to a watch for 99 % of the events, in seconds.
const WATCH_BUDGET: f64 = 0.01;
const WATCHES: usize = 20;
const CHANGES_PER_SECOND: u32 = 1_000;
/// The memory of a pod besides its JSON, in bytes.
const MEMORY_BUDGET: f64 = 3_000.0;

/// A virtual cluster in a process of its own, ended on drop.
struct ClusterProcess {
    child: Child,
    address: String,
    kubeconfig: PathBuf,
    _out: BufReader<ChildStdout>,
}

impl ClusterProcess {
    fn start(env: &BenchEnv, arguments: &[&str]) -> Result<ClusterProcess> {
        let kubeconfig = env.path("cluster.kubeconfig");
        // A process that was killed leaves it.
        let _ = std::fs::remove_file(&kubeconfig);
        let mut command = Command::new(program()?);
        command.arg("cluster").arg("--kubeconfig-out").arg(&kubeconfig).args(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut out = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        out.read_line(&mut line)?;
        let address = line.trim().rsplit_once("//").ok_or_else(|| format!("unexpected output {line:?}"))?.1;
        let address = address.to_owned();
        // The kubeconfig exists when the second line is printed.
        out.read_line(&mut line)?;
        Ok(ClusterProcess { child, address, kubeconfig, _out: out })
    }

    fn connect(&self) -> Result<HttpConnection> {
        HttpConnection::open(&self.address)
    }
}

impl Drop for ClusterProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

fn start(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let began = Instant::now();
        let cluster = ClusterProcess::start(env, &["--insecure", "--nodes", "3"])?;
        let nodes = cluster.connect()?.request("GET", "/api/v1/nodes", b"")?;
        times.push(began.elapsed().as_secs_f64());
        if !nodes.contains("node-2") {
            return Err("the list lacks a node".into());
        }
    }
    let times = Samples::new(times);
    results.add(
        Measurement::new("virtual cluster: from its start to the first list", times.median(), Unit::Seconds)
            .budget(START_BUDGET)
            .detail("slowest", times.max(), Unit::Seconds),
    );
    Ok(())
}

fn create(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let what = "virtual cluster: pods created over HTTPS";
    let Some(real) = Cluster::start(ClusterOptions::default())? else {
        results.skip(what, "no go");
        return Ok(());
    };
    let ours = ClusterProcess::start(env, &["--controllers", "none"])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let our_endpoint = runtime.block_on(Endpoint::of_kubeconfig(&ours.kubeconfig))?;
    let real_endpoint = runtime.block_on(Endpoint::of_kubeconfig(real.kubeconfig()))?;
    let (mut our_rates, mut real_rates) = (Vec::new(), Vec::new());
    // Alternating. The first round is a warm-up.
    for round in 0..=CREATE_ROUNDS {
        for (endpoint, rates) in [(&real_endpoint, &mut real_rates), (&our_endpoint, &mut our_rates)] {
            let namespace = format!("round-{round}");
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            endpoint.connect()?.request("POST", "/api/v1/namespaces", object.to_string().as_bytes())?;
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            let bodies = (0..CREATED_PODS).map(pod_json).collect();
            let connection = runtime.block_on(Http2Connection::open(endpoint))?;
            let began = Instant::now();
            runtime.block_on(connection.post_all(&path, bodies, IN_FLIGHT))?;
            let rate = CREATED_PODS as f64 / began.elapsed().as_secs_f64();
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    let (ours, real) = (Samples::new(our_rates), Samples::new(real_rates));
    results.add(
        Measurement::new(what, ours.median(), Unit::PodsPerSecond)
            .baseline("kube-apiserver and etcd", real.median())
            .min_ratio_to_baselines(CREATE_RATIO)
            .detail("least", ours.min(), Unit::PodsPerSecond)
            .detail("most", ours.max(), Unit::PodsPerSecond),
    );
    Ok(())
}

/// Creates pods from several connections at once.
fn create_pods(
    namespace: &str,
    pods: usize,
    connect: impl Fn() -> Result<HttpConnection> + Sync,
) -> Result<()> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let create_share = |worker: usize| -> Result<()> {
        let mut connection = connect()?;
        for number in (worker..pods).step_by(CONNECTIONS) {
            connection.request("POST", &path, pod_json(number).as_bytes())?;
        }
        Ok(())
    };
    let create_share = |worker| create_share(worker).map_err(|error| error.to_string());
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..CONNECTIONS).map(|worker| scope.spawn(move || create_share(worker))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Err("a panic".to_owned())))
    })?;
    Ok(())
}

fn scheduler(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let what = "virtual cluster: pods bound by the real kube-scheduler";
    let Some(mut real) = Cluster::start(ClusterOptions::default())? else {
        results.skip(what, "no go");
        return Ok(());
    };
    real.start_scheduler(16, &[])?;
    let real_rate = scheduling_rate(real.kubeconfig())?;
    drop(real);
    let ours = ClusterProcess::start(env, &["--controllers", "none"])?;
    let mut components = Components::new(&ours.kubeconfig, &env.path(""));
    components.start_scheduler(16, &[])?;
    let our_rate = scheduling_rate(&ours.kubeconfig)?;
    results.add(
        Measurement::new(what, our_rate, Unit::PodsPerSecond).baseline("kube-apiserver and etcd", real_rate),
    );
    Ok(())
}

/// How many pods a cluster's scheduler binds in a second, while they are created.
fn scheduling_rate(kubeconfig: &Path) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let endpoint = runtime.block_on(Endpoint::of_kubeconfig(kubeconfig))?;
    let mut connection = endpoint.connect()?;
    let room = json!({"cpu": "32", "memory": "128Gi", "pods": "110"});
    for number in 0..SCHEDULED_NODES {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{number:04}")},
            "status": {"capacity": room, "allocatable": room},
        });
        connection.request("POST", "/api/v1/nodes", node.to_string().as_bytes())?;
    }
    let mut run = |namespace: &str, pods: usize| -> Result<f64> {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        connection.request("POST", "/api/v1/namespaces", object.to_string().as_bytes())?;
        let began = Instant::now();
        create_pods(namespace, pods, || endpoint.connect())?;
        let waiting = format!("/api/v1/namespaces/{namespace}/pods?limit=1&fieldSelector=spec.nodeName%3D");
        while !connection.request("GET", &waiting, b"")?.contains("\"items\":[]") {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(pods as f64 / began.elapsed().as_secs_f64())
    };
    run("warm-up", WARM_UP_PODS)?;
    run("measured", SCHEDULED_PODS)
}

fn pod_json(number: usize) -> String {
    let resources = json!({"requests": {"cpu": "100m", "memory": "64Mi"}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{number:06}"), "labels": {"app": format!("app-{}", number % 500)}},
        "spec": {"containers": [{"name": "main", "image": "registry.example.com/app:1.2.3", "resources": resources}]},
    })
    .to_string()
}

fn watch(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let (nodes, pods, seconds) = if env.is_full() { (5_000, 100_000, 20) } else { (500, 10_000, 5) };
    let cluster = ClusterProcess::start(env, &["--insecure", "--nodes", &nodes.to_string()])?;
    create_pods("default", pods, || cluster.connect())?;
    let list = cluster.connect()?.request("GET", "/api/v1/pods?limit=1", b"")?;
    let version = list.split("\"resourceVersion\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let path = format!("/api/v1/pods?watch=true&resourceVersion={}", version.ok_or("no version")?);
    let changes = (CHANGES_PER_SECOND * seconds) as usize;
    let (sender, latencies) = mpsc::channel();
    for _ in 0..WATCHES {
        let lines = cluster.connect()?.stream(&path)?;
        let sender = sender.clone();
        thread::spawn(move || {
            let sent = lines.map_while(std::result::Result::ok).filter_map(|line| sent_at(&line));
            for sent in sent.take(changes) {
                // The receiver has gone if the benchmark failed.
                let _ = sender.send(now().saturating_sub(sent).as_secs_f64());
            }
        });
    }
    drop(sender);
    let mut connection = cluster.connect()?;
    let began = Instant::now();
    for number in 0..changes {
        let due = began + Duration::from_secs(1) / CHANGES_PER_SECOND * number as u32;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let sent = now().as_nanos().to_string();
        let patch = json!({"metadata": {"annotations": {"sent": sent}}}).to_string();
        let path = format!("/api/v1/namespaces/default/pods/pod-{:06}", number * 7 % pods);
        connection.patch(&path, patch.as_bytes())?;
    }
    let latencies = Samples::new(latencies.iter().take(changes * WATCHES).collect());
    let what = format!("virtual cluster: a change at {WATCHES} watches, {nodes} nodes, {pods} pods, 99 %");
    results.add(
        Measurement::new(what, latencies.percentile(99), Unit::Seconds)
            .budget(WATCH_BUDGET)
            .detail("half", latencies.median(), Unit::Seconds)
            .detail("slowest", latencies.max(), Unit::Seconds)
            .detail("changes a second", changes as f64 / began.elapsed().as_secs_f64(), Unit::Count),
    );
    Ok(())
}

/// The time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// When the change of an event was sent; `None` for other events.
fn sent_at(line: &str) -> Option<Duration> {
    let nanos = line.split("\"sent\":\"").nth(1)?.split('"').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

fn memory(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let (nodes, pods) = if env.is_full() { (5_000, 100_000) } else { (500, 10_000) };
    let cluster = ClusterProcess::start(env, &["--insecure", "--nodes", &nodes.to_string()])?;
    let process = cluster.child.id().to_string();
    let before = memory_of(&process).ok_or("the memory of a process is unknown")?.now;
    create_pods("default", pods, || cluster.connect())?;
    // Wait until all pods run.
    let mut connection = cluster.connect()?;
    let pending = "/api/v1/pods?limit=1&fieldSelector=status.phase%3DPending";
    while !connection.request("GET", pending, b"")?.contains("\"items\":[]") {
        thread::sleep(Duration::from_millis(100));
    }
    let after = memory_of(&process).ok_or("the memory of a process is unknown")?.now;
    let list = connection.request("GET", "/api/v1/pods?limit=1000", b"")?;
    let json_bytes = list.len() as f64 / 1_000.0;
    let each = (after.saturating_sub(before)) as f64 / pods as f64;
    results.add(
        Measurement::new("virtual cluster: memory of a pod besides its JSON", each - json_bytes, Unit::Bytes)
            .budget(MEMORY_BUDGET)
            .detail("JSON", json_bytes, Unit::Bytes)
            .detail("pods", pods as f64, Unit::Count),
    );
    Ok(())
}

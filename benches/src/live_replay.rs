//! Benchmarks of replays into a real API server, compared with a loop that only creates objects.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use history::BulkWriter;
use kube::client::{Body, Client};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use model::{IncomingChange, Moment, What};
use serde_json::Value;
use testcluster::{Cluster, ClusterOptions};
use testobjects::{PodBuilder, resource};
use tokio::task::JoinSet;

use crate::bench_env::BenchEnv;
use crate::history::recordings;
use crate::replay::child::{import, program};
use crate::results::{BenchResults, Measurement, Unit};
use crate::samples::Samples;
use crate::{Bench, Result};

/// The benchmarks of replays into API servers.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        name: "live-replay.rate",
        about: "creating objects in a real API server at maximum speed",
        run: rate,
    },
    Bench {
        name: "live-replay.pace",
        about: "replaying a recording into a real API server at ten times its speed",
        run: lateness,
    },
];

/// The number of pods created in one round.
const PODS: usize = 4_000;
/// The number of measured rounds, in which loop and replay alternate.
const ROUNDS: usize = 4;
/// Concurrent requests of the loop: as many as a replay has.
const CONCURRENT_REQUESTS: usize = 64;
/// The minimum rate, relative to the loop's.
const RATE_BUDGET: f64 = 0.8;
/// The maximum lateness of 99 % of the requests, in seconds.
const LATENESS_BUDGET: f64 = 0.1;
const SPEED: &str = "10";

fn rate(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let what = "live replay: requests a second, of those of a loop that only creates";
    let Some(cluster) = Cluster::start(ClusterOptions::default())? else {
        results.skip(what, "no go");
        return Ok(());
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut bare, mut replayed) = (Vec::new(), Vec::new());
    // Alternating, since a server with more objects is slower. The first round is a warm-up.
    for round in 0..=ROUNDS {
        let namespace = format!("bare-{round}");
        cluster.kubectl(&["create", "namespace", &namespace])?;
        let loop_rate = runtime.block_on(create_in_loop(cluster.kubeconfig(), &namespace))?;
        let history = env.path(&format!("live-{round}.kine"));
        make_history(&history, &format!("live-{round}"))?;
        let summary = replay(&history, cluster.kubeconfig(), &["--speed", "max"])?;
        fs::remove_file(history)?;
        if round > 0 {
            bare.push(loop_rate);
            replayed.push(number(&summary["requests"]) / number(&summary["seconds"]).max(1e-9));
        }
    }
    let ratios: Vec<f64> = replayed.iter().zip(&bare).map(|(replayed, bare)| replayed / bare).collect();
    let (ratios, bare, replayed) = (Samples::new(ratios), Samples::new(bare), Samples::new(replayed));
    results.add(
        Measurement::new(what, ratios.median(), Unit::Share)
            .budget(RATE_BUDGET)
            .detail("least", ratios.min(), Unit::Share)
            .detail("a second", replayed.median(), Unit::Count)
            .detail("the loop", bare.median(), Unit::Count),
    );
    Ok(())
}

fn lateness(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let what = "live replay ten times as fast: how late 99 % of the requests are begun at most";
    let Some((_, recording)) = recordings::all().into_iter().find(|(name, _)| name == "calm") else {
        results.skip(what, "the recording is missing");
        return Ok(());
    };
    let Some(cluster) = Cluster::start(ClusterOptions::default())? else {
        results.skip(what, "no go");
        return Ok(());
    };
    let history = env.path("calm.kine");
    import(env, &recording, &history)?;
    let summary = replay(&history, cluster.kubeconfig(), &["--speed", SPEED])?;
    fs::remove_file(history)?;
    let lateness = |percentile: &str| number(&summary["lateMillis"][percentile]) / 1000.0;
    results.add(
        Measurement::new(what, lateness("p99"), Unit::Seconds)
            .budget(LATENESS_BUDGET)
            .detail("half", lateness("p50"), Unit::Seconds)
            .detail("all", lateness("most"), Unit::Seconds)
            .detail("requests", number(&summary["requests"]), Unit::Count),
    );
    Ok(())
}

/// Replays a history and returns the summary that the program prints.
fn replay(history: &Path, target: &Path, arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new(program()?);
    command.arg("replay").arg(history).arg("--target").arg(target).args(["-o", "json"]).args(arguments);
    let output = command.output()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("kinescope ended with {}: {}", output.status, error.trim_end()).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Writes a history in which a namespace and then `PODS` pods are created.
fn make_history(path: &Path, namespace: &str) -> Result<()> {
    let source: Arc<str> = "made-up".into();
    let mut bulk = BulkWriter::open(path)?;
    let mut push = |number: usize, what: What| {
        let at = Moment::from_nanos(1_790_000_000_000_000_000 + number as i64 * 1_000_000);
        bulk.push(&IncomingChange::received(at, &source, what)).map_err(|error| error.to_string())
    };
    push(0, resource("v1", "Namespace", namespace).uid(&format!("{namespace}-uid")).added())?;
    for number in 1..=PODS {
        push(number, pod(namespace, number).added())?;
    }
    bulk.finish()?;
    Ok(())
}

fn pod(namespace: &str, number: usize) -> PodBuilder {
    testobjects::pod(&format!("pod-{number}"))
        .namespace(namespace)
        .uid(&format!("{namespace}-{number}"))
        .label("app", "web")
        .label("tier", "front")
        .set("spec.containers.0.image", "i")
        .request("cpu", "100m")
        .request("memory", "64Mi")
}

async fn connect(kubeconfig: &Path) -> Result<Client> {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &options).await?;
    Ok(Client::try_from(config)?)
}

async fn post(client: &Client, path: &str, body: Vec<u8>) -> std::result::Result<(), String> {
    let request = http::Request::post(path).header("Content-Type", "application/json");
    let request = request.body(Body::from(body)).map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    let status = response.status();
    // The body must be read to its end for the connection to be reused.
    let body =
        http_body_util::BodyExt::collect(response.into_body()).await.map_err(|error| error.to_string())?;
    match status.is_success() {
        true => Ok(()),
        false => Err(format!("{status}: {}", String::from_utf8_lossy(&body.to_bytes()))),
    }
}

/// Creates pods in a bare loop and returns how many per second.
async fn create_in_loop(kubeconfig: &Path, namespace: &str) -> Result<f64> {
    let client = connect(kubeconfig).await?;
    let path: Arc<str> = format!("/api/v1/namespaces/{namespace}/pods").into();
    let mut bodies = Vec::with_capacity(PODS);
    for number in 1..=PODS {
        let mut pod = pod(namespace, number).json();
        pod["metadata"].as_object_mut().ok_or("a pod without metadata")?.remove("uid");
        bodies.push(serde_json::to_vec(&pod)?);
    }
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    let mut remaining = bodies.into_iter();
    loop {
        while tasks.len() < CONCURRENT_REQUESTS
            && let Some(body) = remaining.next()
        {
            let (client, path) = (client.clone(), path.clone());
            tasks.spawn(async move { post(&client, &path, body).await });
        }
        match tasks.join_next().await {
            Some(done) => done??,
            None => break,
        }
    }
    Ok(PODS as f64 / began.elapsed().as_secs_f64())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

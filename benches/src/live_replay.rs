//! The figures of replays into a real API server, beside a loop that only creates.

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
use testcluster::{Cluster, Options};
use testobjects::{PodBuilder, resource};
use tokio::task::JoinSet;

use crate::figure::{Figure, Figures, Unit};
use crate::history::films;
use crate::replay::child::{import, program};
use crate::samples::Samples;
use crate::studio::Studio;
use crate::{Bench, Result};

/// What is measured of replays into API servers.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        name: "live-replay.rate",
        about: "objects into a real API server, as fast as it goes",
        run: rate,
    },
    Bench { name: "live-replay.pace", about: "a film into a real API server, ten times as fast", run: pace },
];

/// Pods that are created in one go.
const PODS: usize = 4_000;
/// How often, in turn.
const ROUNDS: usize = 4;
/// Requests of the loop that are under way at once: as many as a replay has.
const AT_ONCE: usize = 64;
/// Of the rate of the loop.
const RATE_BUDGET: f64 = 0.8;
/// Seconds.
const LATE_BUDGET: f64 = 0.1;
const SPEED: &str = "10";

fn rate(studio: &Studio, figures: &mut Figures) -> Result<()> {
    let what = "live replay: requests a second, of those of a loop that only creates";
    let Some(cluster) = Cluster::start(Options::default())? else {
        figures.skip(what, "no go");
        return Ok(());
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut bare, mut replayed) = (Vec::new(), Vec::new());
    // In turn, since a server with more in it is slower. The first round is for warming up.
    for round in 0..=ROUNDS {
        let namespace = format!("bare-{round}");
        cluster.kubectl(&["create", "namespace", &namespace])?;
        let loop_rate = runtime.block_on(create(cluster.kubeconfig(), &namespace))?;
        let history = studio.path(&format!("live-{round}.kine"));
        film(&history, &format!("live-{round}"))?;
        let said = replay(&history, cluster.kubeconfig(), &["--speed", "max"])?;
        fs::remove_file(history)?;
        if round > 0 {
            bare.push(loop_rate);
            replayed.push(number(&said["requests"]) / number(&said["seconds"]).max(1e-9));
        }
    }
    let ratios: Vec<f64> = replayed.iter().zip(&bare).map(|(replayed, bare)| replayed / bare).collect();
    let (ratios, bare, replayed) = (Samples::new(ratios), Samples::new(bare), Samples::new(replayed));
    figures.add(
        Figure::new(what, ratios.median(), Unit::Share)
            .budget(RATE_BUDGET)
            .also("least", ratios.least(), Unit::Share)
            .also("a second", replayed.median(), Unit::Count)
            .also("the loop", bare.median(), Unit::Count),
    );
    Ok(())
}

fn pace(studio: &Studio, figures: &mut Figures) -> Result<()> {
    let what = "live replay ten times as fast: how late 99 % of the requests are begun at most";
    let Some((_, film)) = films::all().into_iter().find(|(name, _)| name == "calm") else {
        figures.skip(what, "the film is not at hand");
        return Ok(());
    };
    let Some(cluster) = Cluster::start(Options::default())? else {
        figures.skip(what, "no go");
        return Ok(());
    };
    let history = studio.path("calm.kine");
    import(studio, &film, &history)?;
    let said = replay(&history, cluster.kubeconfig(), &["--speed", SPEED])?;
    fs::remove_file(history)?;
    let late = |share: &str| number(&said["lateMillis"][share]) / 1000.0;
    figures.add(
        Figure::new(what, late("p99"), Unit::Seconds)
            .budget(LATE_BUDGET)
            .also("half", late("p50"), Unit::Seconds)
            .also("all", late("most"), Unit::Seconds)
            .also("requests", number(&said["requests"]), Unit::Count),
    );
    Ok(())
}

/// What a replay said of itself.
fn replay(history: &Path, target: &Path, arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new(program()?);
    command.arg("replay").arg(history).arg("--target").arg(target).args(["-o", "json"]).args(arguments);
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("kinescope ended with {}: {}", output.status, said.trim_end()).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A history in which a namespace comes, and then so many pods.
fn film(path: &Path, namespace: &str) -> Result<()> {
    let source: Arc<str> = "made-up".into();
    let mut bulk = BulkWriter::open(path)?;
    let mut see = |number: usize, what: What| {
        let at = Moment::from_nanos(1_790_000_000_000_000_000 + number as i64 * 1_000_000);
        bulk.push(&IncomingChange::received(at, &source, what)).map_err(|error| error.to_string())
    };
    see(0, resource("v1", "Namespace", namespace).uid(&format!("{namespace}-uid")).added())?;
    for number in 1..=PODS {
        see(number, pod(namespace, number).added())?;
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

/// Creates the same pods with nothing around it, and says how many a second.
async fn create(kubeconfig: &Path, namespace: &str) -> Result<f64> {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &options).await?;
    let client = Client::try_from(config)?;
    let path: Arc<str> = format!("/api/v1/namespaces/{namespace}/pods").into();
    let mut bodies = Vec::with_capacity(PODS);
    for number in 1..=PODS {
        let mut pod = pod(namespace, number).json();
        pod["metadata"].as_object_mut().ok_or("a pod without metadata")?.remove("uid");
        bodies.push(serde_json::to_vec(&pod)?);
    }
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    let mut left = bodies.into_iter();
    loop {
        while tasks.len() < AT_ONCE
            && let Some(body) = left.next()
        {
            let (client, path) = (client.clone(), path.clone());
            tasks.spawn(async move {
                let request = http::Request::post(&*path).header("Content-Type", "application/json");
                let answer =
                    client.send(request.body(Body::from(body)).map_err(kube::Error::HttpError)?).await?;
                // To its end, or the connection cannot be used again.
                let whole = http_body_util::BodyExt::collect(answer.into_body()).await?;
                drop(whole);
                Ok::<(), kube::Error>(())
            });
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

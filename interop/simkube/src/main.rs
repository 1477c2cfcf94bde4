//! Prints how SimKube's own code reads traces, and the hashes it computes of pod specs.
//!
//! `simkube-judge FILE…` imports each trace with SimKube's importer and prints the result, one line of JSON per file.
//! `simkube-judge hash` reads one pod spec per line and prints the hash by which SimKube looks up pod lifecycles.

use std::io::{BufRead, Write, stdin, stdout};
use std::process::ExitCode;

use k8s_openapi::api::core::v1 as corev1;
use serde_json::{Map, Value, json};
use sk_core::jsonutils;
use sk_core::k8s::{GVK, PodExt};
use sk_store::ExportedTrace;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match &arguments[..] {
        [] => Err("usage: simkube-judge FILE… | simkube-judge hash".to_owned()),
        [word] if word == "hash" => print_hashes(),
        files => {
            files.iter().try_for_each(|file| print_trace(file).map_err(|error| format!("{file}: {error}")))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print_trace(file: &str) -> Result<(), String> {
    let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
    let trace = ExportedTrace::import(bytes, None).map_err(|error| format!("{error:#}"))?;
    let events: Result<Vec<Value>, String> = trace.events.iter().map(event_json).collect();
    let output = json!({
        "file": file,
        "config": value(&trace.config)?,
        "events": events?,
        "index": value(&trace.index)?,
        "lifecycles": lifecycles(&trace)?,
    });
    writeln!(stdout(), "{output}").map_err(|error| error.to_string())
}

/// An event, with the kind, the name and the hash of the spec of each object.
fn event_json(event: &sk_store::TraceEvent) -> Result<Value, String> {
    let summary = |object: &sk_core::prelude::DynamicObject| -> Result<Value, String> {
        let gvk = GVK::from_dynamic_obj(object).map_err(|error| error.to_string())?;
        let metadata = &object.metadata;
        let name =
            [&metadata.namespace, &metadata.name].map(|part| part.clone().unwrap_or_default()).join("/");
        let hash = jsonutils::hash_option(object.data.get("spec"));
        Ok(json!({"kind": gvk.to_string(), "name": name, "hash": hash}))
    };
    let summaries = |objects: &[_]| objects.iter().map(summary).collect::<Result<Vec<Value>, String>>();
    Ok(
        json!({"ts": event.ts, "applied": summaries(&event.applied_objs)?, "deleted": summaries(&event.deleted_objs)?}),
    )
}

/// The pod lifecycles by `kind namespace/name` of the owner, then by hash. Checks that a lookup as in a simulation
/// finds each of them.
fn lifecycles(trace: &ExportedTrace) -> Result<Value, String> {
    let mut owners = Map::new();
    for ((gvk, name), by_hash) in &trace.pod_lifecycles {
        if !trace.has_obj(gvk, name) {
            return Err(format!("{gvk} {name} has pod lifecycles but is not in the index"));
        }
        let mut hashes = Map::new();
        for (hash, lifecycles) in by_hash {
            if trace.lookup_pod_lifecycle(gvk, name, *hash, 0).empty() {
                return Err(format!("the pod lifecycle of {gvk} {name} is not found"));
            }
            hashes.insert(hash.to_string(), value(lifecycles)?);
        }
        owners.insert(format!("{gvk} {name}"), hashes.into());
    }
    Ok(owners.into())
}

fn print_hashes() -> Result<(), String> {
    for line in stdin().lock().lines() {
        let spec: corev1::PodSpec = serde_json::from_str(&line.map_err(|error| error.to_string())?)
            .map_err(|error| error.to_string())?;
        let pod = corev1::Pod { spec: Some(spec), ..Default::default() };
        let stable = pod.stable_spec().map_err(|error| error.to_string())?;
        writeln!(stdout(), "{}", jsonutils::hash(&value(stable)?)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn value(serializable: impl serde::Serialize) -> Result<Value, String> {
    serde_json::to_value(serializable).map_err(|error| error.to_string())
}

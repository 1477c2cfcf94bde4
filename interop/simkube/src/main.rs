//! SimKube's own code, asked what it makes of a trace or of a pod's spec.
//!
//! `simkube-judge FILE…` imports each trace as SimKube does and prints what it understood, a line of JSON a file.
//! `simkube-judge hash` reads a pod's spec a line and prints the hash that SimKube keeps such pods' lives under.

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
        [word] if word == "hash" => hashes(),
        files => files.iter().try_for_each(|file| judge(file).map_err(|error| format!("{file}: {error}"))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn judge(file: &str) -> Result<(), String> {
    let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
    let trace = ExportedTrace::import(bytes, None).map_err(|error| format!("{error:#}"))?;
    let events: Result<Vec<Value>, String> = trace.events.iter().map(event).collect();
    let said = json!({
        "file": file,
        "config": value(&trace.config)?,
        "events": events?,
        "index": value(&trace.index)?,
        "lifecycles": lifecycles(&trace)?,
    });
    writeln!(stdout(), "{said}").map_err(|error| error.to_string())
}

/// Of each object its name and the hash of its spec.
fn event(event: &sk_store::TraceEvent) -> Result<Value, String> {
    let named = |object: &sk_core::prelude::DynamicObject| -> Result<Value, String> {
        let gvk = GVK::from_dynamic_obj(object).map_err(|error| error.to_string())?;
        let metadata = &object.metadata;
        let name =
            [&metadata.namespace, &metadata.name].map(|part| part.clone().unwrap_or_default()).join("/");
        let hash = jsonutils::hash_option(object.data.get("spec"));
        Ok(json!({"kind": gvk.to_string(), "name": name, "hash": hash}))
    };
    let all = |objects: &[_]| objects.iter().map(named).collect::<Result<Vec<Value>, String>>();
    Ok(json!({"ts": event.ts, "applied": all(&event.applied_objs)?, "deleted": all(&event.deleted_objs)?}))
}

/// By `kind namespace/name`, then by hash. They are looked up as a simulation looks them up, and in the whole.
fn lifecycles(trace: &ExportedTrace) -> Result<Value, String> {
    let mut owners = Map::new();
    for ((gvk, name), by_hash) in &trace.pod_lifecycles {
        if !trace.has_obj(gvk, name) {
            return Err(format!("{gvk} {name} has lives and is not in the index"));
        }
        let mut hashes = Map::new();
        for (hash, lives) in by_hash {
            if trace.lookup_pod_lifecycle(gvk, name, *hash, 0).empty() {
                return Err(format!("{gvk} {name} has no life of its own"));
            }
            hashes.insert(hash.to_string(), value(lives)?);
        }
        owners.insert(format!("{gvk} {name}"), hashes.into());
    }
    Ok(owners.into())
}

fn hashes() -> Result<(), String> {
    for line in stdin().lock().lines() {
        let spec: corev1::PodSpec = serde_json::from_str(&line.map_err(|error| error.to_string())?)
            .map_err(|error| error.to_string())?;
        let pod = corev1::Pod { spec: Some(spec), ..Default::default() };
        let stable = pod.stable_spec().map_err(|error| error.to_string())?;
        writeln!(stdout(), "{}", jsonutils::hash(&value(stable)?)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn value(of: impl serde::Serialize) -> Result<Value, String> {
    serde_json::to_value(of).map_err(|error| error.to_string())
}

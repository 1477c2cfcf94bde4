//! Files that users write by hand, read whole up to a size limit.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use formats::sktrace::TracerConfig;

/// The size limit; files written by hand are shorter.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a text file. It is an error if it is longer than 16 MiB.
pub fn read_text(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        bail!("the file is larger than {} MiB", MAX_BYTES >> 20);
    }
    Ok(text)
}

/// Reads a YAML or JSON file.
pub fn read_yaml(path: &Path) -> anyhow::Result<serde_json::Value> {
    Ok(formats::manifests::parse_yaml(&path.display().to_string(), &read_text(path)?)?)
}

/// Reads a configuration of SimKube's tracer. The second value holds warnings for the user.
pub fn read_tracer_config(path: &Path) -> anyhow::Result<(TracerConfig, Vec<String>)> {
    let displayed_path = path.display();
    let text =
        read_text(path).with_context(|| format!("cannot read the tracer configuration {displayed_path}"))?;
    let (config, warnings) = TracerConfig::parse(&displayed_path.to_string(), &text)?;
    Ok((config, warnings.into_iter().map(|warning| format!("{displayed_path}: {warning}")).collect()))
}

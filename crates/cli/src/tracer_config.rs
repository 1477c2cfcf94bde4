//! The configuration of SimKube's tracer, as a file.

use std::path::Path;

use formats::sktrace::TracerConfig;

use super::output::Out;

/// Reads it, and tells what the user should know about it.
pub(super) fn read(path: &Path, out: &mut Out) -> anyhow::Result<TracerConfig> {
    let (config, warnings) = query::read_tracer_config(path)?;
    for warning in warnings {
        out.complain(&format!("warning: {warning}"));
    }
    Ok(config)
}

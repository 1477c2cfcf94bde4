//! The configuration of SimKube's tracer, as a file.

use std::path::Path;

use anyhow::Context;
use formats::sktrace::TracerConfig;

use super::output::Out;
use super::text_file;

/// Reads it, and tells what the user should know about it.
pub(super) fn read(path: &Path, out: &mut Out) -> anyhow::Result<TracerConfig> {
    let shown = path.display();
    let text =
        text_file::read(path).with_context(|| format!("cannot read the tracer's configuration {shown}"))?;
    let (config, warnings) = TracerConfig::parse(&shown.to_string(), &text)?;
    for warning in warnings {
        out.complain(&format!("warning: {shown}: {warning}"));
    }
    Ok(config)
}

//! The reader of configuration files of SimKube's tracer.

use std::path::Path;

use formats::sktrace::TracerConfig;

use super::output::Printer;

/// Reads the file, and prints warnings about it.
pub(super) fn read(path: &Path, out: &mut Printer) -> anyhow::Result<TracerConfig> {
    let (config, warnings) = query::read_tracer_config(path)?;
    for warning in warnings {
        out.print_to_stderr(&format!("warning: {warning}"));
    }
    Ok(config)
}

//! `kinescope man`: manual pages.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;

use super::output::Printer;
use super::{Arguments, Outcome};

/// Write manual pages
#[derive(clap::Args)]
pub(super) struct Man {
    /// A folder for all of them [default: the main one to standard output]
    folder: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let command = Arguments::command();
        let Some(folder) = self.folder else {
            clap_mangen::Man::new(command).render(out)?;
            return Ok(Outcome::Done);
        };
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        clap_mangen::generate_to(command, &folder)
            .with_context(|| format!("cannot write manual pages to {}", folder.display()))?;
        writeln!(out, "manual pages written to {}", folder.display())?;
        Ok(Outcome::Done)
    }
}

//! `kinescope man`: manual pages.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;

use super::output::Printer;
use super::{Arguments, Outcome};

const AFTER: &str = "\
Examples:
  kinescope man | man -l -
  kinescope man ~/.local/share/man/man1";

/// Generate manual pages
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Man {
    /// Output folder for the pages of all commands [default: print the main page to standard output]
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
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        clap_mangen::generate_to(command, &folder)
            .with_context(|| format!("cannot write manual pages to {}", folder.display()))?;
        writeln!(out, "manual pages written to {}", folder.display())?;
        Ok(Outcome::Done)
    }
}

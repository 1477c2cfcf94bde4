//! The memory of a scheduler that knows a large cluster.

use super::child;
use super::filled::{NODES, PODS};
use crate::figure::{Figure, Figures, Unit, with_commas};
use crate::studio::Studio;
use crate::{Result, machine};

const BUDGET: f64 = 1e9;

pub(super) fn run(_: &Studio, figures: &mut Figures) -> Result<()> {
    let what = format!(
        "memory of a scheduler that knows {} nodes and {} pods",
        with_commas(NODES as f64),
        with_commas(PODS as f64)
    );
    if machine::memory().is_none() {
        figures.skip(what, "only Linux tells a process's memory");
        return Ok(());
    }
    let filled = child::memory()?;
    figures.add(
        Figure::new(what, filled.peak as f64, Unit::Bytes)
            .budget(BUDGET)
            .also("at the end", filled.after as f64, Unit::Bytes)
            .also("before there was one", filled.before as f64, Unit::Bytes),
    );
    Ok(())
}

//! Warnings about input files, of which there may be very many.

use super::output::{Printer, group_digits};

/// Warnings about files. The first ones are shown, the others counted.
#[derive(Default)]
pub(super) struct Warnings {
    shown: Vec<String>,
    omitted: u64,
}

const MAX_WARNINGS: usize = 20;

impl Warnings {
    pub(super) fn add(&mut self, text: String) {
        if self.shown.len() < MAX_WARNINGS {
            self.shown.push(text);
        } else {
            self.omitted += 1;
        }
    }

    pub(super) fn shown(&self) -> &[String] {
        &self.shown
    }

    pub(super) fn print(&self, out: &mut Printer) {
        for text in &self.shown {
            out.print_to_stderr(&format!("warning: {text}"));
        }
        if self.omitted > 0 {
            out.print_to_stderr(&format!("warning: {} more not shown", group_digits(self.omitted)));
        }
    }
}

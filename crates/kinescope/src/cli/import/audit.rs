//! Audit logs on their way into the history that they join.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use anyhow::bail;
use formats::{Format, Given, Input, Item, Items};
use kubernetes::rules::Sieve;
use model::{Moment, audit_source, is_audit_source};

use super::super::output::grouped;
use super::super::signals;
use super::{Batch, Message, Tally};
use crate::look::Chosen;

/// The logs that were named, read together: API servers of one cluster have one each, and they overlap.
pub(super) struct AuditLogs {
    /// The history that they join, if there is one.
    history: Option<PathBuf>,
    /// The source that they belong to, as the user named it.
    named: Option<String>,
    logs: Vec<Items>,
    /// Where they go, and up to when the history has them already; known with the first log.
    joined: Option<(Arc<str>, Option<Moment>)>,
}

// === impl AuditLogs ===

impl AuditLogs {
    /// None yet. They are to join this history, if it is there.
    pub(super) fn joining(history: Option<&Path>, named: Option<&str>) -> AuditLogs {
        AuditLogs {
            history: history.map(Path::to_owned),
            named: named.map(str::to_owned),
            logs: Vec::new(),
            joined: None,
        }
    }

    /// Adds a log.
    pub(super) fn add(&mut self, input: Input, now: Moment) -> anyhow::Result<()> {
        let (source, _) = match &self.joined {
            Some(joined) => joined,
            None => {
                let joined = self.find(&input.name)?;
                self.joined.insert(joined)
            }
        };
        let given = Given { source: source.clone(), at: None, now };
        self.logs.push(formats::read(input, Format::Audit, given)?);
        Ok(())
    }

    /// Sends what they say. What the history has already, of an earlier import of the same files, is left out.
    pub(super) fn send(
        self,
        sieve: &mut Option<Sieve>,
        tally: &mut Tally,
        sender: &SyncSender<Message>,
    ) -> anyhow::Result<()> {
        let Some((source, end)) = self.joined else { return Ok(()) };
        let mut known = 0;
        let mut batch = Batch { pieces: Vec::new(), bytes: 0, sender };
        for item in formats::audit::merge(self.logs) {
            signals::check()?;
            match item? {
                Item::Change(observed) if end.is_some_and(|end| observed.seen <= end) => known += 1,
                Item::Change(observed) => batch.change(observed, sieve, tally)?,
                Item::Warning(text) => tally.warnings.add(text),
                Item::Gap(_) | Item::Object(_) | Item::TimesInferred(_) => {}
            }
        }
        batch.send()?;
        if let Some(end) = end.filter(|_| known > 0) {
            tally.warnings.add(format!(
                "{} writes up to {end} left out: {source} has been imported up to then",
                grouped(known)
            ));
        }
        Ok(())
    }

    /// The source of a log, and its end.
    fn find(&self, log: &str) -> anyhow::Result<(Arc<str>, Option<Moment>)> {
        let Some(path) = &self.history else {
            bail!(
                "{log}: an audit log tells who wrote, and joins a history that tells what: name one with --into"
            );
        };
        let chosen = Chosen::open(path)?;
        let Some(source) = chosen.source(self.named.as_deref(), "--source")? else {
            bail!("{} is empty: an audit log joins a history that records something", path.display());
        };
        let source = if is_audit_source(&source) { source } else { audit_source(&source) };
        let end = chosen.history.end_of(&source)?;
        Ok((source, end))
    }
}

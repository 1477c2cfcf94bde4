//! KAI cases: a snapshot, a moment, and what the real scheduler did.

use std::io::Cursor;

use formats::{ImportItem, Input, kai_snapshot};
use kai::{Settings, Snapshot};
use model::{Moment, Object};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::LineCase;

/// A snapshot, a moment, and what the real scheduler did.
#[derive(Debug)]
pub struct KaiCase {
    /// Its name.
    pub id: String,
    /// The group of cases it belongs to.
    pub family: String,
    /// The scheduler's clock.
    pub now: Moment,
    /// The input.
    pub snapshot: Snapshot,
    /// What the real scheduler did.
    pub expect: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CaseLine<'a> {
    id: String,
    family: String,
    now: String,
    #[serde(borrow)]
    snapshot: &'a RawValue,
    expect: Value,
    /// A pod is evicted more than once, which is an answer like any other.
    #[serde(default, rename = "evictedTwice")]
    _evicted_twice: bool,
    /// The real scheduler changed its state without committing, which the amounts afterwards show.
    #[serde(default, rename = "uncommitted")]
    _uncommitted: bool,
}

/// The settings as the reader of snapshots returns them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SettingsObject<'a> {
    #[serde(borrow)]
    config: &'a RawValue,
    #[serde(borrow)]
    scheduler_params: &'a RawValue,
}

// === impl KaiCase ===

impl KaiCase {
    /// Whether a line is a KAI case.
    pub fn is_kai_case(line: &str) -> bool {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow)]
            snapshot: Option<&'a RawValue>,
            now: Option<String>,
        }
        serde_json::from_str::<Line<'_>>(line).is_ok_and(|line| line.snapshot.is_some() && line.now.is_some())
    }
}

impl LineCase for KaiCase {
    fn parse(line: &str) -> std::result::Result<KaiCase, String> {
        let CaseLine { id, family, now, snapshot, expect, .. } =
            serde_json::from_str(line).map_err(|error| format!("not a case: {error}"))?;
        let within = |error: String| format!("{id}: {error}");
        let now: Moment = now.parse().map_err(|error: model::BadMoment| within(error.to_string()))?;
        let snapshot = read_snapshot(snapshot.get()).map_err(within)?;
        Ok(KaiCase { id, family, now, snapshot, expect })
    }
}

/// Reads the JSON text of a snapshot.
fn read_snapshot(text: &str) -> std::result::Result<Snapshot, String> {
    let reader = Box::new(Cursor::new(text.as_bytes().to_vec()));
    let input = Input::open("snapshot.json", reader).map_err(|error| error.to_string())?;
    let mut objects: Vec<Object> = Vec::new();
    let mut settings = None;
    for item in kai_snapshot::read(input).map_err(|error| error.to_string())? {
        match item.map_err(|error| error.to_string())? {
            ImportItem::Object(object) if object.meta().kind == kai_snapshot::SETTINGS_KIND => {
                let parts: SettingsObject<'_> = object.view().map_err(|error| error.to_string())?;
                let parsed = Settings::parse(parts.config.get(), parts.scheduler_params.get());
                settings = Some(parsed.map_err(|error| error.to_string())?);
            }
            ImportItem::Object(object) => objects.push(object),
            other => return Err(format!("unexpected in a snapshot: {other:?}")),
        }
    }
    let mut snapshot = Snapshot::new(settings.ok_or("the snapshot has no settings")?);
    for object in &objects {
        snapshot.add(object).map_err(|error| error.to_string())?;
    }
    Ok(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kai_cases_are_distinguished_from_others() {
        assert!(KaiCase::is_kai_case(r#"{"id":"x-1","now":"2026-06-01T12:00:00Z","snapshot":{}}"#));
        assert!(!KaiCase::is_kai_case(r#"{"id":"x-1","objects":[],"pending":[],"expect":[]}"#));
        assert!(!KaiCase::is_kai_case("nothing"));
    }

    #[test]
    fn an_invalid_case_is_rejected_with_the_reason() {
        let line = |now: &str, config: &str| {
            format!(
                r#"{{"id":"x-1","family":"x","now":"{now}","expect":{{}},
                "snapshot":{{"config":{config},"schedulerParams":{{}},"rawObjects":{{}}}}}}"#
            )
        };
        let (now, config) = ("2026-06-01T12:00:00Z", r#"{"actions":"allocate"}"#);
        assert!(KaiCase::parse(&line(now, config)).is_ok());
        for (line, because) in [
            (line("noon", config), "x-1: invalid time"),
            (line(now, r#"{"actions":"dance"}"#), "x-1: invalid scheduler settings"),
        ] {
            let error = KaiCase::parse(&line).unwrap_err();
            assert!(error.starts_with(because), "{error}");
        }
    }
}

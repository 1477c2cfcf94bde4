//! Storage of gaps as rows.

use std::path::Path;
use std::sync::Arc;

use model::{Gap, Kind, Moment};
use rusqlite::{Connection, params};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, ErrorContext, Result};

/// A gap as stored in its row.
pub(crate) struct StoredGap {
    pub(crate) kinds: String,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) why: String,
    pub(crate) hash: i64,
}

// === impl StoredGap ===

impl StoredGap {
    /// The gap, if it belongs to this source and matches its hash.
    pub(crate) fn gap(&self, source: &Arc<str>) -> Option<Gap> {
        if gap_hash(source, &self.kinds, self.from, self.to, &self.why) != self.hash {
            return None;
        }
        let kinds: Vec<(String, String)> = serde_json::from_str(&self.kinds).ok()?;
        Some(Gap {
            source: source.clone(),
            kinds: kinds.iter().map(|(group, kind)| Kind::new(group, kind)).collect(),
            from: Moment::from_nanos(self.from),
            to: Moment::from_nanos(self.to),
            why: self.why.clone(),
        })
    }
}

/// Writes a gap. A closed gap is merged with a stored one of the same reason that ends where it begins, because long
/// gaps are reported in parts. An open gap is not merged, so that it can be found by its beginning when it is closed.
pub(crate) fn insert(connection: &Connection, path: &Path, source: i64, gap: &Gap) -> Result<()> {
    let kinds = stored_kinds(gap);
    let write = || -> rusqlite::Result<()> {
        let (mut from, to) = (gap.from.nanos(), gap.to.nanos());
        if !gap.is_open() {
            let before = "FROM gap WHERE source = ?1 AND kinds = ?2 AND to_at = ?3 AND why = ?4";
            let ends_here = params![source, kinds, gap.from.nanos(), gap.why];
            let earlier: Option<i64> =
                connection
                    .query_row(&format!("SELECT min(from_at) {before}"), ends_here, |row| row.get(0))?;
            connection.execute(&format!("DELETE {before}"), ends_here)?;
            from = earlier.unwrap_or(from);
        }
        let hash = gap_hash(&gap.source, &kinds, from, to, &gap.why);
        connection.execute(
            "INSERT INTO gap (source, kinds, from_at, to_at, why, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![source, kinds, from, to, gap.why, hash],
        )?;
        Ok(())
    };
    write().context("write a gap to", path)
}

/// Replaces the open gap of the same kinds and beginning by this closed one.
pub(crate) fn close(connection: &Connection, path: &Path, source: i64, gap: &Gap) -> Result<()> {
    let kinds = stored_kinds(gap);
    connection
        .execute(
            "DELETE FROM gap WHERE source = ?1 AND kinds = ?2 AND from_at = ?3 AND to_at = ?4",
            params![source, kinds, gap.from.nanos(), Moment::MAX.nanos()],
        )
        .context("close a gap of", path)?;
    insert(connection, path, source, gap)
}

fn stored_kinds(gap: &Gap) -> String {
    let kinds: Vec<(&str, &str)> = gap.kinds.iter().map(|kind| (&*kind.group, &*kind.kind)).collect();
    serde_json::to_string(&kinds).expect("a list of strings serializes as JSON")
}

/// All gaps, ordered by beginning.
pub(crate) fn read_gaps(connection: &Connection, path: &Path) -> Result<Vec<Gap>> {
    let doing = "read the gaps of";
    let mut statement = connection
        .prepare_cached(
            "SELECT gap.id, source.name, kinds, from_at, to_at, why, hash
             FROM gap JOIN source ON source.id = gap.source ORDER BY from_at, gap.id",
        )
        .context(doing, path)?;
    let mut rows = statement.query([]).context(doing, path)?;
    let mut gaps = Vec::new();
    while let Some(row) = rows.next().context(doing, path)? {
        let read = || -> rusqlite::Result<_> {
            let (id, name): (i64, String) = (row.get(0)?, row.get(1)?);
            let (kinds, from, to): (String, i64, i64) = (row.get(2)?, row.get(3)?, row.get(4)?);
            let (why, hash): (String, i64) = (row.get(5)?, row.get(6)?);
            Ok((id, Arc::from(name), StoredGap { kinds, from, to, why, hash }))
        };
        let (id, name, stored) = read().context(doing, path)?;
        gaps.push(stored.gap(&name).ok_or_else(|| Error::Damaged {
            path: path.to_owned(),
            what: format!("gap {id} does not match its hash"),
        })?);
    }
    Ok(gaps)
}

fn gap_hash(source: &str, kinds: &str, from: i64, to: i64, why: &str) -> i64 {
    xxh3_64(format!("{source}\0{kinds}\0{from}\0{to}\0{why}").as_bytes()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, History, Writer};

    fn moment(second: i64) -> Moment {
        Moment::from_nanos(second * 1_000_000_000)
    }

    /// `pod 3..5 away`; `pod 3.. away` is open.
    fn gap(text: &str) -> Gap {
        let [kind, span, why] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
        let (from, to) = span.split_once("..").unwrap();
        let second = |text: &str| moment(text.parse().unwrap());
        let to = if to.is_empty() { Moment::MAX } else { second(to) };
        Gap {
            source: "s".into(),
            kinds: vec![Kind::new("", kind)],
            from: second(from),
            to,
            why: why.to_owned(),
        }
    }

    /// Writes these gaps and compares the stored ones; `!` marks a gap that closes an open one.
    #[track_caller]
    fn check(reported: &[&str], expected: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h.kine");
        let writer = Writer::open(&path).unwrap();
        for text in reported {
            let batch = match text.strip_prefix('!') {
                Some(text) => Batch { closed_gaps: vec![gap(text)], ..Batch::default() },
                None => Batch { gaps: vec![gap(text)], ..Batch::default() },
            };
            writer.append(batch).unwrap();
        }
        writer.close().unwrap();
        let found = History::open(&path).unwrap().gaps().unwrap();
        assert_eq!(found, expected.iter().map(|text| gap(text)).collect::<Vec<_>>());
        let report = crate::doctor(&path).unwrap();
        assert!(report.is_clean(), "{report:?}");
    }

    #[test]
    fn an_open_gap_is_closed_by_its_kinds_and_its_beginning() {
        check(&["pod 3.. gone"], &["pod 3.. gone"]);
        check(&["pod 3.. gone", "!pod 3..5 gone"], &["pod 3..5 gone"]);
        check(&["pod 3.. gone", "pod 3..5 gone"], &["pod 3.. gone", "pod 3..5 gone"]);
        let others = ["pod 3.. gone", "node 3..5 gone", "pod 4..5 gone"];
        check(&["pod 3.. gone", "!node 3..5 gone", "!pod 4..5 gone"], &others);
    }

    #[test]
    fn adjacent_parts_of_a_gap_are_merged() {
        check(&["pod 3..5 away", "pod 5..5 away", "pod 5..9 away"], &["pod 3..9 away"]);
        check(&["pod 3.. away", "!pod 3..5 away", "pod 5..9 away"], &["pod 3..9 away"]);
        let others = ["pod 3..5 away", "pod 5..9 ill", "node 5..9 away", "pod 6..9 away"];
        check(&others, &others);
        // An open gap is not merged, because it is closed by its own beginning.
        check(&["pod 3..5 away", "pod 5.. away"], &["pod 3..5 away", "pod 5.. away"]);
        check(&["pod 3..5 away", "pod 5.. away", "!pod 5..9 away"], &["pod 3..9 away"]);
    }
}

//! Gaps as rows.

use std::path::Path;
use std::sync::Arc;

use model::{Gap, Kind, Moment};
use rusqlite::{Connection, params};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Doing, Error, Result};

/// A gap as its row has it.
pub(crate) struct Stored {
    pub(crate) kinds: String,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) why: String,
    pub(crate) hash: i64,
}

// === impl Stored ===

impl Stored {
    /// The gap, if it is one of this source and what was written.
    pub(crate) fn gap(&self, source: &Arc<str>) -> Option<Gap> {
        if hash(source, &self.kinds, self.from, self.to, &self.why) != self.hash {
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

pub(crate) fn insert(connection: &Connection, path: &Path, source: i64, gap: &Gap) -> Result<()> {
    let kinds: Vec<(&str, &str)> = gap.kinds.iter().map(|kind| (&*kind.group, &*kind.kind)).collect();
    let kinds = serde_json::to_string(&kinds).expect("a list of texts is JSON");
    connection
        .execute(
            "INSERT INTO gap (source, kinds, from_at, to_at, why, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                source,
                kinds,
                gap.from.nanos(),
                gap.to.nanos(),
                gap.why,
                hash(&gap.source, &kinds, gap.from.nanos(), gap.to.nanos(), &gap.why)
            ],
        )
        .doing("write a gap to", path)?;
    Ok(())
}

/// All gaps, in order of their beginning.
pub(crate) fn all(connection: &Connection, path: &Path) -> Result<Vec<Gap>> {
    let doing = "read the gaps of";
    let mut statement = connection
        .prepare_cached(
            "SELECT gap.id, source.name, kinds, from_at, to_at, why, hash
             FROM gap JOIN source ON source.id = gap.source ORDER BY from_at, gap.id",
        )
        .doing(doing, path)?;
    let mut rows = statement.query([]).doing(doing, path)?;
    let mut gaps = Vec::new();
    while let Some(row) = rows.next().doing(doing, path)? {
        let read = || -> rusqlite::Result<_> {
            let (id, name): (i64, String) = (row.get(0)?, row.get(1)?);
            let (kinds, from, to): (String, i64, i64) = (row.get(2)?, row.get(3)?, row.get(4)?);
            let (why, hash): (String, i64) = (row.get(5)?, row.get(6)?);
            Ok((id, Arc::from(name), Stored { kinds, from, to, why, hash }))
        };
        let (id, name, stored) = read().doing(doing, path)?;
        gaps.push(stored.gap(&name).ok_or_else(|| Error::Damaged {
            path: path.to_owned(),
            what: format!("gap {id} does not match its hash"),
        })?);
    }
    Ok(gaps)
}

fn hash(source: &str, kinds: &str, from: i64, to: i64, why: &str) -> i64 {
    xxh3_64(format!("{source}\0{kinds}\0{from}\0{to}\0{why}").as_bytes()) as i64
}

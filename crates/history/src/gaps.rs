//! Gaps as rows.

use std::path::Path;
use std::sync::Arc;

use model::{Gap, Kind, Moment};
use rusqlite::{Connection, params};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Doing, Error, Result};

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
                hash(source, &kinds, gap.from.nanos(), gap.to.nanos(), &gap.why)
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
            "SELECT gap.id, source.id, source.name, kinds, from_at, to_at, why, hash
             FROM gap JOIN source ON source.id = gap.source ORDER BY from_at, gap.id",
        )
        .doing(doing, path)?;
    let mut rows = statement.query([]).doing(doing, path)?;
    let mut gaps = Vec::new();
    while let Some(row) = rows.next().doing(doing, path)? {
        let read = || -> rusqlite::Result<_> {
            let (id, source, name): (i64, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (kinds, from, to): (String, i64, i64) = (row.get(3)?, row.get(4)?, row.get(5)?);
            let (why, sum): (String, i64) = (row.get(6)?, row.get(7)?);
            Ok((id, source, name, kinds, from, to, why, sum))
        };
        let (id, source, name, kinds, from, to, why, sum) = read().doing(doing, path)?;
        let parsed: Option<Vec<(String, String)>> = serde_json::from_str(&kinds).ok();
        let parsed = parsed.filter(|_| hash(source, &kinds, from, to, &why) == sum);
        let parsed = parsed.ok_or_else(|| Error::Damaged {
            path: path.to_owned(),
            what: format!("gap {id} does not match its hash"),
        })?;
        gaps.push(Gap {
            source: Arc::from(name),
            kinds: parsed.iter().map(|(group, kind)| Kind::new(group, kind)).collect(),
            from: Moment::from_nanos(from),
            to: Moment::from_nanos(to),
            why,
        });
    }
    Ok(gaps)
}

fn hash(source: i64, kinds: &str, from: i64, to: i64, why: &str) -> i64 {
    xxh3_64(format!("{source}\0{kinds}\0{from}\0{to}\0{why}").as_bytes()) as i64
}

//! The blocks that hold versions of one object, found through the object index, and where there is none through the
//! member lists.

use std::ops::ControlFlow;
use std::path::Path;

use rusqlite::{Connection, Row};

use crate::change_indexer::Stream;
use crate::error::{Error, ErrorContext, Result};
use crate::frame::ObjectId;
use crate::index_segment::{IndexKey, SegmentId};
use crate::members::{self, Member};
use crate::schema;

/// A block that holds versions of an object.
pub(crate) struct ObjectBlock {
    pub(crate) frame: i64,
    pub(crate) last_seq: i64,
    pub(crate) last_at: i64,
    /// The object's last version in it.
    pub(crate) member: Member,
}

/// Finds the blocks of one object.
pub(crate) struct BlockSearch<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) path: &'a Path,
    pub(crate) stream: &'a Stream,
    pub(crate) object: ObjectId,
}

const BLOCK_COLUMNS: &str = "frame, last_seq, last_at, members";

// === impl BlockSearch ===

impl BlockSearch<'_> {
    /// Calls `each` with the object's blocks that begin after `after` and not after `until`, the newest first, until
    /// it breaks.
    pub(crate) fn for_each_backwards(
        &self,
        after: i64,
        until: i64,
        mut each: impl FnMut(ObjectBlock) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let doing = "read the object index of";
        let key = IndexKey::new(self.stream, self.object);
        let is_indexed = schema::has_object_index(self.connection).context(doing, self.path)?;
        let mut until = until;
        // Segments that cannot be read are skipped as if they did not exist.
        while is_indexed && until > after {
            let segment = SegmentId::last_until(self.connection, self.stream.id, until);
            let Some(segment) = none_if_damaged(segment.context(doing, self.path))? else { break };
            let found = none_if_damaged(segment.find(self.connection, key).context(doing, self.path))?;
            let covered_until = found.as_ref().map_or(segment.seq.saturating_sub(1), |found| found.last_seq);
            if self.scan(after.max(covered_until), until, &mut each)?.is_break() {
                return Ok(());
            }
            let blocks = found.map(|found| found.blocks).unwrap_or_default();
            for first_seq in blocks.into_iter().rev().filter(|seq| (after + 1..=until).contains(seq)) {
                if let Some(block) = self.block(first_seq)?
                    && each(block)?.is_break()
                {
                    return Ok(());
                }
            }
            until = segment.seq.saturating_sub(1);
        }
        self.scan(after, until, &mut each).map(|_| ())
    }

    /// The part of a keyframe that holds the object: its frame, and the version in it.
    pub(crate) fn keyframe_part(&self, seq: i64) -> Result<Option<(i64, Member)>> {
        let doing = "read a keyframe of";
        let mut statement = self
            .connection
            .prepare_cached("SELECT frame, members FROM keyframe WHERE stream = ?1 AND seq = ?2")
            .context(doing, self.path)?;
        let mut rows = statement.query([self.stream.id, seq]).context(doing, self.path)?;
        while let Some(row) = rows.next().context(doing, self.path)? {
            let list = row.get_ref(1).context(doing, self.path)?.as_blob().unwrap_or_default();
            let member = members::find(list, self.object)
                .ok_or_else(|| self.damaged(format!("the object list of keyframe {seq}")))?;
            if let Some(member) = member {
                return Ok(Some((row.get(0).context(doing, self.path)?, member)));
            }
        }
        Ok(None)
    }

    /// Searches the member lists of the blocks that begin after `after` and not after `until`, the newest first.
    fn scan(
        &self,
        after: i64,
        until: i64,
        each: &mut dyn FnMut(ObjectBlock) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        if until <= after {
            return Ok(ControlFlow::Continue(()));
        }
        let doing = "read the blocks of";
        let sql = format!(
            "SELECT {BLOCK_COLUMNS} FROM block WHERE stream = ?1 AND first_seq > ?2 AND first_seq <= ?3
             ORDER BY first_seq DESC"
        );
        let mut statement = self.connection.prepare_cached(&sql).context(doing, self.path)?;
        let mut rows = statement.query([self.stream.id, after, until]).context(doing, self.path)?;
        while let Some(row) = rows.next().context(doing, self.path)? {
            if let Some(block) = self.object_block(row)?
                && each(block)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The block that begins with a change. The index may name a block that holds only another object with the same
    /// key.
    fn block(&self, first_seq: i64) -> Result<Option<ObjectBlock>> {
        let doing = "read a block of";
        let sql = format!("SELECT {BLOCK_COLUMNS} FROM block WHERE stream = ?1 AND first_seq = ?2");
        let mut statement = self.connection.prepare_cached(&sql).context(doing, self.path)?;
        let mut rows = statement.query([self.stream.id, first_seq]).context(doing, self.path)?;
        match rows.next().context(doing, self.path)? {
            Some(row) => self.object_block(row),
            None => Err(Error::Damaged {
                path: self.path.to_owned(),
                what: format!("the block of {} from change {first_seq} is missing", self.stream.kind),
            }),
        }
    }

    fn object_block(&self, row: &Row<'_>) -> Result<Option<ObjectBlock>> {
        let doing = "read a block of";
        let get = |index| row.get::<_, i64>(index).context(doing, self.path);
        let (frame, last_seq, last_at) = (get(0)?, get(1)?, get(2)?);
        let list = row.get_ref(3).context(doing, self.path)?.as_blob().unwrap_or_default();
        let member = members::find(list, self.object)
            .ok_or_else(|| self.damaged(format!("the object list of the block up to change {last_seq}")))?;
        Ok(member.map(|member| ObjectBlock { frame, last_seq, last_at, member }))
    }

    fn damaged(&self, what: String) -> Error {
        Error::Damaged { path: self.path.to_owned(), what: format!("{what} of {}", self.stream.kind) }
    }
}

fn none_if_damaged<T>(read: Result<Option<T>>) -> Result<Option<T>> {
    match read {
        Err(error) if error.is_damage() => Ok(None),
        read => read,
    }
}

//! An event of a trace, and the objects in it.

use model::{Moment, Object};

use super::cursor::{ValueCursor, ValueKind};
use super::outline::read_seconds;
use crate::Result;

/// The time of an event, and the offsets of its lists and its end.
#[derive(Clone, Copy)]
pub(super) struct EventPositions {
    pub(super) at: Moment,
    pub(super) applied: u64,
    pub(super) deleted: u64,
    pub(super) end: u64,
}

// === impl EventPositions ===

impl EventPositions {
    /// Scans the event that comes next.
    pub(super) fn scan(cursor: &mut dyn ValueCursor) -> Result<EventPositions> {
        let (mut at, mut applied, mut deleted) = (None, None, None);
        let list = |cursor: &mut dyn ValueCursor| -> Result<Option<u64>> {
            let position = cursor.position();
            cursor.skip_value()?;
            Ok(Some(position))
        };
        match cursor.peek_kind()? {
            ValueKind::Map => {
                cursor.enter()?;
                let mut key = Vec::new();
                while cursor.next_entry()? {
                    cursor.read_key(&mut key)?;
                    match &*key {
                        b"\"ts\"" => at = Some(read_seconds(cursor)?),
                        b"\"applied_objs\"" => applied = list(cursor)?,
                        b"\"deleted_objs\"" => deleted = list(cursor)?,
                        _ => cursor.skip_value()?,
                    }
                }
            }
            // Without field names.
            ValueKind::List => {
                cursor.enter()?;
                let mut part = 0;
                while cursor.next_entry()? {
                    match part {
                        0 => at = Some(read_seconds(cursor)?),
                        1 => applied = list(cursor)?,
                        2 => deleted = list(cursor)?,
                        _ => cursor.skip_value()?,
                    }
                    part += 1;
                }
            }
            ValueKind::Scalar => return Err(cursor.error("an event must be a map".to_owned())),
        }
        let (Some(at), Some(applied), Some(deleted)) = (at, applied, deleted) else {
            return Err(cursor.error("an event must have ts, applied_objs and deleted_objs".to_owned()));
        };
        Ok(EventPositions { at, applied, deleted, end: cursor.position() })
    }
}

/// Parses the object that the cursor read last.
pub(super) fn parse_object(cursor: &dyn ValueCursor, json: &[u8]) -> Result<Object> {
    let text = std::str::from_utf8(json).map_err(|_| cursor.error("not UTF-8".to_owned()))?;
    Object::parse(text).map_err(|error| cursor.error(error.to_string()))
}

//! One event of a trace, and the objects in it.

use model::{Moment, Object};

use super::cursor::{Cursor, Kind};
use super::outline::second;
use crate::Result;

/// One event, by where its parts are.
#[derive(Clone, Copy)]
pub(super) struct Event {
    pub(super) at: Moment,
    pub(super) applied: u64,
    pub(super) deleted: u64,
    pub(super) end: u64,
}

// === impl Event ===

impl Event {
    /// Goes through the event that comes next.
    pub(super) fn look(cursor: &mut dyn Cursor) -> Result<Event> {
        let (mut at, mut applied, mut deleted) = (None, None, None);
        let list = |cursor: &mut dyn Cursor| -> Result<Option<u64>> {
            let place = cursor.place();
            cursor.skip()?;
            Ok(Some(place))
        };
        match cursor.kind()? {
            Kind::Map => {
                cursor.enter()?;
                let mut key = Vec::new();
                while cursor.more()? {
                    cursor.key(&mut key)?;
                    match &*key {
                        b"\"ts\"" => at = Some(second(cursor)?),
                        b"\"applied_objs\"" => applied = list(cursor)?,
                        b"\"deleted_objs\"" => deleted = list(cursor)?,
                        _ => cursor.skip()?,
                    }
                }
            }
            // Without names.
            Kind::List => {
                cursor.enter()?;
                let mut part = 0;
                while cursor.more()? {
                    match part {
                        0 => at = Some(second(cursor)?),
                        1 => applied = list(cursor)?,
                        2 => deleted = list(cursor)?,
                        _ => cursor.skip()?,
                    }
                    part += 1;
                }
            }
            Kind::Plain => return Err(cursor.bad("an event must be a map".to_owned())),
        }
        let (Some(at), Some(applied), Some(deleted)) = (at, applied, deleted) else {
            return Err(cursor.bad("an event must have ts, applied_objs and deleted_objs".to_owned()));
        };
        Ok(Event { at, applied, deleted, end: cursor.place() })
    }
}

/// An object by its text, which the cursor took last.
pub(super) fn object(cursor: &dyn Cursor, json: &[u8]) -> Result<Object> {
    let text = std::str::from_utf8(json).map_err(|_| cursor.bad("no UTF-8".to_owned()))?;
    Object::parse(text).map_err(|error| cursor.bad(error.to_string()))
}

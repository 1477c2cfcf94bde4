//! The parts of a trace except its events, and the offset of the events.
//!
//! The pod lifecycles come after the events with which they have to be merged, so a trace is read twice. They are held
//! in memory, about forty bytes each.

use kubernetes::pod_lifecycles::PodLifecycleData;
use model::Moment;
use serde_json::Value;

use super::config::Gvk;
use super::cursor::{ValueCursor, ValueKind};
use crate::{Error, Result};

/// The most lifecycles and owners that are read.
const MAX_LIFECYCLES: usize = 10_000_000;
const MAX_OWNERS: usize = 1_000_000;
/// The longest name of an owner: namespace, name, group and kind of maximum length.
const MAX_OWNER_NAME_BYTES: usize = 1_024;

pub(super) struct TraceOutline {
    /// The configuration as written.
    pub(super) config: Value,
    /// The offset of the list of events.
    pub(super) events: u64,
    pub(super) owners: Vec<PodOwner>,
    pub(super) lifecycles: Vec<PodLifecycle>,
}

/// An owner of pods with recorded lifecycles.
pub(super) struct PodOwner {
    /// Its kind; `None` in traces before version 2.
    pub(super) gvk: Option<Gvk>,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Whether another owner, of another kind, has the same name.
    pub(super) shares_name: bool,
}

/// The lifecycle of one pod.
pub(super) struct PodLifecycle {
    /// The index of its owner.
    pub(super) owner: u32,
    /// Its index among the lifecycles with the same owner and hash.
    pub(super) sequence: u32,
    /// The stable hash of its spec.
    pub(super) hash: u64,
    pub(super) ran: PodLifecycleData,
}

/// The parts found so far.
#[derive(Default)]
struct OutlineParts {
    version: Option<u64>,
    config: Option<Value>,
    events: Option<u64>,
    has_index: bool,
    has_lifecycles: bool,
    owners: Vec<PodOwner>,
    lifecycles: Vec<PodLifecycle>,
}

/// Scans a whole trace of any version.
pub(super) fn read_outline(cursor: &mut dyn ValueCursor) -> Result<TraceOutline> {
    let mut found = OutlineParts::default();
    match cursor.peek_kind()? {
        ValueKind::Map => read_named(cursor, &mut found)?,
        ValueKind::List => read_positional(cursor, &mut found)?,
        ValueKind::Scalar => return Err(cursor.error("a trace must be a map or a list".to_owned())),
    }
    let Some(config) = found.config else { return Err(missing_error(cursor, "config")) };
    let Some(events) = found.events else { return Err(missing_error(cursor, "events")) };
    Ok(TraceOutline { config, events, owners: found.owners, lifecycles: found.lifecycles })
}

/// Scans version 2 with field names, as SimKube writes it.
fn read_named(cursor: &mut dyn ValueCursor, found: &mut OutlineParts) -> Result<()> {
    cursor.enter()?;
    let mut key = Vec::new();
    while cursor.next_entry()? {
        cursor.read_key(&mut key)?;
        let twice =
            |name: &str, cursor: &dyn ValueCursor| Err(cursor.error(format!("duplicate field {name}")));
        match &*key {
            b"\"version\"" if found.version.is_some() => return twice("version", cursor),
            b"\"config\"" if found.config.is_some() => return twice("config", cursor),
            b"\"events\"" if found.events.is_some() => return twice("events", cursor),
            b"\"pod_lifecycles\"" if found.has_lifecycles => return twice("pod_lifecycles", cursor),
            b"\"version\"" => read_version(cursor, found)?,
            b"\"config\"" => read_config(cursor, found)?,
            b"\"events\"" => locate_events(cursor, found)?,
            b"\"index\"" => skip_index(cursor, found)?,
            b"\"pod_lifecycles\"" => read_lifecycles(cursor, found)?,
            _ => cursor.skip_value()?,
        }
    }
    let fields_present = [
        ("version", found.version.is_some()),
        ("config", found.config.is_some()),
        ("events", found.events.is_some()),
        ("index", found.has_index),
        ("pod_lifecycles", found.has_lifecycles),
    ];
    match fields_present.iter().find(|(_, fields_present)| !fields_present) {
        Some((name, _)) => Err(missing_error(cursor, name)),
        None => Ok(()),
    }
}

/// Scans version 2 without field names, version 1 (without a version), or version 0 (also without index and
/// lifecycles).
fn read_positional(cursor: &mut dyn ValueCursor, found: &mut OutlineParts) -> Result<()> {
    cursor.enter()?;
    let mut parts = 0;
    let mut next = |cursor: &mut dyn ValueCursor| -> Result<bool> {
        let has_more = cursor.next_entry()?;
        parts += usize::from(has_more);
        Ok(has_more)
    };
    let wrong_length = |cursor: &dyn ValueCursor, parts: usize| {
        Err(cursor.error(format!("a trace must have 2, 4 or 5 parts, found {parts}")))
    };
    if !next(cursor)? {
        return wrong_length(cursor, 0);
    }
    if cursor.peek_kind()? == ValueKind::Scalar {
        read_version(cursor, found)?;
        if !next(cursor)? {
            return wrong_length(cursor, 1);
        }
    }
    read_config(cursor, found)?;
    if !next(cursor)? {
        return wrong_length(cursor, parts);
    }
    locate_events(cursor, found)?;
    if !next(cursor)? {
        return if found.version.is_none() { Ok(()) } else { wrong_length(cursor, 3) };
    }
    skip_index(cursor, found)?;
    if !next(cursor)? {
        return wrong_length(cursor, parts);
    }
    read_lifecycles(cursor, found)?;
    if next(cursor)? { wrong_length(cursor, parts) } else { Ok(()) }
}

fn read_version(cursor: &mut dyn ValueCursor, found: &mut OutlineParts) -> Result<()> {
    let version: u64 = cursor.read_typed("version")?;
    if version > 2 {
        return Err(cursor.error(format!("version {version} is not supported: expected 0, 1 or 2")));
    }
    found.version = Some(version);
    Ok(())
}

fn read_config(cursor: &mut dyn ValueCursor, found: &mut OutlineParts) -> Result<()> {
    let config: Value = cursor.read_typed("config")?;
    // Without field names a structure with one field is a list with one element.
    found.config = Some(match config {
        Value::Array(mut parts) if parts.len() == 1 => serde_json::json!({"trackedObjects": parts.remove(0)}),
        config => config,
    });
    Ok(())
}

fn locate_events(cursor: &mut dyn ValueCursor, found: &mut OutlineParts) -> Result<()> {
    if cursor.peek_kind()? != ValueKind::List {
        return Err(cursor.error("events must be a list".to_owned()));
    }
    found.events = Some(cursor.position());
    cursor.skip_value()
}

fn skip_index(cursor: &mut dyn ValueCursor, found: &mut OutlineParts) -> Result<()> {
    found.has_index = true;
    cursor.skip_value()
}

fn read_lifecycles(cursor: &mut dyn ValueCursor, found: &mut OutlineParts) -> Result<()> {
    found.has_lifecycles = true;
    cursor.enter_map("pod_lifecycles")?;
    let mut key = Vec::new();
    while cursor.next_entry()? {
        cursor.read_key(&mut key)?;
        if found.owners.len() == MAX_OWNERS {
            return Err(cursor.error(format!("more than {MAX_OWNERS} pod owners")));
        }
        let owner = found.owners.len() as u32;
        found.owners.push(parse_owner(&key).map_err(|why| cursor.error(why))?);
        cursor.enter_map("the lifecycles of an owner's pods")?;
        while cursor.next_entry()? {
            cursor.read_key(&mut key)?;
            let hash: u64 = serde_json::from_slice(&key)
                .map_err(|_| cursor.error("the hash of a pod is not a number".to_owned()))?;
            cursor.enter_list("the lifecycles of pods")?;
            let mut sequence = 0;
            while cursor.next_entry()? {
                if found.lifecycles.len() == MAX_LIFECYCLES {
                    return Err(cursor.error(format!("more than {MAX_LIFECYCLES} pod lifecycles")));
                }
                let data = read_run_interval(cursor)?;
                found.lifecycles.push(PodLifecycle { owner, sequence, hash, ran: data });
                sequence += 1;
            }
        }
    }
    Ok(())
}

/// Parses `["apps/v1.Deployment", "shop/web"]`, or `"shop/web"` before version 2.
fn parse_owner(key: &[u8]) -> std::result::Result<PodOwner, String> {
    let invalid = || "a pod owner must be [\"group/version.Kind\", \"namespace/name\"]".to_owned();
    if key.len() > MAX_OWNER_NAME_BYTES {
        return Err(format!("the name of a pod owner is longer than {MAX_OWNER_NAME_BYTES} bytes"));
    }
    let (gvk, name) = match serde_json::from_slice(key) {
        Ok(Value::String(name)) => (None, name),
        Ok(Value::Array(parts)) => match &parts[..] {
            [Value::String(gvk), Value::String(name)] => (Some(Gvk::parse(gvk)?), name.clone()),
            _ => return Err(invalid()),
        },
        _ => return Err(invalid()),
    };
    let (namespace, name) = name.split_once('/').unwrap_or(("", &name));
    Ok(PodOwner { gvk, namespace: namespace.to_owned(), name: name.to_owned(), shares_name: false })
}

/// Reads `"Empty"`, `{"Running": start}` or `{"Finished": [start, end]}`; the variants may also be 0, 1 and 2.
fn read_run_interval(cursor: &mut dyn ValueCursor) -> Result<PodLifecycleData> {
    let invalid = |cursor: &dyn ValueCursor| {
        cursor.error(
            "a lifecycle must be \"Empty\", {\"Running\": start} or {\"Finished\": [start, end]}".to_owned(),
        )
    };
    let mut variant = Vec::new();
    if cursor.peek_kind()? != ValueKind::Map {
        cursor.read_value(&mut variant)?;
        return if matches!(&*variant, b"\"Empty\"" | b"0") {
            Ok(PodLifecycleData::Empty)
        } else {
            Err(invalid(cursor))
        };
    }
    cursor.enter()?;
    if !cursor.next_entry()? {
        return Err(invalid(cursor));
    }
    cursor.read_key(&mut variant)?;
    let data = match &*variant {
        b"\"Empty\"" | b"0" => {
            cursor.skip_value()?;
            PodLifecycleData::Empty
        }
        b"\"Running\"" | b"1" => PodLifecycleData::Running(read_seconds(cursor)?),
        b"\"Finished\"" | b"2" => {
            let times: [i64; 2] = cursor.read_typed("Finished")?;
            PodLifecycleData::Finished(to_moment(cursor, times[0])?, to_moment(cursor, times[1])?)
        }
        _ => return Err(invalid(cursor)),
    };
    if cursor.next_entry()? { Err(invalid(cursor)) } else { Ok(data) }
}

/// Reads a time in whole seconds.
pub(super) fn read_seconds(cursor: &mut dyn ValueCursor) -> Result<Moment> {
    let seconds = cursor.read_typed("a time in seconds")?;
    to_moment(cursor, seconds)
}

fn to_moment(cursor: &dyn ValueCursor, seconds: i64) -> Result<Moment> {
    let nanos = seconds.checked_mul(1_000_000_000);
    nanos.map(Moment::from_nanos).ok_or_else(|| {
        cursor.error(format!("{seconds} seconds since 1970 is outside the years 1677 to 2262"))
    })
}

fn missing_error(cursor: &dyn ValueCursor, name: &str) -> Error {
    cursor.error(format!("{name} is missing"))
}

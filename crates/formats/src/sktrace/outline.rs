//! What a trace holds besides its events, and where those are.
//!
//! The lives of pods stand behind the events they belong among, so a trace is gone through twice. They are held in
//! memory, some forty bytes each.

use kubernetes::pod_lives::Ran;
use model::Moment;
use serde_json::Value;

use super::config::Gvk;
use super::cursor::{Cursor, Kind};
use crate::{Error, Result};

/// How many lives are read, and of the pods of how many owners.
const MAX_LIVES: usize = 10_000_000;
const MAX_OWNERS: usize = 1_000_000;
/// How long the name of an owner may be: a namespace, a name, a group and a kind of the longest sort.
const MAX_NAME: usize = 1_024;

pub(super) struct Outline {
    /// The configuration as it stands there.
    pub(super) config: Value,
    /// Where the list of events begins.
    pub(super) events: u64,
    pub(super) owners: Vec<Owner>,
    pub(super) lives: Vec<Life>,
}

/// Whose pods' lives are recorded.
pub(super) struct Owner {
    /// Its kind, which traces before version 2 do not tell.
    pub(super) gvk: Option<Gvk>,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Whether another owner, of another kind, has the same name.
    pub(super) shares_name: bool,
}

/// The life of one pod.
pub(super) struct Life {
    /// Its owner's place in the list of owners.
    pub(super) owner: u32,
    /// Its place among the lives with the same owner and hash.
    pub(super) sequence: u32,
    /// The stable hash of its spec.
    pub(super) hash: u64,
    pub(super) ran: Ran,
}

/// What has been found so far.
#[derive(Default)]
struct Found {
    version: Option<u64>,
    config: Option<Value>,
    events: Option<u64>,
    has_index: bool,
    has_lives: bool,
    owners: Vec<Owner>,
    lives: Vec<Life>,
}

/// Goes through a whole trace, of whatever version.
pub(super) fn outline(cursor: &mut dyn Cursor) -> Result<Outline> {
    let mut found = Found::default();
    match cursor.kind()? {
        Kind::Map => by_name(cursor, &mut found)?,
        Kind::List => by_position(cursor, &mut found)?,
        Kind::Plain => return Err(cursor.bad("a trace is a map or a list".to_owned())),
    }
    let Some(config) = found.config else { return Err(missing(cursor, "config")) };
    let Some(events) = found.events else { return Err(missing(cursor, "events")) };
    Ok(Outline { config, events, owners: found.owners, lives: found.lives })
}

/// Version 2, as SimKube writes it.
fn by_name(cursor: &mut dyn Cursor, found: &mut Found) -> Result<()> {
    cursor.enter()?;
    let mut key = Vec::new();
    while cursor.more()? {
        cursor.key(&mut key)?;
        let twice = |name: &str, cursor: &dyn Cursor| Err(cursor.bad(format!("{name} stands twice")));
        match &*key {
            b"\"version\"" if found.version.is_some() => return twice("version", cursor),
            b"\"config\"" if found.config.is_some() => return twice("config", cursor),
            b"\"events\"" if found.events.is_some() => return twice("events", cursor),
            b"\"pod_lifecycles\"" if found.has_lives => return twice("pod_lifecycles", cursor),
            b"\"version\"" => version(cursor, found)?,
            b"\"config\"" => config(cursor, found)?,
            b"\"events\"" => events(cursor, found)?,
            b"\"index\"" => index(cursor, found)?,
            b"\"pod_lifecycles\"" => lives(cursor, found)?,
            _ => cursor.skip()?,
        }
    }
    let there = [
        ("version", found.version.is_some()),
        ("config", found.config.is_some()),
        ("events", found.events.is_some()),
        ("index", found.has_index),
        ("pod_lifecycles", found.has_lives),
    ];
    match there.iter().find(|(_, there)| !there) {
        Some((name, _)) => Err(missing(cursor, name)),
        None => Ok(()),
    }
}

/// Version 2 without names, version 1 (which has no version), or version 0 (which has no index and no lives).
fn by_position(cursor: &mut dyn Cursor, found: &mut Found) -> Result<()> {
    cursor.enter()?;
    let mut parts = 0;
    let mut next = |cursor: &mut dyn Cursor| -> Result<bool> {
        let more = cursor.more()?;
        parts += usize::from(more);
        Ok(more)
    };
    let wrong = |cursor: &dyn Cursor, parts: usize| {
        Err(cursor.bad(format!("a trace is a list of 2, 4 or 5, and this one of {parts}")))
    };
    if !next(cursor)? {
        return wrong(cursor, 0);
    }
    if cursor.kind()? == Kind::Plain {
        version(cursor, found)?;
        if !next(cursor)? {
            return wrong(cursor, 1);
        }
    }
    config(cursor, found)?;
    if !next(cursor)? {
        return wrong(cursor, parts);
    }
    events(cursor, found)?;
    if !next(cursor)? {
        return if found.version.is_none() { Ok(()) } else { wrong(cursor, 3) };
    }
    index(cursor, found)?;
    if !next(cursor)? {
        return wrong(cursor, parts);
    }
    lives(cursor, found)?;
    if next(cursor)? { wrong(cursor, parts) } else { Ok(()) }
}

fn version(cursor: &mut dyn Cursor, found: &mut Found) -> Result<()> {
    let version: u64 = cursor.typed("version")?;
    if version > 2 {
        return Err(cursor.bad(format!("version {version} is not one that is read here: 0, 1 and 2 are")));
    }
    found.version = Some(version);
    Ok(())
}

fn config(cursor: &mut dyn Cursor, found: &mut Found) -> Result<()> {
    let config: Value = cursor.typed("config")?;
    // Without names a structure of one field is a list of one.
    found.config = Some(match config {
        Value::Array(mut parts) if parts.len() == 1 => serde_json::json!({"trackedObjects": parts.remove(0)}),
        config => config,
    });
    Ok(())
}

fn events(cursor: &mut dyn Cursor, found: &mut Found) -> Result<()> {
    if cursor.kind()? != Kind::List {
        return Err(cursor.bad("events must be a list".to_owned()));
    }
    found.events = Some(cursor.place());
    cursor.skip()
}

fn index(cursor: &mut dyn Cursor, found: &mut Found) -> Result<()> {
    found.has_index = true;
    cursor.skip()
}

fn lives(cursor: &mut dyn Cursor, found: &mut Found) -> Result<()> {
    found.has_lives = true;
    cursor.enter_map("pod_lifecycles")?;
    let mut key = Vec::new();
    while cursor.more()? {
        cursor.key(&mut key)?;
        if found.owners.len() == MAX_OWNERS {
            return Err(cursor.bad(format!("pods of more than {MAX_OWNERS} owners")));
        }
        let owner = found.owners.len() as u32;
        found.owners.push(named_owner(&key).map_err(|why| cursor.bad(why))?);
        cursor.enter_map("the lives of an owner's pods")?;
        while cursor.more()? {
            cursor.key(&mut key)?;
            let hash: u64 = serde_json::from_slice(&key).map_err(|_| {
                cursor.bad("pods are told apart by a hash, which is no number here".to_owned())
            })?;
            cursor.enter_list("the lives of pods")?;
            let mut sequence = 0;
            while cursor.more()? {
                if found.lives.len() == MAX_LIVES {
                    return Err(cursor.bad(format!("more than {MAX_LIVES} lives of pods")));
                }
                let ran = ran(cursor)?;
                found.lives.push(Life { owner, sequence, hash, ran });
                sequence += 1;
            }
        }
    }
    Ok(())
}

/// `["apps/v1.Deployment", "shop/web"]`, or `"shop/web"` before version 2.
fn named_owner(key: &[u8]) -> std::result::Result<Owner, String> {
    let bad = || "the owner of pods must be [\"group/version.Kind\", \"namespace/name\"]".to_owned();
    if key.len() > MAX_NAME {
        return Err(format!("the name of an owner of pods is longer than {MAX_NAME} bytes"));
    }
    let (gvk, name) = match serde_json::from_slice(key) {
        Ok(Value::String(name)) => (None, name),
        Ok(Value::Array(parts)) => match &parts[..] {
            [Value::String(gvk), Value::String(name)] => (Some(Gvk::parse(gvk)?), name.clone()),
            _ => return Err(bad()),
        },
        _ => return Err(bad()),
    };
    let (namespace, name) = name.split_once('/').unwrap_or(("", &name));
    Ok(Owner { gvk, namespace: namespace.to_owned(), name: name.to_owned(), shares_name: false })
}

/// `"Empty"`, `{"Running": start}` or `{"Finished": [start, end]}`; the words may also be 0, 1 and 2.
fn ran(cursor: &mut dyn Cursor) -> Result<Ran> {
    let bad = |cursor: &dyn Cursor| {
        cursor
            .bad("a life must be \"Empty\", {\"Running\": start} or {\"Finished\": [start, end]}".to_owned())
    };
    let mut word = Vec::new();
    if cursor.kind()? != Kind::Map {
        cursor.value(&mut word)?;
        return if matches!(&*word, b"\"Empty\"" | b"0") { Ok(Ran::Not) } else { Err(bad(cursor)) };
    }
    cursor.enter()?;
    if !cursor.more()? {
        return Err(bad(cursor));
    }
    cursor.key(&mut word)?;
    let ran = match &*word {
        b"\"Empty\"" | b"0" => {
            cursor.skip()?;
            Ran::Not
        }
        b"\"Running\"" | b"1" => Ran::Since(second(cursor)?),
        b"\"Finished\"" | b"2" => {
            let times: [i64; 2] = cursor.typed("Finished")?;
            Ran::Between(moment(cursor, times[0])?, moment(cursor, times[1])?)
        }
        _ => return Err(bad(cursor)),
    };
    if cursor.more()? { Err(bad(cursor)) } else { Ok(ran) }
}

/// A time in whole seconds.
pub(super) fn second(cursor: &mut dyn Cursor) -> Result<Moment> {
    let seconds = cursor.typed("a time in seconds")?;
    moment(cursor, seconds)
}

fn moment(cursor: &dyn Cursor, seconds: i64) -> Result<Moment> {
    let nanos = seconds.checked_mul(1_000_000_000);
    nanos
        .map(Moment::from_nanos)
        .ok_or_else(|| cursor.bad(format!("{seconds} seconds since 1970 lie outside the years 1677 to 2262")))
}

fn missing(cursor: &dyn Cursor, name: &str) -> Error {
    cursor.bad(format!("{name} is missing"))
}

//! A part of a history, and how its objects and changes are read.

use std::sync::{Arc, mpsc};

use history::{Changes, History, Selection};
use model::{Key, Moment, Object, What, Window};

use crate::error::Error;

/// A part of a history.
#[derive(Clone, Debug)]
pub struct HistoryPart {
    /// The source.
    pub source: Arc<str>,
    /// The time window.
    pub window: Window,
}

/// The number of items per chunk that is read ahead, and the number of such chunks.
const CHUNK_LEN: usize = 256;
const CHUNKS_AHEAD: usize = 4;

/// The maximum duration of a recorder's initial lists.
const MAX_INITIAL_LIST_NANOS: i64 = 60 * 1_000_000_000;

/// Returns the first moment of a source, and the moment from which it is complete: an object that is older than the
/// recording and observed for the first time belongs to the recorder's initial list.
pub fn complete_from(
    history: &History,
    source: &Arc<str>,
    first: Moment,
    end: Moment,
) -> Result<(Moment, Moment), history::Error> {
    let selection = Selection { source: Some(source.clone()), ..Selection::default() };
    let (mut start, mut complete) = (None, first);
    for change in history.between(Window { from: first, to: end.plus_nanos(1) }, &selection)? {
        let change = change?;
        let start = *start.get_or_insert(change.at);
        if change.at.nanos_since(start) > MAX_INITIAL_LIST_NANOS {
            break;
        }
        let created =
            creation_timestamp(change.what.object()).and_then(|created| created.parse::<Moment>().ok());
        // Objects without a creation timestamp are old if they are observed at the first moment. Creation timestamps
        // are whole seconds: an object created in the first one may be new.
        let second = start.plus_nanos(-start.nanos().rem_euclid(1_000_000_000));
        let is_old = created.map_or(change.at == start, |created| created < second);
        if is_old && matches!(change.what, What::Added(_)) {
            complete = change.at;
        }
    }
    let start = start.unwrap_or(first);
    Ok((start, complete.max(start)))
}

/// The changes of a part after its beginning.
pub(crate) fn changes(
    history: &History,
    part: &HistoryPart,
    selection: &Selection,
) -> Result<Changes, history::Error> {
    history.between(Window { from: part.window.from.plus_nanos(1), to: part.window.to }, selection)
}

/// Calls `each` for every item, in order, until the first error. A separate thread reads ahead.
pub(crate) fn for_each_prefetched<T: Send>(
    mut read: impl Iterator<Item = Result<T, Error>> + Send,
    mut each: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel::<Vec<_>>(CHUNKS_AHEAD);
        scope.spawn(move || {
            loop {
                let batch: Vec<_> = read.by_ref().take(CHUNK_LEN).collect();
                // The receiver is gone if the replay has ended.
                if batch.is_empty() || sender.send(batch).is_err() {
                    return;
                }
            }
        });
        for item in receiver.into_iter().flatten() {
            each(item?)?;
        }
        Ok(())
    })
}

/// The objects at the beginning of a part: other kinds first, then nodes, then pods by creation timestamp.
pub(crate) fn initial_objects(
    history: &History,
    part: &HistoryPart,
    selection: &Selection,
) -> Result<Vec<(Key, Object)>, Error> {
    let mut objects: Vec<(u8, Option<String>, Key, Object)> = Vec::new();
    history.for_each_at(part.window.from, selection, |version| {
        let kind = &version.key.kind;
        let order = if kind.is("", "Pod") {
            2
        } else if kind.is("", "Node") {
            1
        } else {
            0
        };
        let age = if order == 2 { creation_timestamp(&version.object) } else { None };
        objects.push((order, age, version.key, version.object));
    })?;
    objects.sort_unstable_by(|a, b| (a.0, &a.1, &a.2).cmp(&(b.0, &b.1, &b.2)));
    Ok(objects.into_iter().map(|(.., key, object)| (key, object)).collect())
}

/// The creation timestamp of an object.
fn creation_timestamp(object: &Object) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Outer {
        metadata: Inner,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Inner {
        creation_timestamp: Option<String>,
    }
    object.view::<Outer>().ok()?.metadata.creation_timestamp
}

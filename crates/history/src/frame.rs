//! A frame: up to a few hundred versions of one kind's objects, packed into one blob that explains itself.
//!
//! ```text
//! KINEFRM1 | checksum of the rest | role, source, group, kind, count | columns, compressed | objects, compressed
//! ```
//! A frame needs nothing else of the file to be read: whatever becomes of the tables around it, its changes are whole.

use std::sync::Arc;

use model::{Kind, Moment};
use xxhash_rust::xxh3::xxh3_64;
use zstd::zstd_safe::CParameter;

use crate::varint::{self, Reader};

/// A frame is closed at so many versions: half as many take a tenth more room, twice as many twice the memory.
/// Tests make blocks of few changes, so that short histories have many.
pub(crate) const FRAME_VERSIONS: usize = if cfg!(test) { 8 } else { 512 };
/// It is closed at so many bytes of objects too, whichever comes first.
pub(crate) const FRAME_BYTES: usize = 2 << 20;
/// The largest object a history takes. API servers stop at 1.5 to 3 MB.
pub(crate) const OBJECT_BYTES: usize = 32 << 20;

/// The first bytes of every frame; the digit is the version of the layout.
pub(crate) const MAGIC: &[u8; 8] = b"KINEFRM1";
/// At 9 the films take a sixth less than at 3; higher levels cost much more and give little.
const LEVEL: i32 = 9;
/// The level's own table takes ten megabytes for each history that is written. With one of two megabytes the films and
/// the made-up clusters take the same room to a tenth of a byte a change, and no more time.
const HASH_LOG: u32 = 18;
/// Columns are small; what is to be gained is in the zeros.
const COLUMN_LEVEL: i32 = 3;

/// What the frame's versions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Consecutive changes of one stream.
    Changes,
    /// Part of the state of one stream at one moment.
    Keyframe,
}

/// All about one version but its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) seq: i64,
    pub(crate) at: Moment,
    pub(crate) seen: Moment,
    pub(crate) object: ObjectId,
    pub(crate) code: Code,
    /// The lower half of the content hash.
    pub(crate) hash: u32,
    /// Bytes of the object.
    pub(crate) length: u32,
}

/// An object's number within its file. Kinds without a directory of their objects use a hash of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectId(pub(crate) i64);

/// What happened, as stored: the low two bits say added, modified or deleted, the third whether it was inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(u8);

/// A frame that was read and found whole.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) role: Role,
    pub(crate) source: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) rows: Vec<Row>,
    objects: Vec<u8>,
    raw: usize,
}

/// Versions on their way into a frame.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) rows: Vec<Row>,
    pub(crate) text: String,
}

/// Compresses and decompresses; keeps its working memory from frame to frame.
pub(crate) struct Codec {
    compressor: zstd::bulk::Compressor<'static>,
    column_compressor: zstd::bulk::Compressor<'static>,
    decompressor: zstd::bulk::Decompressor<'static>,
}

// === impl Code ===

impl Code {
    pub(crate) const ADDED: u8 = 0;
    pub(crate) const MODIFIED: u8 = 1;
    pub(crate) const DELETED: u8 = 2;
    const INFERRED: u8 = 4;

    pub(crate) fn new(what: &model::What, inferred: bool) -> Code {
        let word = match what {
            model::What::Added(_) => Code::ADDED,
            model::What::Modified(_) => Code::MODIFIED,
            model::What::Deleted(_) => Code::DELETED,
        };
        Code(word | if inferred { Code::INFERRED } else { 0 })
    }

    pub(crate) fn from_stored(stored: i64) -> Option<Code> {
        let byte = u8::try_from(stored).ok()?;
        (byte & 3 <= Code::DELETED && byte < 8).then_some(Code(byte))
    }

    pub(crate) fn stored(self) -> u8 {
        self.0
    }

    pub(crate) fn is_deleted(self) -> bool {
        self.0 & 3 == Code::DELETED
    }

    /// One more object, one less, or as many as before.
    pub(crate) fn birth(self) -> i64 {
        match self.0 & 3 {
            Code::ADDED => 1,
            Code::DELETED => -1,
            _ => 0,
        }
    }

    pub(crate) fn is_inferred(self) -> bool {
        self.0 & Code::INFERRED != 0
    }

    pub(crate) fn what(self, object: model::Object) -> model::What {
        match self.0 & 3 {
            Code::ADDED => model::What::Added(object),
            Code::MODIFIED => model::What::Modified(object),
            _ => model::What::Deleted(object),
        }
    }
}

// === impl Pending ===

impl Pending {
    pub(crate) fn push(&mut self, row: Row, text: &str) {
        self.rows.push(row);
        self.text.push_str(text);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= FRAME_VERSIONS || self.text.len() >= FRAME_BYTES
    }

    /// The versions with their objects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Row, &str)> {
        let mut start = 0;
        self.rows.iter().map(move |row| {
            let text = &self.text[start..start + row.length as usize];
            start += row.length as usize;
            (row, text)
        })
    }
}

// === impl Codec ===

impl Codec {
    pub(crate) fn new() -> Codec {
        let compressor = |level| zstd::bulk::Compressor::new(level).expect("the level is one that zstd has");
        let mut objects = compressor(LEVEL);
        objects.set_parameter(CParameter::HashLog(HASH_LOG)).expect("the size is one that zstd has");
        Codec {
            compressor: objects,
            column_compressor: compressor(COLUMN_LEVEL),
            decompressor: zstd::bulk::Decompressor::new().expect("memory for one decompressor"),
        }
    }

    /// Packs versions of one stream, which must be in order of arrival.
    pub(crate) fn pack(&mut self, role: Role, source: &str, kind: &Kind, pending: &Pending) -> Vec<u8> {
        let columns = put_columns(&pending.rows);
        let mut body = vec![match role {
            Role::Changes => 0,
            Role::Keyframe => 1,
        }];
        for text in [source, &kind.group, &kind.kind] {
            varint::put_text(&mut body, text);
        }
        varint::put(&mut body, pending.rows.len() as u64);
        varint::put(&mut body, pending.text.len() as u64);
        varint::put(&mut body, columns.len() as u64);
        let columns = self.column_compressor.compress(&columns).expect("the output buffer is sized by zstd");
        varint::put(&mut body, columns.len() as u64);
        body.extend_from_slice(&columns);
        body.extend_from_slice(
            &self.compressor.compress(pending.text.as_bytes()).expect("the output buffer is sized by zstd"),
        );

        let mut frame = Vec::with_capacity(body.len() + 16);
        frame.extend_from_slice(MAGIC);
        frame.extend_from_slice(&xxh3_64(&body).to_le_bytes());
        frame.extend_from_slice(&body);
        frame
    }

    /// Reads all of a frame but its objects. The error says what is wrong with it.
    pub(crate) fn open(&mut self, bytes: &[u8]) -> Result<Frame, &'static str> {
        let body = bytes.strip_prefix(MAGIC).ok_or("it does not begin like a frame")?;
        let (sum, body) = body.split_first_chunk::<8>().ok_or("it is cut short")?;
        if xxh3_64(body) != u64::from_le_bytes(*sum) {
            return Err("its checksum is wrong");
        }
        self.open_body(body).ok_or("its columns contradict each other")
    }

    fn open_body(&mut self, body: &[u8]) -> Option<Frame> {
        let mut reader = Reader(body);
        let role = match reader.bytes(1)? {
            [0] => Role::Changes,
            [1] => Role::Keyframe,
            _ => return None,
        };
        let source = reader.text()?.into();
        let kind = Kind::new(reader.text()?, reader.text()?);
        let count = usize::try_from(reader.number()?).ok().filter(|count| *count <= FRAME_VERSIONS)?;
        let raw = usize::try_from(reader.number()?).ok().filter(|raw| *raw <= FRAME_BYTES + OBJECT_BYTES)?;
        // Seven columns of at most ten bytes a version.
        let column_bytes =
            usize::try_from(reader.number()?).ok().filter(|bytes| *bytes <= 70 * count + 16)?;
        let compressed = usize::try_from(reader.number()?).ok()?;
        let columns = self.decompressor.decompress(reader.bytes(compressed)?, column_bytes).ok()?;
        let rows = read_columns(&columns, count)?;
        let total: usize = rows.iter().map(|row| row.length as usize).sum();
        (total == raw).then(|| Frame { role, source, kind, rows, objects: reader.0.to_vec(), raw })
    }

    /// The objects of a frame, one after the other, each as long as its row says.
    pub(crate) fn objects(&mut self, frame: &Frame) -> Result<String, &'static str> {
        let bytes = self
            .decompressor
            .decompress(&frame.objects, frame.raw)
            .map_err(|_| "its objects cannot be unpacked")?;
        if bytes.len() != frame.raw {
            return Err("its objects are cut short");
        }
        String::from_utf8(bytes).map_err(|_| "its objects are no text")
    }
}

// === impl Frame ===

impl Frame {
    /// Where each object lies within the text of [`Codec::objects`].
    pub(crate) fn places(&self) -> impl Iterator<Item = (&Row, std::ops::Range<usize>)> {
        let mut start = 0;
        self.rows.iter().map(move |row| {
            let place = start..start + row.length as usize;
            start = place.end;
            (row, place)
        })
    }
}

/// Column by column: what is alike lies together.
fn put_columns(rows: &[Row]) -> Vec<u8> {
    // Most clocks stop at microseconds; the unit then saves three digits a row.
    let unit = if rows.iter().all(|row| row.at.nanos() % 1_000 == 0) { 1_000 } else { 1 };
    let mut out = Vec::with_capacity(rows.len() * 16);
    varint::put(&mut out, unit as u64);
    let mut deltas = |values: &mut dyn Iterator<Item = i64>| {
        let mut last = 0i64;
        for value in values {
            varint::put_signed(&mut out, value.wrapping_sub(last));
            last = value;
        }
    };
    deltas(&mut rows.iter().map(|row| row.seq));
    deltas(&mut rows.iter().map(|row| row.at.nanos() / unit));
    deltas(&mut rows.iter().map(|row| row.object.0));
    deltas(&mut rows.iter().map(|row| i64::from(row.length)));
    for row in rows {
        varint::put_signed(&mut out, row.at.nanos().wrapping_sub(row.seen.nanos()));
    }
    out.extend(rows.iter().map(|row| row.code.0));
    out.extend(rows.iter().flat_map(|row| row.hash.to_le_bytes()));
    out
}

fn read_columns(bytes: &[u8], count: usize) -> Option<Vec<Row>> {
    let mut reader = Reader(bytes);
    let unit = i64::try_from(reader.number()?).ok()?;
    let mut deltas = || -> Option<Vec<i64>> {
        let mut last = 0i64;
        (0..count)
            .map(|_| {
                last = last.wrapping_add(reader.signed()?);
                Some(last)
            })
            .collect()
    };
    let (seqs, ats, objects, lengths) = (deltas()?, deltas()?, deltas()?, deltas()?);
    let behind: Vec<i64> = (0..count).map(|_| reader.signed()).collect::<Option<_>>()?;
    let codes = reader.bytes(count)?;
    let hashes = reader.bytes(4 * count)?;
    if !reader.0.is_empty() {
        return None;
    }
    (0..count)
        .map(|i| {
            let at = Moment::from_nanos(ats[i].checked_mul(unit)?);
            Some(Row {
                seq: seqs[i],
                at,
                seen: Moment::from_nanos(at.nanos().wrapping_sub(behind[i])),
                object: ObjectId(objects[i]),
                code: Code::from_stored(codes[i].into())?,
                hash: u32::from_le_bytes(hashes[4 * i..4 * i + 4].try_into().ok()?),
                length: u32::try_from(lengths[i]).ok()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row() -> impl Strategy<Value = (Row, String)> {
        (
            any::<i64>(),
            any::<i64>(),
            any::<i64>(),
            any::<i64>(),
            0u8..3,
            any::<bool>(),
            any::<u32>(),
            ".{0,40}",
        )
            .prop_map(|(seq, at, seen, object, word, inferred, hash, text)| {
                let row = Row {
                    seq,
                    at: Moment::from_nanos(at),
                    seen: Moment::from_nanos(seen),
                    object: ObjectId(object),
                    code: Code(word | if inferred { 4 } else { 0 }),
                    hash,
                    length: text.len() as u32,
                };
                (row, text)
            })
    }

    fn pending(rows: &[(Row, String)]) -> Pending {
        let mut pending = Pending::default();
        for (row, text) in rows {
            pending.push(*row, text);
        }
        pending
    }

    proptest! {
        #[test]
        fn a_frame_gives_back_what_was_packed(rows in proptest::collection::vec(row(), 0..=FRAME_VERSIONS)) {
            let (mut codec, pending, kind) = (Codec::new(), pending(&rows), Kind::new("apps", "Deployment"));
            let bytes = codec.pack(Role::Keyframe, "east", &kind, &pending);
            let frame = codec.open(&bytes).unwrap();
            prop_assert_eq!(frame.role, Role::Keyframe);
            prop_assert_eq!(&*frame.source, "east");
            prop_assert_eq!(&frame.kind, &kind);
            prop_assert_eq!(&frame.rows, &pending.rows);
            prop_assert_eq!(codec.objects(&frame).unwrap(), pending.text);
        }

        #[test]
        fn a_flipped_or_cut_frame_is_refused(
            rows in proptest::collection::vec(row(), 1..=FRAME_VERSIONS), at: prop::sample::Index, bit in 0u8..8,
        ) {
            let mut codec = Codec::new();
            let bytes = codec.pack(Role::Changes, "east", &Kind::new("", "Pod"), &pending(&rows));
            let mut flipped = bytes.clone();
            flipped[at.index(bytes.len())] ^= 1 << bit;
            prop_assert!(codec.open(&flipped).is_err());
            prop_assert!(codec.open(&bytes[..at.index(bytes.len())]).is_err());
        }

        #[test]
        fn bytes_with_a_right_checksum_but_no_sense_are_refused_without_panic(body: Vec<u8>) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend_from_slice(&xxh3_64(&body).to_le_bytes());
            bytes.extend_from_slice(&body);
            let mut codec = Codec::new();
            if let Ok(frame) = codec.open(&bytes) {
                let _ = codec.objects(&frame);
            }
        }
    }
}

//! Frames: up to a few hundred versions of objects of one kind, packed into one self-describing blob.
//!
//! ```text
//! KINEFRM1 | checksum of the rest | role, source, group, kind, count | columns, compressed | objects, compressed
//! ```
//! A frame can be read without the rest of the file: even if the tables around it are damaged, its changes are
//! intact.

use std::sync::Arc;

use model::{Kind, Moment};
use xxhash_rust::xxh3::xxh3_64;
use zstd::zstd_safe::CParameter;

use crate::varint::{self, VarintReader};

/// Maximum number of versions in a frame: half as many take a tenth more space, twice as many twice the memory. Tests
/// use small blocks, so that short histories have many.
pub(crate) const MAX_FRAME_VERSIONS: usize = if cfg!(test) { 8 } else { 512 };
/// Maximum bytes of objects in a frame; the frame is closed at whichever limit is reached first.
pub(crate) const MAX_FRAME_BYTES: usize = 2 << 20;
/// The largest object that a history accepts. API servers stop at 1.5 to 3 MB.
pub(crate) const MAX_OBJECT_BYTES: usize = 32 << 20;

/// The first bytes of every frame; the digit is the version of the layout.
pub(crate) const MAGIC: &[u8; 8] = b"KINEFRM1";
/// At 9 the recorded test clusters take a fifth less space than at 2; higher levels cost much more and gain little.
const SMALL_LEVEL: i32 = 9;
/// The level's default hash table takes ten megabytes per open writer. With one of two megabytes the recorded and
/// generated test clusters take the same space to a tenth of a byte per change, and no more time.
const SMALL_HASH_LOG: u32 = 18;
/// Six times as fast as 9; 3 is slower and not smaller.
const FAST_LEVEL: i32 = 2;
/// Columns are small; most of the gain is in runs of zeros.
const COLUMN_LEVEL: i32 = 3;

/// How the objects of a history are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// For a small file: recordings and imports are kept.
    #[default]
    Small,
    /// In less time, for a file that can be made again: a quarter larger.
    Fast,
}

/// The contents of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameRole {
    /// Consecutive changes of one stream.
    Changes,
    /// Part of the state of one stream at one moment.
    Keyframe,
}

/// Everything about one version except its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionRow {
    pub(crate) seq: i64,
    pub(crate) at: Moment,
    pub(crate) seen: Moment,
    pub(crate) object: ObjectId,
    pub(crate) code: ChangeCode,
    /// The lower half of the content hash.
    pub(crate) hash: u32,
    /// Bytes of the object.
    pub(crate) length: u32,
}

/// An object's id within its file. Kinds without a directory use a hash of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectId(pub(crate) i64);

/// The type of a change as stored: the low two bits are added, modified or deleted, the third is set if it was
/// inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangeCode(u8);

/// A frame that was read and passed its checksum.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) role: FrameRole,
    pub(crate) source: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) rows: Vec<VersionRow>,
    objects: Vec<u8>,
    raw: usize,
}

/// Versions collected for a frame.
#[derive(Debug, Default)]
pub(crate) struct PendingVersions {
    pub(crate) rows: Vec<VersionRow>,
    pub(crate) text: String,
}

/// Compresses and decompresses frames; reuses its buffers between frames.
pub(crate) struct FrameCodec {
    compressor: zstd::bulk::Compressor<'static>,
    column_compressor: zstd::bulk::Compressor<'static>,
    decompressor: zstd::bulk::Decompressor<'static>,
}

// === impl ChangeCode ===

impl ChangeCode {
    pub(crate) const ADDED: u8 = 0;
    pub(crate) const MODIFIED: u8 = 1;
    pub(crate) const DELETED: u8 = 2;
    const INFERRED: u8 = 4;

    pub(crate) fn new(what: &model::What, inferred: bool) -> ChangeCode {
        let code = match what {
            model::What::Added(_) => ChangeCode::ADDED,
            model::What::Modified(_) => ChangeCode::MODIFIED,
            model::What::Deleted(_) => ChangeCode::DELETED,
        };
        ChangeCode(code | if inferred { ChangeCode::INFERRED } else { 0 })
    }

    pub(crate) fn from_stored(stored: i64) -> Option<ChangeCode> {
        let byte = u8::try_from(stored).ok()?;
        (byte & 3 <= ChangeCode::DELETED && byte < 8).then_some(ChangeCode(byte))
    }

    pub(crate) fn stored(self) -> u8 {
        self.0
    }

    pub(crate) fn is_deleted(self) -> bool {
        self.0 & 3 == ChangeCode::DELETED
    }

    /// Change of the number of objects: 1, -1 or 0.
    pub(crate) fn object_delta(self) -> i64 {
        match self.0 & 3 {
            ChangeCode::ADDED => 1,
            ChangeCode::DELETED => -1,
            _ => 0,
        }
    }

    pub(crate) fn is_inferred(self) -> bool {
        self.0 & ChangeCode::INFERRED != 0
    }

    pub(crate) fn what(self, object: model::Object) -> model::What {
        match self.0 & 3 {
            ChangeCode::ADDED => model::What::Added(object),
            ChangeCode::MODIFIED => model::What::Modified(object),
            _ => model::What::Deleted(object),
        }
    }
}

// === impl PendingVersions ===

impl PendingVersions {
    pub(crate) fn push(&mut self, row: VersionRow, text: &str) {
        self.rows.push(row);
        self.text.push_str(text);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= MAX_FRAME_VERSIONS || self.text.len() >= MAX_FRAME_BYTES
    }

    /// The versions with their objects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&VersionRow, &str)> {
        let mut start = 0;
        self.rows.iter().map(move |row| {
            let text = &self.text[start..start + row.length as usize];
            start += row.length as usize;
            (row, text)
        })
    }
}

// === impl FrameCodec ===

impl FrameCodec {
    pub(crate) fn new() -> FrameCodec {
        FrameCodec::with_compression(Compression::default())
    }

    pub(crate) fn with_compression(compression: Compression) -> FrameCodec {
        let compressor = |level| zstd::bulk::Compressor::new(level).expect("the compression level is valid");
        let objects = match compression {
            Compression::Small => {
                let mut objects = compressor(SMALL_LEVEL);
                objects.set_parameter(CParameter::HashLog(SMALL_HASH_LOG)).expect("the hash log is valid");
                objects
            }
            Compression::Fast => compressor(FAST_LEVEL),
        };
        FrameCodec {
            compressor: objects,
            column_compressor: compressor(COLUMN_LEVEL),
            decompressor: zstd::bulk::Decompressor::new().expect("a decompressor can be allocated"),
        }
    }

    /// Packs versions of one stream, which must be in order of arrival.
    pub(crate) fn pack(
        &mut self,
        role: FrameRole,
        source: &str,
        kind: &Kind,
        pending: &PendingVersions,
    ) -> Vec<u8> {
        let columns = write_columns(&pending.rows);
        let mut body = vec![match role {
            FrameRole::Changes => 0,
            FrameRole::Keyframe => 1,
        }];
        for text in [source, &kind.group, &kind.kind] {
            varint::write_text(&mut body, text);
        }
        varint::write_unsigned(&mut body, pending.rows.len() as u64);
        varint::write_unsigned(&mut body, pending.text.len() as u64);
        varint::write_unsigned(&mut body, columns.len() as u64);
        let columns = self.column_compressor.compress(&columns).expect("the output buffer is sized by zstd");
        varint::write_unsigned(&mut body, columns.len() as u64);
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

    /// Reads a frame without its objects. The error describes the damage.
    pub(crate) fn open(&mut self, bytes: &[u8]) -> Result<Frame, &'static str> {
        let body = bytes.strip_prefix(MAGIC).ok_or("not a frame")?;
        let (sum, body) = body.split_first_chunk::<8>().ok_or("truncated")?;
        if xxh3_64(body) != u64::from_le_bytes(*sum) {
            return Err("checksum mismatch");
        }
        self.open_body(body).ok_or("inconsistent columns")
    }

    fn open_body(&mut self, body: &[u8]) -> Option<Frame> {
        let mut reader = VarintReader(body);
        let role = match reader.bytes(1)? {
            [0] => FrameRole::Changes,
            [1] => FrameRole::Keyframe,
            _ => return None,
        };
        let source = reader.text()?.into();
        let kind = Kind::new(reader.text()?, reader.text()?);
        let count = usize::try_from(reader.number()?).ok().filter(|count| *count <= MAX_FRAME_VERSIONS)?;
        let raw = usize::try_from(reader.number()?)
            .ok()
            .filter(|raw| *raw <= MAX_FRAME_BYTES + MAX_OBJECT_BYTES)?;
        // Seven columns of at most ten bytes per version.
        let column_bytes =
            usize::try_from(reader.number()?).ok().filter(|bytes| *bytes <= 70 * count + 16)?;
        let compressed = usize::try_from(reader.number()?).ok()?;
        let columns = self.decompressor.decompress(reader.bytes(compressed)?, column_bytes).ok()?;
        let rows = read_columns(&columns, count)?;
        let total: usize = rows.iter().map(|row| row.length as usize).sum();
        (total == raw).then(|| Frame { role, source, kind, rows, objects: reader.0.to_vec(), raw })
    }

    /// The objects of a frame, concatenated; each is as long as its row says.
    pub(crate) fn objects(&mut self, frame: &Frame) -> Result<String, &'static str> {
        String::from_utf8(self.object_bytes(frame)?).map_err(|_| "the objects are not UTF-8")
    }

    /// The same as bytes, for readers of few of the objects.
    pub(crate) fn object_bytes(&mut self, frame: &Frame) -> Result<Vec<u8>, &'static str> {
        let bytes = self
            .decompressor
            .decompress(&frame.objects, frame.raw)
            .map_err(|_| "the objects cannot be decompressed")?;
        if bytes.len() != frame.raw {
            return Err("the objects are truncated");
        }
        Ok(bytes)
    }
}

// === impl Frame ===

impl Frame {
    /// The byte range of each object within the text of [`FrameCodec::objects`].
    pub(crate) fn object_ranges(&self) -> impl Iterator<Item = (&VersionRow, std::ops::Range<usize>)> {
        let mut start = 0;
        self.rows.iter().map(move |row| {
            let range = start..start + row.length as usize;
            start = range.end;
            (row, range)
        })
    }
}

/// Encodes the rows column by column, so that similar values are adjacent.
fn write_columns(rows: &[VersionRow]) -> Vec<u8> {
    // Most clocks have microsecond resolution; the unit then saves three digits per row.
    let unit = if rows.iter().all(|row| row.at.nanos() % 1_000 == 0) { 1_000 } else { 1 };
    let mut out = Vec::with_capacity(rows.len() * 16);
    varint::write_unsigned(&mut out, unit as u64);
    let mut deltas = |values: &mut dyn Iterator<Item = i64>| {
        let mut last = 0i64;
        for value in values {
            varint::write_signed(&mut out, value.wrapping_sub(last));
            last = value;
        }
    };
    deltas(&mut rows.iter().map(|row| row.seq));
    deltas(&mut rows.iter().map(|row| row.at.nanos() / unit));
    deltas(&mut rows.iter().map(|row| row.object.0));
    deltas(&mut rows.iter().map(|row| i64::from(row.length)));
    for row in rows {
        varint::write_signed(&mut out, row.at.nanos().wrapping_sub(row.seen.nanos()));
    }
    out.extend(rows.iter().map(|row| row.code.0));
    out.extend(rows.iter().flat_map(|row| row.hash.to_le_bytes()));
    out
}

fn read_columns(bytes: &[u8], count: usize) -> Option<Vec<VersionRow>> {
    let mut reader = VarintReader(bytes);
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
            Some(VersionRow {
                seq: seqs[i],
                at,
                seen: Moment::from_nanos(at.nanos().wrapping_sub(behind[i])),
                object: ObjectId(objects[i]),
                code: ChangeCode::from_stored(codes[i].into())?,
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

    fn row() -> impl Strategy<Value = (VersionRow, String)> {
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
            .prop_map(|(seq, at, seen, object, code, inferred, hash, text)| {
                let row = VersionRow {
                    seq,
                    at: Moment::from_nanos(at),
                    seen: Moment::from_nanos(seen),
                    object: ObjectId(object),
                    code: ChangeCode(code | if inferred { 4 } else { 0 }),
                    hash,
                    length: text.len() as u32,
                };
                (row, text)
            })
    }

    fn pending(rows: &[(VersionRow, String)]) -> PendingVersions {
        let mut pending = PendingVersions::default();
        for (row, text) in rows {
            pending.push(*row, text);
        }
        pending
    }

    proptest! {
        #[test]
        fn an_unpacked_frame_equals_what_was_packed(rows in proptest::collection::vec(row(), 0..=MAX_FRAME_VERSIONS)) {
            let (mut codec, pending, kind) = (FrameCodec::new(), pending(&rows), Kind::new("apps", "Deployment"));
            let bytes = codec.pack(FrameRole::Keyframe, "east", &kind, &pending);
            let frame = codec.open(&bytes).unwrap();
            prop_assert_eq!(frame.role, FrameRole::Keyframe);
            prop_assert_eq!(&*frame.source, "east");
            prop_assert_eq!(&frame.kind, &kind);
            prop_assert_eq!(&frame.rows, &pending.rows);
            prop_assert_eq!(codec.objects(&frame).unwrap(), pending.text);
        }

        #[test]
        fn a_flipped_or_cut_frame_is_refused(
            rows in proptest::collection::vec(row(), 1..=MAX_FRAME_VERSIONS), at: prop::sample::Index, bit in 0u8..8,
        ) {
            let mut codec = FrameCodec::new();
            let bytes = codec.pack(FrameRole::Changes, "east", &Kind::new("", "Pod"), &pending(&rows));
            let mut flipped = bytes.clone();
            flipped[at.index(bytes.len())] ^= 1 << bit;
            prop_assert!(codec.open(&flipped).is_err());
            prop_assert!(codec.open(&bytes[..at.index(bytes.len())]).is_err());
        }

        #[test]
        fn invalid_bytes_with_a_valid_checksum_are_rejected_without_panic(body: Vec<u8>) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend_from_slice(&xxh3_64(&body).to_le_bytes());
            bytes.extend_from_slice(&body);
            let mut codec = FrameCodec::new();
            if let Ok(frame) = codec.open(&bytes) {
                let _ = codec.objects(&frame);
            }
        }
    }
}

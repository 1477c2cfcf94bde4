//! Member lists: the objects of a frame with the last version of each, enough to compute a state without unpacking
//! the frame.

use xxhash_rust::xxh3::xxh3_64;

use crate::frame::{ObjectId, VersionRow};
use crate::varint::{self, VarintReader};

/// One object of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) object: ObjectId,
    /// The index of its last version among the frame's rows.
    pub(crate) last: u32,
    /// Whether that version is a delete.
    pub(crate) deleted: bool,
}

/// The members of a frame with these rows, sorted by object.
pub(crate) fn member_list(rows: &[VersionRow]) -> Vec<Member> {
    let mut members: Vec<Member> = rows
        .iter()
        .zip(0u32..)
        .map(|(row, last)| Member { object: row.object, last, deleted: row.code.is_deleted() })
        .collect();
    // Sorted so that an object's last version comes first, which `dedup` keeps.
    members.sort_unstable_by_key(|member| (member.object, std::cmp::Reverse(member.last)));
    members.dedup_by_key(|member| member.object);
    members
}

/// Encodes the list with a checksum: a corrupt list would yield a wrong state.
pub(crate) fn encode(members: &[Member]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 * members.len() + 8);
    varint::write_unsigned(&mut out, members.len() as u64);
    let mut last = 0i64;
    for member in members {
        varint::write_signed(&mut out, member.object.0.wrapping_sub(last));
        varint::write_unsigned(&mut out, u64::from(member.last) << 1 | u64::from(member.deleted));
        last = member.object.0;
    }
    let sum = xxh3_64(&out) as u32;
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Decodes the list; `None` if it does not match its checksum.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Member>> {
    let mut reader = MemberReader::new(bytes)?;
    let mut members = Vec::with_capacity(reader.left);
    while reader.left > 0 {
        members.push(reader.next_member()?);
    }
    reader.bytes.0.is_empty().then_some(members)
}

/// Finds one object in an encoded list; the outer `None` if the list does not match its checksum.
pub(crate) fn find(bytes: &[u8], object: ObjectId) -> Option<Option<Member>> {
    let mut reader = MemberReader::new(bytes)?;
    while reader.left > 0 {
        let member = reader.next_member()?;
        if member.object >= object {
            return Some((member.object == object).then_some(member));
        }
    }
    Some(None)
}

/// Reads an encoded list that matches its checksum.
struct MemberReader<'a> {
    bytes: VarintReader<'a>,
    left: usize,
    last: i64,
}

// === impl MemberReader ===

impl<'a> MemberReader<'a> {
    fn new(bytes: &'a [u8]) -> Option<MemberReader<'a>> {
        let (list, sum) = bytes.split_last_chunk::<4>()?;
        if xxh3_64(list) as u32 != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut bytes = VarintReader(list);
        let left = usize::try_from(bytes.number()?).ok().filter(|count| *count <= list.len())?;
        Some(MemberReader { bytes, left, last: 0 })
    }

    fn next_member(&mut self) -> Option<Member> {
        self.left -= 1;
        self.last = self.last.wrapping_add(self.bytes.signed()?);
        let packed_index = self.bytes.number()?;
        let last = u32::try_from(packed_index >> 1).ok()?;
        Some(Member { object: ObjectId(self.last), last, deleted: packed_index & 1 == 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::ChangeCode;
    use model::Moment;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_object_is_listed_once_with_its_last_version(objects in proptest::collection::vec((-9i64..9, any::<bool>()), 0..60)) {
            let rows: Vec<VersionRow> = objects
                .iter()
                .map(|&(object, deleted)| VersionRow {
                    seq: 0,
                    at: Moment::MIN,
                    seen: Moment::MIN,
                    object: ObjectId(object),
                    code: ChangeCode::from_stored(if deleted { 2 } else { 1 }).unwrap(),
                    hash: 0,
                    length: 0,
                })
                .collect();
            let found = member_list(&rows);
            prop_assert_eq!(decode(&encode(&found)), Some(found.clone()));
            for object in (-10..10).map(ObjectId) {
                let member = found.iter().find(|member| member.object == object).copied();
                prop_assert_eq!(super::find(&encode(&found), object), Some(member));
            }
            prop_assert!(found.is_sorted_by(|a, b| a.object < b.object));
            for (index, &(object, deleted)) in objects.iter().enumerate() {
                if !objects[index + 1..].iter().any(|other| other.0 == object) {
                    let expected = Member { object: ObjectId(object), last: index as u32, deleted };
                    prop_assert!(found.contains(&expected));
                }
            }
        }
    }

    #[test]
    fn a_flipped_list_is_refused() {
        let mut bytes = encode(&[Member { object: ObjectId(5), last: 3, deleted: false }]);
        for index in 0..bytes.len() {
            bytes[index] ^= 4;
            assert_eq!(decode(&bytes), None);
            bytes[index] ^= 4;
        }
    }
}

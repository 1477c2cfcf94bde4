//! Causes on disk, so that memory follows the cluster and not the recording.
//!
//! The files are temporary and have no names: they are gone when nobody has them open any more, however that comes.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use simulation::DemandId;

use super::Cause;
use super::record::Field;

/// Takes causes, each as soon as nothing can be added to it.
#[derive(Debug)]
pub(super) struct Store {
    records: BufWriter<File>,
    /// How long that is.
    end: u64,
    /// Where each record lies, by the demand's number.
    places: File,
    /// For each life, in the order in which they were first seen, the demand, and whether it begins that.
    lives: BufWriter<File>,
    record: Vec<u8>,
}

/// Causes that are all there.
#[derive(Debug)]
pub(super) struct Stored {
    records: File,
    places: File,
    lives: File,
}

/// The lives in the order in which they were first seen.
pub(crate) struct Lives<'a>(BufReader<From<'a>>);

/// A file from some place on, whoever else reads it.
struct From<'a> {
    file: &'a File,
    at: u64,
}

/// Where a record lies: its first byte, and how many there are.
type Place = (u64, u64);
const PLACE_BYTES: usize = 16;
const LIFE_BYTES: usize = 9;
const BUFFER_BYTES: usize = 1 << 18;

// === impl Store ===

impl Store {
    pub(super) fn new() -> io::Result<Store> {
        let buffered = |file| BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Store {
            records: buffered(tempfile::tempfile()?),
            end: 0,
            places: tempfile::tempfile()?,
            lives: buffered(tempfile::tempfile()?),
            record: Vec::new(),
        })
    }

    /// Another life of a demand was seen, be it the first.
    pub(super) fn life(&mut self, demand: DemandId, is_first: bool) -> io::Result<()> {
        self.record.clear();
        (demand.0, is_first).write(&mut self.record);
        self.lives.write_all(&self.record)
    }

    /// Nothing will be added to a cause any more.
    pub(super) fn put(&mut self, id: DemandId, cause: &Cause) -> io::Result<()> {
        self.record.clear();
        cause.write(&mut self.record);
        self.records.write_all(&self.record)?;
        let place: Place = (self.end, self.record.len() as u64);
        self.end += place.1;
        self.record.clear();
        place.write(&mut self.record);
        self.places.seek(SeekFrom::Start(place_of(id)?))?;
        self.places.write_all(&self.record)
    }

    pub(super) fn finish(self) -> io::Result<Stored> {
        let flushed = |file: BufWriter<File>| file.into_inner().map_err(io::IntoInnerError::into_error);
        Ok(Stored { records: flushed(self.records)?, places: self.places, lives: flushed(self.lives)? })
    }
}

// === impl Stored ===

impl Stored {
    pub(super) fn get(&self, id: DemandId) -> io::Result<Cause> {
        let mut bytes = [0; PLACE_BYTES];
        From { file: &self.places, at: place_of(id)? }.read_exact(&mut bytes)?;
        let (at, length): Place = Field::read(&mut &bytes[..]).ok_or_else(damaged)?;
        let mut record = vec![0; usize::try_from(length).map_err(|_| damaged())?];
        From { file: &self.records, at }.read_exact(&mut record)?;
        Field::read(&mut &record[..]).ok_or_else(damaged)
    }

    pub(super) fn lives(&self) -> Lives<'_> {
        Lives(BufReader::new(From { file: &self.lives, at: 0 }))
    }
}

// === impl Lives ===

impl Lives<'_> {
    /// The demand of the next life, and whether it is the first of that. Behind the last there is none.
    pub(crate) fn next(&mut self) -> io::Result<(DemandId, bool)> {
        let mut bytes = [0; LIFE_BYTES];
        self.0.read_exact(&mut bytes)?;
        Field::read(&mut &bytes[..]).ok_or_else(damaged)
    }
}

impl Read for From<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = read_at(self.file, into, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Several threads read a file at once: none relies on where it stands.
#[cfg(unix)]
fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, at)
}

#[cfg(windows)]
fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, into, at)
}

fn place_of(id: DemandId) -> io::Result<u64> {
    id.0.checked_mul(PLACE_BYTES as u64).ok_or_else(damaged)
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a temporary file does not hold what was written to it")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use model::Moment;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use simulation::Again;
    use simulation::Life;
    use simulation::Runs;
    use simulation::Took;

    use super::super::{Act, LifeSeen, Lost};
    use super::*;

    fn text() -> impl Strategy<Value = Arc<str>> {
        any::<String>().prop_map(Into::into)
    }

    fn moment() -> impl Strategy<Value = Moment> {
        any::<i64>().prop_map(Moment::from_nanos)
    }

    fn life() -> impl Strategy<Value = Life> {
        let took = (any::<Duration>(), any::<bool>()).prop_map(|(time, longer)| Took { time, longer });
        let spans = option::of(took);
        (text(), text(), option::of(text()), [spans.clone(), spans.clone(), spans.clone(), spans]).prop_map(
            |(name, uid, node, [bind, start, end, again])| Life { name, uid, node, bind, start, end, again },
        )
    }

    fn seen() -> impl Strategy<Value = LifeSeen> {
        let all = [Lost::Preempted, Lost::ScaledDown, Lost::Tainted, Lost::NodeGone, Lost::People];
        let lost = option::of(prop::sample::select(all.to_vec()));
        (moment(), option::of(moment()), option::of(text()), option::of(moment()), lost)
            .prop_map(|(came, bound, class, leaving, lost)| LifeSeen { came, bound, class, leaving, lost })
    }

    fn cause() -> impl Strategy<Value = Cause> {
        let runs = (any::<Duration>(), any::<bool>()).prop_map(|(lasting, fails)| Runs { lasting, fails });
        let act = prop::sample::select(vec![Act::Withdrawn, Act::Deleted, Act::CleanedUp]);
        let again = prop::sample::select(vec![Again::Never, Again::AtOnce, Again::WhenGone]);
        (
            vec(life(), 0..4),
            vec(seen(), 0..4),
            option::of(runs),
            option::of(any::<u64>().prop_map(DemandId)),
            again,
            vec((moment(), act), 0..4),
            option::of(any::<Duration>()),
        )
            .prop_map(|(lives, seen, runs, after, again, acts, unmade)| Cause {
                lives,
                seen,
                runs,
                after,
                again,
                acts,
                unmade,
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_was_put_in_any_order_is_found_by_its_number(
            causes in vec(cause(), 1..8),
            first in any::<prop::sample::Index>(),
            lives in vec((any::<u64>().prop_map(DemandId), any::<bool>()), 0..20),
        ) {
            let mut store = Store::new().unwrap();
            for (demand, is_first) in &lives {
                store.life(*demand, *is_first).unwrap();
            }
            let first = first.index(causes.len());
            for id in (first..causes.len()).chain(0..first) {
                store.put(DemandId(id as u64), &causes[id]).unwrap();
            }
            let stored = store.finish().unwrap();
            let mut read = stored.lives();
            for life in &lives {
                prop_assert_eq!(read.next().unwrap(), *life);
            }
            prop_assert!(read.next().is_err());
            for (id, cause) in causes.iter().enumerate() {
                prop_assert_eq!(&stored.get(DemandId(id as u64)).unwrap(), cause);
            }
            prop_assert!(stored.get(DemandId(causes.len() as u64)).is_err());
            prop_assert!(stored.get(DemandId(u64::MAX)).is_err());
        }

        #[test]
        fn what_is_cut_off_is_no_record(cause in cause(), end in any::<prop::sample::Index>()) {
            let mut record = Vec::new();
            cause.write(&mut record);
            record.truncate(end.index(record.len()));
            prop_assert_eq!(<Cause as Field>::read(&mut &record[..]), None);
        }
    }
}

//! Demands on disk, so that memory use follows the size of the cluster and not the length of the recording.
//!
//! The files are temporary and unlinked: they disappear when the process closes them or is killed.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use simulation::DemandId;

use super::RecordedDemand;
use super::encoding::Field;
use super::positioned_file::{PositionedFile, corrupt_file};

/// Writes demands, each as soon as it is complete.
#[derive(Debug)]
pub(super) struct DemandWriter {
    records: BufWriter<File>,
    /// The length of `records`.
    end: u64,
    /// The location of each record, by demand id.
    locations: File,
    /// For each incarnation, in the order in which they were first observed: its demand, and whether it is the first of
    /// it.
    incarnations: BufWriter<File>,
    buffer: Vec<u8>,
}

/// All demands of a recording.
#[derive(Debug)]
pub(super) struct StoredDemands {
    records: File,
    locations: File,
    incarnations: File,
}

/// Reads the incarnations in the order in which they were first observed.
pub(crate) struct IncarnationReader<'a>(BufReader<PositionedFile<'a>>);

/// The location of a record: its offset and length in bytes.
type RecordLocation = (u64, u64);
const LOCATION_BYTES: usize = 16;
const INCARNATION_BYTES: usize = 9;
const BUFFER_BYTES: usize = 1 << 18;

// === impl DemandWriter ===

impl DemandWriter {
    pub(super) fn new() -> io::Result<DemandWriter> {
        let buffered = |file| BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(DemandWriter {
            records: buffered(tempfile::tempfile()?),
            end: 0,
            locations: tempfile::tempfile()?,
            incarnations: buffered(tempfile::tempfile()?),
            buffer: Vec::new(),
        })
    }

    /// Appends an incarnation of a demand.
    pub(super) fn append_incarnation(&mut self, demand: DemandId, is_first: bool) -> io::Result<()> {
        self.buffer.clear();
        (demand.0, is_first).write(&mut self.buffer);
        self.incarnations.write_all(&self.buffer)
    }

    /// Writes a complete demand.
    pub(super) fn put(&mut self, id: DemandId, demand: &RecordedDemand) -> io::Result<()> {
        self.buffer.clear();
        demand.write(&mut self.buffer);
        self.records.write_all(&self.buffer)?;
        let location: RecordLocation = (self.end, self.buffer.len() as u64);
        self.end += location.1;
        self.buffer.clear();
        location.write(&mut self.buffer);
        self.locations.seek(SeekFrom::Start(location_offset(id)?))?;
        self.locations.write_all(&self.buffer)
    }

    pub(super) fn finish(self) -> io::Result<StoredDemands> {
        let flushed = |file: BufWriter<File>| file.into_inner().map_err(io::IntoInnerError::into_error);
        Ok(StoredDemands {
            records: flushed(self.records)?,
            locations: self.locations,
            incarnations: flushed(self.incarnations)?,
        })
    }
}

// === impl StoredDemands ===

impl StoredDemands {
    pub(super) fn get(&self, id: DemandId) -> io::Result<RecordedDemand> {
        let mut bytes = [0; LOCATION_BYTES];
        PositionedFile::new(&self.locations, location_offset(id)?).read_exact(&mut bytes)?;
        let (at, length): RecordLocation = Field::read(&mut &bytes[..]).ok_or_else(corrupt_file)?;
        let mut record = vec![0; usize::try_from(length).map_err(|_| corrupt_file())?];
        PositionedFile::new(&self.records, at).read_exact(&mut record)?;
        Field::read(&mut &record[..]).ok_or_else(corrupt_file)
    }

    pub(super) fn incarnations(&self) -> IncarnationReader<'_> {
        IncarnationReader(BufReader::new(PositionedFile::new(&self.incarnations, 0)))
    }
}

// === impl IncarnationReader ===

impl IncarnationReader<'_> {
    /// Returns the demand of the next incarnation, and whether it is the first of that demand; an error after the last.
    pub(crate) fn next(&mut self) -> io::Result<(DemandId, bool)> {
        let mut bytes = [0; INCARNATION_BYTES];
        self.0.read_exact(&mut bytes)?;
        Field::read(&mut &bytes[..]).ok_or_else(corrupt_file)
    }
}

fn location_offset(id: DemandId) -> io::Result<u64> {
    id.0.checked_mul(LOCATION_BYTES as u64).ok_or_else(corrupt_file)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use model::Moment;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use simulation::ContainerExit;
    use simulation::ObservedDuration;
    use simulation::PodIncarnation;
    use simulation::RecreatePolicy;

    use super::super::{DemandAction, EvictionKind, ObservedIncarnation};
    use super::*;

    fn text() -> impl Strategy<Value = Arc<str>> {
        any::<String>().prop_map(Into::into)
    }

    fn moment() -> impl Strategy<Value = Moment> {
        any::<i64>().prop_map(Moment::from_nanos)
    }

    fn incarnation() -> impl Strategy<Value = PodIncarnation> {
        let observed_duration = (any::<Duration>(), any::<bool>())
            .prop_map(|(time, longer)| ObservedDuration { duration: time, is_lower_bound: longer });
        let durations = option::of(observed_duration);
        (
            text(),
            text(),
            option::of(text()),
            [durations.clone(), durations.clone(), durations.clone(), durations],
        )
            .prop_map(|(name, uid, node, [bind, start, end, recreate])| PodIncarnation {
                name,
                uid,
                node,
                bind_duration: bind,
                start_duration: start,
                deletion_duration: end,
                recreate_duration: recreate,
            })
    }

    fn observed_incarnation() -> impl Strategy<Value = ObservedIncarnation> {
        let all = [
            EvictionKind::Preempted,
            EvictionKind::ScaledDown,
            EvictionKind::TaintEvicted,
            EvictionKind::NodeDeleted,
            EvictionKind::External,
        ];
        let eviction = option::of(prop::sample::select(all.to_vec()));
        (moment(), option::of(moment()), option::of(text()), option::of(moment()), eviction).prop_map(
            |(created, bound, class, deletion_began, eviction)| ObservedIncarnation {
                created,
                bound_at: bound,
                node_class: class,
                deletion_began,
                eviction,
            },
        )
    }

    fn recorded_demand() -> impl Strategy<Value = RecordedDemand> {
        let exit = (any::<Duration>(), any::<bool>())
            .prop_map(|(run_duration, fails)| ContainerExit { after: run_duration, fails });
        let action = prop::sample::select(vec![
            DemandAction::Withdrawn,
            DemandAction::Deleted,
            DemandAction::CleanedUp,
        ]);
        let recreate = prop::sample::select(vec![
            RecreatePolicy::Never,
            RecreatePolicy::WhenTerminating,
            RecreatePolicy::WhenGone,
        ]);
        (
            vec(incarnation(), 0..4),
            vec(observed_incarnation(), 0..4),
            option::of(exit),
            option::of(any::<u64>().prop_map(DemandId)),
            recreate,
            vec((moment(), action), 0..4),
            option::of(any::<Duration>()),
        )
            .prop_map(
                |(incarnations, observed, exit, after, recreate, actions, not_recreated_for)| {
                    RecordedDemand {
                        incarnations,
                        observed,
                        exit,
                        after,
                        recreate,
                        actions,
                        not_recreated_for,
                    }
                },
            )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn demands_written_in_any_order_are_found_by_id(
            demands in vec(recorded_demand(), 1..8),
            first in any::<prop::sample::Index>(),
            incarnations in vec((any::<u64>().prop_map(DemandId), any::<bool>()), 0..20),
        ) {
            let mut store = DemandWriter::new().unwrap();
            for (demand, is_first) in &incarnations {
                store.append_incarnation(*demand, *is_first).unwrap();
            }
            let first = first.index(demands.len());
            for id in (first..demands.len()).chain(0..first) {
                store.put(DemandId(id as u64), &demands[id]).unwrap();
            }
            let stored = store.finish().unwrap();
            let mut read = stored.incarnations();
            for incarnation in &incarnations {
                prop_assert_eq!(read.next().unwrap(), *incarnation);
            }
            prop_assert!(read.next().is_err());
            for (id, demand) in demands.iter().enumerate() {
                prop_assert_eq!(&stored.get(DemandId(id as u64)).unwrap(), demand);
            }
            prop_assert!(stored.get(DemandId(demands.len() as u64)).is_err());
            prop_assert!(stored.get(DemandId(u64::MAX)).is_err());
        }

        #[test]
        fn truncated_records_are_rejected(
            demand in recorded_demand(),
            end in any::<prop::sample::Index>(),
        ) {
            let mut record = Vec::new();
            demand.write(&mut record);
            record.truncate(end.index(record.len()));
            prop_assert_eq!(<RecordedDemand as Field>::read(&mut &record[..]), None);
        }
    }
}

//! The binary encoding of demands on disk, for the duration of a replay.

use std::sync::Arc;
use std::time::Duration;

use model::Moment;
use simulation::{
    ContainerExit, DemandAnnotation, DemandId, ObservedDuration, PodIncarnation, RecreatePolicy,
};

use super::{DemandAction, EvictionKind, ObservedIncarnation, RecordedDemand};

/// A value with a binary encoding; `read` returns `None` if the bytes are not one.
pub(super) trait Field: Sized {
    fn write(&self, to: &mut Vec<u8>);
    fn read(from: &mut &[u8]) -> Option<Self>;
}

/// Encodes a struct as its fields, in order.
macro_rules! fields {
    ($name:ident { $($field:ident),* }) => {
        impl Field for $name {
            fn write(&self, to: &mut Vec<u8>) {
                let $name { $($field),* } = self;
                $($field.write(to);)*
            }

            fn read(from: &mut &[u8]) -> Option<$name> {
                Some($name { $($field: Field::read(from)?),* })
            }
        }
    };
}

pub(super) use fields;

/// Encodes a field-less enum as one byte.
macro_rules! one_of {
    ($name:ident { $($value:ident = $number:literal),* }) => {
        impl Field for $name {
            fn write(&self, to: &mut Vec<u8>) {
                to.push(match self {
                    $($name::$value => $number),*
                });
            }

            fn read(from: &mut &[u8]) -> Option<$name> {
                match from.split_off_first()? {
                    $($number => Some($name::$value),)*
                    _ => None,
                }
            }
        }
    };
}

fields!(RecordedDemand { incarnations, observed, not_recreated_for, exit, after, recreate, actions });
fields!(PodIncarnation {
    name,
    uid,
    node,
    bind_duration,
    start_duration,
    deletion_duration,
    recreate_duration
});
fields!(ObservedIncarnation { created, bound_at, node_class, deletion_began, eviction });
fields!(DemandAnnotation { demand, after });
fields!(ContainerExit { after, fails });
fields!(ObservedDuration { duration, is_lower_bound });
one_of!(RecreatePolicy { Never = 0, WhenTerminating = 1, WhenGone = 2 });
one_of!(DemandAction { Withdrawn = 0, Deleted = 1, CleanedUp = 2 });
one_of!(EvictionKind { Preempted = 0, ScaledDown = 1, TaintEvicted = 2, NodeDeleted = 3, External = 4 });

impl Field for u64 {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_le_bytes());
    }

    fn read(from: &mut &[u8]) -> Option<u64> {
        let (bytes, rest) = from.split_first_chunk()?;
        *from = rest;
        Some(u64::from_le_bytes(*bytes))
    }
}

impl Field for i64 {
    fn write(&self, to: &mut Vec<u8>) {
        self.cast_unsigned().write(to);
    }

    fn read(from: &mut &[u8]) -> Option<i64> {
        u64::read(from).map(u64::cast_signed)
    }
}

impl Field for bool {
    fn write(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }

    fn read(from: &mut &[u8]) -> Option<bool> {
        from.split_off_first().map(|byte| *byte != 0)
    }
}

impl Field for Moment {
    fn write(&self, to: &mut Vec<u8>) {
        self.nanos().write(to);
    }

    fn read(from: &mut &[u8]) -> Option<Moment> {
        i64::read(from).map(Moment::from_nanos)
    }
}

impl Field for Duration {
    fn write(&self, to: &mut Vec<u8>) {
        self.as_secs().write(to);
        to.extend_from_slice(&self.subsec_nanos().to_le_bytes());
    }

    fn read(from: &mut &[u8]) -> Option<Duration> {
        let seconds = u64::read(from)?;
        let (nanos, rest) = from.split_first_chunk()?;
        *from = rest;
        Duration::from_secs(seconds).checked_add(Duration::from_nanos(u32::from_le_bytes(*nanos).into()))
    }
}

impl Field for DemandId {
    fn write(&self, to: &mut Vec<u8>) {
        self.0.write(to);
    }

    fn read(from: &mut &[u8]) -> Option<DemandId> {
        u64::read(from).map(DemandId)
    }
}

impl Field for Arc<str> {
    fn write(&self, to: &mut Vec<u8>) {
        (self.len() as u64).write(to);
        to.extend_from_slice(self.as_bytes());
    }

    fn read(from: &mut &[u8]) -> Option<Arc<str>> {
        let length = usize::try_from(u64::read(from)?).ok()?;
        let (text, rest) = from.split_at_checked(length)?;
        *from = rest;
        std::str::from_utf8(text).ok().map(Into::into)
    }
}

impl<T: Field> Field for Option<T> {
    fn write(&self, to: &mut Vec<u8>) {
        self.is_some().write(to);
        if let Some(value) = self {
            value.write(to);
        }
    }

    fn read(from: &mut &[u8]) -> Option<Option<T>> {
        if bool::read(from)? { T::read(from).map(Some) } else { Some(None) }
    }
}

impl<T: Field> Field for Vec<T> {
    fn write(&self, to: &mut Vec<u8>) {
        (self.len() as u64).write(to);
        for value in self {
            value.write(to);
        }
    }

    fn read(from: &mut &[u8]) -> Option<Vec<T>> {
        (0..u64::read(from)?).map(|_| T::read(from)).collect()
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn write(&self, to: &mut Vec<u8>) {
        self.0.write(to);
        self.1.write(to);
    }

    fn read(from: &mut &[u8]) -> Option<(A, B)> {
        Some((A::read(from)?, B::read(from)?))
    }
}

//! Amounts of the three resources that queues share: cpu, memory and GPUs.

use crate::cluster::queue::UNLIMITED;
use crate::cluster::resources::{CPU, MEMORY, ResourceNames, ResourceVector};

/// Amounts of cpu in millicores, memory in bytes, and GPUs in devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Quantities(pub [f64; 3]);

impl Quantities {
    pub(crate) fn add(&mut self, other: &Quantities) {
        for (amount, other) in self.0.iter_mut().zip(&other.0) {
            *amount += other;
        }
    }

    pub(crate) fn subtract(&mut self, other: &Quantities) {
        for (amount, other) in self.0.iter_mut().zip(&other.0) {
            *amount -= other;
        }
    }

    /// Whether all amounts are equal to the last bit.
    pub(crate) fn is_identical(&self, other: &Quantities) -> bool {
        self.0.map(f64::to_bits) == other.0.map(f64::to_bits)
    }

    /// Whether no amount exceeds the other's.
    pub(crate) fn is_at_most(&self, other: &Quantities) -> bool {
        self.0.iter().zip(&other.0).all(|(amount, other)| is_less_or_equal(*amount, *other))
    }
}

/// The amounts of a vector. MIG instances count as GPUs.
pub(crate) fn quantify(vector: &ResourceVector, names: &ResourceNames) -> Quantities {
    Quantities([vector.get(CPU), vector.get(MEMORY), vector.total_gpus(names)])
}

/// Whether an amount is at most another one; unlimited is more than any number.
pub(crate) fn is_less_or_equal(amount: f64, other: f64) -> bool {
    if amount == UNLIMITED { other == UNLIMITED } else { other == UNLIMITED || amount <= other }
}

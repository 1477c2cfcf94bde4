//! The GPUs that a pod requests or received: whole ones, shares of some, memory, or MIG instances.

use std::sync::Arc;

use super::resources::MigProfile;

/// A number of devices, the share of each, and MIG instances.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GpuRequirement {
    /// The number of devices.
    pub count: i64,
    /// The share of each device, at most one.
    pub portion: f64,
    /// The memory of each device in MiB, if that is requested instead of a share.
    pub memory: i64,
    /// MIG instances, by resource name.
    pub mig: Vec<(Arc<str>, i64)>,
}

/// The form of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RequestType {
    /// Whole GPUs, or none.
    #[default]
    Regular,
    /// A share of one or several GPUs.
    Fraction,
    /// GPU memory.
    GpuMemory,
    /// MIG instances.
    MigInstance,
}

/// What a pod on a node received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReceivedType {
    /// Nothing yet.
    #[default]
    None,
    /// Whole GPUs, or no GPU.
    Regular,
    /// Shares of GPUs.
    Fraction,
    /// MIG instances.
    MigInstance,
}

/// Requests for different shares cannot be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DifferentPortions;

// === impl GpuRequirement ===

impl GpuRequirement {
    /// Whole GPUs, a share of one, or memory of one.
    pub(crate) fn of_gpus(gpus: f64, memory: i64) -> GpuRequirement {
        let (count, portion) = if gpus >= 1.0 {
            (gpus as i64, 1.0)
        } else if gpus > 0.0 || memory > 0 {
            (1, gpus)
        } else {
            (0, gpus)
        };
        GpuRequirement { count, portion, memory, mig: Vec::new() }
    }

    /// Shares or memory of several GPUs.
    pub(crate) fn of_devices(count: i64, portion: f64, memory: i64) -> GpuRequirement {
        GpuRequirement { count, portion, memory, mig: Vec::new() }
    }

    /// MIG instances.
    pub(crate) fn of_mig(mig: Vec<(Arc<str>, i64)>) -> GpuRequirement {
        GpuRequirement { mig, ..GpuRequirement::default() }
    }

    /// The number of GPUs, shares added up in hundredths.
    pub(crate) fn gpus(&self) -> f64 {
        let hundredths = (self.portion * 100.0).round() as i64;
        hundredths.wrapping_mul(self.count) as f64 / 100.0
    }

    /// The same with MIG instances, as queues are charged.
    pub(crate) fn quota(&self) -> f64 {
        let profiles = self.mig.iter().filter_map(|(name, count)| Some((MigProfile::parse(name)?, count)));
        let mig: f64 = profiles.map(|(profile, count)| profile.gpus as f64 * *count as f64).sum();
        mig + self.gpus()
    }

    /// The GPUs that requested memory amounts to, on devices with this much of it.
    pub(crate) fn memory_as_gpus(&self, device_memory: i64) -> f64 {
        if self.memory <= 0 || device_memory <= 0 {
            return 0.0;
        }
        self.count as f64 * (self.memory as f64 / device_memory as f64)
    }

    /// Adds another request.
    pub(crate) fn add(&mut self, other: &GpuRequirement) -> Result<(), DifferentPortions> {
        if self.portion == 0.0 && self.count == 0 {
            (self.count, self.portion) = (other.count, other.portion);
        } else if other.portion != 0.0 || other.count != 0 {
            if self.portion != other.portion {
                return Err(DifferentPortions);
            }
            self.count = self.count.wrapping_add(other.count);
        }
        for (name, count) in &other.mig {
            self.change_mig(name, *count, i64::wrapping_add);
        }
        Ok(())
    }

    /// Raises it to another request.
    pub(crate) fn raise_to(&mut self, other: &GpuRequirement) -> Result<(), DifferentPortions> {
        if self.portion != 0.0 && other.portion != 0.0 && self.portion != other.portion {
            return Err(DifferentPortions);
        }
        if other.gpus() > self.gpus() {
            (self.count, self.portion) = (other.count, other.portion);
        }
        for (name, count) in &other.mig {
            self.change_mig(name, *count, i64::max);
        }
        Ok(())
    }

    /// Adds MIG instances.
    pub(crate) fn add_mig(&mut self, name: &Arc<str>, count: i64) {
        self.change_mig(name, count, i64::wrapping_add);
    }

    fn change_mig(&mut self, name: &Arc<str>, count: i64, with: impl Fn(i64, i64) -> i64) {
        match self.mig.binary_search_by(|(other, _)| other.cmp(name)) {
            Ok(index) => self.mig[index].1 = with(self.mig[index].1, count),
            Err(index) => self.mig.insert(index, (name.clone(), count)),
        }
    }
}

// === impl ReceivedType ===

impl ReceivedType {
    /// The type of that name; `None` for any other name.
    pub(crate) fn of(name: &str) -> ReceivedType {
        match name {
            "Regular" => ReceivedType::Regular,
            "Fraction" => ReceivedType::Fraction,
            "MigInstance" => ReceivedType::MigInstance,
            _ => ReceivedType::None,
        }
    }

    /// Its name in bind requests; empty if nothing was received.
    pub fn name(self) -> &'static str {
        match self {
            ReceivedType::None => "",
            ReceivedType::Regular => "Regular",
            ReceivedType::Fraction => "Fraction",
            ReceivedType::MigInstance => "MigInstance",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_added_up_in_hundredths() {
        assert_eq!(GpuRequirement::of_devices(3, 0.1, 0).gpus(), 0.3);
        assert_eq!(GpuRequirement::of_gpus(2.0, 0).gpus(), 2.0);
        assert_eq!(GpuRequirement::of_gpus(0.0, 500).gpus(), 0.0);
        assert_eq!(GpuRequirement::of_devices(2, 0.0, 500).memory_as_gpus(1000), 1.0);
    }

    #[test]
    fn different_shares_cannot_be_added() {
        let mut sum = GpuRequirement::of_gpus(1.0, 0);
        assert_eq!(sum.add(&GpuRequirement::of_gpus(0.5, 0)), Err(DifferentPortions));
        assert_eq!(sum.add(&GpuRequirement::of_gpus(2.0, 0)), Ok(()));
        assert_eq!(sum.gpus(), 3.0);
    }
}

//! What pods request of their nodes.

use kubernetes::requests::PodResources;
use model::Object;

/// What a pod asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    /// Thousandths of a core.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
}

impl Takes {
    /// So many times as much more.
    pub fn add(&mut self, other: Takes, times: i64) {
        self.milli_cpu = self.milli_cpu.saturating_add(other.milli_cpu.saturating_mul(times));
        self.memory = self.memory.saturating_add(other.memory.saturating_mul(times));
    }

    /// What a pod asks for; nothing if that cannot be understood.
    pub fn of(pod: &Object) -> Takes {
        let Ok(resources) = pod.view::<PodResources<'_>>() else { return Takes::default() };
        let requests = resources.taken().requests;
        Takes { milli_cpu: requests.cpu().0, memory: requests.memory().0 }
    }
}

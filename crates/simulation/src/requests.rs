//! What pods request of their nodes.

use kubernetes::requests::PodResources;
use model::Object;

/// What a pod asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Thousandths of a core.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
}

impl Requests {
    /// So many times as much more.
    pub fn add(&mut self, other: Requests, times: i64) {
        self.milli_cpu = self.milli_cpu.saturating_add(other.milli_cpu.saturating_mul(times));
        self.memory = self.memory.saturating_add(other.memory.saturating_mul(times));
    }

    /// What a pod asks for; nothing if that cannot be understood.
    pub fn of(pod: &Object) -> Requests {
        let Ok(resources) = pod.view::<PodResources<'_>>() else { return Requests::default() };
        let requests = resources.taken().requests;
        Requests { milli_cpu: requests.cpu().0, memory: requests.memory().0 }
    }
}

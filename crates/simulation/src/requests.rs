//! Resource requests of pods.

use kubernetes::objects::PodView;
use kubernetes::requests::PodResources;

/// The CPU and memory requests of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// CPU in thousandths of a core.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
}

impl Requests {
    /// Adds other requests this many times; a negative number subtracts them.
    pub fn add_times(&mut self, other: Requests, times: i64) {
        self.milli_cpu = self.milli_cpu.saturating_add(other.milli_cpu.saturating_mul(times));
        self.memory = self.memory.saturating_add(other.memory.saturating_mul(times));
    }

    /// The requests of a pod; zero if they cannot be parsed.
    pub fn of(pod: &PodView) -> Requests {
        let requests = PodResources { spec: &pod.spec, status: &pod.status }.calculate_resource().requests;
        Requests { milli_cpu: requests.cpu().0, memory: requests.memory().0 }
    }
}

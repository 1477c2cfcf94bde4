//! Addresses of nodes and pods.

/// The address of every node.
pub(super) const NODE_ADDRESS: &str = "10.0.0.1";

/// The addresses of pods: `10.128.0.1`, `10.128.0.2`.
#[derive(Debug, Default)]
pub(super) struct PodAddresses {
    /// The number of addresses given to pods.
    given: u32,
}

impl PodAddresses {
    /// Another address.
    pub(super) fn next(&mut self) -> String {
        self.given = self.given.wrapping_add(1);
        let [.., high, middle, low] = self.given.to_be_bytes();
        format!("10.{}.{middle}.{low}", 128 + high % 128)
    }
}

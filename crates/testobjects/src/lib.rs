//! Objects for tests: builders, a randomly changing cluster, and the number of cases a test checks.

mod builder;
mod node;
mod pod;
pub mod random_cluster;

pub use builder::{Builder, ObjectBuilder, OtherKind, object, resource};
pub use node::{Node, NodeBuilder, node};
pub use pod::{Pod, PodBuilder, pod};

/// The number of cases a test checks: the usual number, or more with `cargo xtask test --thorough`.
#[expect(clippy::disallowed_methods, reason = "the environment configures how many cases run")]
pub fn case_count(usual: usize, thorough: usize) -> usize {
    if std::env::var_os("KINESCOPE_THOROUGH").is_some() { thorough } else { usual }
}

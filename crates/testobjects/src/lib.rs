//! Made-up objects for tests: builders, a made-up cluster, and how many cases a test looks at.

mod builder;
mod node;
mod pod;
pub mod town;

pub use builder::{Builder, ObjectBuilder, Other, object, resource};
pub use node::{Node, NodeBuilder, node};
pub use pod::{Pod, PodBuilder, pod};

/// How many cases a test looks at: as many as usual, or more for whoever has the time
/// (`cargo xtask test --thorough`).
#[expect(clippy::disallowed_methods, reason = "tests are told by the environment how much time there is")]
pub fn cases(usual: usize, thorough: usize) -> usize {
    if std::env::var_os("KINESCOPE_THOROUGH").is_some() { thorough } else { usual }
}

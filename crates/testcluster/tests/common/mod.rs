//! Helpers of this crate's tests.

use std::io::Write;

use testcluster::{Cluster, ClusterOptions};

/// Starts a cluster; without Go prints that the test is skipped and returns `None`.
pub(crate) fn start(options: ClusterOptions) -> Option<Cluster> {
    let cluster = Cluster::start(options).unwrap();
    if cluster.is_none() {
        // Not by a macro, whose output the test runner would capture.
        std::io::stderr().write_all(b"skipped: no go\n").unwrap();
    }
    cluster
}

/// A manifest of config maps.
pub(crate) fn config_maps(namespace: &str, names: &[&str]) -> String {
    let one = |name: &&str| {
        format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\n")
    };
    names.iter().map(one).collect()
}

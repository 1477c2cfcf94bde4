//! Live replays of all recordings, at full speed.

use testcluster::ClusterOptions;

use crate::common::recordings;
use crate::server::start;
use crate::{import, objects, replay};

#[test]
fn the_final_objects_are_those_recorded() {
    for recording in recordings() {
        // Each into a cluster of its own, since names would collide.
        let Some(cluster) = start(ClusterOptions::default()) else { return };
        let folder = tempfile::tempdir().unwrap();
        let history = import(folder.path(), &recording);
        let output = replay(folder.path(), cluster.kubeconfig(), &[&history, "--speed", "max"]).success();
        eprintln!("{output}");
        objects::check(&cluster, folder.path(), &history, &output);
    }
}

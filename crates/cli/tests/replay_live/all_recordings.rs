//! Live replays of all recordings, at full speed.

use testcluster::Options;

use crate::common::films;
use crate::server::start;
use crate::{import, objects, replay};

#[test]
fn the_final_objects_are_those_recorded() {
    for film in films() {
        // Each into a cluster of its own, since names would collide.
        let Some(cluster) = start(Options::default()) else { return };
        let folder = tempfile::tempdir().unwrap();
        let history = import(folder.path(), &film);
        let said = replay(folder.path(), cluster.kubeconfig(), &[&history, "--speed", "max"]).fine();
        eprintln!("{said}");
        objects::check(&cluster, folder.path(), &history, &said);
    }
}

//! Each film, as fast as it goes.

use testcluster::Options;

use crate::common::films;
use crate::server::start;
use crate::{imported, objects, replay};

#[test]
fn what_is_there_at_the_end_is_what_was_recorded() {
    for film in films() {
        // Each into one of its own, or the names of one would be in the way of another.
        let Some(cluster) = start(Options::default()) else { return };
        let folder = tempfile::tempdir().unwrap();
        let history = imported(folder.path(), &film);
        let said = replay(folder.path(), cluster.kubeconfig(), &[&history, "--speed", "max"]).fine();
        eprintln!("{said}");
        objects::check(&cluster, folder.path(), &history, &said);
    }
}

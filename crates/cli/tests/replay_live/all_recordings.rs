//! Live replays of all recordings, at full speed, into a real API server and into a virtual cluster.

use testcluster::{ClusterOptions, Kubectl};

use crate::common::{command, recordings};
use crate::objects::{KINDS, server_objects};
use crate::server::start;
use crate::virtual_cluster::Server;
use crate::{import, objects, replay};

#[test]
fn the_final_objects_are_those_recorded() {
    for recording in recordings() {
        // Each into a cluster of its own, since names would collide.
        let Some(real) = start(ClusterOptions::default()) else { return };
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let history = import(folder, &recording);
        let output = replay(folder, real.kubeconfig(), &[&history, "--speed", "max"]).success();
        eprintln!("{output}");
        objects::check(real.client(), folder, &history, &output);

        let _server = Server::of(command(folder).args(["cluster", "--controllers", "none"]));
        let kubeconfig = folder.join("kinescope.kubeconfig");
        let kubectl = Kubectl::new(&kubeconfig).unwrap().unwrap();
        let output = replay(folder, &kubeconfig, &[&history, "--speed", "max"]).success();
        objects::check(&kubectl, folder, &history, &output);
        for kind in KINDS {
            assert_eq!(server_objects(&kubectl, kind), server_objects(real.client(), kind), "{kind}");
        }
    }
}

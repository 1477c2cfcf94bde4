//! The real kube-scheduler and kube-controller-manager on a virtual cluster, with their default settings: they send
//! protobuf, elect leaders, and stream lists.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use testcluster::Program;

use crate::common::{command, program_output};
use crate::server::Server;

/// A program that ends with the test.
struct Component(Child);

impl Component {
    fn start(program: &Path, folder: &Path, flags: &[&str]) -> Component {
        let log = File::create(folder.join(program.file_name().unwrap()).with_extension("log")).unwrap();
        let mut component = Command::new(program);
        component.arg("--kubeconfig").arg(folder.join("kinescope.kubeconfig")).args(flags);
        component.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Component(component.spawn().unwrap())
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_real_scheduler_and_controllers_work_on_a_virtual_cluster() {
    let programs =
        testcluster::build(&[Program::KubeScheduler, Program::KubeControllerManager, Program::Kubectl]);
    let Some(programs) = programs.unwrap() else {
        // Written directly: the test runner captures the output of print macros.
        std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no go\n").unwrap();
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let _server = Server::of(command(folder).args(["cluster", "--nodes", "10", "--controllers", "kubelet"]));
    let start = |program: Program, flags: &[&str]| {
        Component::start(&program.in_folder(&programs), folder, &[&["--secure-port=0"], flags].concat())
    };
    let _scheduler = start(Program::KubeScheduler, &[]);
    // Nodes without heartbeats would be lost before the test ends; the default is 50 seconds.
    let _controllers = start(Program::KubeControllerManager, &["--node-monitor-grace-period=12s"]);
    let kubectl = |arguments: &str| -> String {
        let mut kubectl = Command::new(Program::Kubectl.in_folder(&programs));
        kubectl.arg("--kubeconfig").arg(folder.join("kinescope.kubeconfig"));
        let output = program_output(kubectl.args(arguments.split(' ')).output().unwrap());
        assert_eq!(output.code, 0, "kubectl {arguments}\n{}{}", output.out, output.err);
        output.out
    };
    kubectl("create deployment web --image=nginx --replicas=100");
    kubectl("rollout status deployment/web --timeout=120s");
    let nodes = kubectl("get pods -l app=web -o jsonpath={.items[*].spec.nodeName}");
    let mut nodes: Vec<&str> = nodes.split(' ').collect();
    assert_eq!(nodes.len(), 100);
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), 10, "the scheduler spreads them");
    kubectl("set image deployment/web nginx=nginx:2");
    kubectl("rollout status deployment/web --timeout=120s");
    kubectl("create job once --image=busybox");
    kubectl("wait job once --for=condition=Complete --timeout=60s");
    kubectl("delete deployment web");
    kubectl("wait pods -l app=web --for=delete --timeout=60s");
    kubectl("create namespace gone");
    kubectl("create deployment web -n gone --image=nginx --replicas=3");
    kubectl("rollout status deployment/web -n gone --timeout=60s");
    kubectl("delete namespace gone --timeout=60s");
    let leases = kubectl("get leases -n kube-system -o jsonpath={.items[*].metadata.name}");
    assert_eq!(leases, "kube-controller-manager kube-scheduler");
    let taints = kubectl("get nodes -o jsonpath={.items[*].spec.taints}");
    assert_eq!(taints, "", "every node has heartbeats");
}

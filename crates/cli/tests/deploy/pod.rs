//! A test that the command of the StatefulSet's pod records and serves, run as it is except for the paths of its
//! volumes.

#[allow(dead_code, reason = "parts of it are for other tests")]
#[path = "../serve/server.rs"]
mod server;

use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use self::server::{HttpResponse, Server, write_request};
use crate::alerts;
use crate::permissions::{PermissionsFixture, wait_for};
use crate::rendered::of_kind;

#[test]
fn the_pods_command_records_the_cluster_and_serves_it() {
    let Some(stage) = PermissionsFixture::start() else { return };
    let pod = &of_kind(&stage.base, "StatefulSet")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut arguments: Vec<String> = container["args"].as_array().unwrap().iter().map(text).collect();
    let mut config = text(&of_kind(&stage.base, "ConfigMap")["data"]["config.yaml"]);
    let volumes = stage.folder.path().join("volumes");
    for mount in container["volumeMounts"].as_array().unwrap() {
        let (path, host_path) = (text(&mount["mountPath"]), volumes.join(text(&mount["name"])));
        std::fs::create_dir_all(&host_path).unwrap();
        for argument in &mut arguments {
            *argument = argument.replace(&format!("={path}/"), &format!("={}/", host_path.display()));
        }
        config = config.replace(&format!("folder: {path}\n"), &format!("folder: {}\n", host_path.display()));
    }
    let token = "0123456789abcdef0123456789abcdef";
    std::fs::write(volumes.join("config/config.yaml"), config).unwrap();
    std::fs::write(volumes.join("token/token"), token).unwrap();
    // Tests listen on loopback only.
    assert_eq!(arguments.remove(0), "serve");
    let listen = arguments.iter().position(|argument| argument == "--listen=0.0.0.0:7777").unwrap();
    arguments.remove(listen);
    let probes = "--health-probe-bind-address=0.0.0.0:8081";
    let probes = arguments.iter().position(|argument| argument == probes).unwrap();
    arguments[probes] = "--health-probe-bind-address=127.0.0.1:0".to_owned();

    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut server = Server::start(stage.folder.path(), &arguments);
    let output = server.next_line();
    let probes: SocketAddr = output.trim().rsplit_once("//").unwrap().1.parse().unwrap();
    let authorization = format!("Authorization: Bearer {token}");
    let send_request = |path: &str| server.request("GET", path, &[&authorization], b"");
    for probe in ["livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().unwrap();
        // It is ready once it records.
        wait_for(probe, || {
            let mut stream = TcpStream::connect(probes).unwrap();
            write_request(&mut stream, "GET", path, &[], b"", "kinescope-0");
            (HttpResponse::read(&mut stream).code == 200).then_some(())
        });
    }
    server.get("/metrics").failure(401);
    wait_for("a recording", || {
        let namespaces = send_request("/api/v1/histories/this/objects?kind=namespaces");
        (namespaces.code == 200 && namespaces.text().contains(r#""name":"kinescope""#)).then_some(())
    });
    assert!(volumes.join("data/this.kine").is_file());
    let metrics = || String::from_utf8(send_request("/metrics").success()).unwrap();
    assert!(metrics().contains(r#"kinescope_history_readable{history="this"} 1"#));
    // The metrics that alerts use exist. Some appear only with the first watch.
    for name in alerts::metrics() {
        wait_for(&name, || {
            let metrics = metrics();
            let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(&*name));
            lines.any(|rest| rest.starts_with(['{', ' '])).then_some(())
        });
    }
}

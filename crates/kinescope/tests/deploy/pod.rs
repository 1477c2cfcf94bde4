//! The pod's command, run as it stands in the StatefulSet but for where its volumes are, records and serves.

#[allow(dead_code, reason = "parts of it are for other tests")]
#[path = "../serve/server.rs"]
mod server;

use serde_json::Value;

use self::server::Server;
use crate::rendered::of_kind;
use crate::rights::{Stage, wait_for};

#[test]
fn the_pods_command_records_the_cluster_and_serves_it() {
    let Some(stage) = Stage::set() else { return };
    let pod = &of_kind(&stage.base, "StatefulSet")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut arguments: Vec<String> = container["args"].as_array().unwrap().iter().map(text).collect();
    let mut config = text(&of_kind(&stage.base, "ConfigMap")["data"]["config.yaml"]);
    let volumes = stage.folder.path().join("volumes");
    for mount in container["volumeMounts"].as_array().unwrap() {
        let (path, place) = (text(&mount["mountPath"]), volumes.join(text(&mount["name"])));
        std::fs::create_dir_all(&place).unwrap();
        for argument in &mut arguments {
            *argument = argument.replace(&format!("={path}/"), &format!("={}/", place.display()));
        }
        config = config.replace(&format!("folder: {path}\n"), &format!("folder: {}\n", place.display()));
    }
    let token = "0123456789abcdef0123456789abcdef";
    std::fs::write(volumes.join("config/config.yaml"), config).unwrap();
    std::fs::write(volumes.join("token/token"), token).unwrap();
    // Tests listen at loopback only.
    assert_eq!(arguments.remove(0), "serve");
    let listen = arguments.iter().position(|argument| argument == "--listen=0.0.0.0:7777").unwrap();
    arguments.remove(listen);

    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let server = Server::start(stage.folder.path(), &arguments);
    let authorization = format!("Authorization: Bearer {token}");
    let ask = |path: &str| server.ask("GET", path, &[&authorization], b"");
    for probe in ["livenessProbe", "readinessProbe"] {
        server.get(container[probe]["httpGet"]["path"].as_str().unwrap()).fine();
    }
    server.get("/metrics").wrong(401);
    wait_for("a recording", || {
        let namespaces = ask("/api/v1/histories/this/objects?kind=namespaces");
        (namespaces.code == 200 && namespaces.text().contains(r#""name":"kinescope""#)).then_some(())
    });
    assert!(volumes.join("data/this.kine").is_file());
    let metrics = ask("/metrics").fine();
    assert!(String::from_utf8(metrics).unwrap().contains(r#"kinescope_history_readable{history="this"} 1"#));
}

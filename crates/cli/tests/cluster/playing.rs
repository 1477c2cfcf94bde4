//! What happened after a moment, played to watches.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::common::{command, demo_history};
use crate::server::Server;

#[test]
fn ages_count_to_the_moment_that_is_played() {
    for shift in [&[][..], &["--shift-times"]] {
        let folder = demo_history("shop.kine");
        let mut command = command(folder.path());
        command.args([
            "cluster",
            "shop.kine",
            "--at",
            "14:20",
            "--read-only",
            "--insecure",
            "--speed",
            "100000",
        ]);
        let server = Server::of(command.args(shift));
        let head = ["Accept: application/json;as=Table;v=v1;g=meta.k8s.io"];
        let path = "/api/v1/pods?watch=true&resourceVersion=1&includeObject=Metadata";
        let stream = server.send("GET", path, &head, b"");
        let lines = BufReader::new(stream).lines().map(Result::unwrap).filter(|line| line.starts_with('{'));
        let mut seen = 0;
        for line in lines {
            let event: Value = serde_json::from_str(&line).unwrap();
            let cells = &event["object"]["rows"][0]["cells"];
            let age = cells[4].as_str().unwrap();
            assert_ne!(age, "<invalid>", "{line}");
            if event["type"] == json!("ADDED") {
                // It was created at this moment. Creation times are whole seconds.
                assert!(["0s", "1s", "2s"].contains(&age), "{line}");
                seen += 1;
            }
            if seen == 20 {
                break;
            }
        }
        assert_eq!(seen, 20);
    }
}

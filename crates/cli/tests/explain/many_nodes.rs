//! `kinescope explain` in clusters with many nodes: output in groups, and sampling of nodes.

use super::{RecordingBuilder, explain, json_of, node, on, pod};

/// A cluster with this many nodes.
fn many(count: usize) -> tempfile::TempDir {
    let mut film = RecordingBuilder::new();
    for index in 0..count {
        let cpu = if index.is_multiple_of(3) { "4" } else { "1" };
        film = film.add_at_same_time(node(&format!("node-{index:03}"), cpu, "8Gi"));
    }
    film.add(pod("web-1", "2", "1Gi")).import()
}

#[test]
fn many_nodes_are_shown_in_groups() {
    let folder = many(60);
    let table = explain(folder.path(), &["pod/web-1", "-n", "shop"]).fine();
    assert!(table.contains("\n  REFUSED\n  40 nodes: NodeResourcesFit: Insufficient cpu\n"), "{table}");
    assert!(table.contains("  and 10 more nodes, down to a total of "), "{table}");
    assert_eq!(table.matches("node-").count(), 11, "ten of them, and the one decided for: {table}");
    let all = explain(folder.path(), &["pod/web-1", "-n", "shop", "--nodes"]).fine();
    assert_eq!(all.lines().filter(|line| line.contains("  NodeResourcesFit   Insufficient cpu")).count(), 40);
    assert_eq!(all.matches("node-").count(), 61, "{all}");
}

#[test]
fn the_node_really_chosen_is_shown_among_many() {
    let bound_to = |name: &str| {
        let mut film = RecordingBuilder::new();
        for index in 0..130 {
            let cpu = match index {
                128 => "4",
                odd if odd % 2 == 1 => "1",
                _ => "8",
            };
            film = film.add_at_same_time(node(&format!("node-{index:03}"), cpu, "8Gi"));
        }
        let folder = film.add(pod("web-1", "2", "1Gi")).change(on(pod("web-1", "2", "1Gi"), name)).import();
        explain(folder.path(), &["pod/web-1", "-n", "shop"]).fine()
    };
    let table = bound_to("node-128");
    // The scheduler looks for 100 feasible nodes, and there are fewer.
    assert!(!table.contains("assumed"), "{table}");
    assert!(table.contains("  bound to node-128, number 65 of the 65 that fit\n"), "{table}");
    assert_eq!(table.lines().filter(|line| line.starts_with("  node-128 ")).count(), 1, "{table}");
    assert!(table.contains("  and 54 more nodes, down to a total of "), "{table}");
    let table = bound_to("node-001");
    assert!(table.contains("  bound to node-001, which does not fit here\n"), "{table}");
    assert!(
        table.contains("  65 nodes (node-001 among them): NodeResourcesFit: Insufficient cpu\n"),
        "{table}"
    );
}

#[test]
fn sampling_of_nodes_starts_at_an_assumed_node() {
    let mut film = RecordingBuilder::new();
    for index in 0..400 {
        // The best nodes are last.
        film = film.add_at_same_time(node(&format!("node-{index:03}"), &(4 + index).to_string(), "8Gi"));
    }
    let folder = film.add(pod("web-1", "2", "1Gi")).import();
    let said = json_of(folder.path(), &["pod/web-1", "-n", "shop"]);
    assert!(said["lookedAt"].as_u64().unwrap() < 400, "{}", said["lookedAt"]);
    let chosen = said["node"].as_str().unwrap();
    let table = explain(folder.path(), &["pod/web-1", "-n", "shop"]).fine();
    let assumed = "better ones were not looked at; where the search began is not known, and the first node is assumed\n";
    assert!(table.contains(assumed), "{table}");
    assert!(table.lines().any(|line| line.starts_with(&format!("* {chosen} "))), "{table}");
}

#[test]
fn the_same_history_gives_the_same_bytes() {
    let folder = many(150);
    let said = |output: &str| explain(folder.path(), &["pod/web-1", "-n", "shop", "-o", output]).fine();
    for output in ["json", "table", "wide"] {
        assert_eq!(said(output), said(output));
    }
}

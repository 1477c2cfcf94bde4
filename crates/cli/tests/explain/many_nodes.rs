//! `kinescope explain` in clusters with many nodes: output in groups, and sampling of nodes.

use super::{RecordingBuilder, explain, json_of, node, on, pod};

/// A cluster with this many nodes.
fn many(count: usize) -> tempfile::TempDir {
    let mut recording = RecordingBuilder::new();
    for index in 0..count {
        let cpu = if index.is_multiple_of(3) { "4" } else { "1" };
        recording = recording.add_at_same_time(node(&format!("node-{index:03}"), cpu, "8Gi"));
    }
    recording.add(pod("web-1", "2", "1Gi")).import()
}

#[test]
fn many_nodes_are_shown_in_groups() {
    let folder = many(60);
    let table = explain(folder.path(), &["pod/web-1", "-n", "shop"]).success();
    assert!(table.contains("\n  REJECTED\n  40 nodes: NodeResourcesFit: Insufficient cpu\n"), "{table}");
    assert!(table.contains("  and 10 more nodes with totals down to "), "{table}");
    assert_eq!(table.matches("node-").count(), 11, "ten of them, and the one decided for: {table}");
    let all = explain(folder.path(), &["pod/web-1", "-n", "shop", "--nodes"]).success();
    assert_eq!(all.lines().filter(|line| line.contains("  NodeResourcesFit   Insufficient cpu")).count(), 40);
    assert_eq!(all.matches("node-").count(), 61, "{all}");
}

#[test]
fn the_node_really_chosen_is_shown_among_many() {
    let bound_to = |name: &str| {
        let mut recording = RecordingBuilder::new();
        for index in 0..130 {
            let cpu = match index {
                128 => "4",
                odd if odd % 2 == 1 => "1",
                _ => "8",
            };
            recording = recording.add_at_same_time(node(&format!("node-{index:03}"), cpu, "8Gi"));
        }
        let folder =
            recording.add(pod("web-1", "2", "1Gi")).change(on(pod("web-1", "2", "1Gi"), name)).import();
        explain(folder.path(), &["pod/web-1", "-n", "shop"]).success()
    };
    let table = bound_to("node-128");
    // The scheduler looks for 100 feasible nodes, and there are fewer.
    assert!(!table.contains("assumed"), "{table}");
    assert!(table.contains("  bound to node-128 (rank 65 of 65 nodes that fit)\n"), "{table}");
    assert_eq!(table.lines().filter(|line| line.starts_with("  node-128 ")).count(), 1, "{table}");
    assert!(table.contains("  and 54 more nodes with totals down to "), "{table}");
    let table = bound_to("node-001");
    assert!(table.contains("  bound to node-001 (does not fit here)\n"), "{table}");
    assert!(
        table.contains("  65 nodes (including node-001): NodeResourcesFit: Insufficient cpu\n"),
        "{table}"
    );
}

#[test]
fn sampling_of_nodes_starts_at_an_assumed_node() {
    let mut recording = RecordingBuilder::new();
    for index in 0..400 {
        // The best nodes are last.
        recording =
            recording.add_at_same_time(node(&format!("node-{index:03}"), &(4 + index).to_string(), "8Gi"));
    }
    let folder = recording.add(pod("web-1", "2", "1Gi")).import();
    let explanation = json_of(folder.path(), &["pod/web-1", "-n", "shop"]);
    assert!(explanation["lookedAt"].as_u64().unwrap() < 400, "{}", explanation["lookedAt"]);
    let chosen = explanation["node"].as_str().unwrap();
    let table = explain(folder.path(), &["pod/web-1", "-n", "shop"]).success();
    let assumed =
        "nodes with higher scores were not evaluated; the search is assumed to start at the first node\n";
    assert!(table.contains(assumed), "{table}");
    assert!(table.lines().any(|line| line.starts_with(&format!("* {chosen} "))), "{table}");
}

#[test]
fn the_same_history_gives_the_same_bytes() {
    let folder = many(150);
    let text_output =
        |output: &str| explain(folder.path(), &["pod/web-1", "-n", "shop", "-o", output]).success();
    for output in ["json", "table", "wide"] {
        assert_eq!(text_output(output), text_output(output));
    }
}

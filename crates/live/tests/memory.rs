//! Test that the memory per watched object is small, independent of its size.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use live::list_watch::{Reflector, WatchResponse, WatchSubject};
use model::{Kind, Moment};

/// The resident memory of this process in bytes; zero if unknown.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).map_or(0, |pages| pages.parse::<usize>().unwrap() * 4096)
}

#[test]
fn a_hundred_thousand_pods_use_little_memory() {
    let kind = Kind::new("", "Pod");
    let subject = WatchSubject { source: "s".into(), api_version: "v1".to_owned(), kind, keep: |_| true };
    let mut kind_watch = Reflector::new(subject, None, [], None);
    let before = resident();
    for page in 0..200 {
        let item = |number: u32| {
            let number = page * 500 + number;
            format!(
                r#"{{"metadata":{{"name":"deployment-{number}-7c5ddbdf54-{number:05}","namespace":"namespace-{}","uid":"6f2d1c1e-0000-4000-8000-{number:012}","resourceVersion":"{}"}},"spec":"{}"}}"#,
                number % 100,
                1_000_000_000 + number,
                "x".repeat(5_000)
            )
        };
        let items: Vec<String> = (0..500).map(item).collect();
        let next = if page < 199 { r#","continue":"c""# } else { "" };
        let list = format!(r#"{{"metadata":{{"resourceVersion":"9"{next}}},"items":[{}]}}"#, items.join(","));
        kind_watch.handle(WatchResponse::Page(list.as_bytes()), Moment::from_nanos(1), 0.5);
        assert_eq!(kind_watch.take_output().batch.changes.len(), 500);
    }
    assert_eq!(kind_watch.object_count(), 100_000);
    let each = resident().saturating_sub(before) / kind_watch.object_count();
    assert!(each <= 600, "{each} bytes for each object");
}

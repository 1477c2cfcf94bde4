//! Tests of when objects were first seen in their current incarnation.

use model::{IncomingChange, Moment};
use testobjects::NodeBuilder;

use crate::{BulkWriter, History, Selection};

fn node(name: &str, uid: &str) -> NodeBuilder {
    testobjects::node(name).uid(uid)
}

#[test]
fn first_seen_is_the_start_of_the_current_incarnation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let mut bulk = BulkWriter::open(&path).unwrap();
    for (at, what) in [
        (1, node("b", "1").added()),
        (2, node("a", "2").added()),
        (3, node("b", "1").modified()),
        (4, node("b", "1").deleted()),
        (5, node("b", "3").added()),
        // A new incarnation although the delete of the old one was missed.
        (6, node("a", "4").modified()),
    ] {
        bulk.push(&IncomingChange::received(Moment::from_nanos(at), &"east".into(), what)).unwrap();
    }
    bulk.finish().unwrap();
    let history = History::open(&path).unwrap();
    let first_seen = |at: i64| {
        let found = history.first_seen_times(Moment::from_nanos(at), &Selection::default()).unwrap();
        let mut found: Vec<(String, i64)> =
            found.into_iter().map(|(key, at)| (key.name.to_string(), at.nanos())).collect();
        found.sort_unstable();
        found
    };
    let at = |a: i64, b: i64| [("a".to_owned(), a), ("b".to_owned(), b)];
    assert_eq!(first_seen(0), []);
    assert_eq!(first_seen(1), [("b".to_owned(), 1)]);
    assert_eq!(first_seen(3), at(2, 1));
    assert_eq!(first_seen(5), at(2, 5));
    assert_eq!(first_seen(6), at(6, 5));
    let other = Selection { source: Some("west".into()), ..Selection::default() };
    assert!(history.first_seen_times(Moment::MAX, &other).unwrap().is_empty());
}

//! When objects came: each in the life it has.

use model::{Moment, Observed};
use testobjects::NodeBuilder;

use crate::{Bulk, History, Selection};

fn node(name: &str, uid: &str) -> NodeBuilder {
    testobjects::node(name).uid(uid)
}

#[test]
fn an_object_came_when_the_life_it_has_began() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let mut bulk = Bulk::into(&path).unwrap();
    for (at, what) in [
        (1, node("b", "1").added()),
        (2, node("a", "2").added()),
        (3, node("b", "1").modified()),
        (4, node("b", "1").deleted()),
        (5, node("b", "3").added()),
        // Another life, though nobody saw the end of the one before.
        (6, node("a", "4").modified()),
    ] {
        bulk.push(&Observed::received(Moment::from_nanos(at), &"east".into(), what)).unwrap();
    }
    bulk.finish().unwrap();
    let history = History::open(&path).unwrap();
    let came = |at: i64| {
        let found = history.came(Moment::from_nanos(at), &Selection::default()).unwrap();
        let mut found: Vec<(String, i64)> =
            found.into_iter().map(|(key, at)| (key.name.to_string(), at.nanos())).collect();
        found.sort_unstable();
        found
    };
    let at = |a: i64, b: i64| [("a".to_owned(), a), ("b".to_owned(), b)];
    assert_eq!(came(0), []);
    assert_eq!(came(1), [("b".to_owned(), 1)]);
    assert_eq!(came(3), at(2, 1));
    assert_eq!(came(5), at(2, 5));
    assert_eq!(came(6), at(6, 5));
    let other = Selection { source: Some("west".into()), ..Selection::default() };
    assert!(history.came(Moment::MAX, &other).unwrap().is_empty());
}

//! Tests of the stream for benchmarks: valid life cycles, a constant number of objects, realistic sizes.

use std::collections::BTreeMap;

use model::{IncomingChange, Key, Object, What};

use super::{ChurnOptions, churn};

fn small_options() -> ChurnOptions {
    ChurnOptions { seed: 5, live_objects: 500, changes: 8_000, ..ChurnOptions::default() }
}

#[test]
fn objects_are_added_modified_and_deleted_in_order() {
    for settings in [
        small_options(),
        ChurnOptions { managed_fields: true, ..small_options() },
        ChurnOptions { versions: 2, ..small_options() },
    ] {
        let alive = settings.live_objects;
        let mut live_objects: BTreeMap<Key, String> = BTreeMap::new();
        let (mut last_version, mut last_seen) = (0, None);
        for (number, IncomingChange { seen, key, what, .. }) in churn(settings).enumerate() {
            let object = Object::parse(what.object().as_str()).unwrap();
            assert_eq!(object.key(&key.source), key);
            let meta = object.meta();
            let version: u64 = meta.resource_version.unwrap().parse().unwrap();
            let uid = meta.uid.unwrap().into_owned();
            assert!(version > last_version && Some(seen) > last_seen);
            (last_version, last_seen) = (version, Some(seen));
            match what {
                What::Added(_) => assert_eq!(live_objects.insert(key, uid), None),
                What::Modified(_) => assert_eq!(live_objects.get(&key), Some(&uid)),
                What::Deleted(_) => assert_eq!(live_objects.remove(&key), Some(uid)),
            }
            if number >= alive {
                assert!(
                    live_objects.len() == alive || live_objects.len() == alive - 1,
                    "{} alive",
                    live_objects.len()
                );
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_stream() {
    assert!(churn(small_options()).eq(churn(small_options())));
    assert!(churn(small_options()).ne(churn(ChurnOptions { seed: 6, ..small_options() })));
}

#[test]
fn pods_have_the_size_and_share_of_real_ones() {
    let (mut pods, mut bytes, mut all, mut deleted) = (0, 0, 0, 0);
    for change in churn(small_options()).skip(small_options().live_objects) {
        all += 1;
        if &*change.key.kind.kind == "Pod" {
            pods += 1;
            bytes += change.what.object().as_str().len();
            deleted += usize::from(matches!(change.what, What::Deleted(_)));
        }
    }
    let (size, share, versions) = (bytes / pods, pods * 100 / all, pods / deleted);
    assert!((3_500..=4_000).contains(&size), "{size} bytes a pod");
    assert!((65..=75).contains(&share), "{share} % pods");
    assert!((6..=8).contains(&versions), "{versions} changes a life");
}

#[test]
fn extreme_options_are_accepted() {
    for (live_objects, versions) in [(0, 0), (1, 1), (3, 0), (60, 40)] {
        assert_eq!(
            churn(ChurnOptions { live_objects, versions, changes: 500, ..small_options() }).count(),
            500
        );
    }
}

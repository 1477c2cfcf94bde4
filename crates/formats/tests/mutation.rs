//! Broken files of every kind: seeded mutations of good ones must be read or refused, never worse.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops where something is not as it should be, and prints its seed"
)]

use std::io::Cursor;

use formats::{Format, Input, jsonl, manifests};
use model::Moment;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const ROUNDS: usize = 20_000;

const JSONL: &str = r#"{"at":"2026-11-01T14:00:00.5Z","type":"ADDED","source":"east","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","labels":{"a/b":"c"}},"status":{"x":[1,-2.5e3,null,true,"é\n"]}}}
{"at":1794710669674792,"seen":"2026-11-01T14:00:00Z","inferred":true,"type":"DELETED","object":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"shop","uid":"u"}}}
{"at":"2026-11-01T14:10:00Z","type":"GAP","to":"2026-11-01T14:12:00Z","kinds":["Pod","Deployment.apps"],"why":"away"}
"#;

const WATCH: &str = r#"{
    "type": "ADDED",
    "object": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "creationTimestamp": "2026-11-01T14:00:00Z"
        }
    }
}
{
    "type": "BOOKMARK",
    "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}}
}
"#;

const YAML: &str = "apiVersion: v1\nkind: Pod\nmetadata: &m\n  name: a\n  labels: {b: yes, c: 012}\nspec:\n  text: |\n    two\n    lines\n---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: b}\n";

const LIST: &str =
    r#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#;

/// Pieces that parsers stumble over.
const NASTY: [&[u8]; 16] = [
    b"{",
    b"}",
    b"[[[[[[[[[[[[[[[[[[[[",
    b"\"",
    b"\\",
    b"\\ud800",
    b"\xff\xfe",
    b"1e999",
    b"99999999999999999999",
    b"\0",
    b"\n---\n",
    b"&a *a",
    b"!!binary",
    b": ",
    b"\t",
    b"\"at\":",
];

#[test]
fn mutated_files_are_read_or_refused() {
    let seed = 3;
    println!("seed {seed}");
    let mut rng = Pcg64::seed_from_u64(seed);
    let compressed = zstd::encode_all(JSONL.as_bytes(), 3).unwrap();
    let samples: [&[u8]; 5] =
        [JSONL.as_bytes(), WATCH.as_bytes(), YAML.as_bytes(), LIST.as_bytes(), &compressed];
    let (mut read, mut refused) = (0, 0);
    for sample in samples {
        go_through(sample.to_vec()).expect("the sample itself is good");
        for _ in 0..ROUNDS {
            let mut bytes = sample.to_vec();
            for _ in 0..rng.random_range(1..4) {
                mutate(&mut bytes, &mut rng);
            }
            match go_through(bytes) {
                Ok(()) => read += 1,
                Err(message) => {
                    assert!(!message.is_empty());
                    refused += 1;
                }
            }
        }
    }
    println!("{read} read, {refused} refused");
    assert!(
        read > 2_000 && refused > 20_000,
        "the mutations are all harmless or all alike: {read}, {refused}"
    );
}

fn mutate(bytes: &mut Vec<u8>, rng: &mut Pcg64) {
    let place = rng.random_range(0..bytes.len().max(1)).min(bytes.len());
    match rng.random_range(0..5) {
        0 if place < bytes.len() => bytes[place] ^= 1 << rng.random_range(0..8),
        1 => bytes.truncate(place),
        2 => {
            let end = (place + rng.random_range(1..30)).min(bytes.len());
            bytes.drain(place..end);
        }
        3 => {
            let end = (place + rng.random_range(1..60)).min(bytes.len());
            let again = bytes[place..end].to_vec();
            bytes.splice(place..place, again);
        }
        _ => {
            let piece = NASTY[rng.random_range(0..NASTY.len())];
            bytes.splice(place..place, piece.iter().copied());
        }
    }
}

fn go_through(bytes: Vec<u8>) -> Result<(), String> {
    let input = Input::open("mutant", Box::new(Cursor::new(bytes))).map_err(|error| error.to_string())?;
    match input.format {
        Some(Format::Jsonl) => {
            let given = jsonl::Given { source: "s".into(), at: Some(Moment::from_nanos(0)) };
            for item in jsonl::Reader::new(input, given) {
                if let jsonl::Item::Change(observed) = item.map_err(|error| error.to_string())? {
                    observed.what.object().value().expect("what is let in is a tree");
                }
            }
        }
        Some(Format::Manifests) => {
            for object in manifests::Reader::new(input).map_err(|error| error.to_string())? {
                object.map_err(|error| error.to_string())?.value().expect("what is let in is a tree");
            }
        }
        None => return Err("unknown".to_owned()),
    }
    Ok(())
}

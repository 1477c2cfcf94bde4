//! Tests of the ZIP itself.

use std::io::{Cursor, Write};

use formats::{ImportItem, Input, MAX_VALUE_BYTES, kai_snapshot};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{OLD_CLAIMS, OLD_CONFIG, PARAMS, TOPOLOGIES, describe_items, read, refused, zipped, zipped_as};

const SMALL: &[u8] = br#"{"config":{},"rawObjects":{"pods":[{"metadata":{"name":"p","namespace":"d"}}]}}"#;

#[track_caller]
fn assert_read(bytes: Vec<u8>) {
    assert_eq!(describe_items(&read(bytes).unwrap())[0], "v1 Pod d/p");
}

fn stored() -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::Stored)
}

#[test]
fn every_way_to_write_the_zip_is_read() {
    assert_read(zipped("snapshot.json", SMALL));
    assert_read(zipped_as(stored(), &[("snapshot.json", SMALL)]));
    // 64-bit sizes after the data, as beyond 4 GiB.
    assert_read(zipped_as(SimpleFileOptions::default().large_file(true), &[("snapshot.json", SMALL)]));
    let mut seekable = ZipWriter::new(Cursor::new(Vec::new()));
    seekable.start_file("snapshot.json", SimpleFileOptions::default()).unwrap();
    seekable.write_all(SMALL).unwrap();
    seekable.set_comment("a comment").unwrap();
    assert_read(seekable.finish().unwrap().into_inner());
}

#[test]
fn the_entry_is_found_by_its_exact_name() {
    let options = SimpleFileOptions::default();
    let others: [(&str, &[u8]); 4] = [
        ("../../snapshot.json", b"{}"),
        ("/snapshot.json", b"{}"),
        ("Snapshot.json", b"{}"),
        ("a\u{1b}[31m", b""),
    ];
    refused(
        zipped_as(options, &others),
        "snapshot.json not found in the ZIP; found ../../snapshot.json, /snapshot.json, Snapshot.json, a\\u{1b}[31m",
    );
    let mut entries = others.to_vec();
    entries.push(("snapshot.json", SMALL));
    assert_read(zipped_as(options, &entries));
    refused(ZipWriter::new_stream(Vec::new()).finish().unwrap().into_inner(), "the ZIP is empty");
    let long = "x".repeat(60_000);
    let error = read(zipped_as(options, &[(&long, b"")])).unwrap_err();
    assert!(error.len() < 300, "{error}");
}

#[test]
fn of_two_entries_of_one_name_the_first_counts() {
    // The zip crate refuses duplicate names, so the second is renamed afterwards.
    let second = SMALL.to_vec();
    let second = String::from_utf8(second).unwrap().replace("\"p\"", "\"z\"");
    let mut bytes = zipped_as(stored(), &[("snapshot.json", SMALL), ("snapshot.jsox", second.as_bytes())]);
    let found: Vec<usize> =
        (0..bytes.len() - 13).filter(|at| &bytes[*at..*at + 13] == b"snapshot.jsox").collect();
    assert_eq!(found.len(), 2, "once before the data, once in the directory");
    for at in found {
        bytes[at + 12] = b'n';
    }
    assert_read(bytes);
}

#[test]
fn a_full_directory_is_read() {
    let mut zip = ZipWriter::new_stream(Vec::new());
    for index in 0..65_534 {
        zip.start_file(format!("{index}"), stored()).unwrap();
    }
    zip.start_file("snapshot.json", stored()).unwrap();
    zip.write_all(SMALL).unwrap();
    assert_read(zip.finish().unwrap().into_inner());
}

#[test]
fn a_truncated_snapshot_is_distinguished_from_a_truncated_zip() {
    for cut in [1, 20, SMALL.len() - 1] {
        let ends = format!("the ZIP is valid, but snapshot.json is truncated (byte {cut}, at ");
        refused(zipped("snapshot.json", &SMALL[..cut]), &ends);
    }
    let zip = zipped("snapshot.json", SMALL);
    for cut in 4..zip.len() - 1 {
        refused(zip[..cut].to_vec(), "invalid ZIP: ");
    }
}

#[test]
fn a_damaged_zip_is_detected_by_its_checksum() {
    for options in [SimpleFileOptions::default(), stored()] {
        let zip = zipped_as(options, &[("snapshot.json", SMALL)]);
        let data = 30 + "snapshot.json".len();
        let end = zip.windows(4).position(|four| four == b"PK\x07\x08").unwrap();
        for at in data..end {
            let mut bytes = zip.clone();
            bytes[at] ^= 0x04;
            let error = read(bytes).expect_err("every byte counts");
            assert!(error.contains("invalid ZIP: "), "byte {at}: {error}");
        }
        let directory = zip.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
        let mut bytes = zip.clone();
        bytes[directory + 16] ^= 1;
        refused(bytes, "does not match its size or checksum");
        let mut bytes = zip.clone();
        bytes[directory + 24] ^= 1;
        refused(bytes, "does not match its size or checksum");
    }
}

#[test]
fn unsupported_compression_and_encryption_are_refused() {
    let zip = zipped("snapshot.json", SMALL);
    let directory = zip.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    let set = |offset: usize, value: u8| {
        let mut bytes = zip.clone();
        bytes[directory + offset] = value;
        bytes
    };
    refused(set(8, 0x09), "snapshot.json is encrypted: unpack it");
    refused(set(10, 12), "snapshot.json is compressed with Bzip2");
    refused(set(10, 77), "snapshot.json is compressed with ");
}

#[test]
fn a_zip_bomb_is_refused_without_holding_it() {
    let mut zip = ZipWriter::new_stream(Vec::new());
    zip.start_file("snapshot.json", SimpleFileOptions::default()).unwrap();
    zip.write_all(br#"{"config":{},"rawObjects":{"pods":[{"metadata":{"name":"p","namespace":"d"}},""#)
        .unwrap();
    let zeros = vec![b'0'; 1 << 20];
    for _ in 0..(MAX_VALUE_BYTES >> 20) + 2 {
        zip.write_all(&zeros).unwrap();
    }
    zip.write_all(br#""]}}"#).unwrap();
    let bytes = zip.finish().unwrap().into_inner();
    assert!(bytes.len() < 1 << 20);
    let input = Input::open("file", Box::new(Cursor::new(bytes))).unwrap();
    let mut items = kai_snapshot::read(input).unwrap();
    assert!(matches!(items.next(), Some(Ok(ImportItem::Object(_)))), "earlier objects are returned");
    let error = items.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("rawObjects.pods[1] is longer than 64 MiB"), "{error}");
    assert!(items.next().is_none());
}

#[test]
fn mutated_zips_are_read_or_refused() {
    let seed = 5;
    println!("seed {seed}");
    let mut rng = Pcg64::seed_from_u64(seed);
    let text = format!(
        r#"{{"config":{OLD_CONFIG},"schedulerParams":{PARAMS},"rawObjects":{{{OLD_CLAIMS},{TOPOLOGIES},"pods":null}}}}"#
    );
    let samples = [
        zipped("snapshot.json", text.as_bytes()),
        zipped_as(stored().large_file(true), &[("other", b""), ("snapshot.json", text.as_bytes())]),
        text.into_bytes(),
    ];
    let (mut fine, mut refused) = (0, 0);
    for sample in samples {
        for _ in 0..3_000 {
            let mut bytes = sample.clone();
            for _ in 0..rng.random_range(1..4) {
                let index = rng.random_range(0..bytes.len());
                match rng.random_range(0..4) {
                    0 => bytes[index] ^= 1 << rng.random_range(0..8),
                    1 => bytes[index] = rng.random(),
                    2 => drop(bytes.remove(index)),
                    // Lengths and offsets in a ZIP are four bytes.
                    _ => bytes.iter_mut().skip(index).take(4).for_each(|byte| *byte = 0xff),
                }
            }
            match read(bytes) {
                Ok(_) => fine += 1,
                Err(why) => {
                    assert!(!why.is_empty());
                    refused += 1;
                }
            }
        }
    }
    println!("{fine} read, {refused} refused");
    assert!(fine > 200 && refused > 5_000, "the mutations are all harmless or all alike: {fine}, {refused}");
}

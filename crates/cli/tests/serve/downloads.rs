//! Tests of downloads: they share copies, keep within the scratch budget, and leave no files behind.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use model::{Object, What};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;
use tempfile::TempDir;

use crate::common::{PROGRAM, command, run};
use crate::folders::{EXPORT, added_pod, many};
use crate::server::{HttpResponse, Server};

const DOWNLOAD: &str = "/api/v1/histories/many/download";

/// A server that serves a folder, with a scratch folder of its own.
fn start(folder: &Path, scratch: &TempDir, arguments: &[&str]) -> Server {
    let mut command = command(folder);
    command.env("TMPDIR", scratch.path()).args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
    Server::of(&mut command)
}

/// A folder with a history of this many incompressible pods, about 1,500 bytes each.
fn incompressible_history(pods: u64) -> TempDir {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let folder = tempfile::tempdir().unwrap();
    let writer = history::Writer::open(&folder.path().join("many.kine")).unwrap();
    let mut rng = Pcg32::seed_from_u64(19);
    let mut letter = || char::from(LETTERS[rng.random_range(0..LETTERS.len())]);
    for first in (0..pods).step_by(500) {
        let pod = |number| {
            let mut pod = added_pod("many", number);
            let text = pod
                .what
                .object()
                .as_str()
                .replace(&"x".repeat(900), &String::from_iter((0..2_000).map(|_| letter())));
            pod.what = What::Added(Object::parse(&text).unwrap());
            pod
        };
        let changes = (first..pods.min(first + 500)).map(pod).collect();
        writer.append(history::Batch { changes, ..Default::default() }).unwrap();
    }
    writer.close().unwrap();
    folder
}

/// Starts a request and reads only the beginning of the response.
fn begin(server: &Server, path: &str) -> TcpStream {
    let mut stream = server.send("GET", path, &[], b"");
    let mut begin = [0; 100];
    stream.read_exact(&mut begin).unwrap();
    assert!(begin.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&begin));
    stream
}

/// The files in the scratch folder that the server has open, including unlinked ones.
fn open_files(server: &Server, scratch: &TempDir) -> BTreeSet<String> {
    let links = std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap();
    let files = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
    let files = files.filter(|file| file.starts_with(scratch.path())).map(|file| file.display().to_string());
    // Without the folder itself.
    files.filter(|file| file.ends_with("(deleted)")).collect()
}

/// The number of files in the scratch folder and its subfolders.
fn named_files(scratch: &Path) -> usize {
    let entries = std::fs::read_dir(scratch).unwrap().filter_map(Result::ok);
    let count = |entry: std::fs::DirEntry| if entry.path().is_dir() { named_files(&entry.path()) } else { 1 };
    entries.map(count).sum()
}

#[track_caller]
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn file_bytes(folder: &TempDir, name: &str) -> u64 {
    folder.path().join(name).metadata().unwrap().len()
}

#[test]
fn downloads_of_one_history_share_a_copy_until_the_last_ends() {
    let (folder, scratch) = (incompressible_history(12_000), tempfile::tempdir().unwrap());
    assert!(file_bytes(&folder, "many.kine") > 12 << 20, "the whole file would fit into the socket buffers");
    let server = start(folder.path(), &scratch, &[]);
    let mut slow: Vec<TcpStream> = (0..8).map(|_| begin(&server, DOWNLOAD)).collect();
    assert_eq!(open_files(&server, &scratch).len(), 1);
    assert_eq!(named_files(scratch.path()), 0);
    // A reader that disconnects does not affect the others.
    slow.truncate(4);
    let whole = server.get(DOWNLOAD).success();
    let mut first = slow.pop().unwrap();
    let mut rest = Vec::new();
    first.read_to_end(&mut rest).unwrap();
    assert!(rest.len() > 12 << 20);
    std::fs::write(folder.path().join("copy.kin"), whole).unwrap();
    run(folder.path(), &["doctor", "copy.kin"]).success();

    // A changed history is copied again after a few seconds.
    let writer = history::Writer::open(&folder.path().join("many.kine")).unwrap();
    let changes = vec![added_pod("many", 60_000)];
    writer.append(history::Batch { changes, ..Default::default() }).unwrap();
    writer.flush().unwrap();
    until("the new change is downloaded", || {
        std::fs::write(folder.path().join("copy.kin"), server.get(DOWNLOAD).success()).unwrap();
        let got = run(folder.path(), &["get", "pod", "pod-60000", "-n=load", "--history=copy.kin"]);
        got.code == 0
    });
    writer.close().unwrap();
    drop(slow);
    until("the copies are removed", || open_files(&server, &scratch).is_empty());
}

#[test]
fn copies_keep_within_the_scratch_size() {
    let (folder, scratch) = (incompressible_history(12_000), tempfile::tempdir().unwrap());
    std::fs::copy(folder.path().join("many.kine"), folder.path().join("other.kine")).unwrap();
    let size = file_bytes(&folder, "many.kine");
    let server = start(folder.path(), &scratch, &["--scratch-size", &(size * 3 / 2).to_string()]);
    let slow = begin(&server, DOWNLOAD);
    let other = "/api/v1/histories/other/download";
    let refused = server.get(other);
    let message = refused.failure(503);
    assert!(message.contains("(--scratch-size)") && message.contains("retry"), "{message}");
    // Sharing an existing copy needs no further space.
    server.get(DOWNLOAD).success();
    drop(slow);
    until("there is space again", || server.get(other).code == 200);

    // A retry would not help here.
    let small = start(folder.path(), &scratch, &["--scratch-size", "100Ki"]);
    let message = small.get(DOWNLOAD).failure(507);
    assert!(message.contains("--scratch-size is 102.4 kB"), "{message}");
    assert!(small.get("/api/db/many.db").failure(507).contains("restart the server with a larger one"));
    let export = small.post("/export?history=many", &serde_json::from_str(EXPORT).unwrap());
    assert!(export.failure(507).contains("restart the server with a larger one"));
    until("no scratch files are left", || {
        open_files(&small, &scratch).is_empty() && named_files(scratch.path()) == 0
    });
    let error = run(folder.path(), &["serve", "--scratch-size", "much"]).failure(2);
    assert!(error.contains("invalid size \"much\": expected 500Mi or 10Gi"), "{error}");
}

#[test]
fn a_full_disk_is_reported() {
    let (folder, scratch) = (incompressible_history(1_000), tempfile::tempdir().unwrap());
    let mut limited = Command::new("sh");
    // Half the size of the copy, in blocks of 512 bytes.
    let blocks = (file_bytes(&folder, "many.kine") / 1024).to_string();
    limited.current_dir(folder.path()).env_clear().env("TMPDIR", scratch.path());
    limited.args(["-c", "trap '' XFSZ; ulimit -f $1; shift; exec \"$@\"", "limited", &blocks]);
    let server = Server::of(limited.args([PROGRAM, "serve", "--listen", "127.0.0.1:0"]));
    let message = server.get(DOWNLOAD).failure(507);
    assert!(message.contains("cannot copy"), "{message}");
    until("no scratch files are left", || named_files(scratch.path()) == 0);
}

#[test]
fn files_of_a_killed_server_are_removed_by_the_next() {
    let (folder, scratch) = (many(1_000), tempfile::tempdir().unwrap());
    let is_empty = || std::fs::read_dir(scratch.path()).unwrap().next().is_none();
    let neighbor = start(folder.path(), &scratch, &[]);
    neighbor.get(DOWNLOAD).success();
    let kept: Vec<_> =
        std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut server = start(folder.path(), &scratch, &[]);
    // The copy waits for the lock on the history, so that it is in progress when the server is killed.
    let sqlite = rusqlite::Connection::open(folder.path().join("many.kine")).unwrap();
    sqlite.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let waiting = server.send("GET", DOWNLOAD, &[], b"");
    let count = || std::fs::read_dir(scratch.path()).unwrap().count();
    until("the copy is begun", || count() > kept.len());
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    drop((waiting, sqlite));
    assert!(count() > kept.len());

    let mut next = start(folder.path(), &scratch, &[]);
    // Files of a running server are not removed.
    assert_eq!(count(), kept.len());
    assert!(kept.iter().all(|path| path.exists()), "{kept:?}");
    neighbor.get(DOWNLOAD).success();
    next.get(DOWNLOAD).success();
    for server in [&mut next, &mut { neighbor }] {
        server.signal("-TERM");
        assert!(server.child.wait().unwrap().success());
    }
    assert!(is_empty());
}

#[test]
fn a_copy_without_clients_is_abandoned() {
    let (folder, scratch) = (many(1_000), tempfile::tempdir().unwrap());
    let server = start(folder.path(), &scratch, &[]);
    let sqlite = rusqlite::Connection::open(folder.path().join("many.kine")).unwrap();
    sqlite.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut waiting: Vec<TcpStream> = (0..3).map(|_| server.send("GET", DOWNLOAD, &[], b"")).collect();
    until("the copy is begun", || std::fs::read_dir(scratch.path()).unwrap().next().is_some());
    // The first client has started the copy; others that wait for it get it without the first.
    let mut last = waiting.pop().unwrap();
    drop(waiting);
    sqlite.execute_batch("ROLLBACK").unwrap();
    HttpResponse::read(&mut last).success();
    until("the copy is removed", || {
        open_files(&server, &scratch).is_empty() && named_files(scratch.path()) == 0
    });
}

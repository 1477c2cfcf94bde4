//! Scheduler vectors: every decision must be equal to the real scheduler's.

use std::path::Path;

use conformance::{CaseReader, DecisionCounts, JsonLines, SchedulerCase};

/// How many differences are reported.
const FIRST: usize = 3;

/// Checks that our scheduler decides all cases of the family as the real one did, and their number of decisions.
#[track_caller]
fn check(family: &str, decisions: u64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/scheduler/vectors");
    let lines = JsonLines::open(&folder.join(format!("{family}.jsonl.gz")));
    let mut cases = CaseReader::<SchedulerCase>::new(lines.expect("the vectors are there"));
    let (mut counts, mut report, mut count) = (DecisionCounts::default(), String::new(), 0);
    while let Some(case) = cases.read().expect("the vectors are whole") {
        assert_eq!(case.family, family);
        let comparisons = conformance::compare_scheduler_case(&case);
        count += comparisons.len() as u64;
        for difference in counts.add(&case, comparisons, FIRST) {
            report += &format!("{difference}\n");
        }
    }
    assert!(counts.is_all_equal(), "\n{report}{counts}");
    assert_eq!(count, decisions, "decisions of {family}");
}

#[test]
fn defaultspread() {
    check("defaultspread", 207);
}

#[test]
fn gates() {
    check("gates", 326);
}

#[test]
fn images() {
    check("images", 206);
}

#[test]
fn misc() {
    check("misc", 189);
}

#[test]
fn mixed() {
    check("mixed", 196);
}

#[test]
fn nodeaffinity() {
    check("nodeaffinity", 170);
}

#[test]
fn nodeinfo() {
    check("nodeinfo", 293);
}

#[test]
fn podaffinity() {
    check("podaffinity", 209);
}

#[test]
fn ports() {
    check("ports", 218);
}

#[test]
fn preemption() {
    check("preemption", 178);
}

#[test]
fn preemptmore() {
    check("preemptmore", 392);
}

#[test]
fn profiles() {
    check("profiles", 283);
}

#[test]
fn resources() {
    check("resources", 207);
}

#[test]
fn resources2() {
    check("resources2", 299);
}

#[test]
fn sampling() {
    check("sampling", 32);
}

#[test]
fn spread() {
    check("spread", 188);
}

#[test]
fn spread2() {
    check("spread2", 277);
}

#[test]
fn strategies() {
    check("strategies", 187);
}

#[test]
fn taints() {
    check("taints", 192);
}

#[test]
fn volumes() {
    check("volumes", 204);
}

#[test]
fn volumes2() {
    check("volumes2", 296);
}

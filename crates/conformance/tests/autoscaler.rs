//! Autoscaler vectors: every loop must be equal to the real autoscaler's.

use std::path::Path;

use conformance::autoscaler::{AutoscalerCase, CaseCounts, compare_autoscaler_case};
use conformance::{CaseReader, JsonLines};

/// How many differences are reported.
const FIRST: usize = 3;

/// Checks that our autoscaler decides all cases of the family as the real one did, and their number of loops.
#[track_caller]
fn check(family: &str, loops: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/autoscaler/vectors");
    let lines = JsonLines::open(&folder.join(format!("{family}.jsonl.gz")));
    let mut cases = CaseReader::<AutoscalerCase>::new(lines.expect("the vectors are there"));
    let (mut counts, mut report, mut count) = (CaseCounts::default(), String::new(), 0);
    while let Some(case) = cases.read().expect("the vectors are whole") {
        assert_eq!(case.family, family);
        let comparison = compare_autoscaler_case(&case);
        count += comparison.closed_loop.len();
        for one in counts.add(&case, &comparison, FIRST) {
            report += &format!("{one}\n");
        }
    }
    assert!(counts.is_all_equal(), "\n{report}{counts}");
    assert_eq!(count, loops, "loops of {family}");
}

#[test]
fn atomic() {
    check("atomic", 91);
}

#[test]
fn backoff() {
    check("backoff", 182);
}

#[test]
fn balance() {
    check("balance", 21);
}

#[test]
fn daemonsets() {
    check("daemonsets", 28);
}

#[test]
fn down_blocked() {
    check("down-blocked", 98);
}

#[test]
fn down_delay() {
    check("down-delay", 132);
}

#[test]
fn down_drain() {
    check("down-drain", 105);
}

#[test]
fn down_empty() {
    check("down-empty", 66);
}

#[test]
fn down_flags() {
    check("down-flags", 90);
}

#[test]
fn down_util() {
    check("down-util", 84);
}

#[test]
fn exp_least_nodes() {
    check("exp-least-nodes", 14);
}

#[test]
fn exp_least_waste() {
    check("exp-least-waste", 17);
}

#[test]
fn exp_most_pods() {
    check("exp-most-pods", 21);
}

#[test]
fn exp_price() {
    check("exp-price", 14);
}

#[test]
fn exp_priority() {
    check("exp-priority", 7);
}

#[test]
fn expendable() {
    check("expendable", 32);
}

#[test]
fn fastpath() {
    check("fastpath", 7);
}

#[test]
fn limits() {
    check("limits", 35);
}

#[test]
fn minsize() {
    check("minsize", 28);
}

#[test]
fn mixed() {
    check("mixed", 217);
}

#[test]
fn nofit() {
    check("nofit", 16);
}

#[test]
fn pack() {
    check("pack", 30);
}

#[test]
fn podaffinity() {
    check("podaffinity", 35);
}

#[test]
fn podclasses() {
    check("podclasses", 14);
}

#[test]
fn provision() {
    check("provision", 320);
}

#[test]
fn salvo() {
    check("salvo", 21);
}

#[test]
fn spread() {
    check("spread", 40);
}

#[test]
fn taints() {
    check("taints", 15);
}

#[test]
fn unready() {
    check("unready", 128);
}

#[test]
fn up_basic() {
    check("up-basic", 19);
}

#[test]
fn upcoming() {
    check("upcoming", 114);
}

#[test]
fn young() {
    check("young", 112);
}

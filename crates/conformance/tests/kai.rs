//! KAI vectors: every decision, amount and text must be equal to the real scheduler's.

use std::path::Path;

use conformance::kai::{KaiCase, KaiCaseCounts, compare_kai_case};
use conformance::{CaseReader, JsonLines};

/// How many differing cases are reported.
const FIRST: usize = 2;

/// Checks that our scheduler decides all cases of the family as the real one did, and their number.
#[track_caller]
fn check(family: &str, cases: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/kai/vectors");
    let lines = JsonLines::open(&folder.join(format!("{family}.jsonl.gz")));
    let mut reader = CaseReader::<KaiCase>::new(lines.expect("the vectors are there"));
    let (mut counts, mut report, mut count) = (KaiCaseCounts::default(), String::new(), 0);
    while let Some(case) = reader.read().expect("the vectors are whole") {
        assert_eq!(case.family, family);
        let comparison = compare_kai_case(&case);
        count += 1;
        if counts.add(&case, &comparison, FIRST) {
            report += &format!("{comparison}\n");
        }
    }
    assert!(counts.is_all_equal_with_texts(), "\n{report}{counts}");
    assert_eq!(count, cases, "cases of {family}");
}

#[test]
fn affinity() {
    check("affinity", 20);
}

#[test]
fn basic() {
    check("basic", 20);
}

#[test]
fn consolidation() {
    check("consolidation", 20);
}

#[test]
fn cpuvictims() {
    check("cpuvictims", 20);
}

#[test]
fn depth() {
    check("depth", 20);
}

#[test]
fn elastic() {
    check("elastic", 20);
}

#[test]
fn fraction() {
    check("fraction", 20);
}

#[test]
fn fractionvictims() {
    check("fractionvictims", 20);
}

#[test]
fn full() {
    check("full", 20);
}

#[test]
fn gang() {
    check("gang", 20);
}

#[test]
fn gpu() {
    check("gpu", 20);
}

#[test]
fn hierarchy() {
    check("hierarchy", 20);
}

#[test]
fn large() {
    check("large", 10);
}

#[test]
fn limits() {
    check("limits", 20);
}

#[test]
fn mig() {
    check("mig", 20);
}

#[test]
fn minruntime() {
    check("minruntime", 20);
}

#[test]
fn misc() {
    check("misc", 20);
}

#[test]
fn nonpreemptible() {
    check("nonpreemptible", 20);
}

#[test]
fn params() {
    check("params", 20);
}

#[test]
fn placement() {
    check("placement", 20);
}

#[test]
fn podaffinity() {
    check("podaffinity", 20);
}

#[test]
fn preempt() {
    check("preempt", 20);
}

#[test]
fn preemptgang() {
    check("preemptgang", 20);
}

#[test]
fn reclaim() {
    check("reclaim", 20);
}

#[test]
fn reclaimdeep() {
    check("reclaimdeep", 20);
}

#[test]
fn reclaimelastic() {
    check("reclaimelastic", 20);
}

#[test]
fn releasing() {
    check("releasing", 20);
}

#[test]
fn stalegang() {
    check("stalegang", 20);
}

#[test]
fn subgroups() {
    check("subgroups", 20);
}

#[test]
fn topology() {
    check("topology", 20);
}

#[test]
fn topologyvictims() {
    check("topologyvictims", 20);
}

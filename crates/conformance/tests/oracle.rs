//! Fresh cases, solved by the real scheduler's code during the test.

use conformance::{CaseRequest, DecisionCounts, Oracle};

#[test]
fn fresh_cases_are_decided_alike() {
    let seed = std::env::var("KINESCOPE_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    eprintln!("seed {seed}: set KINESCOPE_TEST_SEED to try another");
    let request = CaseRequest { seed, count: 2, families: Vec::new() };
    let Some(mut oracle) = Oracle::start(&request).unwrap() else {
        return eprintln!("skipped: no go");
    };
    let (mut counts, mut report, mut count) = (DecisionCounts::default(), String::new(), 0);
    while let Some((line, case)) = oracle.read().unwrap() {
        count += 1;
        let comparisons = conformance::compare_scheduler_case(&case);
        let differs = comparisons.iter().any(|one| !one.differences.is_empty());
        // Where the real scheduler chooses at random, its answers were equal by coincidence.
        if differs && !oracle.is_deterministic(&line).unwrap() {
            continue;
        }
        for difference in counts.add(&case, comparisons, 3) {
            report += &format!("{difference}\n");
        }
    }
    oracle.finish().unwrap();
    assert!(count > 20, "{count} cases");
    assert!(counts.is_all_equal(), "\n{report}{counts}\nseed {seed}");
}

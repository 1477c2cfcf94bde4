//! Fresh cases, solved by the real scheduler's code during the test.

use conformance::{Oracle, Tally, Wish};

#[test]
fn fresh_cases_are_decided_alike() {
    let seed = std::env::var("KINESCOPE_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    eprintln!("seed {seed}: set KINESCOPE_TEST_SEED to try another");
    let wish = Wish { seed, count: 2, families: Vec::new() };
    let Some(mut oracle) = Oracle::start(&wish).unwrap() else {
        return eprintln!("skipped: no go");
    };
    let (mut tally, mut told, mut count) = (Tally::default(), String::new(), 0);
    while let Some((line, case)) = oracle.read().unwrap() {
        count += 1;
        let judged = conformance::judge(&case);
        let differs = judged.iter().any(|one| !one.differences.is_empty());
        // Where the real scheduler chooses at random, its answers were equal by coincidence.
        if differs && !oracle.insists(&line).unwrap() {
            continue;
        }
        for difference in tally.add(&case, judged, 3) {
            told += &format!("{difference}\n");
        }
    }
    oracle.finish().unwrap();
    assert!(count > 20, "{count} cases");
    assert!(tally.is_clean(), "\n{told}{tally}\nseed {seed}");
}

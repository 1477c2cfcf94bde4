use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{pod_template_hash, quantity, revision_hash};

/// A line that the program in `tests/apitypes` prints.
#[derive(Deserialize)]
struct HashedTemplate {
    template: Value,
    hash: String,
    collided: String,
    data: Value,
    revision: String,
}

const COLLISION_COUNT: u32 = 7;

#[test]
fn hashes_are_those_of_go() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/apitypes");
    let Some(program) = testcluster::build_module("apitypes", &sources).unwrap() else {
        // Written directly: the test runner captures the output of print macros.
        std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no go\n").unwrap();
        return;
    };
    for seed in ["1", "2"] {
        let output = Command::new(&program).args(["-templates", "300", "-seed", seed]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let HashedTemplate { template, hash, collided, data, revision } =
                serde_json::from_str(line).unwrap();
            assert_eq!(pod_template_hash(&template, None), Some(hash), "seed {seed}: {template}");
            assert_eq!(pod_template_hash(&template, Some(COLLISION_COUNT)), Some(collided), "{template}");
            assert_eq!(revision_hash(&data, COLLISION_COUNT), revision, "seed {seed}: {data}");
        }
    }
}

#[test]
fn a_template_with_other_fields_has_no_hash() {
    for template in [
        json!({"spec": {"containers": [{"name": "c", "future": true}]}}),
        json!({"spec": {"containers": "none"}}),
        json!({"metadata": {"creationTimestamp": "2026-11-02T14:20:00Z"}}),
        json!({"spec": {"overhead": {"cpu": "much"}}}),
    ] {
        assert_eq!(pod_template_hash(&template, None), None, "{template}");
    }
    // What is empty is not stored.
    let empty = json!({"metadata": {"labels": {}, "creationTimestamp": null}, "spec": {"tolerations": []}});
    assert_eq!(pod_template_hash(&empty, None), pod_template_hash(&json!({}), None));
}

/// Printed by `fmt.Print(dump.ForHash(resource.MustParse(text)))` of k8s.io/utils, without the type in front.
#[test]
fn quantities_are_printed_as_they_are_kept() {
    for (text, expected) in QUANTITIES {
        assert_eq!(quantity::dump(text).as_deref(), Some(*expected), "{text}");
    }
    for text in ["-1", "x", "1x", "1.5.5"] {
        assert_eq!(quantity::dump(text), None, "{text}");
    }
}

#[rustfmt::skip]
const QUANTITIES: &[(&str, &str)] = &[
    ("0", "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)0 Format:(resource.Format)DecimalSI}"),
    ("1", "{i:(resource.int64Amount){value:(int64)1 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)1 Format:(resource.Format)DecimalSI}"),
    ("500m", "{i:(resource.int64Amount){value:(int64)500 scale:(resource.Scale)-3} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)500m Format:(resource.Format)DecimalSI}"),
    ("1500m", "{i:(resource.int64Amount){value:(int64)1500 scale:(resource.Scale)-3} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)1500m Format:(resource.Format)DecimalSI}"),
    ("100m", "{i:(resource.int64Amount){value:(int64)100 scale:(resource.Scale)-3} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)100m Format:(resource.Format)DecimalSI}"),
    ("10", "{i:(resource.int64Amount){value:(int64)10 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)10 Format:(resource.Format)DecimalSI}"),
    ("1k", "{i:(resource.int64Amount){value:(int64)1 scale:(resource.Scale)3} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)1k Format:(resource.Format)DecimalSI}"),
    ("1000", "{i:(resource.int64Amount){value:(int64)1000 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string) Format:(resource.Format)DecimalSI}"),
    ("250", "{i:(resource.int64Amount){value:(int64)250 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)250 Format:(resource.Format)DecimalSI}"),
    ("1M", "{i:(resource.int64Amount){value:(int64)1 scale:(resource.Scale)6} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)1M Format:(resource.Format)DecimalSI}"),
    ("1n", "{i:(resource.int64Amount){value:(int64)1 scale:(resource.Scale)-9} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)1n Format:(resource.Format)DecimalSI}"),
    ("1u", "{i:(resource.int64Amount){value:(int64)1 scale:(resource.Scale)-6} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)1u Format:(resource.Format)DecimalSI}"),
    ("123456789012345678", "{i:(resource.int64Amount){value:(int64)123456789012345678 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)123456789012345678 Format:(resource.Format)DecimalSI}"),
    ("12345678901234567890123", "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec){unscaled:(big.Int){neg:(bool)false abs:(big.nat)[6432227781343849984 669260594276]} scale:(inf.Scale)9}} s:(string) Format:(resource.Format)DecimalSI}"),
    ("1Ki", "{i:(resource.int64Amount){value:(int64)1024 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)1Ki Format:(resource.Format)BinarySI}"),
    ("64Mi", "{i:(resource.int64Amount){value:(int64)67108864 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string) Format:(resource.Format)BinarySI}"),
    ("65Mi", "{i:(resource.int64Amount){value:(int64)68157440 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)65Mi Format:(resource.Format)BinarySI}"),
    ("1Gi", "{i:(resource.int64Amount){value:(int64)1073741824 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)1Gi Format:(resource.Format)BinarySI}"),
    ("1536Mi", "{i:(resource.int64Amount){value:(int64)1610612736 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string) Format:(resource.Format)BinarySI}"),
    ("3Gi", "{i:(resource.int64Amount){value:(int64)3221225472 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)3Gi Format:(resource.Format)BinarySI}"),
    ("1Ti", "{i:(resource.int64Amount){value:(int64)1099511627776 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)1Ti Format:(resource.Format)BinarySI}"),
    ("9Ti", "{i:(resource.int64Amount){value:(int64)9895604649984 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)9Ti Format:(resource.Format)BinarySI}"),
    ("128Gi", "{i:(resource.int64Amount){value:(int64)137438953472 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string) Format:(resource.Format)BinarySI}"),
    ("100Ti", "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec){unscaled:(big.Int){neg:(bool)false abs:(big.nat)[8568098291072368640 5960]} scale:(inf.Scale)9}} s:(string) Format:(resource.Format)BinarySI}"),
    ("1Pi", "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec){unscaled:(big.Int){neg:(bool)false abs:(big.nat)[2882303761517117440 61035]} scale:(inf.Scale)9}} s:(string) Format:(resource.Format)BinarySI}"),
    ("1Ei", "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec){unscaled:(big.Int){neg:(bool)false abs:(big.nat)[0 62500000]} scale:(inf.Scale)9}} s:(string) Format:(resource.Format)BinarySI}"),
    ("2Ei", "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec){unscaled:(big.Int){neg:(bool)false abs:(big.nat)[0 125000000]} scale:(inf.Scale)9}} s:(string) Format:(resource.Format)BinarySI}"),
    ("1e3", "{i:(resource.int64Amount){value:(int64)1 scale:(resource.Scale)3} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)1e3 Format:(resource.Format)DecimalExponent}"),
    ("12e6", "{i:(resource.int64Amount){value:(int64)12 scale:(resource.Scale)6} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)12e6 Format:(resource.Format)DecimalExponent}"),
    ("15E", "{i:(resource.int64Amount){value:(int64)15 scale:(resource.Scale)18} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)15E Format:(resource.Format)DecimalSI}"),
    ("5P", "{i:(resource.int64Amount){value:(int64)5 scale:(resource.Scale)15} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)5P Format:(resource.Format)DecimalSI}"),
    ("0.5", "{i:(resource.int64Amount){value:(int64)5 scale:(resource.Scale)-1} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string) Format:(resource.Format)DecimalSI}"),
    ("1.5Gi", "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec){unscaled:(big.Int){neg:(bool)false abs:(big.nat)[1610612736000000000]} scale:(inf.Scale)9}} s:(string) Format:(resource.Format)BinarySI}"),
    ("1.25", "{i:(resource.int64Amount){value:(int64)125 scale:(resource.Scale)-2} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string) Format:(resource.Format)DecimalSI}"),
    ("0.1Gi", "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec){unscaled:(big.Int){neg:(bool)false abs:(big.nat)[107374182400000000]} scale:(inf.Scale)9}} s:(string) Format:(resource.Format)BinarySI}"),
    ("10e-3", "{i:(resource.int64Amount){value:(int64)10 scale:(resource.Scale)-3} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)10e-3 Format:(resource.Format)DecimalExponent}"),
    ("100Ei", "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec){unscaled:(big.Int){neg:(bool)false abs:(big.nat)[9223372036854775807]} scale:(inf.Scale)0}} s:(string) Format:(resource.Format)BinarySI}"),
    ("8Ei", "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec){unscaled:(big.Int){neg:(bool)false abs:(big.nat)[9223372036854775807]} scale:(inf.Scale)0}} s:(string) Format:(resource.Format)BinarySI}"),
];

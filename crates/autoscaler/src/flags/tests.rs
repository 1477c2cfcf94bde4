use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::Object;
use serde::Deserialize;
use serde_json::{Value, json};

use super::definitions::{self, FLAGS, Flag, FlagType};
use super::{BadFlags, group_sizes};
use crate::settings::{Expander, MinMax, Settings, Version};

const FLAGS_OF_VERSIONS: &str = include_str!("../../../../testdata/autoscaler/flags.jsonl");
const COMMAND_LINES: &str = include_str!("../../../../testdata/autoscaler/command_lines.jsonl");

#[derive(Deserialize)]
struct VersionFlags {
    version: String,
    /// The type and the default of each.
    flags: BTreeMap<String, (String, String)>,
}

#[derive(Deserialize)]
struct CommandLine {
    args: Vec<String>,
    error: Option<String>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
}

fn read(line: &str) -> Result<Settings, BadFlags> {
    Settings::from_flags(Version::V1_36, &arguments(line))
}

fn arguments(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[track_caller]
fn check_error(line: &str, message: &str) {
    assert_eq!(read(line).unwrap_err().to_string(), message);
}

fn versions() -> Vec<(Version, VersionFlags)> {
    let read = |line: &str| serde_json::from_str::<VersionFlags>(line).unwrap();
    FLAGS_OF_VERSIONS.lines().map(read).map(|read| (Version::parse(&read.version).unwrap(), read)).collect()
}

fn flag_type(name: &str) -> FlagType {
    match name {
        "switch" => FlagType::Bool,
        "count" => FlagType::Int,
        "share" => FlagType::Float,
        "span" => FlagType::Duration,
        "text" => FlagType::String,
        "each" => FlagType::StringArray,
        "names" => FlagType::StringSlice,
        other => panic!("{other}"),
    }
}

#[test]
fn every_version_takes_its_flags_and_no_other() {
    let mut named = BTreeSet::new();
    for (version, VersionFlags { flags, .. }) in versions() {
        for (name, (takes, _)) in &flags {
            let (_, flag) = definitions::find(name).unwrap_or_else(|| panic!("{name} is missing"));
            assert_eq!(flag.flag_type(), flag_type(takes), "{name}");
            assert!(
                matches!(definitions::availability(name, version), definitions::FlagAvailability::Available),
                "{name} of {version}"
            );
            named.insert(name.clone());
        }
        for (name, _) in FLAGS.iter().filter(|(name, _)| !flags.contains_key(*name)) {
            let is_foreign =
                !matches!(definitions::availability(name, version), definitions::FlagAvailability::Available);
            let (_, flag) = definitions::find(name).unwrap();
            // Flags of logging, feature gates and leader election come from libraries.
            assert!(
                is_foreign || matches!(flag, Flag::NoEffect(_)) || *name == "feature-gates",
                "{name} of {version}"
            );
        }
    }
    assert_eq!(named.len(), 140);
}

#[test]
fn defaults_are_those_of_each_version() {
    for (version, VersionFlags { flags, .. }) in versions() {
        let plain = Settings::from_flags(version, &[]).unwrap();
        for (name, (takes, default)) in flags {
            if takes == "each" || name == "drain-priority-config" {
                continue;
            }
            let parsed = Settings::from_flags(version, &[format!("--{name}={default}")]);
            assert_eq!(parsed.as_ref(), Ok(&plain), "--{name}={default} of {version}");
        }
    }
}

#[test]
fn every_effective_flag_sets_a_field_of_its_own() {
    let plain = Settings::from_flags(Version::V1_36, &[]).unwrap();
    let mut flags_by_effect: BTreeMap<String, &str> = BTreeMap::new();
    for (name, flag) in FLAGS.iter().filter(|(name, _)| {
        matches!(definitions::availability(name, Version::V1_36), definitions::FlagAvailability::Available)
    }) {
        let values: &[&str] = match (flag, flag.flag_type()) {
            (Flag::NoEffect(_) | Flag::Custom(..), _) => continue,
            (_, FlagType::Bool) => &["true", "false"],
            (_, FlagType::Int) => &["77"],
            (_, FlagType::Float) => &["0.77"],
            (_, FlagType::Duration) => &["77m"],
            (_, FlagType::String | FlagType::StringArray | FlagType::StringSlice) => &["x"],
        };
        let other = values.iter().map(|value| read(&format!("--{name}={value}")).unwrap());
        let changed: Vec<Settings> = other.filter(|settings| *settings != plain).collect();
        assert_eq!(changed.len(), 1, "{name}");
        let twin = flags_by_effect.insert(format!("{changed:?}"), name);
        assert!(
            twin.is_none() || (twin, *name) == (Some("ignore-taint"), "startup-taint"),
            "{twin:?} and {name}"
        );
    }
}

/// The reference is pflag 1.0.10 with Go's flags added to it as cluster-autoscaler does.
#[test]
fn command_lines_are_read_as_pflag_reads_them() {
    for line in COMMAND_LINES.lines() {
        let CommandLine { args, error, set } = serde_json::from_str(line).unwrap();
        let our_settings = Settings::from_flags(Version::V1_36, &args);
        let last = args.last().unwrap();
        // pflag accepts these, which are refused here: negative durations, NaN, hexadecimal floats.
        if ["--scan-interval=-5s", "nan", "0x1p-2"].iter().any(|odd| last.ends_with(odd)) {
            assert!(error.is_none() && our_settings.is_err(), "{args:?}");
            continue;
        }
        assert_eq!(our_settings.is_err(), error.is_some(), "{args:?}: {our_settings:?}");
        let Ok(our_settings) = our_settings else { continue };
        for (name, value) in set {
            let parsed = match name.as_str() {
                "scan-interval" => json!(our_settings.scan_interval.as_nanos() as u64),
                "max-nodes-total" => json!(our_settings.max_nodes_total.to_string()),
                "scale-down-enabled" => json!(our_settings.scale_down_enabled.to_string()),
                "scale-down-utilization-threshold" => {
                    let share = our_settings.group_defaults.scale_down_utilization_threshold;
                    json!(if share.is_infinite() { "+Inf".to_owned() } else { share.to_string() })
                }
                "bypassed-scheduler-names" => {
                    let mut sorted: Vec<Value> = value.as_array().unwrap().clone();
                    sorted.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
                    assert_eq!(json!(our_settings.bypassed_scheduler_names), json!(sorted), "{args:?}");
                    continue;
                }
                "startup-taint" => json!(our_settings.startup_taints),
                "gpu-total" => {
                    let text = |(kind, range): &(std::sync::Arc<str>, MinMax)| {
                        format!("{kind}:{}:{}", range.min, range.max)
                    };
                    json!(our_settings.gpu_total.iter().map(text).collect::<Vec<_>>())
                }
                "namespace" => json!(our_settings.namespace),
                "v" => continue,
                other => panic!("{other}"),
            };
            assert_eq!(parsed, value, "{args:?}");
        }
    }
}

#[test]
fn a_bad_value_is_refused_and_named() {
    check_error("--nope=1", "invalid autoscaler flag --nope=1: unknown flag");
    check_error(
        "--expander=cheapest",
        "invalid autoscaler flag --expander=cheapest: unknown expander \"cheapest\": expected random, most-pods, least-waste, least-nodes, price or priority",
    );
    check_error(
        "--expander=price,price",
        "invalid autoscaler flag --expander=price,price: duplicate expander price",
    );
    check_error(
        "--expander=random,price",
        "invalid autoscaler flag --expander=random,price: price is never used: random chooses a single option",
    );
    check_error(
        "--estimator=old",
        "invalid autoscaler flag --estimator=old: unknown estimator: expected binpacking",
    );
    check_error("--cores-total=8", "invalid autoscaler flag --cores-total=8: expected min:max, such as 8:64");
    check_error("--cores-total=9:8", "invalid autoscaler flag --cores-total=9:8: max 8 is less than min 9");
    check_error(
        "--cores-total=-1:8",
        "invalid autoscaler flag --cores-total=-1:8: min -1 must not be negative",
    );
    check_error(
        "--gpu-total=8:9",
        "invalid autoscaler flag --gpu-total=8:9: expected gpu_type:min:max, such as nvidia-tesla-k80:0:16",
    );
    check_error("--nodes=3:2:a", "invalid autoscaler flag --nodes=3:2:a: max 2 is less than min 3");
    check_error(
        "--scan-interval=-5s",
        "invalid autoscaler flag --scan-interval=-5s: the duration must not be negative",
    );
    check_error("--scan-interval", "invalid autoscaler flag --scan-interval: value required");
    check_error(
        "--predicate-parallelism=0",
        "invalid autoscaler flag --predicate-parallelism=0: must be at least 1",
    );
    check_error(
        "--max-empty-bulk-delete=3",
        "invalid autoscaler flag --max-empty-bulk-delete=3: not supported by cluster-autoscaler 1.36: removed in 1.33",
    );
    check_error(
        "--enable-graceful-degradation",
        "invalid autoscaler flag --enable-graceful-degradation: not supported by cluster-autoscaler 1.36: added in 1.37",
    );
    check_error(
        "--drain-priority-config=0:60 --max-graceful-termination-sec=60",
        "invalid autoscaler flag --drain-priority-config: cannot be used with --max-graceful-termination-sec",
    );
    check_error(
        "--drain-priority-config=0:x",
        "invalid autoscaler flag --drain-priority-config=0:x: \"0:x\" is not priority:seconds, such as 1000:60",
    );
    check_error(
        "--bypassed-scheduler-names=a --allowed-scheduler-names=b",
        "invalid autoscaler flag --bypassed-scheduler-names: a is not in --allowed-scheduler-names",
    );
    check_error(
        "--enable-dynamic-resource-allocation=false",
        "invalid autoscaler flag --enable-dynamic-resource-allocation=false: cannot be disabled since 1.35",
    );
}

#[test]
fn values_with_a_format_of_their_own_are_kept() {
    let settings = read("--expander=priority,least-nodes --cores-total=8:64 --memory-total=1:2 --drain-priority-config=1000:100,-5:20,0:60 --gpu-total=k80:0:16").unwrap();
    assert_eq!(settings.expander, [Expander::Priority, Expander::LeastNodes]);
    assert_eq!(settings.cores_total, MinMax { min: 8, max: 64 });
    assert_eq!(settings.memory_total, MinMax { min: 1, max: 2 });
    assert_eq!(settings.drain_priority_config, [(-5, 20), (0, 60), (1000, 100)]);
    assert_eq!(settings.gpu_total, [("k80".into(), MinMax { min: 0, max: 16 })]);
    let named =
        group_sizes(&arguments("./ca --nodes=1:10:a --nodes 0:3:https://b:c --v=4 --nodes=x:1:d --nodes"));
    let named: Vec<_> = named.iter().map(|size| (&*size.name, size.min, size.max)).collect();
    assert_eq!(named, [("a", 1, 10), ("https://b:c", 0, 3)]);
}

#[test]
fn unsupported_flags_are_reported_unless_they_have_the_default() {
    assert_eq!(read("--max-binpacking-time=300s --enable-proactive-scaleup=f").unwrap().unsupported, [""; 0]);
    let settings =
        read("--max-binpacking-time=1m --enable-proactive-scaleup --max-binpacking-time=2m --expander=grpc")
            .unwrap();
    assert_eq!(
        settings.unsupported,
        [
            "--enable-proactive-scaleup=true: pods not yet created by controllers are not injected",
            "--max-binpacking-time=2m: simulated decisions take no time, so the limit is never reached",
            "--expander=grpc: the grpc expander is not called: it keeps all options",
        ]
    );
    assert_eq!(settings.expander, [Expander::Random]);
}

#[test]
fn a_document_has_a_field_per_flag() {
    let settings = Settings::read(&json!({
        "version": "1.32", "seed": 7, "expander": ["price", "random"], "scan-interval": "30s",
        "max-empty-bulk-delete": 4, "scale-down-enabled": false, "scale-down-utilization-threshold": 0.65,
        "startup-taint": ["a", "b,c"], "bypassed-scheduler-names": ["x", "y,z"],
    }))
    .unwrap();
    assert_eq!((settings.version, settings.seed), (Version::V1_32, 7));
    assert_eq!(settings.expander, [Expander::Price, Expander::Random]);
    assert_eq!((settings.scan_interval, settings.max_empty_bulk_delete), (Duration::from_secs(30), 4));
    assert!(!settings.scale_down_enabled);
    assert!((settings.group_defaults.scale_down_utilization_threshold - 0.65).abs() < 1e-9);
    assert_eq!(settings.startup_taints, ["a".into(), "b,c".into()]);
    assert_eq!(settings.bypassed_scheduler_names, ["x".into(), "y,z".into()]);
    for (document, message) in [
        (json!([]), "invalid autoscaler flag settings: expected flags with values"),
        (json!({"version": 1.36}), "invalid autoscaler flag version: 1.36 is not a string: put it in quotes"),
        (json!({"scanInterval": "5s"}), "invalid autoscaler flag scanInterval: unknown flag"),
        (
            json!({"scan-interval": ["5s"]}),
            "invalid autoscaler flag scan-interval: expected one value, found a list",
        ),
        (json!({"scan-interval": null}), "invalid autoscaler flag scan-interval: no value: omit the field"),
        (
            json!({"expander": {"a": 1}}),
            "invalid autoscaler flag expander: expected a string, number or boolean",
        ),
        (json!({"seed": -1}), "invalid autoscaler flag seed: must be a non-negative integer"),
    ] {
        assert_eq!(Settings::read(&document).unwrap_err().to_string(), message);
    }
}

fn deployment(container: Value) -> Object {
    let spec =
        json!({"template": {"spec": {"containers": [{"name": "sidecar", "args": ["--v=4"]}, container]}}});
    testobjects::resource("apps/v1", "Deployment", "d").set("spec", spec).object()
}

#[test]
fn version_and_flags_are_read_from_a_deployment() {
    let running = Settings::from_deployment(&deployment(json!({
        "name": "aws", "image": "registry.k8s.io:443/autoscaling/cluster-autoscaler:v1.33.2@sha256:0f",
        "command": ["./cluster-autoscaler", "--cloud-provider=aws"], "args": ["--nodes=1:10:a", "--expander", "price"],
    })))
    .unwrap()
    .unwrap();
    assert_eq!((running.settings.version, &*running.settings.cloud_provider), (Version::V1_33, "aws"));
    assert_eq!(running.settings.expander, [Expander::Price]);
    assert_eq!(running.group_sizes.len(), 1);
    assert_eq!(running.assumptions, [""; 0]);
}

#[test]
fn a_deployment_without_version_gets_one_that_has_its_flags() {
    let running = Settings::from_deployment(&deployment(json!({
        "name": "cluster-autoscaler", "command": ["./cluster-autoscaler", "--max-empty-bulk-delete=3"],
    })))
    .unwrap()
    .unwrap();
    assert_eq!(running.settings.version, Version::V1_32);
    assert_eq!(
        running.assumptions,
        [
            "the version of cluster-autoscaler is unknown: the image has no version tag",
            "cluster-autoscaler 1.32 is simulated, which supports all of its flags",
        ]
    );
}

#[test]
fn a_deployment_may_run_the_autoscaler_by_a_shell_or_not_at_all() {
    let script =
        "exec /cluster-autoscaler --v=4 --scan-interval=7s --expander='price' 1>>/var/log/ca.log 2>&1 --nope";
    let container = json!({"name": "c", "image": "ca:v1.30.2", "command": ["/bin/sh", "-c", script]});
    let running = Settings::from_deployment(&deployment(container)).unwrap().unwrap();
    assert_eq!(running.settings.scan_interval, Duration::from_secs(7));
    assert_eq!(running.settings.expander, [Expander::Price]);
    assert_eq!(
        running.assumptions,
        [
            "the autoscaler is started by a shell; its flags are read from the script",
            "cluster-autoscaler v1.30.2 is not simulated",
            "cluster-autoscaler 1.32 is simulated, which supports all of its flags",
        ]
    );
    assert_eq!(
        Settings::from_deployment(&deployment(json!({"name": "web", "image": "nginx:1.29"}))),
        Ok(None)
    );
}

#[test]
fn every_flag_has_a_row_in_the_table_of_compatibility() {
    let table = include_str!("../../../../COMPATIBILITY.md");
    for (name, _) in FLAGS {
        assert!(table.contains(&format!("| `{name}` |")), "--{name}");
    }
}

#[test]
fn further_flags_override_earlier_ones() {
    let before = read("--expander=most-pods --scale-down-unneeded-time=2m --startup-taint=a").unwrap();
    let after = before.clone().with_flags(&arguments("--expander=price --startup-taint=b")).unwrap();
    assert_eq!(after.expander, [Expander::Price]);
    assert_eq!(after.startup_taints, ["a".into(), "b".into()]);
    let expander = before.expander.clone();
    assert_eq!(Settings { expander, startup_taints: before.startup_taints.clone(), ..after }, before);
    let stray = before.clone().with_flags(&arguments("--scale-down-enabled false")).unwrap_err();
    assert_eq!(stray.to_string(), "invalid autoscaler flag false: not a flag: expected --name=value");
    let error = before.with_flags(&arguments("--wombat=1")).unwrap_err();
    assert_eq!(error.to_string(), "invalid autoscaler flag --wombat=1: unknown flag");
}

/// The defaults of every version become those of every other; explicit values are kept.
#[test]
fn settings_become_those_of_another_version() {
    for (from, _) in versions() {
        for (to, _) in versions() {
            let other = Settings::for_version(from).with_version(to);
            assert_eq!(other, Settings::for_version(to), "{from} to {to}");
        }
    }
    let settings = Settings::from_flags(Version::V1_36, &arguments("--expander=most-pods")).unwrap();
    assert_eq!(settings.with_version(Version::V1_32).expander, [Expander::MostPods]);
}

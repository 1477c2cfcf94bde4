use std::path::{Path, PathBuf};

use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde_json::json;

use super::*;

const NOW: &str = "2006-01-02T15:04:05Z";

fn now() -> Moment {
    NOW.parse().unwrap()
}

fn stage(name: &str, spec: Value) -> Arc<Stage> {
    let mut object =
        json!({"metadata": {"name": name}, "spec": {"resourceRef": {"kind": "Pod"}, "selector": {}}});
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field.as_str()] = value.clone();
    }
    Arc::new(Stage::parse(&object).unwrap())
}

/// How often each stage is chosen in a thousand draws.
#[track_caller]
fn check_shares(stages: &[Arc<Stage>], object: Value, expected: &[(&str, std::ops::RangeInclusive<usize>)]) {
    let mut rng = Pcg64::seed_from_u64(1);
    let draws: Vec<Arc<str>> = (0..1000)
        .filter_map(|_| matching_stage(stages, &object, &mut rng).map(|stage| stage.name.clone()))
        .collect();
    for (name, range) in expected {
        let count = draws.iter().filter(|draw| ***draw == **name).count();
        assert!(range.contains(&count), "{name}: {count}, expected {range:?}");
    }
}

#[test]
fn chance_decides_by_weight() {
    let weighted = |name: &str, weight: i64| {
        let annotation = ".metadata.annotations[\"weight\"]";
        stage(name, json!({"weight": weight, "weightFrom": {"expressionFrom": annotation}}))
    };
    check_shares(&[weighted("a", 1), weighted("b", 3)], json!({}), &[("a", 200..=300), ("b", 700..=800)]);
    check_shares(&[weighted("a", 0), weighted("b", 0)], json!({}), &[("a", 400..=600), ("b", 400..=600)]);
    check_shares(&[weighted("a", 0), weighted("b", 1)], json!({}), &[("a", 0..=0), ("b", 1000..=1000)]);
    // A weight that is no number excludes a stage only if another one has one.
    let unreadable = json!({"metadata": {"annotations": {"weight": "x"}}});
    let plain = stage("plain", json!({"weight": 0}));
    check_shares(&[weighted("a", 5), plain], unreadable.clone(), &[("a", 0..=0), ("plain", 1000..=1000)]);
    check_shares(&[weighted("a", 5), weighted("b", 5)], unreadable, &[("a", 400..=600), ("b", 400..=600)]);
}

#[track_caller]
fn check_delay(delay: Value, object: Value, expected: std::ops::RangeInclusive<u64>) {
    let stage = stage("s", json!({"delay": delay}));
    for seed in 0..50 {
        let waits = stage.delay(&object, now(), &mut Pcg64::seed_from_u64(seed));
        let millis = u64::try_from(waits.as_millis()).unwrap();
        assert!(expected.contains(&millis), "{millis}, expected {expected:?}");
    }
}

#[test]
fn delays_are_constant_random_or_named_by_the_object() {
    check_delay(json!({}), json!({}), 0..=0);
    check_delay(json!({"durationMilliseconds": 500}), json!({}), 500..=500);
    let jittered = json!({"durationMilliseconds": 500, "jitterDurationMilliseconds": 700});
    check_delay(jittered, json!({}), 500..=700);
    let shorter = json!({"durationMilliseconds": 500, "jitterDurationMilliseconds": 100});
    check_delay(shorter, json!({}), 100..=100);
    let from = json!({"durationMilliseconds": 500, "durationFrom": {"jq": {"expression": ".at"}}});
    check_delay(from.clone(), json!({"at": "2s"}), 2000..=2000);
    check_delay(from.clone(), json!({"at": "2006-01-02T15:04:08Z"}), 3000..=3000);
    check_delay(from.clone(), json!({"at": "2006-01-02T15:04:00Z"}), 0..=0);
    check_delay(from.clone(), json!({"at": "soon"}), 500..=500);
    check_delay(from, json!({"at": ""}), 0..=0);
}

#[test]
fn selectors_need_all_their_parts() {
    let selector = json!({
        "matchLabels": {"a": "1"}, "matchAnnotations": {"b": "2"},
        "matchExpressions": [{"jq": {"key": ".status.phase", "operator": "In", "values": ["Running"]}}],
    });
    let stage = stage("s", json!({"selector": selector}));
    let object = json!({
        "metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}}, "status": {"phase": "Running"},
    });
    assert!(stage.matches(&object));
    for pointer in ["/metadata/labels/a", "/metadata/annotations/b", "/status/phase"] {
        let mut other = object.clone();
        *other.pointer_mut(pointer).unwrap() = "x".into();
        assert!(!stage.matches(&other), "{pointer}");
    }
    let object = json!({"spec": {"resourceRef": {"kind": "Pod"}}});
    assert!(!Stage::parse(&object).unwrap().matches(&json!({})), "without a selector nothing is selected");
}

#[track_caller]
fn check_refused(spec: Value, field: &str, why: &str) {
    let mut object = json!({"metadata": {"name": "s"}, "spec": {"resourceRef": {"kind": "Pod"}}});
    for (name, value) in spec.as_object().unwrap() {
        object["spec"][name.as_str()] = value.clone();
    }
    let error = Stage::parse(&object).unwrap_err();
    assert_eq!(error.field, field, "{error}");
    assert!(error.why.contains(why), "{error}");
}

#[test]
fn anything_beyond_the_subset_is_refused_by_name() {
    check_refused(
        json!({"resourceRef": {"kind": "PersistentVolume"}}),
        "spec.resourceRef",
        "v1 PersistentVolume",
    );
    check_refused(json!({"color": "red"}), "spec.color", "unknown field `color`");
    let expressions = |expression: Value| json!({"selector": {"matchExpressions": [expression]}});
    let field = "spec.selector.matchExpressions[0]";
    check_refused(expressions(json!({"cel": {"expression": "true"}})), &format!("{field}.cel"), "CEL");
    check_refused(
        expressions(json!({"key": "length", "operator": "Exists"})),
        &format!("{field}.key"),
        "length",
    );
    let other = json!({"key": ".a", "operator": "Intersection", "values": ["b"]});
    check_refused(expressions(other), &format!("{field}.operator"), "Intersection");
    check_refused(
        expressions(json!({"key": ".a", "operator": "In"})),
        &format!("{field}.values"),
        "needs values",
    );
    check_refused(json!({"steps": [{"apply": {"template": "a: 1"}}]}), "spec.steps[0].apply", "apply");
    let patch = |field: &str, value: &str| json!({"steps": [{"patch": {field: value}}]});
    check_refused(patch("type", "json"), "spec.steps[0].patch.type", "merge or strategic");
    check_refused(patch("subresource", "resize"), "spec.steps[0].patch.subresource", "expected status");
    check_refused(patch("template", "{{ env \"A\" }}"), "spec.steps[0].patch.template", "function \"env\"");
    check_refused(
        json!({"next": {"statusPatchAs": {"username": "u"}}}),
        "spec.next.statusPatchAs",
        "impersonation",
    );
    check_refused(json!({"delay": {"durationFrom": {"cel": {}}}}), "spec.delay.durationFrom.cel", "CEL");
}

#[test]
fn finalizers_are_added_and_removed() {
    let edit = |edit: Value| {
        let stage = stage("s", json!({"next": {"finalizers": edit}}));
        match &stage.steps[..] {
            [StageStep::Finalizers(edit)] => edit.apply(&["a".to_owned(), "b".to_owned()]),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(edit(json!({"add": [{"value": "c"}, {"value": "a"}]})), ["a", "b", "c"]);
    assert_eq!(edit(json!({"remove": [{"value": "a"}]})), ["b"]);
    assert_eq!(edit(json!({"empty": true, "add": [{"value": "c"}]})), ["c"]);
}

/// Functions that return their calls, as those of KWOK's own tests.
struct CalledFunctions;

impl ClusterFunctions for CalledFunctions {
    fn call(&self, function: ClusterFunction, arguments: &[TemplateValue<'_>]) -> TemplateValue<'static> {
        let (name, is_list) = match function {
            ClusterFunction::Now => ("Now", false),
            ClusterFunction::Version => ("Version", false),
            ClusterFunction::NodeIp => ("NodeIP", false),
            ClusterFunction::NodeName => ("NodeName", false),
            ClusterFunction::NodePort => ("NodePort", false),
            ClusterFunction::NodeIpWith => ("NodeIPWith", false),
            ClusterFunction::NodeIpsWith => ("NodeIPsWith", true),
            ClusterFunction::PodIpWith => ("PodIPWith", false),
            ClusterFunction::PodIpsWith => ("PodIPsWith", true),
        };
        let texts: Vec<String> = arguments.iter().map(|argument| argument.to_json().to_string()).collect();
        let call = if texts.is_empty() { name.to_owned() } else { format!("{name}({})", texts.join(", ")) };
        match is_list {
            true => TemplateValue::owned(json!([format!("<0 of {call}>"), format!("<1 of {call}>")])),
            false => TemplateValue::owned(format!("<{call}>")),
        }
    }
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    formats::manifests::parse_yaml(&path.display().to_string(), &text).unwrap()
}

/// The files of a folder that end so.
fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect();
    files.sort_unstable();
    files
}

/// What KWOK's own test prints about an object: the stages that may follow, their delays, weights and steps.
fn outcome(stages: &[Arc<Stage>], object: &Value) -> Value {
    let describe = |(stage, _): &(&Arc<Stage>, i64)| {
        let mut described = json!({"stage": *stage.name, "next": []});
        if let Some((duration, jitter)) = stage.delay_range(object, now()) {
            described["delay"] = match jitter {
                None => json!([duration]),
                Some(jitter) if jitter <= duration => json!([jitter]),
                Some(jitter) => json!([duration, jitter]),
            };
        }
        if let Some(weight) = stage.weight.of(object) {
            described["weight"] = weight.into();
        }
        let steps = stage.steps.iter().map(|step| match step {
            StageStep::Event { event_type, reason, message } => {
                json!({"kind": "event", "type": event_type, "reason": reason, "message": message})
            }
            StageStep::Delete => json!({"kind": "delete"}),
            StageStep::Finalizers(edit) => panic!("{edit:?}"),
            StageStep::Patch(patch) => {
                let data = patch.render(stage, object, &CalledFunctions).unwrap();
                let subresource = if patch.is_status { "status" } else { "" };
                json!({"kind": "patch", "data": data, "subresource": subresource})
            }
        });
        described["next"] = steps.collect();
        described
    };
    possible_stages(stages, object).iter().map(describe).collect()
}

/// KWOK's own cases, where its sources are.
#[test]
fn shipped_stages_do_what_they_do_in_kwok() {
    let Some(folder) = std::env::var_os("KINESCOPE_KWOK") else {
        // Written directly: the test runner captures the output of print macros.
        std::io::Write::write_all(
            &mut std::io::stderr(),
            b"skipped: no sources of KWOK in $KINESCOPE_KWOK\n",
        )
        .unwrap();
        return;
    };
    let mut count = 0;
    for group in ["node/chaos", "node/fast", "pod/fast", "pod/general"] {
        let folder = Path::new(&folder).join("kustomize/stage").join(group);
        let documents =
            files(&folder, ".yaml").into_iter().filter(|path| !path.ends_with("kustomization.yaml"));
        let stages: Vec<Arc<Stage>> =
            documents.map(|path| Arc::new(Stage::parse(&read(&path)).unwrap())).collect();
        assert!(!stages.is_empty(), "{group}");
        for input in files(&folder.join("testdata"), ".input.yaml") {
            let name = input.to_string_lossy().replace(".input.yaml", ".output.yaml");
            let mut expected = read(Path::new(&name))["stages"].take();
            // The type of a patch is KWOK's default for objects without a Go type, which ours never are.
            for step in expected
                .as_array_mut()
                .unwrap()
                .iter_mut()
                .flat_map(|stage| stage["next"].as_array_mut())
                .flatten()
            {
                step.as_object_mut().unwrap().remove("type").filter(|_| step["kind"] == "patch");
            }
            let mut found = outcome(&stages, &read(&input));
            for step in found
                .as_array_mut()
                .unwrap()
                .iter_mut()
                .flat_map(|stage| stage["next"].as_array_mut())
                .flatten()
            {
                step.as_object_mut().unwrap().remove("type");
            }
            assert_eq!(found, expected, "{}", input.display());
            count += 1;
        }
    }
    assert!(count >= 10, "only {count} cases");
    for other in ["node/heartbeat", "node/heartbeat-with-lease", "pod/chaos"] {
        let folder = Path::new(&folder).join("kustomize/stage").join(other);
        for path in files(&folder, ".yaml").into_iter().filter(|path| !path.ends_with("kustomization.yaml")) {
            Stage::parse(&read(&path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::*;
use crate::defaults::canonical::make_canonical;
use crate::schema::field_numbers;

/// An object of a kind in version v1, with the bytes of its message.
fn object(kind: &str, raw: &[u8]) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| -> Vec<u8> {
        let length = u8::try_from(bytes.len()).expect("short fields");
        assert!(length < 128);
        [&[number << 3 | 2, length], bytes].concat()
    };
    let type_meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
    [&b"k8s\0"[..], &field(1, &type_meta), &field(2, raw)].concat()
}

#[track_caller]
fn check_error(bytes: &[u8], expected: &str) {
    assert_eq!(decode_protobuf(bytes).unwrap_err().to_string(), expected);
}

#[test]
fn every_field_has_a_number() {
    for type_ in schema::all() {
        // These are not sent as protobuf.
        let is_local =
            matches!(type_.name, "handlers.jsonPatchOp" | "node.RuntimeClassSpec" | "resource.BasicDevice")
                || schema::RESPONSE_TYPES.contains(&type_.name);
        let numbered = count_fields(message(schema::named(type_.name).unwrap()));
        let fields = type_.fields.iter().filter(|field| !field.embedded.contains(&"TypeMeta")).count();
        assert_eq!(numbered, if is_local { 0 } else { fields }, "{}", type_.name);
    }
}

fn count_fields(message: &Message) -> usize {
    let count = |field: &MessageField| match field {
        MessageField::Field(_) => 1,
        MessageField::Embedded(inner) => count_fields(inner),
    };
    message.fields.values().map(count).sum()
}

#[test]
fn bad_messages_are_errors() {
    let no_object =
        "provided data does not appear to be a protobuf message, expected prefix [107, 56, 115, 0]";
    check_error(b"", no_object);
    check_error(b"{}", no_object);
    check_error(
        &object("Poodle", b""),
        "objects of the kind Poodle in version \"v1\" cannot be decoded from protobuf",
    );
    check_error(&object("Pod", b"\x2a\x00"), "unknown field number 5 in core.Pod");
    check_error(&object("Pod", b"\x0a\x05ab"), "invalid protobuf message core.Pod: it is cut off");
    check_error(
        &object("Pod", b"\x08\x01"),
        "invalid protobuf message core.Pod: a field has the wire type of another one",
    );
    check_error(
        &object("Pod", b"\x0a\x03\x0a\x01\xff"),
        "invalid protobuf message meta.ObjectMeta: a string is not UTF-8",
    );
    check_error(
        &object("Pod", b"\x0b"),
        "invalid protobuf message core.Pod: a field has a wire type that Kubernetes does not use",
    );
    check_error(&object("Pod", &[0xff; 11]), "invalid protobuf message core.Pod: a number is too long");
}

#[test]
fn evictions_are_decoded_in_both_versions() {
    for (version, size, version_size) in [("policy/v1", 0x15, 0x09), ("policy/v1beta1", 0x1a, 0x0e)] {
        // As client-go 0.36 encodes them, empty fields included.
        let mut bytes = b"k8s\0\x0a".to_vec();
        bytes.extend([size, 0x0a, version_size]);
        bytes.extend(version.as_bytes());
        bytes.extend(
            b"\x12\x08Eviction\x12\x22\x0a\x1c\x0a\x05web-0\x12\0\x1a\x07default\"\0*\x002\x008\0B\0",
        );
        bytes.extend(b"\x12\x02\x08\x1e\x1a\0\"\0");
        let expected = json!({
            "apiVersion": version, "kind": "Eviction",
            "metadata": {"name": "web-0", "namespace": "default"}, "deleteOptions": {"gracePeriodSeconds": 30},
        });
        let mut decoded = decode_protobuf(&bytes).unwrap();
        make_canonical(struct_of(version, "Eviction").unwrap(), &mut decoded);
        assert_eq!(decoded, expected);
    }
}

#[test]
fn cut_objects_are_errors_or_shorter() {
    let pod = object("Pod", b"\x0a\x05\x0a\x03web\x12\x04\x52\x02n1");
    let expected =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"nodeName": "n1"}});
    assert_eq!(decode_protobuf(&pod).unwrap(), expected);
    for length in 0..pod.len() {
        let decoded = decode_protobuf(&pod[..length]);
        assert_ne!(decoded.ok(), Some(expected.clone()), "{length}");
    }
}

/// The output of the program in `tests/apitypes`; `None` without Go.
fn printed_by_go(arguments: &[&str]) -> Option<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/apitypes");
    let Some(program) = testcluster::build_module("apitypes", &sources).unwrap() else {
        // Written directly: the test runner captures the output of print macros.
        std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no go\n").unwrap();
        return None;
    };
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_field_numbers_are_those_of_go() {
    let Some(printed) = printed_by_go(&[]) else { return };
    let lines = printed.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    assert!(lines.eq(field_numbers::all().iter().copied()));
}

#[test]
fn objects_are_decoded_as_go_encodes_them() {
    #[derive(serde::Deserialize)]
    struct EncodedObject {
        json: Value,
        protobuf: String,
    }
    let mut unknown = BTreeSet::new();
    for seed in ["1", "2"] {
        let Some(printed) = printed_by_go(&["-objects", "40", "-seed", seed]) else { return };
        for line in printed.lines() {
            let EncodedObject { json: mut expected, protobuf } = serde_json::from_str(line).unwrap();
            let (api_version, kind) = (text_of(&expected["apiVersion"]), text_of(&expected["kind"]));
            let decoded = decode_protobuf(&bytes_of_hex(&protobuf));
            let mut decoded = match decoded {
                Err(ProtobufError::UnknownKind { kind, .. }) => {
                    unknown.insert(kind);
                    continue;
                }
                decoded => decoded.unwrap_or_else(|error| panic!("{api_version} {kind}: {error}")),
            };
            let id = struct_of(&api_version, &kind).unwrap();
            for object in [&mut expected, &mut decoded] {
                make_canonical(id, object);
                drop_empty_extra(object);
            }
            assert_eq!(decoded, expected, "seed {seed}, {api_version} {kind}");
        }
    }
    // Nobody can write them to a server with its default settings.
    let expected = [
        "ClusterTrustBundle",
        "ComponentStatus",
        "DeviceTaintRule",
        "LeaseCandidate",
        "PodCertificateRequest",
        "PodGroup",
        "PodStatusResult",
        "RangeAllocation",
        "ResourcePoolStatusRequest",
        "StorageVersion",
        "StorageVersionMigration",
        "Workload",
    ];
    assert_eq!(Vec::from_iter(unknown), expected);
}

/// Drops the empty lists of the `extra` of users: in protobuf they are the same as missing ones.
fn drop_empty_extra(object: &mut Value) {
    for path in ["/spec/extra", "/status/userInfo/extra", "/status/user/extra"] {
        let extra = object.pointer_mut(path).and_then(Value::as_object_mut);
        extra
            .into_iter()
            .for_each(|extra| extra.retain(|_, list| list.as_array().is_some_and(|list| !list.is_empty())));
    }
}

fn bytes_of_hex(digits: &str) -> Vec<u8> {
    let byte = |start| u8::from_str_radix(&digits[start..start + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

//! Recognition of formats by the first bytes of a file.

use crate::Format;

/// The format of a file that begins with `head`; `None` if it is not recognized.
pub(crate) fn recognize(head: &[u8]) -> Option<Format> {
    if head.starts_with(b"SQLite format 3\0") {
        // A `.kine` file has our SQLite application ID here, Gardener's files have none.
        return (head.get(68..72) == Some(&[0; 4])).then_some(Format::ScalingHistory);
    }
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        return Some(Format::KaiSnapshot);
    }
    if is_msgpack_trace(head) {
        return Some(Format::Sktrace);
    }
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start();
    if text.starts_with("instance_sn,role,app_name,") {
        return Some(Format::Dlrm);
    }
    match text.strip_prefix('{') {
        Some(rest) => recognize_json(rest),
        None => recognize_yaml(text),
    }
}

/// A trace is a map whose first key is a field of a trace, or a list of two, four or five whose first element is the
/// configuration, or the version followed by the configuration.
fn is_msgpack_trace(head: &[u8]) -> bool {
    let (is_map, entries) = match head {
        [byte @ 0x80..=0x8f, rest @ ..] => (*byte > 0x80, rest),
        [0xde, _, _, rest @ ..] | [0xdf, _, _, _, _, rest @ ..] => (true, rest),
        [0x92 | 0x94 | 0x95, rest @ ..] | [0xdc, 0, 2 | 4 | 5, rest @ ..] => (false, rest),
        _ => return false,
    };
    let holds = |bytes: &[u8], searched: &str| {
        bytes[..bytes.len().min(64)].windows(searched.len()).any(|part| part == searched.as_bytes())
    };
    if is_map {
        let keys = ["version", "config", "events", "index", "pod_lifecycles"];
        return keys.iter().any(|key| {
            let rest = match entries {
                [byte @ 0xa0..=0xbf, rest @ ..] if usize::from(byte & 0x1f) == key.len() => rest,
                [0xd9, length, rest @ ..] if usize::from(*length) == key.len() => rest,
                _ => return false,
            };
            rest.starts_with(key.as_bytes())
        });
    }
    holds(entries, "trackedObjects")
}

/// Recognizes JSON by the first key of its first object, which is unique to each of these formats.
fn recognize_json(rest: &str) -> Option<Format> {
    let key = rest.trim_start().strip_prefix('"')?.split('"').next()?;
    if ["kind", "apiVersion"].contains(&key) && is_audit(rest) {
        return Some(Format::Audit);
    }
    Some(match key {
        "at" | "seen" | "type" | "object" | "source" | "inferred" | "to" | "kinds" | "why" => Format::Jsonl,
        "time" | "event" | "resource" => Format::SchedRecord,
        // Both have a configuration; only that of a trace has tracked objects.
        "config" if !rest.contains("\"trackedObjects\"") => Format::KaiSnapshot,
        "schedulerParams" | "rawObjects" | "discovery" | "snapshot" => Format::KaiSnapshot,
        "version" | "config" | "events" | "index" | "pod_lifecycles" => Format::Sktrace,
        "BeginTime" | "ClusterSnapshot" | "ScalingResult" | "Name" | "Scenarios" | "ID" => {
            Format::ScalingScenario
        }
        // An input of the scaling recommender, which the reader refuses by name.
        "id" if rest.contains("\"nodePools\"") => Format::ScalingScenario,
        "NodeList"
        | "UnscheduledPodsCanBeScheduled"
        | "TemplateNodes"
        | "StartTimestamp"
        | "EndTimestamp"
        | "Error" => Format::Snapshotz,
        key if is_kss_list(key) => Format::KssSnapshot,
        _ => Format::Manifests,
    })
}

/// An audit event differs from a manifest by its apiVersion.
fn is_audit(rest: &str) -> bool {
    let version = rest.split_once("\"apiVersion\"").and_then(|(_, rest)| rest.trim_start().strip_prefix(':'));
    version.is_some_and(|version| version.trim_start().starts_with("\"audit.k8s.io/"))
}

/// Recognizes YAML by the first line that is neither blank nor a comment.
fn recognize_yaml(text: &str) -> Option<Format> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let mut line = lines.next()?;
    let is_start = line.starts_with("---") || line.starts_with("%YAML");
    if is_start && let Some(next) = lines.find(|line| !line.starts_with("---") && !line.starts_with('%')) {
        line = next;
    }
    let key = line.split(':').next().unwrap_or_default().trim_matches(['"', '\'']);
    let is_key =
        line.contains(':') && !key.is_empty() && key.trim().chars().all(|c| c.is_ascii_alphanumeric());
    if is_kss_list(key) {
        return Some(Format::KssSnapshot);
    }
    if is_key && text.contains("action.kwok.x-k8s.io/") {
        return Some(Format::Kwok);
    }
    (is_start || is_key).then_some(Format::Manifests)
}

fn is_kss_list(key: &str) -> bool {
    let keys = [
        "pods",
        "nodes",
        "pvs",
        "pvcs",
        "storageClasses",
        "priorityClasses",
        "schedulerConfig",
        "namespaces",
    ];
    keys.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: impl AsRef<[u8]>, format: Option<Format>) {
        let head = head.as_ref();
        assert_eq!(recognize(head), format, "{:?}", String::from_utf8_lossy(head));
    }

    #[test]
    fn formats_are_recognized_by_their_content() {
        check(r#"{"at":1,"type":"ADDED"}"#, Some(Format::Jsonl));
        check("{\n  \"type\": \"ADDED\",\n", Some(Format::Jsonl));
        check(r#"{"apiVersion":"v1"}"#, Some(Format::Manifests));
        check("# a comment\n\napiVersion: v1\n", Some(Format::Manifests));
        check("---\napiVersion: v1\n", Some(Format::Manifests));
        check(r#"{"time":"2025-06-23T15:14:28Z","event":"Add","resource":{}}"#, Some(Format::SchedRecord));
        check(r#"{"pods":[],"nodes":[]}"#, Some(Format::KssSnapshot));
        check("pods:\n- metadata:\n", Some(Format::KssSnapshot));
        check("---\nnamespaces: []\npods: []\n", Some(Format::KssSnapshot));
        check("{\n    \"version\": 2,\n    \"config\": {", Some(Format::Sktrace));
        check(r#"{"config":{"actions":"allocate"},"schedulerParams":{}}"#, Some(Format::KaiSnapshot));
        check(r#"{"config":{"trackedObjects":{}},"version":2}"#, Some(Format::Sktrace));
        check(r#"{"BeginTime":"2024-10-10T00:00:00Z"}"#, Some(Format::ScalingScenario));
        check(r#"{"id":"s1","nodePools":[]}"#, Some(Format::ScalingScenario));
        check(r#"{"NodeList":[]}"#, Some(Format::Snapshotz));
        check(
            "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n---\napiVersion: action.kwok.x-k8s.io/v1alpha1\n",
            Some(Format::Kwok),
        );
        check("instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request", Some(Format::Dlrm));
        check(r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata"}"#, Some(Format::Audit));
        check(r#"{"apiVersion": "audit.k8s.io/v1", "kind": "EventList", "items": []}"#, Some(Format::Audit));
        check(
            r#"{"kind":"Event","apiVersion":"v1","metadata":{"name":"audit.k8s.io/"}}"#,
            Some(Format::Manifests),
        );
        check("instance_sn,app_name,role\n", None);
        check("", None);
        check("hello world", None);
        check(b"\x85hello", None);
    }

    #[test]
    fn binary_formats_are_recognized_by_their_first_bytes() {
        check(b"\x85\xa7version\x02\xa6config", Some(Format::Sktrace));
        check(b"\xdf\x00\x00\x00\x05\xd9\x06config\x80", Some(Format::Sktrace));
        check(b"\x94\x81\xaetrackedObjects\x80\x90\x80\x80", Some(Format::Sktrace));
        check(b"\x95\x02\x81\xaetrackedObjects\x80\x90\x80\x80", Some(Format::Sktrace));
        check(b"\x93\x01\x02\x03", None);
        check(b"PK\x03\x04rest", Some(Format::KaiSnapshot));
        let mut sqlite = b"SQLite format 3\0".to_vec();
        sqlite.resize(100, 0);
        check(&sqlite, Some(Format::ScalingHistory));
        sqlite[70] = 1;
        check(&sqlite, None);
    }
}

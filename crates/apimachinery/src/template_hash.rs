//! Hashes of pod templates and of revisions, as kube-controller-manager 1.36 computes them.

mod dump;
mod quantity;
#[cfg(test)]
mod tests;

use serde_json::Value;

/// The alphabet of hashes: no vowels, and no letters that look alike.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const OFFSET_BASIS: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// The hash in the names of ReplicaSets and of the revisions of DaemonSets: of the text with which Go prints the template.
/// `None` if it has fields or values of other versions of Kubernetes.
pub fn pod_template_hash(template: &Value, collision_count: Option<u32>) -> Option<String> {
    let mut hash = OFFSET_BASIS;
    let mut add = |byte: u8| hash = (hash ^ u32::from(byte)).wrapping_mul(PRIME);
    dump::dump_pod_template(template)?.bytes().for_each(&mut add);
    if let Some(count) = collision_count {
        u64::from(count).to_le_bytes().into_iter().for_each(add);
    }
    Some(letters(hash))
}

/// The hash in the names of the revisions of StatefulSets: of the revision's `data`, in Go's JSON.
pub fn revision_hash(data: &Value, collision_count: u32) -> String {
    let mut hash = OFFSET_BASIS;
    for byte in go_json(data).bytes().chain(collision_count.to_string().bytes()) {
        // FNV-1, where templates have FNV-1a.
        hash = hash.wrapping_mul(PRIME) ^ u32::from(byte);
    }
    letters(hash)
}

fn letters(hash: u32) -> String {
    let letter = |digit: u8| char::from(LETTERS[usize::from(digit) % LETTERS.len()]);
    hash.to_string().bytes().map(letter).collect()
}

/// JSON as Go writes a map: sorted, with characters escaped that mean something in HTML.
fn go_json(value: &Value) -> String {
    let mut escaped = String::new();
    for character in sorted(value).to_string().chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

/// The value with the fields of all objects sorted.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            fields.into_iter().map(|(name, value)| (name.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

//! YAML output, as far as the autoscaler's status needs it.

use serde_json::Value;

/// A value as Go programs print it: keys sorted, lists not indented.
pub(super) fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0);
    text
}

fn write(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) => {
            for (index, (key, value)) in fields.iter().enumerate() {
                // The first field of a list item follows its dash.
                if index > 0 || !text.ends_with("- ") {
                    text.push_str(&"  ".repeat(depth));
                }
                text.push_str(key);
                text.push(':');
                write_field_value(text, value, depth);
            }
        }
        Value::Array(members) => {
            for member in members {
                text.push_str(&"  ".repeat(depth));
                text.push_str("- ");
                write(text, member, depth + 1);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&scalar(value));
            text.push('\n');
        }
    }
}

/// Writes the value of a key.
fn write_field_value(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            write(text, value, depth + 1);
        }
        Value::Array(members) if !members.is_empty() => {
            text.push('\n');
            write(text, value, depth);
        }
        Value::Object(_) => text.push_str(" {}\n"),
        Value::Array(_) => text.push_str(" []\n"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push(' ');
            write(text, value, depth);
        }
    }
}

/// Quotes strings that YAML would read as another type.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(word) if is_plain(word) => word.clone(),
        _ => value.to_string(),
    }
}

fn is_plain(word: &str) -> bool {
    let is_time = word.ends_with('Z') && word.starts_with(|first: char| first.is_ascii_digit());
    let is_number = word.parse::<f64>().is_ok();
    let plain = |c: char| c.is_ascii_alphanumeric() || " -+.:/".contains(c);
    let is_word = !word.is_empty() && word.chars().all(plain) && !word.contains(": ") && !word.ends_with(':');
    is_word && word.starts_with(|first: char| first.is_ascii_alphanumeric()) && !is_time && !is_number
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_is_printed_as_the_original_prints_it() {
        let status = json!({
            "autoscalerStatus": "Running",
            "clusterWide": {"health": {"lastProbeTime": "2026-11-15T04:09:50Z", "count": 3}, "backoffInfo": {}},
            "nodeGroups": [{"name": "general", "health": {"maxSize": 64}}, {"name": "12", "message": "no: more"}],
            "time": "2026-11-15 04:09:50.305659287 +0000 UTC",
        });
        let expected = "\
autoscalerStatus: Running
clusterWide:
  backoffInfo: {}
  health:
    count: 3
    lastProbeTime: \"2026-11-15T04:09:50Z\"
nodeGroups:
- health:
    maxSize: 64
  name: general
- message: \"no: more\"
  name: \"12\"
time: 2026-11-15 04:09:50.305659287 +0000 UTC
";
        assert_eq!(to_yaml(&status), expected);
    }
}

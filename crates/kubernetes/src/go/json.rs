//! JSON as Go's `encoding/json` writes it.

use serde_json::Value;

use super::text::with_exponent;

/// A value as JSON: the fields of objects sorted, numbers with exponents as in ECMAScript, and characters special in HTML
/// escaped. Objects nest no deeper than [`model::MAX_DEPTH`].
pub fn json_text(value: &Value) -> String {
    let mut json = String::new();
    write_json(value, &mut json);
    json
}

fn write_json(value: &Value, json: &mut String) {
    match value {
        Value::Array(list) => {
            let mut separator = '[';
            for entry in list {
                json.push(std::mem::replace(&mut separator, ','));
                write_json(entry, json);
            }
            json.push_str(if list.is_empty() { "[]" } else { "]" });
        }
        Value::Object(map) => {
            let mut separator = '{';
            for (name, entry) in map {
                json.push(std::mem::replace(&mut separator, ','));
                json.push_str(&escaped(&Value::from(name.as_str())));
                json.push(':');
                write_json(entry, json);
            }
            json.push_str(if map.is_empty() { "{}" } else { "}" });
        }
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(number)) if number != 0.0 && !(1e-6..1e21).contains(&number.abs()) => {
                json.push_str(&with_exponent(number, if number.abs() < 1.0 { 1 } else { 2 }));
            }
            (None, Some(number)) => json.push_str(&number.to_string()),
            _ => json.push_str(&number.to_string()),
        },
        _ => json.push_str(&escaped(value)),
    }
}

fn escaped(value: &Value) -> String {
    let text = value.to_string();
    let signs = [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ];
    signs.into_iter().fold(text, |text, (sign, code)| text.replace(sign, code))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_that_of_go() {
        let value =
            json!({"b": [1, -0.5, 2.5e21, 1e-7], "a": {"<é&\u{2028}>": "\"\n"}, "c": [{}, [], null, true]});
        // Printed by encoding/json of Go 1.26.
        let expected =
            r#"{"a":{"\u003cé\u0026\u2028\u003e":"\"\n"},"b":[1,-0.5,2.5e+21,1e-7],"c":[{},[],null,true]}"#;
        assert_eq!(json_text(&value), expected);
    }
}

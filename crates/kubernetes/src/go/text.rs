//! Values as Go's `fmt` and `strconv` print them.

use std::fmt::Write;

use serde_json::Value;

/// A quoted text as Go's `%q` prints it.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            _ if is_printable(letter) => quoted.push(letter),
            _ => {
                let code = u32::from(letter);
                // Writing to a string cannot fail.
                let _ = match code {
                    0..0x80 => write!(quoted, "\\x{code:02x}"),
                    0x80..0x10000 => write!(quoted, "\\u{code:04x}"),
                    _ => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Whether Go prints a character as it is (`unicode.IsPrint`). Of all spaces only the ASCII one is.
pub fn is_printable(letter: char) -> bool {
    if letter.is_ascii() {
        return letter == ' ' || letter.is_ascii_graphic();
    }
    // Rust escapes combining characters, of which most are alphabetic; Go does not.
    let is_combining = matches!(letter, '\u{300}'..='\u{36f}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20f0}' | '\u{fe00}'..='\u{fe0f}');
    let is_escaped = letter.escape_debug().count() > 1;
    !letter.is_whitespace() && (!is_escaped || is_combining || letter.is_alphabetic())
}

/// A decoded JSON value as Go's `%v` prints it: `map[a:1 b:[x <nil>]]`.
pub fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.to_string(),
            None => format_float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => text.clone(),
        Value::Array(entries) => {
            let entries: Vec<String> = entries.iter().map(format_value).collect();
            format!("[{}]", entries.join(" "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{key}:{}", format_value(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// A number with the fewest digits, with an exponent if that is below -4 or above 5.
fn format_float(value: f64) -> String {
    let text = format!("{value:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => value.to_string(),
    }
}

/// The Go type of a value that was decoded from JSON without a type, as `%T` prints it.
pub fn type_of_json(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// `1.5e+06`: the exponent always has a sign, and at least this many digits.
pub(crate) fn with_exponent(number: f64, digits: usize) -> String {
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{mantissa}e{sign}{exponent:0>digits$}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_go_prints_them() {
        // Printed by `fmt.Printf("%+v", value)` of Go 1.26.
        for (value, expected) in [
            (json!({"b": [1, "a", 1.5, null, true], "a": {}}), "map[a:map[] b:[1 a 1.5 <nil> true]]"),
            (json!([1e6, 1e20, 1e21, 1.25e-4, 1.25e-5, -0.5]), "[1e+06 1e+20 1e+21 0.000125 1.25e-05 -0.5]"),
            (json!("a b"), "a b"),
        ] {
            assert_eq!(format_value(&value), expected);
        }
    }

    #[test]
    fn quoted_text_is_escaped_as_go_escapes_it() {
        // Printed by `strconv.Quote` of Go 1.26.
        for (text, expected) in [
            ("a\"b\\", r#""a\"b\\""#),
            ("\n\u{1}é\u{a0}", r#""\n\x01é\u00a0""#),
            ("\u{200b}\u{e000}\u{fffd}", "\"\\u200b\\ue000\u{fffd}\""),
            ("\u{301}\u{378}\u{1f600}\u{e0001}", "\"\u{301}\\u0378\u{1f600}\\U000e0001\""),
        ] {
            assert_eq!(quote(text), expected);
        }
    }
}

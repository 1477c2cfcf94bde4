//! The function `format` of texts: `'%s of %d'.format(['one', 2])`.

use std::collections::BTreeMap;

use kubernetes::go::text::quote;

use super::super::types::CelType;
use super::super::value::{Failure, Map, Outcome, Value};
use super::super::zoned_moment::ZonedMoment;
use super::conversions::{printed, text_of};
use super::costs::Meter;

/// The digits after the point if a clause does not say.
const DEFAULT_PRECISION: usize = 6;
const MAX_PRECISION: usize = 1000;
const MAX_LENGTH: usize = 16 << 20;

pub(super) fn format<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let [Value::String(template), Value::List(values)] = arguments else { return Err(Failure::NoOverload) };
    let mut formatted = String::new();
    let mut rest = &**template;
    let mut index = 0;
    while let Some(at) = rest.find('%') {
        formatted.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            formatted.push('%');
            rest = after;
            continue;
        }
        let value =
            values.get(index).ok_or_else(|| Failure::Error(format!("index {index} out of range")))??;
        if rest.is_empty() {
            return Err(Failure::error("unexpected end of string"));
        }
        let (precision, after) = precision(rest)?;
        let mut letters = after.chars();
        let clause = letters.next().ok_or_else(|| Failure::error("unexpected end of string"))?;
        let text = format_clause(clause, precision, &value)?;
        formatted.push_str(&text);
        if formatted.len() > MAX_LENGTH {
            return Err(Failure::CostLimit);
        }
        rest = letters.as_str();
        index += 1;
    }
    formatted.push_str(rest);
    Ok(Value::string(formatted))
}

/// Checks that a text and the types of its values fit. The error is about one of the values, or about the call.
pub(in super::super) fn check_format(
    template: &str,
    types: &[CelType],
) -> Result<(), (Option<usize>, String)> {
    let mut rest = template;
    let mut index = 0;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            rest = after;
            continue;
        }
        let Some(found) = types.get(index) else { return Err((None, format!("index {index} out of range"))) };
        let text = |failure| match failure {
            Failure::Error(why) => why,
            Failure::NoOverload | Failure::CostLimit => String::new(),
        };
        if rest.is_empty() {
            return Err((None, "unexpected end of string".to_owned()));
        }
        let (_, after) = precision(rest).map_err(|failure| (None, text(failure)))?;
        let mut letters = after.chars();
        let clause = letters.next().unwrap_or(' ');
        let known = match found {
            CelType::Dyn | CelType::Error | CelType::Variable(_) => None,
            CelType::Int => Some(Value::Int(0)),
            CelType::Uint => Some(Value::Uint(0)),
            CelType::Double => Some(Value::Double(0.0)),
            CelType::Bool => Some(Value::Bool(false)),
            CelType::Null => Some(Value::Null),
            // A text may be one of the words for what is not finite.
            CelType::String if matches!(clause, 'f' | 'e') => None,
            CelType::String => Some(Value::from("")),
            CelType::Bytes => Some(Value::Bytes([].into())),
            CelType::Duration => Some(Value::Duration(0)),
            CelType::Timestamp => ZonedMoment::new(0, 0).map(Value::Timestamp),
            CelType::List(_) => Some(Value::list(Vec::new())),
            CelType::Map(..) => Some(Value::Map(Map::new(BTreeMap::new()))),
            CelType::Meta(_) => Some(Value::CelType("type".into())),
            CelType::Optional(_) => Some(Value::Optional(None)),
            CelType::Object(_) => None,
        };
        if let Some(value) = known
            && let Err(failure) = format_clause(clause, 0, &value)
        {
            return Err((Some(index), text(failure)));
        }
        rest = letters.as_str();
        index += 1;
    }
    match types.len() > index {
        true => Err((
            None,
            format!("too many arguments supplied to string.format (expected {index}, got {})", types.len()),
        )),
        false => Ok(()),
    }
}

/// The precision that a clause begins with, and the rest.
fn precision(clause: &str) -> Outcome<(usize, &str)> {
    let Some(rest) = clause.strip_prefix('.') else { return Ok((DEFAULT_PRECISION, clause)) };
    let end = rest.find(|letter: char| !letter.is_ascii_digit());
    let wrong = |why: String| {
        Failure::Error(format!("could not parse formatting clause: error while parsing precision: {why}"))
    };
    let Some(end) = end else { return Err(wrong("could not find end of precision specifier".to_owned())) };
    match rest[..end].parse() {
        Ok(precision) if precision <= MAX_PRECISION => Ok((precision, &rest[end..])),
        _ => Err(wrong(format!(
            "error while converting precision to integer: strconv.Atoi: parsing {}: invalid syntax",
            quote(&rest[..end])
        ))),
    }
}

fn format_clause(clause: char, precision: usize, value: &Value<'_>) -> Outcome<String> {
    let wrong = |what: &str| {
        let name = value.type_name();
        Failure::Error(format!("error during formatting: {what}, was given {name}"))
    };
    match clause {
        's' => text(value, false),
        'd' => match value {
            Value::Int(number) => Ok(number.to_string()),
            Value::Uint(number) => Ok(number.to_string()),
            _ => Err(wrong("decimal clause can only be used on integers")),
        },
        'f' => match number(value) {
            Some(number) => Ok(fixed(number, precision)),
            None => Err(wrong("fixed-point clause can only be used on doubles")),
        },
        'e' => match number(value) {
            Some(number) => Ok(scientific(number)),
            None => Err(wrong("scientific clause can only be used on doubles")),
        },
        'b' => match value {
            Value::Int(number) => Ok(signed(*number, |number| format!("{number:b}"))),
            Value::Uint(number) => Ok(format!("{number:b}")),
            Value::Bool(boolean) => Ok(u8::from(*boolean).to_string()),
            _ => Err(wrong("only integers and bools can be formatted as binary")),
        },
        'o' => match value {
            Value::Int(number) => Ok(signed(*number, |number| format!("{number:o}"))),
            Value::Uint(number) => Ok(format!("{number:o}")),
            _ => Err(wrong("octal clause can only be used on integers")),
        },
        'x' | 'X' => {
            let hex = match value {
                Value::Int(number) => signed(*number, |number| format!("{number:x}")),
                Value::Uint(number) => format!("{number:x}"),
                Value::String(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
                Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                _ => {
                    return Err(wrong("only integers, byte buffers, and strings can be formatted as hex"));
                }
            };
            Ok(if clause == 'X' { hex.to_uppercase() } else { hex })
        }
        other => Err(Failure::Error(format!(
            "could not parse formatting clause: unrecognized formatting clause \"{other}\""
        ))),
    }
}

/// A value as `%s` prints it, or as it is printed within a list or a map.
fn text(value: &Value<'_>, is_inner: bool) -> Outcome<String> {
    Ok(match value {
        Value::List(list) => {
            let items: Vec<String> = list.iter().map(|item| text(&item?, true)).collect::<Outcome<_>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let mut entries = Vec::with_capacity(map.len());
            for key in map.keys() {
                let found = map.find(&key)?;
                let found = found.ok_or_else(|| {
                    Failure::Error(format!("could not find key: {}", quote(&printed(&key))))
                })?;
                entries.push((text(&key, true)?, text(&found, true)?));
            }
            entries.sort();
            let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Null => "null".to_owned(),
        Value::String(text) if is_inner => quote(text),
        Value::Bytes(bytes) if is_inner => format!("b{}", quote(&String::from_utf8_lossy(bytes))),
        Value::Double(number) if is_inner && number.is_finite() => format!("{number:.6}"),
        Value::Double(number) if is_inner => quote(&printed(&Value::Double(*number))),
        Value::Timestamp(_) if is_inner => format!("timestamp({})", quote(&printed(value))),
        Value::Duration(_) if is_inner => format!("duration({})", quote(&printed(value))),
        Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Bool(_)
        | Value::String(_)
        | Value::Timestamp(_)
        | Value::Bytes(_)
        | Value::Duration(_)
        | Value::CelType(_) => text_of(value).unwrap_or_default(),
        other => {
            let name = other.type_name();
            return Err(Failure::Error(format!(
                "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, \
                 maps, lists, types, durations, and timestamps, was given {name}"
            )));
        }
    })
}

fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// A number as it is written in English: `1,234.50`.
fn fixed(number: f64, precision: usize) -> String {
    if let Some(text) = not_finite(number) {
        return text.to_owned();
    }
    let plain = format!("{:.precision$}", number.abs());
    let (whole, fraction) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut grouped = String::with_capacity(plain.len() * 4 / 3 + 1);
    if number.is_sign_negative() {
        grouped.push('-');
    }
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

/// A number as a product with a power of ten: `1.500000×10⁰³`. The precision is ignored, as in cel-go.
fn scientific(number: f64) -> String {
    let precision = DEFAULT_PRECISION;
    if let Some(text) = not_finite(number) {
        return text.to_owned();
    }
    let plain = format!("{number:.precision$e}");
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("\u{207b}", digits),
        None => ("", exponent),
    };
    let raised = |digit: char| match digit {
        '1' => '\u{b9}',
        '2' => '\u{b2}',
        '3' => '\u{b3}',
        digit => char::from_u32(0x2070 + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit),
    };
    let power: String = format!("{digits:0>2}").chars().map(raised).collect();
    format!("{mantissa}\u{d7}10{sign}{power}")
}

fn not_finite(number: f64) -> Option<&'static str> {
    match number {
        _ if number.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

fn signed(number: i64, digits: fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", digits(number.unsigned_abs()))
}

//! `--sort-by`: sorts objects by one of their fields.

use std::cmp::Ordering;

use anyhow::bail;
use kubernetes::quantity::Quantity;
use serde_json::Value;

/// A field by its path: `.metadata.creationTimestamp`, `{.spec.nodeName}`, `.metadata.labels['app.kubernetes.io/name']`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SortBy {
    path: Vec<PathStep>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathStep {
    Field(String),
    Index(usize),
}

impl SortBy {
    pub(super) fn parse(text: &str) -> anyhow::Result<SortBy> {
        let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        let mut rest = inner.strip_prefix('$').unwrap_or(inner);
        let mut path = Vec::new();
        while !rest.is_empty() {
            if let Some(bracket) = rest.strip_prefix('[') {
                let Some((bracketed, after)) = bracket.split_once(']') else {
                    bail!("invalid path {text:?}: [ without ]")
                };
                let quoted = |quote| bracketed.strip_prefix(quote).and_then(|name| name.strip_suffix(quote));
                match (quoted('\'').or(quoted('"')), bracketed.parse()) {
                    (Some(name), _) => path.push(PathStep::Field(name.to_owned())),
                    (None, Ok(index)) => path.push(PathStep::Index(index)),
                    (None, Err(_)) => {
                        bail!("invalid path {text:?}: [{bracketed}] must be a number or a quoted name")
                    }
                }
                rest = after;
            } else {
                let name = rest.strip_prefix('.').unwrap_or(rest);
                // As in kubectl, \. is a dot within a name.
                let mut field = String::new();
                let mut end = name.len();
                let mut chars = name.char_indices();
                while let Some((index, c)) = chars.next() {
                    match c {
                        '\\' => field.extend(chars.next().map(|(_, c)| c)),
                        '.' | '[' => {
                            end = index;
                            break;
                        }
                        _ => field.push(c),
                    }
                }
                if field.is_empty() {
                    bail!("invalid path {text:?}: expected a field such as .metadata.creationTimestamp");
                }
                path.push(PathStep::Field(field));
                rest = &name[end..];
            }
        }
        if path.is_empty() {
            bail!("invalid path {text:?}: expected a field such as .metadata.creationTimestamp");
        }
        Ok(SortBy { path })
    }

    /// The field's value in an object.
    pub(super) fn value<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.path.iter().try_fold(object, |value, step| match step {
            PathStep::Field(name) => value.get(name),
            PathStep::Index(index) => value.get(index),
        })
    }

    /// Missing values first, as in kubectl; numbers and quantities by value, strings in natural order.
    pub(super) fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
        match (a, b) {
            (Some(Value::Number(a)), Some(Value::Number(b))) => {
                a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal)
            }
            (Some(Value::String(a)), Some(Value::String(b))) => {
                match (Quantity::parse(a), Quantity::parse(b)) {
                    (Ok(a), Ok(b)) => a.cmp(&b),
                    _ => natural_order(a, b),
                }
            }
            (Some(a), Some(b)) => a.to_string().cmp(&b.to_string()),
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }
}

/// Natural order: `node-2` before `node-10`.
fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (left, right) = (digits(a), digits(b));
        if left > 0 && right > 0 {
            let (one, other) = (a[..left].trim_start_matches('0'), b[..right].trim_start_matches('0'));
            let order = one.len().cmp(&other.len()).then_with(|| one.cmp(other));
            if order.is_ne() {
                return order;
            }
            (a, b) = (&a[left..], &b[right..]);
            continue;
        }
        match (a.chars().next(), b.chars().next()) {
            (Some(one), Some(other)) if one == other => {
                (a, b) = (&a[one.len_utf8()..], &b[other.len_utf8()..]);
            }
            (one, other) => return one.cmp(&other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_are_read_in_kubectls_forms() {
        let object = json!({"a": {"b.c": [1, {"d": 2}]}});
        for path in ["{.a['b.c'][1].d}", ".a.b\\.c[1].d", "a['b.c'][1].d", "$.a[\"b.c\"][1].d"] {
            assert_eq!(SortBy::parse(path).unwrap().value(&object), Some(&json!(2)), "{path}");
        }
        for path in ["", ".", "a..b", "a[", "a[x]", "{}"] {
            assert!(SortBy::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn values_are_in_the_order_a_person_expects() {
        let sorted = |values: &[Value]| {
            values.windows(2).all(|pair| SortBy::compare(Some(&pair[0]), Some(&pair[1])) == Ordering::Less)
        };
        assert!(sorted(&[json!("node-2"), json!("node-10"), json!("node-10a"), json!("web")]));
        assert!(sorted(&[json!("900m"), json!("1"), json!("1500m"), json!("2Gi")]));
        assert!(sorted(&[json!(-1), json!(2), json!(10)]));
        assert_eq!(SortBy::compare(None, Some(&json!(1))), Ordering::Less);
    }
}

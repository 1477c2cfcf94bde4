//! URLs: `url('https://example.com/a?b=c')`.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::go::text::quote;

use super::super::url::Url;
use super::super::value::{Failure, Key, Map, Outcome, Value};
use super::Row;
use crate::structural::is_request_uri;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "url",
        overloads: &["(string) -> kubernetes.URL"],
        run: |_, arguments| {
            let Value::String(text) = &arguments[0] else { return Err(Failure::NoOverload) };
            match Url::parse(text) {
                Some(url) => Ok(Value::Url(Arc::new(url))),
                None => Err(Failure::Error(format!(
                    "URL parse error during conversion from string: {}",
                    parse_error(text)
                ))),
            }
        },
    },
    Row {
        name: "isURL",
        overloads: &["(string) -> bool"],
        run: |_, arguments| match &arguments[0] {
            Value::String(text) => Ok(Value::Bool(is_request_uri(text))),
            _ => Err(Failure::NoOverload),
        },
    },
    Row {
        name: "getScheme",
        overloads: PART,
        run: |_, arguments| Ok(Value::string(url(arguments)?.scheme.as_str())),
    },
    Row {
        name: "getHost",
        overloads: PART,
        run: |_, arguments| Ok(Value::string(url(arguments)?.host.as_str())),
    },
    Row {
        name: "getHostname",
        overloads: PART,
        run: |_, arguments| Ok(Value::string(url(arguments)?.split_host().0)),
    },
    Row {
        name: "getPort",
        overloads: PART,
        run: |_, arguments| Ok(Value::string(url(arguments)?.split_host().1)),
    },
    Row {
        name: "getEscapedPath",
        overloads: PART,
        run: |_, arguments| Ok(Value::string(url(arguments)?.path.as_str())),
    },
    Row {
        name: "getQuery",
        overloads: &["kubernetes.URL.() -> map(string, list(string))"],
        run: |_, arguments| Ok(Value::Map(Map::new(query_values(url(arguments)?)))),
    },
];

const PART: &[&str] = &["kubernetes.URL.() -> string"];

fn query_values<'v>(url: &Url) -> BTreeMap<Key, Value<'v>> {
    let mut values: BTreeMap<Key, Vec<Value<'v>>> = BTreeMap::new();
    for (name, value) in url.query_pairs() {
        values.entry(Key::String(Arc::from(name))).or_default().push(Value::string(value));
    }
    values.into_iter().map(|(name, values)| (name, Value::list(values))).collect()
}

fn url<'a>(arguments: &'a [Value<'_>]) -> Outcome<&'a Url> {
    match arguments {
        [Value::Url(url)] => Ok(url),
        _ => Err(Failure::NoOverload),
    }
}

/// Why a text is not a URL, as Go says it.
pub(super) fn parse_error(text: &str) -> String {
    let quoted = quote(text);
    let why = match text {
        "" => "empty url".to_owned(),
        _ if host_of(text).contains(' ') => "invalid character \" \" in host name".to_owned(),
        _ if text.starts_with(':') => "missing protocol scheme".to_owned(),
        _ if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) => {
            "net/url: invalid control character in URL".to_owned()
        }
        _ => match text.split('%').skip(1).find(|part| {
            !part.get(..2).is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
        }) {
            Some(part) => {
                let escape: String = part.chars().take(2).collect();
                format!("invalid URL escape {}", quote(&format!("%{escape}")))
            }
            None => "invalid URI for request".to_owned(),
        },
    };
    format!("parse {quoted}: {why}")
}

/// What is between the scheme and the path.
fn host_of(text: &str) -> &str {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

//! The functions that expressions may call: those of CEL, of its extensions that Kubernetes enables, and Kubernetes' own.
//!
//! Each library is a table of [`Row`]s. Several rows may have one name: the types of the arguments decide.

mod addresses;
mod comparisons;
mod conversions;
pub(super) mod costs;
pub(super) mod format_string;
pub(super) mod formats;
mod lists;
pub(super) mod operators;
mod optionals;
mod quantities;
mod regexes;
pub(super) mod semver;
mod strings;
pub(super) mod times;
pub(super) mod urls;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::types::CelType;
use super::value::{Outcome, Value};
use costs::Meter;

/// A function of a library.
#[derive(Debug)]
pub(super) struct Row {
    name: &'static str,
    /// Its overloads, such as `string.(int) -> string`. `{comparable}`, `{number}` and `{other}` stand for each type
    /// of their kind.
    overloads: &'static [&'static str],
    /// Evaluates a call, whose receiver is the first argument.
    pub(super) run: Run,
}

pub(super) type Run = for<'v> fn(&mut Meter, &[Value<'v>]) -> Outcome<Value<'v>>;

/// All overloads of one name.
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) overloads: Vec<Overload>,
}

pub(super) struct Overload {
    /// Whether the first parameter is what it is called on.
    pub(super) is_member: bool,
    pub(super) parameters: Vec<CelType>,
    pub(super) result: CelType,
    pub(super) row: &'static Row,
}

const LIBRARIES: [&[Row]; 14] = [
    operators::ROWS,
    conversions::ROWS,
    strings::ROWS,
    lists::ROWS,
    times::ROWS,
    optionals::ROWS,
    regexes::ROWS,
    quantities::ROWS,
    comparisons::ROWS,
    addresses::ROWS,
    urls::ROWS,
    semver::ROWS,
    formats::ROWS,
    lists::SET_ROWS,
];

const KINDS: [(&str, &[&str]); 3] = [
    ("{comparable}", &["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"]),
    ("{number}", &["int", "uint", "double"]),
    ("{other}", &["int", "uint", "double"]),
];

static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(|| {
    let mut functions: HashMap<&'static str, Function> = HashMap::new();
    for row in LIBRARIES.into_iter().flatten() {
        let function =
            functions.entry(row.name).or_insert_with(|| Function { name: row.name, overloads: Vec::new() });
        for overload in row.overloads {
            let mut texts = vec![(*overload).to_owned()];
            for (kind, types) in KINDS {
                let expand = |text: String| match text.contains(kind) {
                    true => types.iter().map(|one| text.replace(kind, one)).collect(),
                    false => vec![text],
                };
                texts = texts.into_iter().flat_map(expand).collect();
            }
            function.overloads.extend(texts.iter().map(|text| Overload::parse(text, row)));
        }
    }
    functions
});

/// All functions of a name.
pub(super) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name)
}

// === impl Overload ===

impl Overload {
    fn parse(text: &str, row: &'static Row) -> Overload {
        let (call, result) = text.split_once(" -> ").expect("an overload has a result");
        let call = call.strip_suffix(')').expect("an overload ends its parameters");
        let (receiver, arguments) = match call.split_once(".(") {
            Some((receiver, arguments)) => (Some(receiver), arguments),
            None => (None, call.strip_prefix('(').expect("an overload begins its parameters")),
        };
        let parameters = receiver.into_iter().chain(split_arguments(arguments)).map(parse_type).collect();
        Overload { is_member: receiver.is_some(), parameters, result: parse_type(result), row }
    }
}

/// The type of a text, in which one capital letter is a parameter.
fn parse_type(text: &str) -> CelType {
    if let Some((name, inner)) = text.split_once('(') {
        let inner = inner.strip_suffix(')').expect("a type ends its parameters");
        let mut arguments = split_arguments(inner).into_iter().map(parse_type);
        let mut next = || arguments.next().expect("a type has parameters");
        return match name {
            "list" => CelType::list(next()),
            "map" => CelType::map(next(), next()),
            "optional" => CelType::optional(next()),
            _ => CelType::Meta(Some(Arc::new(next()))),
        };
    }
    match text {
        "dyn" => CelType::Dyn,
        "bool" => CelType::Bool,
        "int" => CelType::Int,
        "uint" => CelType::Uint,
        "double" => CelType::Double,
        "string" => CelType::String,
        "bytes" => CelType::Bytes,
        "duration" => CelType::Duration,
        "timestamp" => CelType::Timestamp,
        _ => match text.as_bytes() {
            [letter @ b'A'..=b'Z'] => CelType::Variable(u32::from(letter - b'A')),
            _ => CelType::named(text),
        },
    }
}

/// The parts between the commas that are not in parentheses.
fn split_arguments(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let rest = text[start..].trim();
    parts.extend(Some(rest).filter(|rest| !rest.is_empty()));
    parts
}

//! The argument parser for format names.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use formats::Format;

/// A parser that accepts the names of these formats.
pub(super) fn parser(formats: &'static [Format]) -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(formats.iter().map(|format| format.name())).map(|name| {
        *formats.iter().find(|format| format.name() == name).expect("the parser accepts only these names")
    })
}

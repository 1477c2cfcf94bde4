//! The names of formats on the command line.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use formats::Format;

/// Takes the names of these.
pub(super) fn parser(formats: &'static [Format]) -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(formats.iter().map(|format| format.name())).map(|name| {
        *formats.iter().find(|format| format.name() == name).expect("only these names are let through")
    })
}

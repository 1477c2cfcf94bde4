//! Helpers for plugin arguments: fields, lists of strings, and ranges of numbers.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::config_value::{ConfigFields, ConfigValue};
use super::{API_VERSION, BadConfiguration};
use crate::plugin::Plugin;

/// The fields of a plugin's arguments, which may have `apiVersion` and `kind`.
pub(super) fn fields_of<'v>(
    plugin: Plugin,
    args: &ConfigValue<'v>,
    names: &[&str],
) -> Result<ConfigFields<'v>, BadConfiguration> {
    let names: Vec<&str> = names.iter().copied().chain(["apiVersion", "kind"]).collect();
    let fields = args.fields(&names)?;
    for (name, right) in [("apiVersion", API_VERSION), ("kind", &format!("{plugin}Args"))] {
        let value = fields.get(name);
        if value.text()?.is_some_and(|text| !text.is_empty() && text != right) {
            return Err(value.bad(format!("must be {right} for {plugin}, or omitted")));
        }
    }
    Ok(fields)
}

/// The strings of a list, each with its value.
pub(super) fn texts<'v>(
    value: &ConfigValue<'v>,
) -> Result<Vec<(ConfigValue<'v>, &'v str)>, BadConfiguration> {
    let read = |value: ConfigValue<'v>| {
        let text = value.text()?.unwrap_or_default();
        Ok((value, text))
    };
    value.list()?.into_iter().map(read).collect()
}

/// The number, if it is in the range.
pub(super) fn in_range<T: PartialOrd + Display>(
    value: &ConfigValue<'_>,
    number: T,
    range: RangeInclusive<T>,
) -> Result<T, BadConfiguration> {
    if range.contains(&number) {
        return Ok(number);
    }
    let (low, high) = range.into_inner();
    Err(value.bad(format!("{number} is out of range: must be from {low} to {high}")))
}

/// The number, if it is not lower.
pub(super) fn at_least<T: PartialOrd + Display>(
    value: &ConfigValue<'_>,
    number: T,
    low: T,
) -> Result<T, BadConfiguration> {
    if number >= low {
        return Ok(number);
    }
    Err(value.bad(format!("{number} is out of range: must be at least {low}")))
}

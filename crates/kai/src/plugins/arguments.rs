//! Arguments of plugins. A malformed one is replaced by its default, with a warning, as the original does.

use std::collections::BTreeMap;

use super::registry::Plugin;
use crate::settings::parse_long_duration;

/// The arguments of a plugin, and the warnings about them.
pub(crate) struct Arguments<'a> {
    pub plugin: Plugin,
    pub values: &'a BTreeMap<String, String>,
    pub warnings: &'a mut Vec<String>,
}

impl Arguments<'_> {
    /// A text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// A number.
    pub(crate) fn number(&mut self, name: &str, default: f64) -> f64 {
        let Some(text) = self.values.get(name) else { return default };
        match text.parse::<f64>().ok().filter(|number| number.is_finite()) {
            Some(number) => number,
            None => {
                self.warn(name, text, &default.to_string());
                default
            }
        }
    }

    /// A duration in nanoseconds, zero by default.
    pub(crate) fn duration(&mut self, name: &str) -> i64 {
        let Some(text) = self.values.get(name) else { return 0 };
        match parse_long_duration(text).filter(|nanos| *nanos >= 0) {
            Some(nanos) => nanos,
            None => {
                self.warn(name, text, "0s");
                0
            }
        }
    }

    /// Warns that a default is used.
    pub(crate) fn warn(&mut self, name: &str, text: &str, default: &str) {
        let plugin = self.plugin.name();
        self.warnings.push(format!("plugin {plugin}: {name}: invalid value {text:?}, {default} is used"));
    }
}

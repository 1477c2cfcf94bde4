//! Settings as a document with a field per flag.

use serde_json::{Map, Value};

use super::super::settings::{Settings, Version};
use super::definitions::{self, FlagType};
use super::{BadFlags, FlagParser, NextArgument};

// === impl Settings ===

impl Settings {
    /// Reads a mapping of flags by name: `scan-interval: 10s`, `expander: [priority, least-waste]`. Additional fields
    /// are `version` (`"1.36"`), `seed`, and `scheduler`, a `KubeSchedulerConfiguration`.
    pub fn read(document: &Value) -> Result<Settings, BadFlags> {
        let Value::Object(fields) = document else {
            return Err(bad("settings", "expected flags with values"));
        };
        let version = version(fields)?;
        let mut parser = FlagParser::new(version);
        for (name, value) in fields {
            match name.as_str() {
                "version" => {}
                "seed" => {
                    let seed = value.as_u64().ok_or_else(|| bad(name, "must be a non-negative integer"))?;
                    parser.settings.seed = seed;
                }
                "scheduler" => {
                    parser.settings.scheduler =
                        scheduler::Settings::read_for(version.scheduler_version(), value)
                            .map_err(|error| bad(&format!("scheduler.{}", error.path), &error.reason))?;
                }
                _ => set_field(&mut parser, name, value)?,
            }
        }
        parser.finish()
    }
}

fn version(fields: &Map<String, Value>) -> Result<Version, BadFlags> {
    match fields.get("version") {
        None => Ok(Version::V1_36),
        Some(Value::String(text)) => Version::parse(text).map_err(|error| bad("version", &error.to_string())),
        Some(other) => Err(bad("version", &format!("{other} is not a string: put it in quotes"))),
    }
}

fn set_field(parser: &mut FlagParser, name: &str, value: &Value) -> Result<(), BadFlags> {
    let shape = definitions::find(name).map(|(_, flag)| flag.flag_type());
    let Value::Array(entries) = value else {
        return set_flag_text(parser, name, &value_text(name, value)?);
    };
    let texts: Vec<String> = entries.iter().map(|entry| value_text(name, entry)).collect::<Result<_, _>>()?;
    match shape {
        Some(FlagType::StringArray) => texts.iter().try_for_each(|text| set_flag_text(parser, name, text)),
        Some(FlagType::StringSlice) => {
            let quoted: Vec<String> =
                texts.iter().map(|text| format!("\"{}\"", text.replace('"', "\"\""))).collect();
            set_flag_text(parser, name, &quoted.join(","))
        }
        None | Some(FlagType::String) => set_flag_text(parser, name, &texts.join(",")),
        Some(FlagType::Bool | FlagType::Int | FlagType::Float | FlagType::Duration) => {
            Err(bad(name, "expected one value, found a list"))
        }
    }
}

fn set_flag_text(parser: &mut FlagParser, name: &str, text: &str) -> Result<(), BadFlags> {
    let next_argument = parser.set_flag(name, Some(text)).map_err(|error| bad(name, &error.why))?;
    debug_assert!(next_argument == NextArgument::Flag, "a flag with a value needs no further argument");
    Ok(())
}

fn value_text(name: &str, value: &Value) -> Result<String, BadFlags> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Null => Err(bad(name, "no value: omit the field")),
        Value::Array(_) | Value::Object(_) => Err(bad(name, "expected a string, number or boolean")),
    }
}

fn bad(flag: &str, reason: &str) -> BadFlags {
    BadFlags { flag: flag.to_owned(), why: reason.to_owned() }
}

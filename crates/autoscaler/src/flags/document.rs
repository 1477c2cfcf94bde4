//! Settings as a document: flags under their own names.

use serde_json::{Map, Value};

use super::super::settings::{Settings, Version};
use super::known::{self, Shape};
use super::{BadFlags, Next, Reading};

// === impl Settings ===

impl Settings {
    /// Reads a mapping of flags by name: `scan-interval: 10s`, `expander: [priority, least-waste]`. Besides there may
    /// be `version` (`"1.36"`), `seed`, and `scheduler`, a `KubeSchedulerConfiguration`.
    pub fn read(document: &Value) -> Result<Settings, BadFlags> {
        let Value::Object(fields) = document else {
            return Err(bad("settings", "they are not flags with values"));
        };
        let version = version(fields)?;
        let mut reading = Reading::new(version);
        for (name, value) in fields {
            match name.as_str() {
                "version" => {}
                "seed" => {
                    let seed = value.as_u64().ok_or_else(|| bad(name, "it takes a whole number"))?;
                    reading.settings.seed = seed;
                }
                "scheduler" => {
                    reading.settings.scheduler = scheduler::Settings::read_for(version.of_scheduler(), value)
                        .map_err(|error| bad(&format!("scheduler.{}", error.place), &error.why))?;
                }
                _ => take(&mut reading, name, value)?,
            }
        }
        reading.finish()
    }
}

fn version(fields: &Map<String, Value>) -> Result<Version, BadFlags> {
    match fields.get("version") {
        None => Ok(Version::V1_36),
        Some(Value::String(text)) => Version::parse(text).map_err(|error| bad("version", &error.to_string())),
        Some(other) => Err(bad("version", &format!("{other} is not a text: put it in quotes"))),
    }
}

fn take(reading: &mut Reading, name: &str, value: &Value) -> Result<(), BadFlags> {
    let shape = known::find(name).map(|(_, flag)| flag.shape());
    let Value::Array(entries) = value else {
        return set(reading, name, &text(name, value)?);
    };
    let texts: Vec<String> = entries.iter().map(|entry| text(name, entry)).collect::<Result<_, _>>()?;
    match shape {
        Some(Shape::Each) => texts.iter().try_for_each(|text| set(reading, name, text)),
        Some(Shape::Names) => {
            let quoted: Vec<String> =
                texts.iter().map(|text| format!("\"{}\"", text.replace('"', "\"\""))).collect();
            set(reading, name, &quoted.join(","))
        }
        None | Some(Shape::Text) => set(reading, name, &texts.join(",")),
        Some(Shape::Switch | Shape::Count | Shape::Share | Shape::Span) => {
            Err(bad(name, "it takes one value, not a list"))
        }
    }
}

fn set(reading: &mut Reading, name: &str, text: &str) -> Result<(), BadFlags> {
    let taken = reading.take(name, Some(text)).map_err(|error| bad(name, &error.why))?;
    debug_assert!(taken == Next::Flag, "a flag with a value wants no other");
    Ok(())
}

fn text(name: &str, value: &Value) -> Result<String, BadFlags> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Null => Err(bad(name, "it has no value: leave it out")),
        Value::Array(_) | Value::Object(_) => Err(bad(name, "its value is not a plain one")),
    }
}

fn bad(flag: &str, why: &str) -> BadFlags {
    BadFlags { flag: flag.to_owned(), why: why.to_owned() }
}

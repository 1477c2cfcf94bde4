//! Parsed values of the node groups file: quantities, taints, durations.

use std::time::Duration;

use kubernetes::go::duration;
use kubernetes::quantity::Quantity;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::super::Delay;

/// A quantity; numbers need no quotes.
pub(super) struct QuantityFile(pub(super) Quantity);

/// A taint in kubectl's notation: `dedicated=batch:NoSchedule`.
pub(super) struct TaintFile(pub(super) Value);

/// A duration, or a list of measured ones.
pub(super) struct DelayFile(pub(super) Delay);

/// A duration.
pub(super) struct DurationFile(pub(super) Duration);

// === impl QuantityFile ===

impl<'de> Deserialize<'de> for QuantityFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<QuantityFile, D::Error> {
        let text = match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            other => other.to_string(),
        };
        Quantity::parse(&text).map(QuantityFile).map_err(serde::de::Error::custom)
    }
}

// === impl TaintFile ===

impl<'de> Deserialize<'de> for TaintFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TaintFile, D::Error> {
        let text = String::deserialize(deserializer)?;
        let invalid = || {
            serde::de::Error::custom(format!("{text:?} is not a taint such as dedicated=batch:NoSchedule"))
        };
        let (taint, effect) = text.rsplit_once(':').ok_or_else(invalid)?;
        let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
        if key.is_empty() || !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            return Err(invalid());
        }
        Ok(TaintFile(serde_json::json!({ "key": key, "value": value, "effect": effect })))
    }
}

// === impl DurationFile ===

impl DurationFile {
    fn parse<E: serde::de::Error>(text: &str) -> Result<Duration, E> {
        let nanos = duration::parse(text).and_then(|nanos| u64::try_from(nanos).ok());
        let nanos =
            nanos.ok_or_else(|| E::custom(format!("{text:?} is not a duration such as 90s or 5m")))?;
        Ok(Duration::from_nanos(nanos))
    }
}

impl<'de> Deserialize<'de> for DurationFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DurationFile, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => DurationFile::parse(&text).map(DurationFile),
            other => DurationFile::parse(&other.to_string()).map(DurationFile),
        }
    }
}

// === impl DelayFile ===

impl<'de> Deserialize<'de> for DelayFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DelayFile, D::Error> {
        let invalid = || serde::de::Error::custom("expected a duration such as 90s, or a list of durations");
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(DelayFile(Delay::Constant(DurationFile::parse(&text)?))),
            Value::Array(durations) if !durations.is_empty() => {
                let durations = durations
                    .iter()
                    .map(|duration| DurationFile::parse(duration.as_str().ok_or_else(invalid)?));
                Ok(DelayFile(Delay::Samples(durations.collect::<Result<_, _>>()?)))
            }
            _ => Err(invalid()),
        }
    }
}

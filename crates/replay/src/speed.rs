//! The speed of recorded time during a replay.

use std::str::FromStr;

use anyhow::bail;

/// The speed of recorded time relative to real time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// As fast as possible.
    Max,
    /// A multiple of real time.
    Times(f64),
}

impl FromStr for Speed {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Speed> {
        match text.parse::<f64>() {
            _ if text == "max" => Ok(Speed::Max),
            Ok(times) if times.is_finite() && times > 0.0 => Ok(Speed::Times(times)),
            _ => bail!("must be a number above 0, or max"),
        }
    }
}

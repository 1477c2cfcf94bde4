//! Numbers of pods as integers or percentages: `3`, `25%`.

use serde::{Deserialize, Deserializer};

/// An integer or a percentage, as Kubernetes' IntOrString.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntOrPercent {
    Int(i64),
    Percent(i64),
}

/// The rounding of a fraction of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    Up,
    Down,
}

impl IntOrPercent {
    /// The number of pods, where a percentage is one of `total`.
    pub(super) fn scaled_value(self, total: i64, round: Rounding) -> i64 {
        match (self, round) {
            (IntOrPercent::Int(count), _) => count,
            (IntOrPercent::Percent(percent), Rounding::Up) => {
                let product = percent.saturating_mul(total);
                product.div_euclid(100) + i64::from(product.rem_euclid(100) > 0)
            }
            (IntOrPercent::Percent(percent), Rounding::Down) => percent.saturating_mul(total).div_euclid(100),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrPercent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IntOrPercent, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum IntOrString {
            Count(i32),
            Text(String),
        }
        match IntOrString::deserialize(deserializer)? {
            IntOrString::Count(count) => Ok(IntOrPercent::Int(count.into())),
            IntOrString::Text(text) => {
                let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<i32>().ok());
                percent.map(|percent| IntOrPercent::Percent(percent.into())).ok_or_else(|| {
                    serde::de::Error::custom(format!(
                        "{text:?} is neither an integer nor a percentage such as 25%"
                    ))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_up_or_down() {
        let amount = |json: &str| serde_json::from_str::<IntOrPercent>(json);
        assert_eq!(amount("3").unwrap().scaled_value(10, Rounding::Up), 3);
        assert_eq!(amount("\"25%\"").unwrap().scaled_value(10, Rounding::Up), 3);
        assert_eq!(amount("\"25%\"").unwrap().scaled_value(10, Rounding::Down), 2);
        assert_eq!(amount("\"100%\"").unwrap().scaled_value(7, Rounding::Down), 7);
        for bad in ["\"25\"", "\"%\"", "\"a%\"", "true", "99999999999"] {
            assert!(amount(bad).is_err(), "{bad}");
        }
    }
}

//! Numbers of pods that are counts or shares: `3`, `25%`.

use serde::{Deserialize, Deserializer};

/// So many, or so many of a hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    Count(i64),
    Percent(i64),
}

/// What becomes of a part of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    Up,
    Down,
}

impl Amount {
    /// How many of a total that is.
    pub(super) fn of(self, total: i64, round: Round) -> i64 {
        match (self, round) {
            (Amount::Count(count), _) => count,
            (Amount::Percent(percent), Round::Up) => {
                let product = percent.saturating_mul(total);
                product.div_euclid(100) + i64::from(product.rem_euclid(100) > 0)
            }
            (Amount::Percent(percent), Round::Down) => percent.saturating_mul(total).div_euclid(100),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Said {
            Count(i32),
            Text(String),
        }
        match Said::deserialize(deserializer)? {
            Said::Count(count) => Ok(Amount::Count(count.into())),
            Said::Text(text) => {
                let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<i32>().ok());
                percent.map(|percent| Amount::Percent(percent.into())).ok_or_else(|| {
                    serde::de::Error::custom(format!("{text:?} is neither a number nor a share such as 25%"))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_pods_is_rounded_as_asked() {
        let amount = |json: &str| serde_json::from_str::<Amount>(json);
        assert_eq!(amount("3").unwrap().of(10, Round::Up), 3);
        assert_eq!(amount("\"25%\"").unwrap().of(10, Round::Up), 3);
        assert_eq!(amount("\"25%\"").unwrap().of(10, Round::Down), 2);
        assert_eq!(amount("\"100%\"").unwrap().of(7, Round::Down), 7);
        for bad in ["\"25\"", "\"%\"", "\"a%\"", "true", "99999999999"] {
            assert!(amount(bad).is_err(), "{bad}");
        }
    }
}

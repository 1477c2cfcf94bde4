//! Resource quantities as Kubernetes writes, rounds, adds and compares them: `500m`, `1.5Gi`, `12e6`.
//!
//! Everything follows `resource.Quantity` to the last digit, quirks included, because schedulers decide by them.

mod text;

use std::cmp::Ordering;
use std::fmt;
use std::ops::{AddAssign, Neg, SubAssign};

/// A quantity: a decimal number and the suffix format it is written with.
///
/// Two quantities are equal if they are the same number, however written. Numbers are exact to 38 digits; further
/// digits are rounded away from zero, where Kubernetes would keep all digits.
#[derive(Clone, Debug)]
pub struct Quantity {
    /// The number is `mantissa * 10^exponent`.
    mantissa: i128,
    exponent: i32,
    /// Whether Kubernetes holds it as an arbitrary-precision decimal (`infDecAmount`) rather than as an `int64`. The
    /// two round negative numbers and overflow differently.
    is_long: bool,
    format: Format,
    /// The original text, where Kubernetes keeps it instead of the canonical form.
    original_text: Option<Box<str>>,
}

/// The suffix format of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `n u m k M G T P E`
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`
    BinarySi,
    /// `e3`, `E-6`
    DecimalExponent,
}

/// The error for a text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid quantity {text:?}: {why}; expected a number with an optional suffix, such as 500m, 1.5Gi or 12e6"
)]
pub struct BadQuantity {
    /// The rejected text.
    pub text: String,
    /// What is wrong with it.
    pub why: BadQuantityReason,
}

/// The reason why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadQuantityReason {
    /// It is not a number followed by a suffix.
    Format,
    /// The suffix is neither a known one nor an exponent.
    Suffix,
    /// Required digits are missing.
    Digits,
}

/// Millicores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MilliCpu(pub i64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub i64);

// === impl Quantity ===

impl Quantity {
    /// Zero.
    pub const ZERO: Quantity = Quantity::new(0, 0, Format::DecimalSi);

    /// `value * 10^power`.
    pub const fn new(value: i64, power: i32, format: Format) -> Quantity {
        Quantity { mantissa: value as i128, exponent: power, is_long: false, format, original_text: None }
    }

    /// Parses a quantity as Kubernetes does.
    ///
    /// Numbers smaller than `1n` are rounded up to it, away from zero; a number with a binary suffix is capped at the
    /// largest `int64`. A missing number counts as zero, except with `Pi`, `Ei` and exponents below -9.
    pub fn parse(text: &str) -> Result<Quantity, BadQuantity> {
        text::parse(text).map_err(|why| BadQuantity { text: text.chars().take(80).collect(), why })
    }

    /// Its suffix format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The number in whole units, rounded away from zero. See [`scaled_value`](Quantity::scaled_value) for the limits.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The number in thousandths, rounded away from zero. See [`scaled_value`](Quantity::scaled_value) for the limits.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// The number in units of `10^power`, rounded away from zero.
    ///
    /// An `int64` overflow has the same result as in Kubernetes: zero or the low 64 bits, depending on how it holds
    /// the number. Long decimals (more than 18 digits, binary suffixes with a fraction, `Pi` and `Ei`, sums that
    /// overflowed the `int64`) are rounded up instead: towards zero if negative.
    pub fn scaled_value(&self, power: i32) -> i64 {
        let steps = i64::from(self.exponent) - i64::from(power);
        if self.is_long {
            return low_bits(self.mantissa, steps);
        }
        if steps < 0 {
            return round_away(self.mantissa, steps.unsigned_abs()) as i64;
        }
        let scaled = times_power(self.mantissa, steps.unsigned_abs());
        match scaled.map(i64::try_from) {
            Some(Ok(number)) => number,
            // Kubernetes multiplies by these powers in one step and keeps the wrapped product; by others digit by
            // digit.
            _ if matches!(steps, 1 | 2 | 3 | 6 | 9) => scaled.unwrap_or(0) as i64,
            _ => 0,
        }
    }

    /// The number if it is whole and Kubernetes holds it as such: `AsInt64`, which does not convert `1000m`.
    pub fn exact_value(&self) -> Option<i64> {
        if self.is_long || self.exponent < 0 {
            return None;
        }
        times_power(self.mantissa, self.exponent.unsigned_abs().into())?.try_into().ok()
    }

    /// The number as a floating-point number, which may lose digits.
    pub fn approximate_float(&self) -> f64 {
        let power: f64 = format!("1e{}", self.exponent).parse().unwrap_or(f64::INFINITY);
        if self.exponent == 0 { self.mantissa as f64 } else { self.mantissa as f64 * power }
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        self.mantissa.signum() as i32
    }

    fn add(&mut self, mantissa: i128, exponent: i32, long: bool, format: Format) {
        self.original_text = None;
        // Zero does not keep its format.
        if self.is_zero() {
            self.format = format;
        }
        let other = (mantissa, exponent);
        if !self.is_long && !long {
            if mantissa == 0 {
                return;
            }
            if self.is_zero() {
                (self.mantissa, self.exponent) = other;
                return;
            }
        }
        let sum = add_decimals((self.mantissa, self.exponent), other);
        // An alignment that overflows the int64 makes the sum long, even if the sum itself would fit.
        let short = |(mantissa, exponent): (i128, i32)| {
            times_power(mantissa, exponent.abs_diff(sum.1).into()).is_some_and(|m| i64::try_from(m).is_ok())
        };
        self.is_long = self.is_long
            || long
            || !short((self.mantissa, self.exponent))
            || !short(other)
            || i64::try_from(sum.0).is_err();
        (self.mantissa, self.exponent) = sum;
    }
}

impl Default for Quantity {
    fn default() -> Quantity {
        Quantity::ZERO
    }
}

impl AddAssign<&Quantity> for Quantity {
    /// Keeps the format, unless this is zero: then it takes the other's.
    fn add_assign(&mut self, other: &Quantity) {
        self.add(other.mantissa, other.exponent, other.is_long, other.format);
    }
}

impl SubAssign<&Quantity> for Quantity {
    /// Keeps the format, unless this is zero: then it takes the other's.
    fn sub_assign(&mut self, other: &Quantity) {
        self.add(other.mantissa.saturating_neg(), other.exponent, other.is_long, other.format);
    }
}

impl Neg for Quantity {
    type Output = Quantity;

    fn neg(self) -> Quantity {
        Quantity { mantissa: self.mantissa.saturating_neg(), original_text: None, ..self }
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        let steps = self.exponent.abs_diff(other.exponent).into();
        // A number too large to be aligned is farther from zero than the other, so its sign decides.
        if self.exponent >= other.exponent {
            times_power(self.mantissa, steps)
                .map_or(self.mantissa.cmp(&0), |mantissa| mantissa.cmp(&other.mantissa))
        } else {
            times_power(other.mantissa, steps)
                .map_or(0.cmp(&other.mantissa), |mantissa| self.mantissa.cmp(&mantissa))
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

// === impl BadQuantityReason ===

impl fmt::Display for BadQuantityReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadQuantityReason::Format => "not a number followed by a suffix",
            BadQuantityReason::Suffix => "unknown suffix",
            BadQuantityReason::Digits => "no digits",
        })
    }
}

/// `number * 10^power`; `None` on overflow.
fn times_power(number: i128, power: u64) -> Option<i128> {
    if number == 0 {
        return Some(0);
    }
    number.checked_mul(10_i128.checked_pow(u32::try_from(power).ok()?)?)
}

/// `number / 10^power`, rounded away from zero.
fn round_away(number: i128, power: u64) -> i128 {
    let divisor = u32::try_from(power).ok().and_then(|power| 10_i128.checked_pow(power));
    // A divisor that overflows i128 exceeds every number.
    let (quotient, remainder) = divisor.map_or((0, number), |divisor| (number / divisor, number % divisor));
    quotient + remainder.signum()
}

/// `number * 10^steps` as Kubernetes converts a long decimal to an `int64`.
fn low_bits(number: i128, steps: i64) -> i64 {
    let power = u32::try_from(steps.unsigned_abs()).unwrap_or(u32::MAX);
    if steps >= 0 {
        // The factor is a float converted to an integer; beyond 10^18 amd64 yields the smallest int64.
        let factor = if power <= 18 { 10_i64.pow(power) } else { i64::MIN };
        return (number as i64).wrapping_mul(factor);
    }
    if number < i128::from(i64::MAX) && power < 19 {
        let (number, divisor) = (number as i64, 10_i64.pow(power));
        return number / divisor + i64::from(number % divisor != 0);
    }
    let (quotient, remainder) = match 10_i128.checked_pow(power) {
        Some(divisor) => (number.div_euclid(divisor), number.rem_euclid(divisor)),
        None => (if number < 0 { -1 } else { 0 }, number),
    };
    (quotient as i64).wrapping_add(i64::from(remainder != 0))
}

/// The sum of two `mantissa * 10^exponent`, in the smaller exponent if it fits 38 digits.
fn add_decimals(a: (i128, i32), b: (i128, i32)) -> (i128, i32) {
    let (high, low) = if a.1 >= b.1 { (a, b) } else { (b, a) };
    let aligned = times_power(high.0, high.1.abs_diff(low.1).into());
    if let Some(sum) = aligned.and_then(|aligned| aligned.checked_add(low.0)) {
        return (sum, low.1);
    }
    // 36 digits for the larger, which leaves room for the sum; the smaller loses its last digits.
    let digits = high.0.unsigned_abs().checked_ilog10().unwrap_or(0) as i32 + 1;
    let exponent = high.1.saturating_add(digits - 36).max(low.1.saturating_add(1));
    let fit = |(mantissa, own): (i128, i32)| {
        let steps = own.abs_diff(exponent).into();
        if own >= exponent { times_power(mantissa, steps).unwrap_or(0) } else { round_away(mantissa, steps) }
    };
    (fit(high) + fit(low), exponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    const VECTORS: &str = include_str!("../../../../testdata/kubernetes/quantity.jsonl");

    fn vectors() -> impl Iterator<Item = Value> {
        VECTORS.lines().map(|line| serde_json::from_str(line).unwrap())
    }

    fn format_name(format: Format) -> &'static str {
        match format {
            Format::DecimalSi => "DecimalSI",
            Format::BinarySi => "BinarySI",
            Format::DecimalExponent => "DecimalExponent",
        }
    }

    #[track_caller]
    fn assert_quantity(quantity: &Quantity, expected: &Value, context: &Value) {
        assert_eq!(quantity.to_string(), expected["out"].as_str().unwrap(), "{context}");
        assert_eq!(quantity.value(), expected["value"].as_i64().unwrap(), "value of {context}");
        assert_eq!(quantity.milli_value(), expected["milli"].as_i64().unwrap(), "milli value of {context}");
        assert_eq!(format_name(quantity.format()), expected["format"], "{context}");
    }

    #[test]
    fn texts_are_read_as_kubernetes_reads_them() {
        let (mut good, mut bad) = (0, 0);
        for row in vectors().filter(|row| row.get("in").is_some()) {
            let parsed = Quantity::parse(row["in"].as_str().unwrap());
            if let Some(expected) = row.get("error") {
                let found = match parsed.expect_err(&row.to_string()).why {
                    BadQuantityReason::Format => "format",
                    BadQuantityReason::Suffix => "suffix",
                    BadQuantityReason::Digits => "numeric",
                };
                assert_eq!(found, expected, "{row}");
                bad += 1;
                continue;
            }
            let quantity = parsed.unwrap();
            assert_quantity(&quantity, &row, &row);
            assert_eq!(i64::from(quantity.sign()), row["sign"].as_i64().unwrap(), "{row}");
            assert_eq!(quantity.is_zero(), row["sign"] == 0, "{row}");
            for (power, expected) in [-9, -6, 1, 6].into_iter().zip(row["scaled"].as_array().unwrap()) {
                assert_eq!(quantity.scaled_value(power), expected.as_i64().unwrap(), "10^{power} in {row}");
            }
            let canonical = row.get("canonical").unwrap_or(&row["out"]);
            assert_eq!((-(-quantity.clone())).to_string(), canonical.as_str().unwrap(), "{row}");
            assert_eq!((-quantity).to_string(), row["neg"].as_str().unwrap(), "{row}");
            good += 1;
        }
        assert!(good > 400 && bad > 50, "{good} good, {bad} bad");
    }

    #[test]
    fn sums_differences_and_order_are_those_of_kubernetes() {
        let mut count = 0;
        for row in vectors().filter(|row| row.get("a").is_some()) {
            let read = |name: &str| Quantity::parse(row[name].as_str().unwrap()).unwrap();
            let (a, b) = (read("a"), read("b"));
            let (mut sum, mut difference) = (a.clone(), a.clone());
            sum += &b;
            difference -= &b;
            assert_quantity(&sum, &row["add"], &row);
            assert_quantity(&difference, &row["sub"], &row);
            assert_eq!(a.cmp(&b) as i64, row["cmp"].as_i64().unwrap(), "{row}");
            count += 1;
        }
        assert!(count > 300, "{count}");
    }

    #[test]
    fn json_strings_numbers_and_null_are_quantities() {
        for row in vectors().filter(|row| row.get("json").is_some()) {
            let read: Result<Quantity, _> = serde_json::from_str(&row["json"].to_string());
            match row.get("marshal") {
                Some(expected) => {
                    assert_eq!(&serde_json::to_value(read.unwrap()).unwrap(), expected, "{row}")
                }
                None => assert!(read.is_err(), "{row}"),
            }
        }
    }

    #[test]
    fn a_refusal_names_the_text_and_what_would_be_right() {
        let error = Quantity::parse("1Kb").unwrap_err().to_string();
        assert!(error.contains("\"1Kb\"") && error.contains("500m"), "{error}");
    }

    #[test]
    fn numbers_beyond_all_use_do_no_harm() {
        let huge = [
            "1e2147483647",
            "1e-2147483648",
            "9999999999999999999e2147483647",
            "-1e2147483647",
            "0e2147483647",
            &"9".repeat(500),
            &format!("0.{}1", "0".repeat(500)),
            &format!("{}.{}Ei", "9".repeat(400), "9".repeat(400)),
        ]
        .map(|text| Quantity::parse(text).unwrap());
        for a in &huge {
            for b in &huge {
                let mut sum = a.clone();
                sum += b;
                sum -= a;
                assert_eq!(a.cmp(b), b.cmp(a).reverse());
                let _ = (sum.value(), sum.milli_value(), sum.to_string());
            }
        }
    }

    /// Texts of numbers with few digits, and each number in units of 10^-9.
    fn exact() -> impl Strategy<Value = (String, i128)> {
        let suffixes = [
            ("n", 1),
            ("u", 1_000),
            ("m", 1_000_000),
            ("", 1_000_000_000),
            ("k", 1_000_000_000_000),
            ("M", 1_000_000_000_000_000),
            ("Ki", 1024 * 1_000_000_000),
            ("Mi", 1024 * 1024 * 1_000_000_000),
            ("Pi", (1 << 50) * 1_000_000_000),
            ("e3", 1_000_000_000_000),
            ("E-3", 1_000_000),
        ];
        (-4000_i128..4000, prop::sample::select(suffixes.to_vec()))
            .prop_map(|(number, (suffix, unit))| (format!("{number}{suffix}"), number * unit))
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_as_the_same((text, number) in exact(), (other, _) in exact()) {
            let mut quantity = Quantity::parse(&text).unwrap();
            prop_assert_eq!(quantity.sign(), number.signum() as i32);
            quantity += &Quantity::parse(&other).unwrap();
            let again = Quantity::parse(&quantity.to_string()).unwrap();
            prop_assert_eq!(&again, &quantity);
            // 1023000 in binary format has no suffix left, and is parsed as decimal: 1023k.
            if again.format() == quantity.format() {
                prop_assert_eq!(again.to_string(), quantity.to_string());
            }
        }

        #[test]
        fn order_and_sums_are_those_of_the_numbers((a, x) in exact(), (b, y) in exact()) {
            let (a, b) = (Quantity::parse(&a).unwrap(), Quantity::parse(&b).unwrap());
            prop_assert_eq!(a.cmp(&b), x.cmp(&y));
            let (mut one, mut other, mut less) = (a.clone(), b.clone(), a.clone());
            one += &b;
            other += &a;
            less -= &b;
            prop_assert_eq!(&one, &other);
            prop_assert_eq!(one.cmp(&Quantity::ZERO), (x + y).cmp(&0));
            prop_assert_eq!(less.cmp(&Quantity::ZERO), (x - y).cmp(&0));
            less += &b;
            prop_assert_eq!(less, a);
        }

        #[test]
        fn no_text_does_harm(text in "[-+]?[0-9.]{0,45}[numkKMGTPEi]{0,2}([eE][-+]?[0-9]{0,11})?") {
            if let Ok(quantity) = Quantity::parse(&text) {
                let _ = (quantity.value(), quantity.milli_value(), quantity.to_string());
            }
        }
    }
}

//! Quantities as text: parsing, the canonical form, and JSON.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use super::{BadQuantityReason, Format, Quantity};

/// The number of decimal digits that always fit an i128.
const MAX_DIGITS: i64 = 38;

/// The smallest unit of Kubernetes is 10^-9.
const NANO_EXPONENT: i64 = -9;

pub(super) fn parse(text: &str) -> Result<Quantity, BadQuantityReason> {
    let parts = split(text)?;
    let (unit, format) = parse_suffix(parts.suffix).ok_or(BadQuantityReason::Suffix)?;
    if let Some(quantity) = int64_amount(text, &parts, unit, format) {
        return Ok(quantity);
    }
    if !parts.has_digits {
        return Err(BadQuantityReason::Digits);
    }
    let (mantissa, exponent, format) = match unit {
        SuffixUnit::Ten(power) => {
            let (mantissa, exponent) = long_decimal(parts.whole, parts.fraction, power);
            (mantissa, exponent, format)
        }
        SuffixUnit::Two(power) => long_binary(parts.whole, parts.fraction, power),
    };
    let mantissa = if parts.negative { -mantissa } else { mantissa };
    Ok(Quantity { mantissa, exponent, is_long: true, format, original_text: None })
}

impl fmt::Display for Quantity {
    /// As the API server writes it: the text it was read from where that is almost canonical, else the canonical form.
    ///
    /// Canonical means no fraction, the largest suffix that allows that, and no binary suffix below 1024. A number
    /// beyond the largest suffix of its family loses the suffix, as in Kubernetes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.original_text {
            Some(text) => f.write_str(text),
            None => self.canonical(f),
        }
    }
}

impl Quantity {
    fn canonical(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        if let Some(mut whole) = self.whole_binary() {
            let mut step = 0;
            while whole % 1024 == 0 {
                whole /= 1024;
                step += 1;
            }
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(step).unwrap_or(&"");
            return write!(f, "{whole}{suffix}");
        }
        let (digits, exponent) = self.thousands();
        f.write_str(&digits)?;
        if self.format == Format::DecimalExponent {
            return if exponent == 0 { Ok(()) } else { write!(f, "e{exponent}") };
        }
        f.write_str(match exponent {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            18 => "E",
            _ => "",
        })
    }

    /// The shortest digits, in any format, for an exponent divisible by three, without that exponent: `100` for
    /// `100m` and for `100`.
    pub fn canonical_digits(&self) -> String {
        self.thousands().0
    }

    /// The shortest digits for an exponent divisible by three, and that exponent.
    fn thousands(&self) -> (String, i64) {
        let (mut mantissa, mut exponent) = (self.mantissa, i64::from(self.exponent));
        while mantissa != 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        let zeros = if mantissa == 0 { 0 } else { exponent.rem_euclid(3) };
        (format!("{mantissa}{}", &"00"[..zeros as usize]), exponent - zeros)
    }

    /// The number, if its format is binary and it can be written so: an integer of at least 1024.
    fn whole_binary(&self) -> Option<i128> {
        if self.format != Format::BinarySi {
            return None;
        }
        let factor = 10_i128.checked_pow(self.exponent.unsigned_abs())?;
        let whole = if self.exponent >= 0 {
            self.mantissa.checked_mul(factor)?
        } else if self.mantissa % factor == 0 {
            self.mantissa / factor
        } else {
            return None;
        };
        (whole.unsigned_abs() >= 1024).then_some(whole)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        deserializer.deserialize_any(AnyScalar)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Kubernetes accepts a string, a number, or null for zero. Only the value of a number arrives here: `1e3` and `1000`
/// are the same.
struct AnyScalar;

impl Visitor<'_> for AnyScalar {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"500m\" or 2")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
        Quantity::parse(text.trim()).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_unit<E>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }
}

struct QuantityParts<'a> {
    negative: bool,
    /// The digits before the point, without leading zeros.
    whole: &'a str,
    /// The digits after the point.
    fraction: &'a str,
    /// Whether there was any digit, leading zeros included.
    has_digits: bool,
    suffix: &'a str,
}

#[derive(Clone, Copy)]
enum SuffixUnit {
    Ten(i32),
    Two(u32),
}

fn split(text: &str) -> Result<QuantityParts<'_>, BadQuantityReason> {
    if text.is_empty() {
        return Err(BadQuantityReason::Format);
    }
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (digits, rest) = split_at_first(unsigned, |c| !c.is_ascii_digit());
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => split_at_first(rest, |c| !c.is_ascii_digit()),
        None => ("", rest),
    };
    let (_, power) = split_at_first(suffix, |c| !"eEinumkKMGTP".contains(c));
    let power = power.strip_prefix(['-', '+']).unwrap_or(power);
    if !power.bytes().all(|b| b.is_ascii_digit()) {
        return Err(BadQuantityReason::Format);
    }
    let has_digits = !digits.is_empty() || !fraction.is_empty();
    Ok(QuantityParts { negative, whole: digits.trim_start_matches('0'), fraction, has_digits, suffix })
}

fn split_at_first(text: &str, is_separator: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_separator).unwrap_or(text.len()))
}

fn parse_suffix(suffix: &str) -> Option<(SuffixUnit, Format)> {
    let ten = |power| Some((SuffixUnit::Ten(power), Format::DecimalSi));
    let two = |power| Some((SuffixUnit::Two(power), Format::BinarySi));
    match suffix {
        "n" => ten(-9),
        "u" => ten(-6),
        "m" => ten(-3),
        "" => ten(0),
        "k" => ten(3),
        "M" => ten(6),
        "G" => ten(9),
        "T" => ten(12),
        "P" => ten(15),
        "E" => ten(18),
        "Ki" => two(10),
        "Mi" => two(20),
        "Gi" => two(30),
        "Ti" => two(40),
        "Pi" => two(50),
        "Ei" => two(60),
        _ => {
            let power: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Kubernetes truncates the exponent to 32 bits without an overflow check.
            Some((SuffixUnit::Ten(power as i32), Format::DecimalExponent))
        }
    }
}

/// The number as an `int64` with an exponent, if Kubernetes would hold it so.
fn int64_amount(text: &str, parts: &QuantityParts<'_>, unit: SuffixUnit, format: Format) -> Option<Quantity> {
    let digit_count = parts.whole.len().max(1);
    let exponent = match unit {
        SuffixUnit::Ten(power) if digit_count + parts.fraction.len() <= 18 => {
            power.checked_sub(parts.fraction.len() as i32)?
        }
        // The digits of the unit itself are estimated: three for every 2^10.
        SuffixUnit::Two(power)
            if parts.fraction.is_empty() && digit_count + power as usize * 3 / 10 <= 14 =>
        {
            0
        }
        SuffixUnit::Ten(_) | SuffixUnit::Two(_) => return None,
    };
    if i64::from(exponent) < NANO_EXPONENT {
        return None;
    }
    let digits = [parts.whole, parts.fraction]
        .into_iter()
        .flat_map(str::bytes)
        .fold(0, |number, digit| number * 10 + i128::from(digit - b'0'));
    let keeps_text = match unit {
        SuffixUnit::Ten(_) => exponent % 3 == 0 && digits % 1000 != 0 && !parts.whole.is_empty(),
        SuffixUnit::Two(_) => digits % 8 != 0,
    };
    let mantissa = match unit {
        SuffixUnit::Ten(_) => digits,
        SuffixUnit::Two(power) => digits << power,
    };
    let mantissa = if parts.negative { -mantissa } else { mantissa };
    let mut quantity = Quantity { mantissa, exponent, is_long: false, format, original_text: None };
    // The original text is mostly the canonical form; only these can differ from it.
    let odd = format == Format::DecimalExponent
        || text.contains('.')
        || text.starts_with('+')
        || text.trim_start_matches('-').starts_with('0');
    if keeps_text && odd && quantity.to_string() != text {
        quantity.original_text = Some(text.into());
    }
    Some(quantity)
}

/// A decimal rounded away from zero to 10^-9, or to 38 digits.
fn long_decimal(whole: &str, fraction: &str, power: i32) -> (i128, i32) {
    let digits = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0').as_bytes();
    let exponent = i64::from(power) - fraction.len() as i64;
    if digits.is_empty() {
        return (0, i32::try_from(exponent).unwrap_or(i32::MIN));
    }
    // How many digits the number has in units of 10^-9.
    let digit_count = digits.len() as i64 + exponent - NANO_EXPONENT;
    let kept_digits = digit_count.clamp(0, MAX_DIGITS);
    let number = (0..kept_digits as usize)
        .map(|index| digits.get(index).map_or(0, |digit| i128::from(digit - b'0')))
        .fold(0, |number, digit| number * 10 + digit);
    let is_inexact = digits.iter().skip(kept_digits as usize).any(|&digit| digit != b'0');
    let exponent = i32::try_from(NANO_EXPONENT + digit_count.max(0) - kept_digits).unwrap_or(i32::MAX);
    (number + i128::from(is_inexact), exponent)
}

/// A number with a binary suffix in units of 10^-9, rounded away from zero, at most the largest `int64`.
fn long_binary(whole: &str, fraction: &str, power: u32) -> (i128, i32, Format) {
    const NANOS: i128 = 1_000_000_000;
    const MOST: i128 = i64::MAX as i128;
    // A twentieth digit makes any number too large; 20 digits of a fraction times 2^60 still fit an i128.
    let whole = if whole.len() > 19 { None } else { Some(whole.parse::<i128>().unwrap_or(0) << power) };
    let (leading_digits, rest) = fraction.split_at(fraction.len().min(20));
    let scaled = leading_digits.parse::<i128>().unwrap_or(0) << power;
    let (scaled, divisor) = match leading_digits.len() as u32 {
        places @ ..9 => (scaled * 10_i128.pow(9 - places), 1),
        places => (scaled, 10_i128.pow(places - 9)),
    };
    let is_inexact = scaled % divisor != 0 || rest.bytes().any(|digit| digit != b'0');
    let nanos = scaled / divisor + i128::from(is_inexact);
    match whole {
        Some(whole) if whole <= MOST && whole * NANOS + nanos <= MOST * NANOS => {
            let number = whole * NANOS + nanos;
            // A number below one cannot be written with a binary suffix.
            let format = if (1..NANOS).contains(&number) { Format::DecimalSi } else { Format::BinarySi };
            let exponent = if number == 0 { -(fraction.len() as i32) } else { NANO_EXPONENT as i32 };
            (number, exponent, format)
        }
        _ => (MOST, 0, Format::BinarySi),
    }
}

//! The text with which Go's spew prints a quantity: how it is kept in memory after it was parsed.

use kubernetes::quantity::Format;

/// The parts of a quantity in canonical form.
struct Parts<'a> {
    whole: &'a str,
    fraction: &'a str,
    format: Format,
    /// The exponent of the suffix, to the base of the format.
    exponent: i32,
}

/// The most digits that are kept as a number of 64 bits.
const MAX_DIGITS: i32 = 18;
const SMALLEST_SCALE: i32 = -9;
/// Larger quantities with a binary suffix are as large as this.
const LARGEST: u64 = i64::MAX.unsigned_abs();

/// The text of a quantity; of one that is not set if `text` is empty. `None` for negative ones and those that are too large.
pub(super) fn dump(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some(small(0, 0, "", ""));
    }
    if text == "0" {
        return Some(small(0, 0, "0", format_name(Format::DecimalSi)));
    }
    let parts = Parts::of(text)?;
    parts.dump_small(text).or_else(|| parts.dump_large())
}

/// A quantity of 64 bits; `text` is kept if it is canonical.
fn small(value: i64, scale: i32, text: &str, format: &str) -> String {
    format!(
        "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
         d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){text} Format:(resource.Format){format}}}"
    )
}

// === impl Parts ===

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Option<Parts<'a>> {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = text.split_at(digits(text));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let (format, exponent) = match suffix {
            "n" => (Format::DecimalSi, -9),
            "u" => (Format::DecimalSi, -6),
            "m" => (Format::DecimalSi, -3),
            "" => (Format::DecimalSi, 0),
            "k" => (Format::DecimalSi, 3),
            "M" => (Format::DecimalSi, 6),
            "G" => (Format::DecimalSi, 9),
            "T" => (Format::DecimalSi, 12),
            "P" => (Format::DecimalSi, 15),
            "E" => (Format::DecimalSi, 18),
            "Ki" => (Format::BinarySi, 10),
            "Mi" => (Format::BinarySi, 20),
            "Gi" => (Format::BinarySi, 30),
            "Ti" => (Format::BinarySi, 40),
            "Pi" => (Format::BinarySi, 50),
            "Ei" => (Format::BinarySi, 60),
            other => (Format::DecimalExponent, other.strip_prefix(['e', 'E'])?.parse().ok()?),
        };
        let whole = whole.trim_start_matches('0');
        Some(Parts { whole: if whole.is_empty() { "0" } else { whole }, fraction, format, exponent })
    }

    /// The text of a quantity that fits into 64 bits.
    fn dump_small(&self, text: &str) -> Option<String> {
        let digit_count = i32::try_from(self.whole.len() + self.fraction.len()).ok()?;
        let (scale, precision, factor) = match self.format {
            Format::DecimalSi | Format::DecimalExponent => (self.exponent, MAX_DIGITS - digit_count, 1),
            // A binary suffix has three decimal digits for ten bits.
            Format::BinarySi if self.fraction.is_empty() => (
                0,
                14 - digit_count - self.exponent * 3 / 10,
                1_i64.checked_shl(self.exponent.unsigned_abs())?,
            ),
            Format::BinarySi => return None,
        };
        let scale = scale - i32::try_from(self.fraction.len()).ok()?;
        if precision < 0 || scale < SMALLEST_SCALE {
            return None;
        }
        let digits = format!("{}{}", self.whole, self.fraction);
        let number: i64 = digits.parse().ok()?;
        let value = number.checked_mul(factor)?;
        let is_canonical = match self.format {
            Format::BinarySi => self.exponent % 10 == 0 && number % 8 != 0,
            Format::DecimalSi | Format::DecimalExponent => {
                scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
            }
        };
        Some(small(value, scale, if is_canonical { text } else { "" }, format_name(self.format)))
    }

    /// The text of a larger one, which is kept in billionths, as words of 64 bits.
    fn dump_large(&self) -> Option<String> {
        let digits: u128 = format!("{}{}", self.whole, self.fraction).parse().ok()?;
        let fraction_length = i32::try_from(self.fraction.len()).ok()?;
        let (factor, scale) = match self.format {
            Format::BinarySi => (1_u128.checked_shl(self.exponent.unsigned_abs())?, -fraction_length),
            Format::DecimalSi | Format::DecimalExponent => (1, self.exponent - fraction_length),
        };
        let digits = digits.checked_mul(factor)?;
        let power = 10_u128.checked_pow((scale - SMALLEST_SCALE).unsigned_abs())?;
        let billionths =
            if scale >= SMALLEST_SCALE { digits.checked_mul(power)? } else { digits.div_ceil(power) };
        let is_fraction = self.format == Format::BinarySi && billionths > 0 && billionths < 1_000_000_000;
        if is_fraction {
            return None;
        }
        let is_capped = self.format == Format::BinarySi && billionths > u128::from(LARGEST) * 1_000_000_000;
        let (number, scale) =
            if is_capped { (u128::from(LARGEST), 0) } else { (billionths, -SMALLEST_SCALE) };
        let (high, low) = (number >> 64, number & u128::from(u64::MAX));
        let words = if high == 0 { low.to_string() } else { format!("{low} {high}") };
        let format = format_name(self.format);
        Some(format!(
            "{{i:(resource.int64Amount){{value:(int64)0 scale:(resource.Scale)0}} \
             d:(resource.infDecAmount){{Dec:(*inf.Dec){{unscaled:(big.Int){{neg:(bool)false abs:(big.nat)[{words}]}} \
             scale:(inf.Scale){scale}}}}} s:(string) Format:(resource.Format){format}}}"
        ))
    }
}

fn format_name(format: Format) -> &'static str {
    match format {
        Format::DecimalSi => "DecimalSI",
        Format::DecimalExponent => "DecimalExponent",
        Format::BinarySi => "BinarySI",
    }
}

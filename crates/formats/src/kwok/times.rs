//! Times inside a recording that are only told relative to its beginning.

use std::borrow::Cow;

use model::Moment;

const OPEN: &str = "$(time-offset-nanosecond ";

/// Whether a text has a time that is told relative to the beginning.
pub(super) fn has_token(text: &str) -> bool {
    matches!(told(text, Moment::default()), Cow::Owned(_))
}

/// A text whose relative times are told as they are if the recording began at `base`, in the way KWOK's replay does:
/// in UTC, with six digits of a second. What is no such time stays as it is.
pub(super) fn told(text: &str, base: Moment) -> Cow<'_, str> {
    let mut found: Option<String> = None;
    let mut done = 0;
    for (start, _) in text.match_indices(OPEN) {
        let rest = &text[start + OPEN.len()..];
        let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'-').count();
        let number = &rest[..length];
        if !rest[length..].starts_with(')') {
            continue;
        }
        let Ok(nanos) = number.parse() else { continue };
        let out = found.get_or_insert_default();
        out.push_str(&text[done..start]);
        out.push_str(&format!("{:.6}", base.plus_nanos(nanos).timestamp()));
        done = start + OPEN.len() + number.len() + 1;
    }
    match found {
        Some(out) => Cow::Owned(out + &text[done..]),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base: &str, text: &str, expected: &str) {
        assert_eq!(told(text, base.parse().unwrap()), expected, "{text}");
    }

    #[test]
    fn a_token_becomes_the_time_it_means() {
        // The first two are KWOK's own.
        check(
            "2021-01-01T00:00:00Z",
            "any xxx $(time-offset-nanosecond 1000000000) any xxx",
            "any xxx 2021-01-01T00:00:01.000000Z any xxx",
        );
        check(
            "2021-01-01T00:00:00.000000001Z",
            "any xxx $(time-offset-nanosecond 1100000000) any xxx",
            "any xxx 2021-01-01T00:00:01.100000Z any xxx",
        );
        check(
            "2021-01-01T00:00:00Z",
            "$(time-offset-nanosecond -1)$(time-offset-nanosecond 0)",
            "2020-12-31T23:59:59.999999Z2021-01-01T00:00:00.000000Z",
        );
        check("1970-01-01T00:00:00Z", "$(time-offset-nanosecond -1500000000)", "1969-12-31T23:59:58.500000Z");
    }

    #[test]
    fn what_only_looks_like_a_token_stays() {
        for text in [
            "$(time-offset-nanosecond )",
            "$(time-offset-nanosecond +1)",
            "$(time-offset-nanosecond 1.5)",
            "$(time-offset-nanosecond 99999999999999999999)",
            "$(time-offset-nanosecond 1",
            "2021-01-01T00:00:00Z",
        ] {
            check("2021-01-01T00:00:00Z", text, text);
            assert!(!has_token(text));
        }
        assert!(has_token("a $(time-offset-nanosecond 1)"));
    }
}

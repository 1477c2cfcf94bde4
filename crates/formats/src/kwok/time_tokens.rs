//! Time tokens: times inside a recording as offsets from its beginning.

use std::borrow::Cow;

use model::Moment;

const TOKEN_START: &str = "$(time-offset-nanosecond ";

/// Whether a text contains a time token.
pub(super) fn has_time_token(text: &str) -> bool {
    matches!(resolve_time_tokens(text, Moment::default()), Cow::Owned(_))
}

/// Replaces time tokens by the times they stand for if the recording began at `base`, as KWOK's replay does: in UTC,
/// with microseconds. Malformed tokens stay unchanged.
pub(super) fn resolve_time_tokens(text: &str, base: Moment) -> Cow<'_, str> {
    let mut found: Option<String> = None;
    let mut done = 0;
    for (start, _) in text.match_indices(TOKEN_START) {
        let rest = &text[start + TOKEN_START.len()..];
        let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'-').count();
        let number = &rest[..length];
        if !rest[length..].starts_with(')') {
            continue;
        }
        let Ok(nanos) = number.parse() else { continue };
        let out = found.get_or_insert_default();
        out.push_str(&text[done..start]);
        out.push_str(&format!("{:.6}", base.plus_nanos(nanos).timestamp()));
        done = start + TOKEN_START.len() + number.len() + 1;
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
        assert_eq!(resolve_time_tokens(text, base.parse().unwrap()), expected, "{text}");
    }

    #[test]
    fn a_token_becomes_the_time_it_means() {
        // The first two are KWOK's own test cases.
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
    fn malformed_tokens_stay() {
        for text in [
            "$(time-offset-nanosecond )",
            "$(time-offset-nanosecond +1)",
            "$(time-offset-nanosecond 1.5)",
            "$(time-offset-nanosecond 99999999999999999999)",
            "$(time-offset-nanosecond 1",
            "2021-01-01T00:00:00Z",
        ] {
            check("2021-01-01T00:00:00Z", text, text);
            assert!(!has_time_token(text));
        }
        assert!(has_time_token("a $(time-offset-nanosecond 1)"));
    }
}

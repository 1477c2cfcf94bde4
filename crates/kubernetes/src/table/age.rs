//! Ages in the two or three digits of Kubernetes' `HumanDuration`.

use model::Moment;

const SECOND: i64 = 1_000_000_000;

/// The time from `then` to `now`; `<unknown>` if there is no time, `<invalid>` if it is in the future.
pub(super) fn age_since(then: Option<Moment>, now: Moment) -> String {
    then.map_or_else(|| "<unknown>".to_owned(), |then| human_duration(now.nanos_since(then)))
}

/// A duration in nanoseconds: `5s`, `3m20s`, `47h`, `3d4h`, `2y10d`. Up to two seconds in the future count as now,
/// for clock skew.
pub fn human_duration(nanos: i64) -> String {
    let seconds = nanos / SECOND;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two_units(minutes, "m", seconds % 60, "s"),
        _ if minutes < 3 * 60 => format!("{minutes}m"),
        _ if hours < 8 => two_units(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two_units(days, "d", hours % 24, "h"),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => two_units(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// The smaller unit is omitted if it is zero.
fn two_units(large: i64, unit: &str, small: i64, smaller: &str) -> String {
    if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{smaller}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn lengths_read_as_kubernetes_writes_them() {
        for line in include_str!("../../../../testdata/kubernetes/tables_ages.jsonl").lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            assert_eq!(human_duration(case["nanos"].as_i64().unwrap()), case["text"], "{line}");
        }
    }
}

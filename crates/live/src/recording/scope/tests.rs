use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Moment {
    Moment::from_nanos(second * 1_000_000_000)
}

/// `1970-01-01T00:00:07Z` is `7s`.
fn short(text: &str) -> String {
    let mut output = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("1970-01-01T00:") {
        let (minutes, seconds) = (&after[..2], &after[3..5]);
        let number = minutes.parse::<i64>().unwrap() * 60 + seconds.parse::<i64>().unwrap();
        output.push_str(&format!("{before}{number}s"));
        rest = &after[6..];
    }
    output + rest
}

fn long(text: &str) -> String {
    let mut output = String::new();
    for part in text.split_inclusive([';', ',']) {
        let (text, end) = part.split_at(part.trim_end_matches([';', ',']).len());
        match text.strip_suffix('s').and_then(|text| text.rsplit_once('@')) {
            Some((before, second)) => output.push_str(&format!("{before}@{}", at(second.parse().unwrap()))),
            None => output.push_str(text),
        }
        output.push_str(end);
    }
    output
}

/// `shop,web`; `*` for all; with labels as in `app=a|*`; `-` for a kind out of scope.
fn scope(text: &str) -> Option<KindScope> {
    if text == "-" {
        return None;
    }
    let (labels, names) = text.rsplit_once('|').map_or((None, text), |(labels, rest)| (Some(labels), rest));
    let names = names.split(',').filter(|name| *name != "*").map(str::to_owned).collect();
    let filter = ScopeFilter { labels: labels.map(str::to_owned), ..ScopeFilter::default() };
    Some(KindScope { filter, namespaces: names })
}

fn pod() -> Kind {
    Kind::new("", "Pod")
}

/// Checks the positions after resuming at 100 s a recording from 10 s to 90 s, and the reported gaps.
#[track_caller]
fn check(previous: &str, new_scope: &str, after: &str, gaps: &[&str]) {
    let positions = (!previous.is_empty()).then(|| KindPositions::parse(&long(previous), &pod()));
    let span = Some(RecordedSpan { from: at(10), to: at(90) });
    let new_scope = scope(new_scope);
    let resumption = resume(&pod(), positions.as_ref(), new_scope.as_ref(), span, at(100));
    assert_eq!(
        (short(&text(&resumption, new_scope.as_ref())), gap_texts(&resumption)),
        (after.to_owned(), strings(gaps))
    );
    assert_eq!(resumption.change.is_some(), previous != after);
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn gap_texts(resumption: &Resumption) -> Vec<String> {
    let end = |to: Moment| if to == Moment::MAX { String::new() } else { to.to_string() };
    let text = |gap: &ScopeGap| short(&format!("{}..{} {}", gap.from, end(gap.to), gap.why));
    let change = resumption.change.iter();
    change.flat_map(|change| change.closed.iter().chain(&change.gaps)).map(text).collect()
}

/// The text of the positions, as `KindWatchState` writes it.
fn text(resumption: &Resumption, new_scope: Option<&KindScope>) -> String {
    let Some(scope) = new_scope else { return resumption.dropped.trim_start_matches(';').to_owned() };
    let positions =
        scope.watched_namespaces().map(str::to_owned).zip(resumption.positions.iter().flatten().cloned());
    let section = PositionSection { filter: scope.filter.clone(), positions: positions.collect() };
    section.text(&pod()) + &resumption.dropped
}

#[test]
fn an_unchanged_scope_resumes_where_it_stopped() {
    for (before, wanted) in [
        ("7@80s", "*"),
        ("shop=9@80s,web=7@81s", "shop,web"),
        ("app in (a,b)|7@80s", "app in (a,b)|*"),
        ("app=a|shop=9@80s", "app=a|shop"),
        ("@80s", "*"),
        ("web=7@80s;-5@60s", "web"),
        ("-7@60s", "-"),
    ] {
        check(before, wanted, before, &[]);
    }
}

#[test]
fn a_dropped_part_of_the_scope_is_an_open_gap() {
    check("7@80s", "-", "-7@80s", &["80s.. not recorded"]);
    check("7@80s", "web", "web=7@80s;-7@80s", &["80s.. only namespace web recorded"]);
    check("7@80s", "web,shop", "shop=7@80s,web=7@80s;-7@80s", &["80s.. only namespaces shop, web recorded"]);
    check("shop=9@70s,web=7@80s", "web", "web=7@80s;-shop=9@70s", &["70s.. namespace shop not recorded"]);
    // A new selector needs a list, as it is not known which objects have the labels.
    check("7@80s", "app=a|*", "app=a|@100s;-7@80s", &["80s.. only labels app=a recorded"]);
    check(
        "7@80s",
        "app=a|web",
        "app=a|web=@100s;-7@80s",
        &["80s.. only labels app=a in namespace web recorded"],
    );
    // Even narrower.
    check(
        "shop=7@70s,web=7@80s;-7@50s",
        "web",
        "web=7@80s;-7@70s,shop=7@70s",
        &["50s..100s only namespaces shop, web recorded", "70s.. only namespace web recorded"],
    );
    check(
        "web=7@80s;-7@50s",
        "-",
        "-7@80s,web=7@80s",
        &["50s..100s only namespace web recorded", "80s.. not recorded"],
    );
    // A position without a moment.
    check("7", "-", "-7@90s", &["90s.. not recorded"]);
}

#[test]
fn a_part_that_is_in_scope_again_is_listed_and_ends_the_gap() {
    check("-7@60s", "*", "@100s", &["60s..100s not recorded"]);
    check("web=7@80s;-7@60s", "*", "@100s", &["60s..100s only namespace web recorded"]);
    check(
        "web=7@80s;-shop=9@60s",
        "shop,web",
        "shop=@100s,web=7@80s",
        &["60s..100s namespace shop not recorded"],
    );
    check("app=a|5@80s;-7@60s", "*", "@100s", &["60s..100s only labels app=a recorded"]);
    // Partially.
    check(
        "web=7@80s;-7@60s",
        "shop,web",
        "shop=@100s,web=7@80s;-7@100s",
        &["60s..100s only namespace web recorded", "100s.. only namespaces shop, web recorded"],
    );
    check(
        "-7@60s",
        "web",
        "web=@100s;-7@100s",
        &["60s..100s not recorded", "100s.. only namespace web recorded"],
    );
}

#[test]
fn a_part_that_was_never_recorded_is_a_gap_from_the_beginning() {
    check("", "*", "@100s", &["10s..100s not recorded"]);
    check("web=7@80s", "*", "@100s", &["10s..100s only namespace web recorded"]);
    check("web=7@80s", "shop,web", "shop=@100s,web=7@80s", &["10s..100s namespace shop not recorded"]);
    check("app=a|7@80s", "*", "@100s", &["10s..100s only labels app=a recorded"]);
    check(
        "app=a|7@80s",
        "app=b|*",
        "app=b|@100s;-app=a|7@80s",
        &["10s..100s only labels app=a recorded", "80s.. only labels app=b recorded"],
    );
    check("-web=7@60s", "*", "@100s", &["60s..100s not recorded", "10s..100s only namespace web recorded"]);
    // A recording that starts now has missed nothing.
    let fresh = resume(&pod(), None, scope("shop,web").as_ref(), None, at(100));
    assert_eq!(fresh, Resumption { positions: vec![None, None], ..Resumption::default() });
}

#[test]
fn events_of_every_reporter_are_more_than_those_of_schedulers() {
    let kind = Kind::new("events.k8s.io", "Event");
    let span = Some(RecordedSpan { from: at(10), to: at(90) });
    let resume_events = |text: &str, events: EventChoice| {
        let filter = ScopeFilter { labels: None, events };
        let before = KindPositions::parse(&long(text), &kind);
        let wanted = KindScope { filter: filter.clone(), namespaces: Vec::new() };
        let resumption = resume(&kind, Some(&before), Some(&wanted), span, at(100));
        let position = resumption.positions[0].as_deref().unwrap();
        (
            short(&format!("{}{position}{}", filter.position_prefix(&kind), resumption.dropped)),
            gap_texts(&resumption),
        )
    };
    // As in histories from before the choice existed.
    let only = "only events of schedulers and autoscalers recorded";
    assert_eq!(
        resume_events("7@80s", EventChoice::All),
        ("*|@100s".to_owned(), vec![format!("10s..100s {only}")])
    );
    assert_eq!(resume_events("7@80s", EventChoice::Scheduling), ("7@80s".to_owned(), vec![]));
    assert_eq!(resume_events("*|7@80s", EventChoice::All), ("*|7@80s".to_owned(), vec![]));
    let narrower = ("@100s;-*|7@80s".to_owned(), vec![format!("80s.. {only}")]);
    assert_eq!(resume_events("*|7@80s", EventChoice::Scheduling), narrower);
    assert_eq!(
        resume_events("@99s;-*|7@80s", EventChoice::All),
        ("*|@100s".to_owned(), vec![format!("80s..100s {only}")])
    );
}

#[test]
fn a_reason_names_some_of_many_namespaces() {
    let names: Vec<String> = (10..25).map(|number| format!("n{number}")).collect();
    let text = describe_namespaces(names.iter().map(String::as_str));
    assert_eq!(text, "namespaces n10, n11, n12, n13, n14, n15, n16, n17, n18, n19 and 5 more");
}

/// The labels and namespaces that a run records of a kind; `None` if it does not record it.
type RunScope = Option<(Option<&'static str>, Vec<&'static str>)>;

fn runs() -> impl Strategy<Value = Vec<RunScope>> {
    let labels = prop_oneof![3 => Just(None), 1 => Just(Some("app=a"))];
    let names = prop::sample::subsequence(vec!["blog", "shop", "web"], 0..=3);
    prop::collection::vec(prop::option::weighted(0.8, (labels, names)), 1..8)
}

proptest! {
    /// For any sequence of scopes: a period in which something was not recorded that was recorded at another time lies
    /// in a gap; and while everything is recorded that ever was, no gap is open.
    #[test]
    fn every_unrecorded_part_lies_in_a_gap(runs in runs()) {
        // A run of 50 s starts every 100 s, and its scope is listed one second later.
        let mut text: Option<String> = None;
        let mut gaps: Vec<(Moment, Moment)> = Vec::new();
        let mut recorded: Vec<(i64, KindScope)> = Vec::new();
        for (number, run) in runs.iter().enumerate() {
            let begins = 100 * (number as i64 + 1);
            let wanted = run.as_ref().map(|(labels, names)| KindScope {
                filter: ScopeFilter { labels: labels.map(str::to_owned), ..ScopeFilter::default() },
                namespaces: names.iter().map(|name| (*name).to_owned()).collect(),
            });
            let before = text.as_deref().map(|text| KindPositions::parse(text, &pod()));
            let span = (number > 0).then(|| RecordedSpan { from: at(100), to: at(begins - 50) });
            if before.is_none() && wanted.is_none() {
                continue;
            }
            let resumption = resume(&pod(), before.as_ref(), wanted.as_ref(), span, at(begins));
            let change = resumption.change.clone().unwrap_or_default();
            if let Some(closed) = &change.closed {
                let open = gaps.iter().position(|gap| *gap == (closed.from, Moment::MAX));
                gaps.remove(open.expect("a closed gap was open"));
                gaps.push((closed.from, closed.to));
            }
            gaps.extend(change.gaps.iter().map(|gap| (gap.from, gap.to)));
            let mut positions = BTreeMap::new();
            for (name, position) in wanted.iter().flat_map(KindScope::watched_namespaces).zip(&resumption.positions) {
                // Gaps reported by the watch itself.
                let relisted_since = position.as_deref().filter(|position| position_version(position).is_empty()).and_then(position_moment);
                gaps.extend(relisted_since.map(|since| (since, at(begins + 1))));
                positions.insert(name.to_owned(), format!("7@{}", at(begins + 50)));
            }
            text = Some(match &wanted {
                Some(scope) => {
                    let section = PositionSection { filter: scope.filter.clone(), positions };
                    section.text(&pod()) + &resumption.dropped
                }
                None => resumption.dropped.clone(),
            });
            recorded.extend(wanted.map(|scope| (begins, scope)));
        }
        let is_covered = |second: i64| gaps.iter().any(|(from, to)| *from <= at(second) && at(second) < *to);
        for number in 1..=runs.len() as i64 {
            for name in ["blog", "shop", "web", "other"] {
                for labels in [None, Some("app=a")] {
                    let filter = ScopeFilter { labels: labels.map(str::to_owned), ..ScopeFilter::default() };
                    let has = |scope: &KindScope| scope.covers(&filter, name);
                    let is_recorded = recorded.iter().any(|(begins, one)| *begins == number * 100 && has(one));
                    let ever = recorded.iter().any(|(_, one)| has(one));
                    if ever && !is_recorded {
                        prop_assert!(is_covered(number * 100 + 25), "{name} in run {number}: {gaps:?}");
                    }
                }
            }
        }
        // A gap is open only if the last run has a narrower scope than an earlier one.
        let last = recorded.last().filter(|(begins, _)| *begins == runs.len() as i64 * 100);
        let is_narrower = recorded.iter().any(|(_, before)| last.is_none_or(|(_, last)| {
            before.watched_namespaces().any(|name| !last.covers(&before.filter, name))
        }));
        let open = gaps.iter().filter(|(_, to)| *to == Moment::MAX).count();
        prop_assert_eq!(open, usize::from(is_narrower), "{:?}", gaps);
    }
}

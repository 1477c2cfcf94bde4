use super::*;

mod story;

/// A watching of pods, whose clock goes on by a second with each reply.
struct Script {
    watching: Watching,
    second: i64,
}

fn subject() -> Subject {
    Subject { source: "s".into(), api_version: "v1".to_owned(), kind: Kind::new("", "Pod"), keep: |_| true }
}

fn moment(second: i64) -> Moment {
    Moment::from_nanos(second * 1_000_000_000)
}

/// `a-1@5`: the pod `a` with the uid `a-1` in the version 5.
fn pod(word: &str) -> String {
    let (uid, version) = word.split_once('@').unwrap();
    let name = uid.split_once('-').unwrap().0;
    format!(
        r#""metadata":{{"name":"{name}","namespace":"n","uid":"{uid}","resourceVersion":"{version}"}},"spec":{{}}}}"#
    )
}

fn page(version: &str, next: &str, pods: &[&str]) -> String {
    let items: Vec<String> = pods.iter().map(|word| format!("{{{}", pod(word))).collect();
    let next = if next.is_empty() { String::new() } else { format!(r#","continue":"{next}""#) };
    format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"{next}}},"items":[{}]}}"#,
        items.join(",")
    )
}

fn line(word: &str, object: &str) -> String {
    format!(r#"{{"type":"{word}","object":{{"kind":"Pod","apiVersion":"v1",{}}}"#, pod(object))
}

fn bookmark(version: &str) -> String {
    format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","creationTimestamp":null}}}}}}"#
    )
}

fn status(status: u16) -> Failure {
    Failure { status: Some(status), words: "no".to_owned(), retry_after: None }
}

const GONE: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}}"#;

/// Everything in a few letters: `+a-1@5`, `~a-1@6`, `-a-1@7`, `-a-1@7 inferred`, `gap 1..3`, `at 7`.
fn shown(told: &Told) -> Vec<String> {
    let change = |one: &Observed| {
        let meta = one.what.object().meta();
        let sign = match one.what {
            What::Added(_) => '+',
            What::Modified(_) => '~',
            What::Deleted(_) => '-',
        };
        let inferred = if one.inferred { " inferred" } else { "" };
        format!("{sign}{}@{}{inferred}", meta.uid.unwrap(), meta.resource_version.unwrap())
    };
    let second = |moment: Moment| moment.nanos() / 1_000_000_000;
    let mut all: Vec<String> = told.news.changes.iter().map(change).collect();
    all.extend(told.news.gaps.iter().map(|gap| format!("gap {}..{}", second(gap.from), second(gap.to))));
    let version = |position: &str| position.split_once('@').unwrap().0.to_owned();
    all.extend(told.news.positions.iter().map(|(_, position)| format!("at {}", version(position))));
    all.extend(told.troubles.iter().map(|words| format!("! {words}")));
    all
}

impl Script {
    fn new() -> Script {
        Script { watching: Watching::new(subject(), None, [], None), second: 100 }
    }

    /// Goes on at version 7, where there were these, as it was heard at 90 s.
    fn knowing(pods: &[&str]) -> Script {
        let known = pods.iter().map(|word| {
            let (uid, version) = word.split_once('@').unwrap();
            let name = uid.split_once('-').unwrap().0;
            (("n".into(), name.into()), Seen { uid: uid.into(), resource_version: version.into() })
        });
        Script { watching: Watching::new(subject(), Some("7"), known, Some(moment(90))), second: 100 }
    }

    #[track_caller]
    fn hear(&mut self, reply: Reply<'_>, expected: &[&str], next: &str) -> &mut Script {
        let ask = self.watching.hear(reply, moment(self.second), 1.0);
        self.second += 1;
        let asked = match ask {
            None => String::new(),
            Some(Ask::List { after: None, limit: 1 }) => "look".to_owned(),
            Some(Ask::List { after, .. }) => format!("list {}", after.unwrap_or_default()),
            Some(Ask::Watch { from, .. }) => format!("watch {from}"),
            Some(Ask::Wait(wait)) => format!("wait {wait:?}"),
        };
        assert_eq!(
            (shown(&self.watching.take()), asked.trim()),
            (expected.iter().map(|e| (*e).to_owned()).collect(), next)
        );
        self
    }

    #[track_caller]
    fn page(&mut self, text: &str, expected: &[&str], next: &str) -> &mut Script {
        self.hear(Reply::Page(text.as_bytes()), expected, next)
    }

    #[track_caller]
    fn line(&mut self, text: &str, expected: &[&str]) -> &mut Script {
        self.hear(Reply::Line(text.as_bytes()), expected, "")
    }

    #[track_caller]
    fn failed(&mut self, with: u16, expected: &[&str], next: &str) -> &mut Script {
        self.hear(Reply::Failed(status(with)), expected, next)
    }
}

#[test]
fn without_a_position_it_lists_and_then_watches() {
    let mut script = Script::new();
    assert_eq!(script.watching.ask(0.0), Ask::List { after: None, limit: 500 });
    script
        .page(&page("9", "c1", &["a-1@5"]), &["+a-1@5", "at "], "list c1")
        .page(&page("9", "", &["b-1@6"]), &["+b-1@6", "at 9"], "watch 9")
        .hear(Reply::Opened, &[], "")
        .line(&line("MODIFIED", "a-1@10"), &["~a-1@10", "at 10"])
        .line(&line("DELETED", "b-1@11"), &["-b-1@11", "at 11"])
        .line(&line("ADDED", "c-1@12"), &["+c-1@12", "at 12"])
        .line(&bookmark("20"), &["at 20"])
        .line(&bookmark(""), &[])
        .hear(Reply::Ended, &[], "watch 20");
    assert_eq!(script.watching.objects(), 2);
}

#[test]
fn items_of_lists_are_given_their_names_and_stay_as_they_are() {
    let mut script = Script::new();
    let text = r#"{"metadata":{"resourceVersion":"9"},"items":[{ "metadata":{"name":"a","uid":"u","resourceVersion":"1"}, "x":1.0 }]}"#;
    script.watching.hear(Reply::Page(text.as_bytes()), moment(1), 0.5);
    let told = script.watching.take();
    assert_eq!(
        told.news.changes[0].what.object().as_str(),
        r#"{"kind":"Pod","apiVersion":"v1", "metadata":{"name":"a","uid":"u","resourceVersion":"1"}, "x":1.0 }"#
    );
}

#[test]
fn with_a_position_it_goes_on_without_a_gap() {
    let mut script = Script::knowing(&["a-1@5"]);
    assert!(matches!(script.watching.ask(0.0), Ask::Watch { from, seconds: 240 } if from == "7"));
    script.hear(Reply::Opened, &[], "").line(&line("MODIFIED", "a-1@8"), &["~a-1@8", "at 8"]);
}

#[test]
fn a_version_too_old_means_a_list_a_gap_and_inferred_deletes() {
    let told = ["~b-1@9", "-d-1@4 inferred", "+d-2@8", "+e-1@9", "-c-1@6 inferred", "gap 90..101", "at 9"];
    let listed = page("9", "", &["a-1@5", "b-1@9", "d-2@8", "e-1@9"]);
    let known = ["a-1@5", "b-1@6", "c-1@6", "d-1@4"];
    Script::knowing(&known).failed(410, &[], "list").page(&listed, &told, "watch 9");
    // The server may also say so in the middle of a watch that began well.
    let mut script = Script::knowing(&known);
    script.hear(Reply::Line(GONE.as_bytes()), &[], "list").page(&listed, &told, "watch 9");
}

#[test]
fn the_gap_begins_where_the_server_was_last_heard() {
    Script::knowing(&["a-1@5"])
        .hear(Reply::Opened, &[], "")
        .line(&bookmark("8"), &["at 8"])
        .hear(Reply::Line(GONE.as_bytes()), &[], "list")
        .page(&page("9", "", &["a-1@5"]), &["gap 101..103", "at 9"], "watch 9");
}

#[test]
fn the_gap_begins_before_a_time_in_which_nobody_listened() {
    let mut script = Script::knowing(&[]);
    script.hear(Reply::Opened, &[], "").line(&bookmark("8"), &["at 8"]);
    // A machine that slept, or a disk that was full: what comes now had been waiting.
    script.second = 5000;
    for version in ["9", "10"] {
        script.watching.hear(
            Reply::Line(line("ADDED", &format!("a-1@{version}")).as_bytes()),
            moment(5000),
            0.5,
        );
        script.watching.hear(Reply::Line(bookmark(version).as_bytes()), moment(5000), 0.5);
    }
    script.watching.take();
    script.hear(Reply::Line(GONE.as_bytes()), &[], "list").page(
        &page("12", "", &["a-1@10"]),
        &["gap 101..5001", "at 12"],
        "watch 12",
    );
    // What comes after a pause happens now.
    let mut script = Script::knowing(&[]);
    script.hear(Reply::Opened, &[], "").line(&bookmark("8"), &["at 8"]);
    script.second = 5000;
    script.line(&bookmark("9"), &["at 9"]).line(&bookmark("10"), &["at 10"]);
    script.hear(Reply::Line(GONE.as_bytes()), &[], "list").page(
        &page("12", "", &[]),
        &["gap 5001..5003", "at 12"],
        "watch 12",
    );
}

#[test]
fn the_gap_begins_before_what_was_being_caught_up_with() {
    let mut script = Script::knowing(&[]);
    script.hear(Reply::Opened, &[], "");
    for version in ["8", "9"] {
        // Two lines of one instant: of what happened while nobody watched, how much more is to come is not known.
        script.second = 100;
        let pod = format!("a-{version}@{version}");
        script.watching.hear(Reply::Line(line("ADDED", &pod).as_bytes()), moment(100), 0.5);
    }
    script.watching.take();
    script.hear(Reply::Line(GONE.as_bytes()), &[], "list").page(
        &page("9", "", &["a-9@9"]),
        &["gap 90..101", "at 9"],
        "watch 9",
    );
}

#[test]
fn a_position_says_up_to_when_all_was_told() {
    let mut script = Script::new();
    let position = |watching: &mut Watching| watching.take().news.positions[0].1.clone();
    script.watching.hear(Reply::Page(page("9", "c1", &["a-1@5"]).as_bytes()), moment(100), 0.5);
    assert_eq!(position(&mut script.watching), "@1970-01-01T00:01:40Z");
    script.watching.hear(Reply::Page(page("9", "", &[]).as_bytes()), moment(110), 0.5);
    assert_eq!(position(&mut script.watching), "9@1970-01-01T00:01:40Z");
    script.watching.hear(Reply::Opened, moment(120), 0.5);
    script.watching.hear(Reply::Line(bookmark("12").as_bytes()), moment(130), 0.5);
    let text = position(&mut script.watching);
    assert_eq!(text, "12@1970-01-01T00:02:10Z");
    // However much later it goes on.
    let watching = Watching::new(subject(), Some(&text), [], Some(moment(500)));
    Script { watching, second: 600 }.failed(410, &[], "list").page(
        &page("99", "", &[]),
        &["gap 130..601", "at 99"],
        "watch 99",
    );
}

#[test]
fn a_server_that_cannot_answer_is_asked_again_ever_later() {
    let mut script = Script::knowing(&[]);
    for wait in ["800ms", "1.6s", "3.2s", "6.4s", "12.8s", "25.6s", "30s", "30s"] {
        script.failed(503, &[], &format!("wait {wait}"));
    }
    assert!(matches!(script.watching.state(), State::Waiting(_)));
    script.hear(Reply::Failed(Failure::said("connection refused".to_owned())), &[], "wait 30s");
    let late = Failure { retry_after: Some(Duration::from_secs(77)), ..status(429) };
    script.hear(Reply::Failed(late), &[], "wait 77s");
    // And chance takes up to half of it away.
    assert_eq!(
        Script::knowing(&[]).watching.hear(Reply::Failed(status(500)), moment(1), 0.0),
        Some(Ask::Wait(Duration::from_millis(400)))
    );
    script.hear(Reply::Opened, &[], "").line(&bookmark("8"), &["at 8"]);
    assert_eq!(script.watching.state(), State::Watching);
    script.failed(503, &[], "wait 800ms");
}

#[test]
fn a_line_cut_in_the_middle_comes_again() {
    let whole = line("MODIFIED", "a-1@9");
    Script::knowing(&["a-1@5"])
        .hear(Reply::Opened, &[], "")
        .line(&line("MODIFIED", "a-1@8"), &["~a-1@8", "at 8"])
        .hear(Reply::Line(&whole.as_bytes()[..whole.len() / 2]), &[], "wait 800ms")
        .line(&whole, &["~a-1@9", "at 9"]);
}

#[test]
fn a_watch_that_ends_at_once_is_not_asked_for_again_at_once() {
    let mut script = Script::knowing(&[]);
    script.hear(Reply::Opened, &[], "").hear(Reply::Ended, &[], "wait 800ms");
    script.hear(Reply::Opened, &[], "").hear(Reply::Ended, &[], "wait 1.6s");
    script.hear(Reply::Opened, &[], "");
    script.second += 10;
    script.line(&bookmark("8"), &["at 8"]).hear(Reply::Ended, &[], "watch 8");
    // Though it had something to say.
    script = Script::knowing(&[]);
    for (version, next) in [("8", "watch 8"), ("9", "wait 800ms"), ("10", "wait 800ms")] {
        script.hear(Reply::Opened, &[], "").line(&bookmark(version), &[&format!("at {version}")]);
        script.hear(Reply::Ended, &[], next);
    }
}

#[test]
fn a_watch_without_a_word_may_wait_for_a_version_that_is_still_to_come() {
    let mut script = Script::knowing(&["a-1@5", "b-1@6"]);
    script.hear(Reply::Opened, &[], "");
    script.second += 300;
    // One whose store was put back accepts the watch, and says nothing.
    script.hear(Reply::Ended, &[], "look").page(&page("3", "c1", &["a-1@2"]), &[], "list").page(
        &page("3", "", &["a-1@2"]),
        &["~a-1@2", "-b-1@6 inferred", "gap 90..403", "at 3"],
        "watch 3",
    );
    // It may also only have had nothing to say.
    let mut script = Script::knowing(&["a-1@5"]);
    script.hear(Reply::Opened, &[], "");
    script.second += 300;
    script.hear(Reply::Ended, &[], "look").page(&page("9", "", &["a-1@5"]), &[], "watch 7");
    // Nor is one believed that was away; versions that are no numbers say nothing.
    script.failed(503, &[], "wait 800ms");
    assert_eq!(script.watching.ask(0.0), Ask::List { after: None, limit: 1 });
    script.page(&page("first", "", &[]), &[], "watch 7");
    // But what it cannot answer is not what it must answer first.
    script.failed(503, &[], "wait 1.6s").failed(500, &[], "wait 3.2s");
    assert!(matches!(script.watching.ask(0.0), Ask::Watch { .. }));
}

#[test]
fn a_server_that_sends_bookmarks_must_go_on_doing_so() {
    let mut script = Script::knowing(&[]);
    script.hear(Reply::Opened, &[], "").line(&line("ADDED", "a-1@8"), &["+a-1@8", "at 8"]);
    assert_eq!(script.watching.patience(300), Duration::from_secs(315));
    script.line(&bookmark("8"), &["at 8"]);
    assert_eq!(script.watching.patience(300), Duration::from_secs(150));
    script.hear(Reply::Opened, &[], "");
    assert_eq!(script.watching.patience(240), Duration::from_secs(255));
}

#[test]
fn what_comes_again_is_not_told_again() {
    Script::knowing(&["a-1@5", "b-1@6"])
        .line(&line("MODIFIED", "a-1@5"), &[])
        .line(&line("ADDED", "c-1@8"), &["+c-1@8", "at 8"])
        .line(&line("ADDED", "c-1@8"), &["at 8"])
        // Nor does the past come back.
        .line(&line("MODIFIED", "c-1@7"), &[])
        .line(&bookmark("6"), &[])
        // What expires together is deleted at one version.
        .line(&line("DELETED", "b-1@9"), &["-b-1@9", "at 9"])
        .line(&line("DELETED", "c-1@9"), &["-c-1@9", "at 9"])
        .line(&line("DELETED", "b-1@9"), &["at 9"]);
}

#[test]
fn a_delete_of_what_is_not_known_is_told() {
    Script::knowing(&[]).line(&line("DELETED", "a-1@8"), &["-a-1@8", "at 8"]);
}

#[test]
fn another_life_of_a_name_ends_the_one_before() {
    // Of which the server should have spoken.
    let expected = ["-a-1@5 inferred", "+a-2@8", "gap 90..100", "at 8"];
    Script::knowing(&["a-1@5"]).line(&line("ADDED", "a-2@8"), &expected);
}

#[test]
fn a_list_whose_next_page_is_too_old_begins_again() {
    Script::new()
        .page(&page("9", "c1", &["a-1@5", "b-1@6"]), &["+a-1@5", "+b-1@6", "at "], "list c1")
        .failed(410, &[], "list")
        .page(&page("12", "c2", &["a-1@11"]), &["~a-1@11", "gap 100..102", "at "], "list c2")
        .failed(500, &[], "wait 1.6s")
        // What was changed in between may have been changed twice.
        .page(&page("12", "", &[]), &["-b-1@6 inferred", "gap 102..104", "at 12"], "watch 12");
}

#[test]
fn a_list_whose_pages_are_not_of_one_moment_is_watched_from_the_first() {
    Script::new()
        .page(&page("9", "c1", &["a-1@5"]), &["+a-1@5", "at "], "list c1")
        .page(&page("11", "", &["b-1@10"]), &["+b-1@10", "at 9"], "watch 9")
        .line(&line("MODIFIED", "b-1@10"), &["at 10"])
        .line(&line("MODIFIED", "a-1@11"), &["~a-1@11", "at 11"]);
}

#[test]
fn a_server_that_always_says_too_old_is_not_asked_in_a_circle() {
    let mut script = Script::knowing(&[]);
    script.failed(410, &[], "list").page(&page("9", "", &[]), &["gap 90..101", "at 9"], "watch 9");
    script.failed(410, &[], "wait 1.6s").page(&page("9", "", &[]), &["gap 101..103", "at 9"], "watch 9");
    script.failed(410, &[], "wait 3.2s");
}

#[test]
fn a_version_that_the_server_cannot_go_on_from_is_given_up() {
    // kube-apiserver answers 500 to a version that is no number.
    let mut script = Script::knowing(&["a-1@5"]);
    let look = page("9", "", &["a-1@5"]);
    for wait in ["800ms", "1.6s", "3.2s", "6.4s"] {
        script.failed(500, &[], &format!("wait {wait}")).page(&look, &[], "watch 7");
    }
    script.failed(500, &[], "list").page(&look, &["gap 90..109", "at 9"], "watch 9");
    // What is no event is the same; other troubles pass.
    let mut script = Script::knowing(&["a-1@5"]);
    for _ in 0..4 {
        script.watching.hear(Reply::Opened, moment(100), 0.5);
        script.watching.hear(Reply::Line(b"\xff{}"), moment(100), 0.5);
        script.watching.hear(Reply::Failed(status(503)), moment(100), 0.5);
    }
    assert!(matches!(script.watching.ask(0.5), Ask::Watch { .. }));
    script.watching.hear(Reply::Line(b"{}"), moment(100), 0.5);
    assert_eq!(script.watching.ask(0.5), Ask::List { after: None, limit: 500 });
}

#[test]
fn pages_that_do_not_come_are_asked_for_in_smaller_ones() {
    let limit = |watching: &Watching| match watching.ask(0.5) {
        Ask::List { limit, .. } => limit,
        other => panic!("{other:?}"),
    };
    let mut script = Script::new();
    for expected in [250, 125, 62] {
        script.watching.hear(Reply::Failed(Failure::said("too big".to_owned())), moment(1), 0.5);
        assert_eq!(limit(&script.watching), expected);
    }
    script.watching.hear(Reply::Failed(status(503)), moment(1), 0.5);
    assert_eq!(limit(&script.watching), 62);
    for expected in [124, 248, 496, 500] {
        script.watching.hear(Reply::Page(page("9", "c", &[]).as_bytes()), moment(1), 0.5);
        assert_eq!(limit(&script.watching), expected);
    }
}

#[test]
fn a_long_time_without_an_answer_is_a_gap() {
    let mut script = Script::knowing(&["a-1@5"]);
    script.failed(503, &[], "wait 800ms").page(&page("7", "", &[]), &[], "watch 7");
    script.second = 3600;
    script.failed(503, &[], "wait 1.6s");
    script.second = 5000;
    script.failed(503, &["gap 90..5000"], "wait 3.2s");
    script.second = 5100;
    script.hear(Reply::Opened, &["gap 5000..5100"], "");
}

#[test]
fn a_clock_that_is_put_back_makes_no_gap_end_before_it_begins() {
    let mut script = Script::knowing(&[]);
    script.failed(410, &[], "list");
    script.second = 40;
    script.page(&page("9", "", &[]), &["gap 40..90", "at 9"], "watch 9");
}

#[test]
fn what_may_not_be_seen_is_said_once_and_is_a_gap() {
    for refusal in [401, 403] {
        let trouble = format!("! cannot be watched for now: the server answered {refusal}: no");
        let mut script = Script::knowing(&["a-1@5"]);
        script.failed(refusal, &["gap 90..100", &trouble], "wait 5s").failed(refusal, &[], "wait 10s");
        assert_eq!(script.watching.state(), State::Forbidden);
        script.failed(refusal, &[], "wait 20s").failed(refusal, &[], "wait 40s").failed(
            refusal,
            &[],
            "wait 60s",
        );
        // A long time is told in between, and at the end.
        script.second = 4000;
        script.failed(refusal, &["gap 100..4000"], "wait 60s");
        script.hear(Reply::Opened, &["gap 4000..4001", "! recording again"], "");
        script.line(&line("MODIFIED", "a-1@8"), &["~a-1@8", "at 8"]);
    }
    let mut script = Script::new();
    script.failed(
        403,
        &["gap 100..100", "! cannot be watched for now: the server answered 403: no"],
        "wait 5s",
    );
    script.watching.stop(moment(120));
    assert_eq!(shown(&script.watching.take()), ["gap 100..120"]);
}

#[test]
fn a_kind_that_has_gone_keeps_its_objects_until_it_is_listed_again() {
    let trouble = "! cannot be watched for now: the server answered 404: no";
    Script::knowing(&["a-1@5", "b-1@6"])
        .failed(404, &["gap 90..100", trouble], "wait 5s")
        .failed(404, &[], "wait 10s")
        .page(
            &page("20", "", &["a-1@5"]),
            &["-b-1@6 inferred", "gap 100..102", "at 20", "! recording again"],
            "watch 20",
        );
}

#[test]
fn a_start_that_fails_is_a_gap() {
    Script::new().failed(503, &[], "wait 800ms").page(
        &page("9", "", &["a-1@5"]),
        &["+a-1@5", "gap 100..101", "at 9"],
        "watch 9",
    );
}

#[test]
fn what_was_known_without_a_position_is_listed_with_a_gap() {
    let seen = Seen { uid: "a-1".into(), resource_version: "5".into() };
    let known = [(("n".into(), "a".into()), seen)];
    let watching = Watching::new(subject(), None, known, Some(moment(90)));
    let listed = page("9", "", &["b-1@6"]);
    let expected = ["+b-1@6", "-a-1@5 inferred", "gap 90..100", "at 9"];
    Script { watching, second: 100 }.page(&listed, &expected, "watch 9");
}

#[test]
fn what_cannot_be_kept_is_missed_aloud() {
    let deep = format!(
        r#"{{"type":"ADDED","object":{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","resourceVersion":"8"}},"x":{}{}}}}}"#,
        "[".repeat(125),
        "]".repeat(125)
    );
    let why = "! the server sent what cannot be kept: nested deeper than 120 levels at byte";
    let mut script = Script::knowing(&[]);
    assert_eq!(script.watching.hear(Reply::Line(deep.as_bytes()), moment(100), 0.5), None);
    let told = shown(&script.watching.take());
    assert_eq!(told[..2], ["gap 90..100", "at 8"]);
    assert!(told[2].starts_with(why), "{told:?}");
    // What is no list at all is asked for again, and nobody was deleted.
    Script::new().page("<html>", &[], "wait 800ms");
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#;
    Script::knowing(&["a-1@5"]).failed(410, &[], "list").page(status, &[], "wait 1.6s");
    // Empty lists of some servers are null.
    let none = r#"{"metadata":{"resourceVersion":"9"},"items":null}"#;
    Script::new().page(none, &["at 9"], "watch 9");
}

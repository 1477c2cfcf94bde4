use super::*;

mod random_history;

/// A watch of pods, whose clock advances by one second with each response.
struct Script {
    watching: Reflector,
    second: i64,
}

fn watch_subject() -> WatchSubject {
    WatchSubject {
        source: "s".into(),
        api_version: "v1".to_owned(),
        kind: Kind::new("", "Pod"),
        keep: |_| true,
    }
}

fn moment(second: i64) -> Moment {
    Moment::from_nanos(second * 1_000_000_000)
}

/// `a-1@5`: the pod `a` with the uid `a-1` in the version 5.
fn pod(uid_at_version: &str) -> String {
    let (uid, version) = uid_at_version.split_once('@').unwrap();
    let name = uid.split_once('-').unwrap().0;
    format!(
        r#""metadata":{{"name":"{name}","namespace":"n","uid":"{uid}","resourceVersion":"{version}"}},"spec":{{}}}}"#
    )
}

fn page(version: &str, next: &str, pods: &[&str]) -> String {
    let items: Vec<String> = pods.iter().map(|uid_at_version| format!("{{{}", pod(uid_at_version))).collect();
    let next = if next.is_empty() { String::new() } else { format!(r#","continue":"{next}""#) };
    format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"{next}}},"items":[{}]}}"#,
        items.join(",")
    )
}

fn line(event_type: &str, object: &str) -> String {
    format!(r#"{{"type":"{event_type}","object":{{"kind":"Pod","apiVersion":"v1",{}}}"#, pod(object))
}

fn bookmark(version: &str) -> String {
    format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","creationTimestamp":null}}}}}}"#
    )
}

fn status(status: u16) -> RequestFailure {
    RequestFailure { status: Some(status), message: "no".to_owned(), retry_after: None }
}

const EXPIRED_EVENT: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}}"#;

/// A compact form of the output: `+a-1@5`, `~a-1@6`, `-a-1@7`, `-a-1@7 inferred`, `gap 1..3`, `at 7`.
fn compact_form(output: &WatchOutput) -> Vec<String> {
    let change = |one: &IncomingChange| {
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
    let mut all: Vec<String> = output.batch.changes.iter().map(change).collect();
    all.extend(output.batch.gaps.iter().map(|gap| format!("gap {}..{}", second(gap.from), second(gap.to))));
    let version = |position: &str| position.split_once('@').unwrap().0.to_owned();
    all.extend(output.batch.positions.iter().map(|(_, position)| format!("at {}", version(position))));
    all.extend(output.warnings.iter().map(|warning| format!("! {warning}")));
    all
}

impl Script {
    fn new() -> Script {
        Script { watching: Reflector::new(watch_subject(), None, [], None), second: 100 }
    }

    /// Resumes at version 7 with these pods, with the last response at 90 s.
    fn resumed_with(pods: &[&str]) -> Script {
        let objects = pods.iter().map(|uid_at_version| {
            let (uid, version) = uid_at_version.split_once('@').unwrap();
            let name = uid.split_once('-').unwrap().0;
            (NamespacedName::new("n", name), VersionId { uid: uid.into(), resource_version: version.into() })
        });
        Script {
            watching: Reflector::new(watch_subject(), Some("7"), objects, Some(moment(90))),
            second: 100,
        }
    }

    #[track_caller]
    fn respond(&mut self, response: WatchResponse<'_>, expected: &[&str], next: &str) -> &mut Script {
        let request = self.watching.handle(response, moment(self.second), 1.0);
        self.second += 1;
        let requested = match request {
            None => String::new(),
            Some(WatchRequest::List { continue_token: None, limit: 1 }) => "look".to_owned(),
            Some(WatchRequest::List { continue_token: after, .. }) => {
                format!("list {}", after.unwrap_or_default())
            }
            Some(WatchRequest::Watch { resource_version: from, .. }) => format!("watch {from}"),
            Some(WatchRequest::Wait(wait)) => format!("wait {wait:?}"),
        };
        assert_eq!(
            (compact_form(&self.watching.take_output()), requested.trim()),
            (expected.iter().map(|e| (*e).to_owned()).collect(), next)
        );
        self
    }

    #[track_caller]
    fn page(&mut self, text: &str, expected: &[&str], next: &str) -> &mut Script {
        self.respond(WatchResponse::Page(text.as_bytes()), expected, next)
    }

    #[track_caller]
    fn line(&mut self, text: &str, expected: &[&str]) -> &mut Script {
        self.respond(WatchResponse::Line(text.as_bytes()), expected, "")
    }

    #[track_caller]
    fn failed(&mut self, with: u16, expected: &[&str], next: &str) -> &mut Script {
        self.respond(WatchResponse::Failed(status(with)), expected, next)
    }
}

#[test]
fn without_a_position_it_lists_and_then_watches() {
    let mut script = Script::new();
    assert_eq!(script.watching.next_request(0.0), WatchRequest::List { continue_token: None, limit: 500 });
    script
        .page(&page("9", "c1", &["a-1@5"]), &["+a-1@5", "at "], "list c1")
        .page(&page("9", "", &["b-1@6"]), &["+b-1@6", "at 9"], "watch 9")
        .respond(WatchResponse::Opened, &[], "")
        .line(&line("MODIFIED", "a-1@10"), &["~a-1@10", "at 10"])
        .line(&line("DELETED", "b-1@11"), &["-b-1@11", "at 11"])
        .line(&line("ADDED", "c-1@12"), &["+c-1@12", "at 12"])
        .line(&bookmark("20"), &["at 20"])
        .line(&bookmark(""), &[])
        .respond(WatchResponse::Ended, &[], "watch 20");
    assert_eq!(script.watching.object_count(), 2);
}

#[test]
fn items_of_lists_get_type_meta_and_are_otherwise_unchanged() {
    let mut script = Script::new();
    let text = r#"{"metadata":{"resourceVersion":"9"},"items":[{ "metadata":{"name":"a","uid":"u","resourceVersion":"1"}, "x":1.0 }]}"#;
    script.watching.handle(WatchResponse::Page(text.as_bytes()), moment(1), 0.5);
    let output = script.watching.take_output();
    assert_eq!(
        output.batch.changes[0].what.object().as_str(),
        r#"{"kind":"Pod","apiVersion":"v1", "metadata":{"name":"a","uid":"u","resourceVersion":"1"}, "x":1.0 }"#
    );
}

#[test]
fn with_a_position_it_resumes_without_a_gap() {
    let mut script = Script::resumed_with(&["a-1@5"]);
    assert!(
        matches!(script.watching.next_request(0.0), WatchRequest::Watch { resource_version, timeout_seconds: 240 }
            if resource_version == "7")
    );
    script.respond(WatchResponse::Opened, &[], "").line(&line("MODIFIED", "a-1@8"), &["~a-1@8", "at 8"]);
}

#[test]
fn an_expired_version_causes_a_relist_a_gap_and_inferred_deletes() {
    let expected =
        ["~b-1@9", "-d-1@4 inferred", "+d-2@8", "+e-1@9", "-c-1@6 inferred", "gap 90..101", "at 9"];
    let listed = page("9", "", &["a-1@5", "b-1@9", "d-2@8", "e-1@9"]);
    let known = ["a-1@5", "b-1@6", "c-1@6", "d-1@4"];
    Script::resumed_with(&known).failed(410, &[], "list").page(&listed, &expected, "watch 9");
    // The server may also send 410 in the middle of an open watch.
    let mut script = Script::resumed_with(&known);
    script
        .respond(WatchResponse::Line(EXPIRED_EVENT.as_bytes()), &[], "list")
        .page(&listed, &expected, "watch 9");
}

#[test]
fn the_gap_begins_at_the_last_response_of_the_server() {
    Script::resumed_with(&["a-1@5"])
        .respond(WatchResponse::Opened, &[], "")
        .line(&bookmark("8"), &["at 8"])
        .respond(WatchResponse::Line(EXPIRED_EVENT.as_bytes()), &[], "list")
        .page(&page("9", "", &["a-1@5"]), &["gap 101..103", "at 9"], "watch 9");
}

#[test]
fn the_gap_begins_before_a_time_in_which_the_watch_was_not_read() {
    let mut script = Script::resumed_with(&[]);
    script.respond(WatchResponse::Opened, &[], "").line(&bookmark("8"), &["at 8"]);
    // A suspended machine or a full disk: the events had been waiting.
    script.second = 5000;
    for version in ["9", "10"] {
        script.watching.handle(
            WatchResponse::Line(line("ADDED", &format!("a-1@{version}")).as_bytes()),
            moment(5000),
            0.5,
        );
        script.watching.handle(WatchResponse::Line(bookmark(version).as_bytes()), moment(5000), 0.5);
    }
    script.watching.take_output();
    script.respond(WatchResponse::Line(EXPIRED_EVENT.as_bytes()), &[], "list").page(
        &page("12", "", &["a-1@10"]),
        &["gap 101..5001", "at 12"],
        "watch 12",
    );
    // Events after a pause are current.
    let mut script = Script::resumed_with(&[]);
    script.respond(WatchResponse::Opened, &[], "").line(&bookmark("8"), &["at 8"]);
    script.second = 5000;
    script.line(&bookmark("9"), &["at 9"]).line(&bookmark("10"), &["at 10"]);
    script.respond(WatchResponse::Line(EXPIRED_EVENT.as_bytes()), &[], "list").page(
        &page("12", "", &[]),
        &["gap 5001..5003", "at 12"],
        "watch 12",
    );
}

#[test]
fn the_gap_begins_before_past_events_that_were_being_received() {
    let mut script = Script::resumed_with(&[]);
    script.respond(WatchResponse::Opened, &[], "");
    for version in ["8", "9"] {
        // Two lines at the same time: it is not known how many past events are still to come.
        script.second = 100;
        let pod = format!("a-{version}@{version}");
        script.watching.handle(WatchResponse::Line(line("ADDED", &pod).as_bytes()), moment(100), 0.5);
    }
    script.watching.take_output();
    script.respond(WatchResponse::Line(EXPIRED_EVENT.as_bytes()), &[], "list").page(
        &page("9", "", &["a-9@9"]),
        &["gap 90..101", "at 9"],
        "watch 9",
    );
}

#[test]
fn a_position_contains_the_moment_up_to_which_it_is_complete() {
    let mut script = Script::new();
    let position = |reflector: &mut Reflector| reflector.take_output().batch.positions[0].1.clone();
    script.watching.handle(WatchResponse::Page(page("9", "c1", &["a-1@5"]).as_bytes()), moment(100), 0.5);
    assert_eq!(position(&mut script.watching), "@1970-01-01T00:01:40Z");
    script.watching.handle(WatchResponse::Page(page("9", "", &[]).as_bytes()), moment(110), 0.5);
    assert_eq!(position(&mut script.watching), "9@1970-01-01T00:01:40Z");
    script.watching.handle(WatchResponse::Opened, moment(120), 0.5);
    script.watching.handle(WatchResponse::Line(bookmark("12").as_bytes()), moment(130), 0.5);
    let text = position(&mut script.watching);
    assert_eq!(text, "12@1970-01-01T00:02:10Z");
    // For any later resumption.
    let reflector = Reflector::new(watch_subject(), Some(&text), [], Some(moment(500)));
    Script { watching: reflector, second: 600 }.failed(410, &[], "list").page(
        &page("99", "", &[]),
        &["gap 130..601", "at 99"],
        "watch 99",
    );
}

#[test]
fn failed_requests_are_retried_with_growing_backoff() {
    let mut script = Script::resumed_with(&[]);
    for wait in ["800ms", "1.6s", "3.2s", "6.4s", "12.8s", "25.6s", "30s", "30s"] {
        script.failed(503, &[], &format!("wait {wait}"));
    }
    assert!(matches!(script.watching.state(), WatchState::Waiting(_)));
    script.respond(
        WatchResponse::Failed(RequestFailure::from_message("connection refused".to_owned())),
        &[],
        "wait 30s",
    );
    let late = RequestFailure { retry_after: Some(Duration::from_secs(77)), ..status(429) };
    script.respond(WatchResponse::Failed(late), &[], "wait 77s");
    // The jitter removes up to half of it.
    assert_eq!(
        Script::resumed_with(&[]).watching.handle(WatchResponse::Failed(status(500)), moment(1), 0.0),
        Some(WatchRequest::Wait(Duration::from_millis(400)))
    );
    script.respond(WatchResponse::Opened, &[], "").line(&bookmark("8"), &["at 8"]);
    assert_eq!(script.watching.state(), WatchState::Watching);
    script.failed(503, &[], "wait 800ms");
}

#[test]
fn a_truncated_line_is_received_again() {
    let whole = line("MODIFIED", "a-1@9");
    Script::resumed_with(&["a-1@5"])
        .respond(WatchResponse::Opened, &[], "")
        .line(&line("MODIFIED", "a-1@8"), &["~a-1@8", "at 8"])
        .respond(WatchResponse::Line(&whole.as_bytes()[..whole.len() / 2]), &[], "wait 800ms")
        .line(&whole, &["~a-1@9", "at 9"]);
}

#[test]
fn a_watch_that_ends_immediately_is_retried_with_backoff() {
    let mut script = Script::resumed_with(&[]);
    script.respond(WatchResponse::Opened, &[], "").respond(WatchResponse::Ended, &[], "wait 800ms");
    script.respond(WatchResponse::Opened, &[], "").respond(WatchResponse::Ended, &[], "wait 1.6s");
    script.respond(WatchResponse::Opened, &[], "");
    script.second += 10;
    script.line(&bookmark("8"), &["at 8"]).respond(WatchResponse::Ended, &[], "watch 8");
    // Although it had sent events.
    script = Script::resumed_with(&[]);
    for (version, next) in [("8", "watch 8"), ("9", "wait 800ms"), ("10", "wait 800ms")] {
        script.respond(WatchResponse::Opened, &[], "").line(&bookmark(version), &[&format!("at {version}")]);
        script.respond(WatchResponse::Ended, &[], next);
    }
}

#[test]
fn a_silent_watch_may_wait_for_a_future_version() {
    let mut script = Script::resumed_with(&["a-1@5", "b-1@6"]);
    script.respond(WatchResponse::Opened, &[], "");
    script.second += 300;
    // A server whose etcd was restored accepts the watch, and sends nothing.
    script.respond(WatchResponse::Ended, &[], "look").page(&page("3", "c1", &["a-1@2"]), &[], "list").page(
        &page("3", "", &["a-1@2"]),
        &["~a-1@2", "-b-1@6 inferred", "gap 90..403", "at 3"],
        "watch 3",
    );
    // There may also have been no events.
    let mut script = Script::resumed_with(&["a-1@5"]);
    script.respond(WatchResponse::Opened, &[], "");
    script.second += 300;
    script.respond(WatchResponse::Ended, &[], "look").page(&page("9", "", &["a-1@5"]), &[], "watch 7");
    // A server that was unavailable is checked too; versions that are no numbers cannot be compared.
    script.failed(503, &[], "wait 800ms");
    assert_eq!(script.watching.next_request(0.0), WatchRequest::List { continue_token: None, limit: 1 });
    script.page(&page("first", "", &[]), &[], "watch 7");
    // A server that cannot answer the check is watched nevertheless.
    script.failed(503, &[], "wait 1.6s").failed(500, &[], "wait 3.2s");
    assert!(matches!(script.watching.next_request(0.0), WatchRequest::Watch { .. }));
}

#[test]
fn a_server_that_stops_sending_bookmarks_times_out() {
    let mut script = Script::resumed_with(&[]);
    script.respond(WatchResponse::Opened, &[], "").line(&line("ADDED", "a-1@8"), &["+a-1@8", "at 8"]);
    assert_eq!(script.watching.idle_timeout(300), Duration::from_secs(315));
    script.line(&bookmark("8"), &["at 8"]);
    assert_eq!(script.watching.idle_timeout(300), Duration::from_secs(150));
    script.respond(WatchResponse::Opened, &[], "");
    assert_eq!(script.watching.idle_timeout(240), Duration::from_secs(255));
}

#[test]
fn repeated_events_are_not_reported_again() {
    Script::resumed_with(&["a-1@5", "b-1@6"])
        .line(&line("MODIFIED", "a-1@5"), &[])
        .line(&line("ADDED", "c-1@8"), &["+c-1@8", "at 8"])
        .line(&line("ADDED", "c-1@8"), &["at 8"])
        // Nor are older versions.
        .line(&line("MODIFIED", "c-1@7"), &[])
        .line(&bookmark("6"), &[])
        // Objects that expire together are deleted at one version.
        .line(&line("DELETED", "b-1@9"), &["-b-1@9", "at 9"])
        .line(&line("DELETED", "c-1@9"), &["-c-1@9", "at 9"])
        .line(&line("DELETED", "b-1@9"), &["at 9"]);
}

#[test]
fn a_delete_of_an_unknown_object_is_reported() {
    Script::resumed_with(&[]).line(&line("DELETED", "a-1@8"), &["-a-1@8", "at 8"]);
}

#[test]
fn a_new_object_of_the_same_name_ends_the_earlier_one() {
    // The server should have sent its deletion.
    let expected = ["-a-1@5 inferred", "+a-2@8", "gap 90..100", "at 8"];
    Script::resumed_with(&["a-1@5"]).line(&line("ADDED", "a-2@8"), &expected);
}

#[test]
fn a_list_whose_continue_token_expired_is_restarted() {
    Script::new()
        .page(&page("9", "c1", &["a-1@5", "b-1@6"]), &["+a-1@5", "+b-1@6", "at "], "list c1")
        .failed(410, &[], "list")
        .page(&page("12", "c2", &["a-1@11"]), &["~a-1@11", "gap 100..102", "at "], "list c2")
        .failed(500, &[], "wait 1.6s")
        // Objects changed in between may have been changed twice.
        .page(&page("12", "", &[]), &["-b-1@6 inferred", "gap 102..104", "at 12"], "watch 12");
}

#[test]
fn an_inconsistent_list_is_watched_from_the_version_of_its_first_page() {
    Script::new()
        .page(&page("9", "c1", &["a-1@5"]), &["+a-1@5", "at "], "list c1")
        .page(&page("11", "", &["b-1@10"]), &["+b-1@10", "at 9"], "watch 9")
        .line(&line("MODIFIED", "b-1@10"), &["at 10"])
        .line(&line("MODIFIED", "a-1@11"), &["~a-1@11", "at 11"]);
}

#[test]
fn a_server_that_always_answers_expired_is_not_polled_in_a_loop() {
    let mut script = Script::resumed_with(&[]);
    script.failed(410, &[], "list").page(&page("9", "", &[]), &["gap 90..101", "at 9"], "watch 9");
    script.failed(410, &[], "wait 1.6s").page(&page("9", "", &[]), &["gap 101..103", "at 9"], "watch 9");
    script.failed(410, &[], "wait 3.2s");
}

#[test]
fn a_version_from_which_the_server_cannot_resume_is_abandoned() {
    // kube-apiserver answers 500 to a version that is no number.
    let mut script = Script::resumed_with(&["a-1@5"]);
    let version_page = page("9", "", &["a-1@5"]);
    for wait in ["800ms", "1.6s", "3.2s", "6.4s"] {
        script.failed(500, &[], &format!("wait {wait}")).page(&version_page, &[], "watch 7");
    }
    script.failed(500, &[], "list").page(&version_page, &["gap 90..109", "at 9"], "watch 9");
    // Invalid events count the same; other failures are transient.
    let mut script = Script::resumed_with(&["a-1@5"]);
    for _ in 0..4 {
        script.watching.handle(WatchResponse::Opened, moment(100), 0.5);
        script.watching.handle(WatchResponse::Line(b"\xff{}"), moment(100), 0.5);
        script.watching.handle(WatchResponse::Failed(status(503)), moment(100), 0.5);
    }
    assert!(matches!(script.watching.next_request(0.5), WatchRequest::Watch { .. }));
    script.watching.handle(WatchResponse::Line(b"{}"), moment(100), 0.5);
    assert_eq!(script.watching.next_request(0.5), WatchRequest::List { continue_token: None, limit: 500 });
}

#[test]
fn failed_pages_are_requested_in_smaller_ones() {
    let limit = |reflector: &Reflector| match reflector.next_request(0.5) {
        WatchRequest::List { limit, .. } => limit,
        other => panic!("{other:?}"),
    };
    let mut script = Script::new();
    for expected in [250, 125, 62] {
        script.watching.handle(
            WatchResponse::Failed(RequestFailure::from_message("too big".to_owned())),
            moment(1),
            0.5,
        );
        assert_eq!(limit(&script.watching), expected);
    }
    script.watching.handle(WatchResponse::Failed(status(503)), moment(1), 0.5);
    assert_eq!(limit(&script.watching), 62);
    script.watching.handle(WatchResponse::Page(page("9", "c", &[]).as_bytes()), moment(1), 0.5);
    assert_eq!(limit(&script.watching), 62);
    // Only the next list tries larger ones again.
    for expected in [124, 248, 496, 500, 500] {
        script.watching.handle(WatchResponse::Page(page("9", "", &[]).as_bytes()), moment(1), 0.5);
        script.watching.handle(WatchResponse::Failed(status(410)), moment(1), 0.5);
        assert_eq!(limit(&script.watching), expected);
    }
}

#[test]
fn a_long_time_without_a_response_is_a_gap() {
    let mut script = Script::resumed_with(&["a-1@5"]);
    script.failed(503, &[], "wait 800ms").page(&page("7", "", &[]), &[], "watch 7");
    script.second = 3600;
    script.failed(503, &[], "wait 1.6s");
    script.second = 5000;
    script.failed(503, &["gap 90..5000"], "wait 3.2s");
    script.second = 5100;
    script.respond(WatchResponse::Opened, &["gap 5000..5100"], "");
}

#[test]
fn a_clock_that_is_set_back_makes_no_gap_end_before_it_begins() {
    let mut script = Script::resumed_with(&[]);
    script.failed(410, &[], "list");
    script.second = 40;
    script.page(&page("9", "", &[]), &["gap 40..90", "at 9"], "watch 9");
}

#[test]
fn denied_access_is_reported_once_and_is_a_gap() {
    for status_code in [401, 403] {
        let warning = format!("! cannot be watched, retrying: the server responded {status_code}: no");
        let mut script = Script::resumed_with(&["a-1@5"]);
        script.failed(status_code, &["gap 90..100", &warning], "wait 5s").failed(
            status_code,
            &[],
            "wait 10s",
        );
        assert_eq!(script.watching.state(), WatchState::AccessDenied);
        script.failed(status_code, &[], "wait 20s").failed(status_code, &[], "wait 40s").failed(
            status_code,
            &[],
            "wait 60s",
        );
        // A long gap is reported in between, and at the end.
        script.second = 4000;
        script.failed(status_code, &["gap 100..4000"], "wait 60s");
        script.respond(WatchResponse::Opened, &["gap 4000..4001", "! recording again"], "");
        script.line(&line("MODIFIED", "a-1@8"), &["~a-1@8", "at 8"]);
    }
    let mut script = Script::new();
    script.failed(
        403,
        &["gap 100..100", "! cannot be watched, retrying: the server responded 403: no"],
        "wait 5s",
    );
    script.watching.stop(moment(120));
    assert_eq!(compact_form(&script.watching.take_output()), ["gap 100..120"]);
}

#[test]
fn a_removed_kind_keeps_its_objects_until_it_is_listed_again() {
    let warning = "! cannot be watched, retrying: the server responded 404: no";
    Script::resumed_with(&["a-1@5", "b-1@6"])
        .failed(404, &["gap 90..100", warning], "wait 5s")
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
fn objects_known_without_a_position_are_listed_with_a_gap() {
    let version = VersionId { uid: "a-1".into(), resource_version: "5".into() };
    let known = [(NamespacedName::new("n", "a"), version)];
    let reflector = Reflector::new(watch_subject(), None, known, Some(moment(90)));
    let listed = page("9", "", &["b-1@6"]);
    let expected = ["+b-1@6", "-a-1@5 inferred", "gap 90..100", "at 9"];
    Script { watching: reflector, second: 100 }.page(&listed, &expected, "watch 9");
}

#[test]
fn unreadable_objects_are_reported_as_gaps() {
    let deep = format!(
        r#"{{"type":"ADDED","object":{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","resourceVersion":"8"}},"x":{}{}}}}}"#,
        "[".repeat(125),
        "]".repeat(125)
    );
    let why = "! the server sent an invalid object: nested deeper than 120 levels at byte";
    let mut script = Script::resumed_with(&[]);
    assert_eq!(script.watching.handle(WatchResponse::Line(deep.as_bytes()), moment(100), 0.5), None);
    let reported = compact_form(&script.watching.take_output());
    assert_eq!(reported[..2], ["gap 90..100", "at 8"]);
    assert!(reported[2].starts_with(why), "{reported:?}");
    // A response that is not a list is retried, and no deletions are inferred.
    Script::new().page("<html>", &[], "wait 800ms");
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#;
    Script::resumed_with(&["a-1@5"]).failed(410, &[], "list").page(status, &[], "wait 1.6s");
    // Some servers encode an empty list as null.
    let none = r#"{"metadata":{"resourceVersion":"9"},"items":null}"#;
    Script::new().page(none, &["at 9"], "watch 9");
}

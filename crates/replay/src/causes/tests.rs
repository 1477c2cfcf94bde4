use serde_json::{Value, json};

use super::*;

struct Film(Survey);

fn at(millis: i64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

fn object(value: &Value) -> Object {
    Object::parse(&value.to_string()).unwrap()
}

fn replica_set(replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "shop", "uid": "set"}, "spec": {"replicas": replicas}})
}

fn owned(name: &str, kind: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": uid, "controller": true}]},
        "spec": {"containers": [{"name": "main"}]}, "status": {"phase": "Pending"}})
}

fn pod(name: &str) -> Value {
    owned(name, "ReplicaSet", "set")
}

fn node(name: &str, taints: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints}})
}

fn on(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeName"] = node.into();
    pod
}

fn running(mut pod: Value) -> Value {
    pod["status"]["phase"] = "Running".into();
    pod["status"]["startTime"] = "1970-01-01T00:00:01Z".into();
    pod
}

fn leaving(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:30Z".into();
    pod
}

fn disrupted(mut pod: Value, reason: &str) -> Value {
    pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True", "reason": reason}]);
    pod
}

fn ended(mut pod: Value, phase: &str) -> Value {
    pod["status"]["phase"] = phase.into();
    pod
}

impl Film {
    fn new() -> Film {
        let mut film = Film(Survey::new(true));
        film.add(0, &node("n1", &json!([])));
        film
    }

    fn add(&mut self, millis: i64, value: &Value) {
        self.0.see(at(millis), &What::Added(object(value)));
    }

    fn change(&mut self, millis: i64, value: &Value) {
        self.0.see(at(millis), &What::Modified(object(value)));
    }

    fn remove(&mut self, millis: i64, value: &Value) {
        self.0.see(at(millis), &What::Deleted(object(value)));
    }
}

fn names(cause: &Cause) -> Vec<&str> {
    cause.lives.iter().map(|life| &*life.name).collect()
}

#[test]
fn a_pod_that_was_preempted_and_made_again_is_one_demand() {
    let mut film = Film::new();
    film.add(1_000, &replica_set(1));
    film.add(1_010, &pod("web-a"));
    film.change(1_050, &on(pod("web-a"), "n1"));
    film.change(1_850, &running(on(pod("web-a"), "n1")));
    film.change(5_000, &leaving(disrupted(running(on(pod("web-a"), "n1")), "PreemptionByScheduler")));
    film.add(5_300, &pod("web-b"));
    film.remove(5_900, &leaving(disrupted(running(on(pod("web-a"), "n1")), "PreemptionByScheduler")));
    let causes = film.0.finish();
    assert_eq!(causes.demands.len(), 1);
    let cause = &causes.demands[0];
    assert_eq!(
        (names(cause), &cause.acts[..], cause.again),
        (vec!["web-a", "web-b"], &[][..], Again::AtOnce)
    );
    let [first, second] = &cause.lives[..] else { panic!("{:?}", cause.lives) };
    let millis = |duration: Option<Duration>| duration.map(|duration| duration.as_millis());
    assert_eq!([first.bind, first.start, first.end].map(millis), [Some(40), Some(800), Some(900)]);
    assert_eq!(millis(second.again), Some(300));
    assert_eq!(causes.lives[0].lost, Some(Lost::Preempted));
}

#[test]
fn an_event_tells_of_preemption_where_the_pod_does_not() {
    let mut film = Film::new();
    film.add(1_000, &replica_set(1));
    film.add(1_010, &on(pod("web-a"), "n1"));
    film.change(5_000, &leaving(on(pod("web-a"), "n1")));
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "shop"},
        "reason": "Preempted", "regarding": {"uid": "uid-web-a"}});
    film.add(5_010, &event);
    film.remove(5_900, &leaving(on(pod("web-a"), "n1")));
    let causes = film.0.finish();
    assert_eq!((causes.lives[0].lost, causes.demands[0].acts.len()), (Some(Lost::Preempted), 0));
}

#[test]
fn scaling_explains_a_deletion_and_what_it_does_not_explain_people_did() {
    let mut film = Film::new();
    film.add(1_000, &replica_set(2));
    for name in ["web-a", "web-b"] {
        film.add(1_010, &on(pod(name), "n1"));
    }
    film.change(2_000, &leaving(on(pod("web-a"), "n1")));
    film.add(2_100, &pod("web-c"));
    film.change(3_000, &replica_set(1));
    film.change(3_100, &leaving(on(pod("web-b"), "n1")));
    let causes = film.0.finish();
    assert_eq!(causes.demands.len(), 2);
    assert_eq!(names(&causes.demands[0]), ["web-a", "web-c"]);
    assert_eq!(causes.demands[0].acts, [(at(2_000), Act::Deleted)]);
    assert_eq!(causes.demands[1].acts, [(at(3_100), Act::Withdrawn)]);
}

#[test]
fn the_next_pod_of_a_job_comes_after_the_one_that_ended() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "web", "namespace": "shop", "uid": "job"}, "spec": {"parallelism": 1, "completions": 2}});
    let mut film = Film::new();
    film.add(1_000, &job);
    let first = on(owned("job-a", "Job", "job"), "n1");
    film.add(1_010, &first);
    film.change(2_000, &running(first.clone()));
    film.change(9_000, &ended(running(first.clone()), "Succeeded"));
    film.add(10_000, &owned("job-b", "Job", "job"));
    film.remove(20_000, &ended(running(first), "Succeeded"));
    let causes = film.0.finish();
    assert_eq!(causes.demands.len(), 2);
    let runs = Runs { lasting: Duration::from_secs(7), fails: false };
    assert_eq!((causes.demands[0].runs, causes.demands[1].after), (Some(runs), Some(DemandId(0))));
    assert_eq!(causes.demands[1].lives[0].again, Some(Duration::from_secs(1)));
    // Whoever cleans up is given too.
    assert_eq!(causes.demands[0].acts, [(at(20_000), Act::CleanedUp)]);
}

#[test]
fn what_a_lost_node_takes_with_it_is_made_again() {
    let mut film = Film::new();
    film.add(1_000, &replica_set(1));
    film.add(1_010, &running(on(pod("web-a"), "n1")));
    film.remove(5_000, &node("n1", &json!([])));
    let collected = disrupted(ended(running(on(pod("web-a"), "n1")), "Failed"), "DeletionByPodGC");
    film.change(65_000, &collected);
    film.add(65_200, &pod("web-b"));
    film.remove(65_300, &collected);
    let causes = film.0.finish();
    assert_eq!((causes.demands.len(), causes.lives[0].lost), (1, Some(Lost::NodeGone)));
    // It did not end by itself, and nobody withdrew it.
    assert_eq!((causes.demands[0].runs, causes.demands[0].acts.len()), (None, 0));
}

#[test]
fn an_owner_may_delete_a_pod_on_a_lost_node() {
    let mut film = Film::new();
    film.add(1_000, &replica_set(1));
    film.add(1_010, &running(on(pod("web-a"), "n1")));
    film.remove(5_000, &node("n1", &json!([])));
    film.change(6_000, &replica_set(0));
    film.change(6_100, &leaving(running(on(pod("web-a"), "n1"))));
    let causes = film.0.finish();
    assert_eq!(
        (causes.lives[0].lost, &causes.demands[0].acts[..]),
        (None, &[(at(6_100), Act::Withdrawn)][..])
    );
}

#[test]
fn an_eviction_is_the_autoscalers_only_where_it_removes_the_node() {
    for (taints, lost, acts) in [
        (json!([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]), Lost::ScaledDown, 0),
        (json!([]), Lost::People, 1),
    ] {
        let mut film = Film::new();
        film.add(1_000, &replica_set(1));
        film.add(1_010, &running(on(pod("web-a"), "n1")));
        film.change(4_000, &node("n1", &taints));
        film.change(5_000, &leaving(disrupted(running(on(pod("web-a"), "n1")), "EvictionByEvictionAPI")));
        film.add(5_100, &pod("web-b"));
        let causes = film.0.finish();
        assert_eq!((causes.lives[0].lost, causes.demands[0].acts.len()), (Some(lost), acts));
        assert_eq!(names(&causes.demands[0]), ["web-a", "web-b"]);
    }
}

#[test]
fn another_template_is_another_demand() {
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "shop", "uid": "sts"}, "spec": {"replicas": 1}});
    let of = |hash: &str, uid: &str| {
        let mut pod = owned("db-0", "StatefulSet", "sts");
        pod["metadata"]["labels"] = json!({"controller-revision-hash": hash});
        pod["metadata"]["uid"] = uid.into();
        pod
    };
    for (next, demands) in [("h1", 1), ("h2", 2)] {
        let mut film = Film::new();
        film.add(1_000, &set);
        film.add(1_010, &on(of("h1", "u1"), "n1"));
        film.change(5_000, &leaving(on(of("h1", "u1"), "n1")));
        film.remove(6_000, &leaving(on(of("h1", "u1"), "n1")));
        film.add(6_100, &of(next, "u2"));
        let causes = film.0.finish();
        assert_eq!(causes.demands.len(), demands, "{next}");
        let act = if demands == 1 { Act::Deleted } else { Act::Withdrawn };
        assert_eq!(causes.demands[0].acts, [(at(5_000), act)]);
        assert_eq!(causes.demands[0].again, Again::WhenGone);
    }
}

#[test]
fn what_only_ended_in_the_window_is_counted_as_untold() {
    let mut film = Film::new();
    film.remove(1_000, &pod("web-a"));
    let causes = film.0.finish();
    assert_eq!((causes.demands.len(), causes.untold["pods of which only the end was seen"]), (0, 1));
}

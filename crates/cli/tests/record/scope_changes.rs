//! Tests of recordings that are continued with a smaller scope, then with the full one: what was left out is a gap, and
//! not in the state meanwhile.

use std::path::{Path, PathBuf};

use history::{History, Selection};
use kube::client::Client;
use model::{Gap, Moment};
use serde_json::json;
use testcluster::{Cluster, ClusterOptions};

use crate::common::{ProgramOutput, command, run};
use crate::recorded_history::{RecordedHistory, has_listed};
use crate::recorder::Recorder;
use crate::server::{TestKind, client, now, send, shared, start};

/// A folder with a history, and the namespaces `shop` and `web` of one test.
struct ScopeFixture {
    folder: tempfile::TempDir,
    client: Client,
    kubeconfig: PathBuf,
    test: &'static str,
}

impl ScopeFixture {
    async fn start(cluster: &Cluster, test: &'static str) -> ScopeFixture {
        let (folder, client) = (tempfile::tempdir().unwrap(), client(cluster).await);
        let fixture = ScopeFixture { folder, client, kubeconfig: cluster.kubeconfig().to_owned(), test };
        for name in ["shop", "web"] {
            TestKind::Namespaces.create(&fixture.client, &fixture.namespace(name)).await;
        }
        fixture
    }

    fn namespace(&self, name: &str) -> String {
        format!("{}-{name}", self.test)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("h.kine")
    }

    /// Creates a labeled pod, named like `shop/a`.
    async fn create(&self, name: &str) {
        let (namespace, name) = name.split_once('/').unwrap();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [{"name": "a", "image": "a"}]},
        });
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace(namespace));
        send(&self.client, "POST", &path, &pod.to_string()).await;
    }

    async fn delete(&self, name: &str) {
        let (namespace, name) = name.split_once('/').unwrap();
        let one =
            format!("/api/v1/namespaces/{}/pods/{name}?gracePeriodSeconds=0", self.namespace(namespace));
        send(&self.client, "DELETE", &one, "").await;
    }

    /// Records with these arguments until exactly the pods `first` are alive in the history; then runs `during`, and
    /// waits until the pods `last` are.
    async fn record(&self, arguments: &[&str], first: &str, during: impl AsyncFnOnce(), last: &str) {
        let arguments = [&["--into", "h.kine"], arguments].concat();
        let mut recorder = Recorder::start(self.folder.path(), &self.kubeconfig, &arguments);
        recorder.wait(first, || self.alive() == first).await;
        recorder.wait("nodes are listed", || has_listed(&self.path(), &[TestKind::Nodes.kind()])).await;
        during().await;
        recorder.wait(last, || self.alive() == last).await;
        recorder.stop().await.success();
    }

    /// The pods at the end of the history.
    fn alive(&self) -> String {
        let pods = Selection { kinds: Some(vec![TestKind::Pods.kind()]), ..Selection::default() };
        let found = History::open(&self.path()).and_then(|history| history.at(Moment::MAX, &pods));
        let found = found.map_or(Vec::new(), model::Cluster::into_objects);
        let name = |version: &model::ObjectVersion| {
            let namespace = version.key.namespace.strip_prefix(self.test)?.strip_prefix('-')?;
            Some(format!("{namespace}/{}", version.key.name))
        };
        found.iter().filter_map(name).collect::<Vec<_>>().join(" ")
    }

    /// The output of `get pods` for a namespace.
    fn get(&self, namespace: &str, at: Option<Moment>) -> ProgramOutput {
        let (namespace, at) = (self.namespace(namespace), at.map(|at| at.to_string()));
        let mut arguments = vec!["get", "pods", "-n", &namespace, "-o", "name", "--history", "h.kine"];
        arguments.extend(at.iter().flat_map(|at| ["--at", at]));
        run(self.folder.path(), &arguments)
    }

    fn gaps(&self) -> Vec<Gap> {
        RecordedHistory::read(&self.path()).gaps_of(&TestKind::Pods.kind()).into_iter().cloned().collect()
    }

    fn info(&self) -> String {
        run(self.folder.path(), &["info", "h.kine"]).success()
    }
}

async fn nothing() {}

/// The text of a reader's warning about the gap.
fn warning(gap: &Gap) -> String {
    let when = match gap.to {
        Moment::MAX => format!("since {}", gap.from),
        to => format!("from {} to {to}", gap.from),
    };
    format!("warning: changes of Pod {when} may have been missed: {}\n", gap.why)
}

fn check_undamaged(folder: &Path) {
    run(folder, &["doctor", "h.kine"]).success();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_left_out_for_a_while_is_a_gap() {
    let Some(cluster) = shared() else { return };
    let fixture = ScopeFixture::start(&cluster, "left").await;
    for pod in ["shop/old", "shop/same", "web/a"] {
        fixture.create(pod).await;
    }
    let all = ["--kinds", "pods,nodes"];
    let web = ["--kinds", "pods,nodes", "-n", "left-web"];
    fixture.record(&all, "shop/old shop/same web/a", nothing, "shop/old shop/same web/a").await;
    let stopped = now();
    let meanwhile = async || {
        fixture.delete("shop/old").await;
        fixture.create("shop/new").await;
        fixture.create("web/b").await;
    };
    fixture.record(&web, "web/a", meanwhile, "web/a web/b").await;

    // The gap exists at once, and is open.
    let gaps = fixture.gaps();
    let [open] = &gaps[..] else { panic!("{gaps:?}") };
    let open = &open.clone();
    assert!(open.from <= stopped && open.to == Moment::MAX, "{open:?}");
    assert_eq!(open.why, "only namespace left-web recorded");
    let shop = fixture.get("shop", None);
    assert_eq!((shop.out.as_str(), shop.err), ("", warning(open)));
    let output = format!("  since {}, Pod: only namespace left-web recorded\n", open.from);
    assert!(fixture.info().contains(&output), "{}", fixture.info());
    // It stays a single gap as long as the scope does.
    let again = [&["--into", "h.kine", "--duration", "3"], &web[..]].concat();
    Recorder::start(fixture.folder.path(), &fixture.kubeconfig, &again).end().await.success();
    assert_eq!((fixture.gaps(), fixture.alive().as_str()), (gaps, "web/a web/b"));
    let middle = now();

    let end = "shop/new shop/same web/a web/b";
    fixture.record(&all, end, nothing, end).await;
    let gaps = fixture.gaps();
    let [gap] = &gaps[..] else { panic!("{gaps:?}") };
    assert_eq!((gap.from, &gap.why), (open.from, &open.why));
    assert!(middle < gap.to && gap.to < now(), "{gap:?}");
    let shop = fixture.get("shop", Some(middle));
    assert_eq!((shop.out.as_str(), shop.err), ("", warning(gap)));
    assert_eq!(fixture.get("web", Some(middle)).success(), "pod/a\npod/b\n");
    let shop = fixture.get("shop", None);
    assert_eq!((shop.out.as_str(), shop.err.as_str()), ("pod/new\npod/same\n", ""));
    // An object that existed all the time was not seen during the gap.
    let log =
        run(fixture.folder.path(), &["log", "pod/same", "-n", "left-shop", "--history", "h.kine"]).success();
    let headings: Vec<&str> = log.lines().filter(|line| !line.starts_with(' ')).collect();
    let [first, ended, again] = headings[..] else { panic!("{log}") };
    assert!(first.contains("ADDED") && ended.contains("DELETED") && again.contains("ADDED"), "{log}");
    assert!(ended.contains("(inferred)"), "{log}");
    check_undamaged(fixture.folder.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_and_labels_that_are_left_out_for_a_while_are_gaps() {
    let Some(cluster) = shared() else { return };
    let fixture = ScopeFixture::start(&cluster, "apart").await;
    for pod in ["shop/a", "web/b"] {
        fixture.create(pod).await;
    }
    let all = ["--kinds", "pods,nodes"];
    fixture.record(&all, "shop/a web/b", nothing, "shop/a web/b").await;
    fixture.record(&["--kinds", "pods,nodes", "--skip", "pods"], "", nothing, "").await;
    let skipped = fixture.gaps();
    assert_eq!(skipped.iter().map(|gap| &*gap.why).collect::<Vec<_>>(), ["not recorded"]);
    assert!(skipped[0].is_open());
    // Only some of the kinds return: the gap stays open for the others.
    let labels = [&all[..], &["-l", "app=a"]].concat();
    fixture.record(&labels, "shop/a", nothing, "shop/a").await;
    let gaps = fixture.gaps();
    let open: Vec<&Gap> = gaps.iter().filter(|gap| gap.is_open()).collect();
    assert_eq!(open.iter().map(|gap| &*gap.why).collect::<Vec<_>>(), ["only labels app=a recorded"]);
    let closed = gaps.iter().find(|gap| gap.why == "not recorded").unwrap();
    assert!(closed.from == skipped[0].from && open[0].from <= closed.to, "{gaps:?}");
    // With the full scope no gap is open.
    fixture.record(&all, "shop/a web/b", nothing, "shop/a web/b").await;
    let gaps = fixture.gaps();
    assert!(gaps.iter().all(|gap| !gap.is_open()) && gaps.len() == 2, "{gaps:?}");
    // Only nodes without the label were missed, and only while the selector was set.
    let recording = RecordedHistory::read(&fixture.path());
    let of_nodes = recording.gaps_of(&TestKind::Nodes.kind());
    assert!(of_nodes.iter().any(|gap| gap.why == "only labels app=a recorded"), "{of_nodes:?}");
    assert!(of_nodes.iter().all(|gap| !gap.is_open()), "{of_nodes:?}");
    check_undamaged(fixture.folder.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_added_to_the_scope_later_has_a_gap_before() {
    let Some(cluster) = shared() else { return };
    let fixture = ScopeFixture::start(&cluster, "later").await;
    for pod in ["shop/a", "web/b"] {
        fixture.create(pod).await;
    }
    fixture.record(&["--kinds", "nodes"], "", nothing, "").await;
    assert_eq!(fixture.gaps(), []);
    let before = now();
    let both = "shop/a web/b";
    fixture.record(&["--kinds", "pods,nodes"], both, nothing, both).await;
    let gaps = fixture.gaps();
    let [gap] = &gaps[..] else { panic!("{gaps:?}") };
    let (start, _) = History::open(&fixture.path()).unwrap().span().unwrap().unwrap();
    assert!(gap.from == start && before < gap.to && gap.why == "not recorded", "{gap:?}");
    assert_eq!(fixture.get("shop", Some(before)).err.matches("warning: ").count(), 1);
    assert_eq!(fixture.get("shop", None).err, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_that_is_no_longer_recorded_is_a_gap() {
    let (Some(cluster), Some(seed)) = (shared(), start(ClusterOptions::default())) else { return };
    seed.kubectl(&["create", "namespace", "shoot"]).unwrap();
    seed.kubectl(&["create", "deployment", "cluster-autoscaler", "--image=a", "-n", "shoot"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let record = async |control_plane: &str, what: &str, condition: &dyn Fn() -> bool| {
        let mut shoot = json!({"name": "h", "kubeconfig": cluster.kubeconfig(), "kinds": ["ns"]});
        if !control_plane.is_empty() {
            shoot["controlPlane"] = json!({"kubeconfig": seed.kubeconfig(), "namespace": control_plane});
        }
        let file = folder.path().join("clusters.yaml");
        std::fs::write(&file, json!({"clusters": [shoot]}).to_string()).unwrap();
        let mut recorder =
            Recorder::run(command(folder.path()).args(["record", "--config", "clusters.yaml"]));
        recorder.wait(what, condition).await;
        recorder.stop().await.success();
    };
    let deployments = TestKind::Deployments.kind();
    let is_there = || {
        let all = Selection { kinds: Some(vec![deployments.clone()]), ..Selection::default() };
        let found = History::open(&path).and_then(|history| history.at(Moment::MAX, &all));
        found.is_ok_and(|found| !found.into_objects().is_empty())
    };
    let open = || -> Vec<Gap> {
        let gaps = History::open(&path).and_then(|history| history.gaps()).unwrap_or_default();
        gaps.into_iter().filter(|gap| gap.is_open() && gap.kinds == [deployments.clone()]).collect()
    };
    record("shoot", "the autoscaler is recorded", &is_there).await;
    assert_eq!(open(), []);
    record("", "the autoscaler is removed from the state", &|| !is_there() && !open().is_empty()).await;
    assert_eq!(open()[0].why, "not recorded");
    // With another shoot's namespace that one is recorded, and the first one's gap stays open.
    seed.kubectl(&["create", "namespace", "other"]).unwrap();
    seed.kubectl(&["create", "deployment", "cluster-autoscaler", "--image=a", "-n", "other"]).unwrap();
    record("other", "another one is recorded", &is_there).await;
    assert_eq!(open().iter().map(|gap| &*gap.why).collect::<Vec<_>>(), ["namespace shoot not recorded"]);
    record("shoot", "the first is recorded again", &|| open().iter().any(|gap| gap.why.contains("other")))
        .await;
    assert_eq!(open().len(), 1);
    check_undamaged(folder.path());
}

//! The account of `deploy/` on a real API server that allows only what roles allow: what the recorder asks it, as the
//! server's audit log tells, is what the role has.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use testcluster::{Cluster, Options};

use crate::common::{Said, command, run};
use crate::rendered::{Renderer, objects, of_kind};
use crate::server::{create, definition, start};
use crate::{Right, allowed, check_rights, needed, right};

const ACCOUNT: &str = "system:serviceaccount:kinescope:kinescope";

/// A server with all that the recorder looks for, the account with its role, and a folder for the recorder.
pub(crate) struct Stage {
    cluster: Cluster,
    /// Rendered by Kustomize.
    pub(crate) base: Vec<Value>,
    /// With the account's kubeconfig where programs look for it.
    pub(crate) folder: TempDir,
}

/// A request of the account, and how it was answered.
#[derive(Debug)]
struct Asked {
    what: What,
    code: u64,
}

#[derive(Debug, PartialEq)]
enum What {
    Of(Right),
    /// Something that is no resource.
    Path(String),
}

/// A recorder going on, ended with the test.
struct Recorder(Child);

#[test]
fn the_role_is_enough_and_nothing_of_it_is_too_much() {
    let Some(stage) = Stage::set() else { return };
    let recorder = stage.record("whole.kine");
    stage.wait_until("all is watched", |asked| has_watched(asked, needed()));
    let said = recorder.end();
    assert!(!said.err.contains("warning") && !said.err.contains("may not be seen"), "{}", said.err);
    assert_eq!(stage.info("whole.kine")["gaps"], json!([]));

    let mut of = Vec::new();
    for Asked { what, code } in stage.asked() {
        assert_eq!(code, 200, "{what:?}");
        match what {
            What::Of(what) => of.push(what),
            What::Path(path) => assert!(["/version", "/api", "/apis"].contains(&&*path), "{path}"),
        }
    }
    of.sort_unstable();
    of.dedup();
    check_rights(&allowed(of_kind(&stage.base, "ClusterRole")), &of);

    for refused in ["get secrets", "list secrets", "get pods", "create pods", "delete nodes", "get leases"] {
        assert!(!stage.can(refused), "{refused}");
    }
    assert!(stage.can("list pods") && stage.can("watch nodes"));
}

#[test]
fn a_kind_that_may_not_be_seen_is_a_gap_and_the_rest_goes_on() {
    let Some(stage) = Stage::set() else { return };
    let mut role = of_kind(&stage.base, "ClusterRole").clone();
    let rules = role["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["apiGroups"] != json!(["policy"]));
    stage.cluster.kubectl_reading(&["replace", "-f", "-"], &role.to_string()).unwrap();
    // The server learns of it by watching itself.
    wait_for("the new role", || (!stage.can("list poddisruptionbudgets")).then_some(()));

    let recorder = stage.record("part.kine");
    let budgets = What::Of(right("policy", "poddisruptionbudgets", "list"));
    stage.wait_until("it is tried again", |asked| {
        has_watched(asked, allowed(&role)) && asked.iter().filter(|one| one.what == budgets).count() >= 2
    });
    create(&stage.cluster, &json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "late" } }));
    wait_for("what happens later", || {
        let nodes = run(stage.folder.path(), &["get", "nodes", "--history", "part.kine", "-o", "name"]);
        nodes.out.contains("node/late\n").then_some(())
    });
    let said = recorder.end();
    let warnings: Vec<&str> = said.err.lines().filter(|line| line.starts_with("warning:")).collect();
    assert_eq!(warnings.len(), 1, "{}", said.err);
    let why = "PodDisruptionBudget.policy: cannot be watched for now: the server answered 403";
    assert!(warnings[0].contains(why), "{}", warnings[0]);
    assert!(said.err.contains("PodDisruptionBudget.policy may not be seen by this account"), "{}", said.err);
    let info = stage.info("part.kine");
    let gaps = info["gaps"].as_array().unwrap();
    assert!(!gaps.is_empty());
    for gap in gaps {
        assert_eq!(gap["kinds"], json!(["PodDisruptionBudget.policy"]));
        assert!(gap["why"].as_str().unwrap().contains("403"), "{gap}");
    }
    for Asked { what, code } in stage.asked() {
        assert_eq!(code, if what == budgets { 403 } else { 200 }, "{what:?}");
    }
}

// === impl Stage ===

impl Stage {
    /// `None` without Go.
    pub(crate) fn set() -> Option<Stage> {
        let renderer = Renderer::find()?;
        let folder = tempfile::tempdir().unwrap();
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{ "level": "Metadata", "users": [ACCOUNT] }, { "level": "None" }],
        });
        let policy_file = folder.path().join("audit-policy.yaml");
        std::fs::write(&policy_file, policy.to_string()).unwrap();
        let flags = vec![
            // Workloads and pod groups of Kubernetes itself, which are off by default.
            "--runtime-config=scheduling.k8s.io/v1alpha2=true".to_owned(),
            "--feature-gates=GenericWorkload=true".to_owned(),
            format!("--audit-policy-file={}", policy_file.display()),
            format!("--audit-log-path={}", folder.path().join("audit.log").display()),
        ];
        let cluster = start(Options { rbac: true, apiserver_flags: flags, ..Options::default() })?;
        let base = objects(&renderer.kustomize("base"));
        for kind in ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"] {
            create(&cluster, of_kind(&base, kind));
        }
        let stage = Stage { cluster, base, folder };
        stage.define_foreign_kinds();
        let mut kubeconfig: Value =
            serde_json::from_slice(&std::fs::read(stage.cluster.kubeconfig()).unwrap()).unwrap();
        let token = stage.cluster.kubectl(&["create", "token", "kinescope", "-n=kinescope"]).unwrap();
        kubeconfig["users"][0]["user"]["token"] = token.trim().into();
        std::fs::create_dir(stage.folder.path().join(".kube")).unwrap();
        std::fs::write(stage.folder.path().join(".kube/config"), kubeconfig.to_string()).unwrap();
        Some(stage)
    }

    /// The kinds that the recorder looks for and the server does not have by itself.
    fn define_foreign_kinds(&self) {
        let mut names = Vec::new();
        for (kind, plural) in live::default_resources() {
            if kubernetes::kinds::of(&kind).is_none() && *kind.group != *"scheduling.k8s.io" {
                names.push(format!("{plural}.{}", kind.group));
                create(&self.cluster, &definition(&kind, &plural, json!({ "type": "object" })));
            }
        }
        let names = names.join(",");
        wait_for("the kinds", || self.cluster.kubectl(&["get", &names, "-A"]).ok());
    }

    /// Starts the program as that account.
    fn record(&self, history: &str) -> Recorder {
        let mut record = command(self.folder.path());
        record.args(["record", "--into", history]);
        Recorder(record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// What the account has asked so far.
    fn asked(&self) -> Vec<Asked> {
        let log = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap_or_default();
        // The last line may still be being written.
        let lines = log.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines.map(|line: Value| Asked::read(&line)).collect()
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&[Asked]) -> bool) {
        wait_for(what, || is_so(&self.asked()).then_some(()));
    }

    /// What the server says to a question such as `get secrets`.
    fn can(&self, verb_and_resource: &str) -> bool {
        let (verb, resource) = verb_and_resource.split_once(' ').unwrap();
        let account = format!("--as={ACCOUNT}");
        self.cluster.kubectl(&["auth", "can-i", verb, resource, &account, "-A"]).is_ok()
    }

    fn info(&self, history: &str) -> Value {
        let info = run(self.folder.path(), &["info", history, "-o", "json"]).fine();
        serde_json::from_str(&info).unwrap()
    }
}

// === impl Asked ===

impl Asked {
    fn read(line: &Value) -> Asked {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &line["objectRef"];
        let what = match object.is_null() {
            true => What::Path(word(&line["requestURI"])),
            false => What::Of([&object["apiGroup"], &object["resource"], &line["verb"]].map(word)),
        };
        Asked { what, code: line["responseStatus"]["code"].as_u64().unwrap() }
    }
}

// === impl Recorder ===

impl Recorder {
    /// Tells it to stop, and gives what it said.
    fn end(mut self) -> Said {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let said = Said { code: self.0.wait().unwrap().code().unwrap_or(-1), out, err };
        assert_eq!(said.code, 0, "{}", said.err);
        said
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether all that may be watched has been.
fn has_watched(asked: &[Asked], mut rights: Vec<Right>) -> bool {
    rights.retain(|[_, _, verb]| verb == "watch");
    rights.into_iter().map(What::Of).all(|watch| asked.iter().any(|one| one.what == watch))
}

#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(120);
    while Instant::now() < end {
        if let Some(seen) = look() {
            return seen;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("waited in vain: {what}");
}

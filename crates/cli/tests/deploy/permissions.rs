//! Tests of the service account of `deploy/` on a real API server with RBAC: according to the audit log the recorder's
//! requests need exactly the permissions of its role.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use testcluster::{Cluster, ClusterOptions};

use crate::common::{ProgramOutput, command, run};
use crate::rendered::{Renderer, objects, of_kind};
use crate::server::{create, definition, start};
use crate::{Permission, check_permissions, granted_permissions, needed_permissions, permission};

const ACCOUNT: &str = "system:serviceaccount:kinescope:kinescope";

/// An API server with all kinds that the recorder looks for, the service account with its role, and a folder for the
/// recorder.
pub(crate) struct PermissionsFixture {
    cluster: Cluster,
    /// Rendered by Kustomize.
    pub(crate) base: Vec<Value>,
    /// With the account's kubeconfig at its default path.
    pub(crate) folder: TempDir,
}

/// A request of the account in the audit log, and its response code.
#[derive(Debug)]
struct AuditedRequest {
    target: RequestTarget,
    code: u64,
}

#[derive(Debug, PartialEq)]
enum RequestTarget {
    Resource(Permission),
    /// A non-resource URL.
    NonResource(String),
}

/// A running recorder, killed at the end of the test.
struct Recorder(Child);

#[test]
fn the_role_grants_exactly_what_the_recorder_uses() {
    let Some(fixture) = PermissionsFixture::start() else { return };
    let recorder = fixture.record("whole.kine");
    fixture.wait_until("all resources are watched", |requests| has_watched(requests, needed_permissions()));
    let output = recorder.stop();
    assert!(!output.err.contains("warning") && !output.err.contains("forbidden"), "{}", output.err);
    assert_eq!(fixture.info("whole.kine")["gaps"], json!([]));

    let mut used_permissions = Vec::new();
    for AuditedRequest { target: what, code } in fixture.requests() {
        assert_eq!(code, 200, "{what:?}");
        match what {
            RequestTarget::Resource(what) => used_permissions.push(what),
            RequestTarget::NonResource(path) => {
                assert!(["/version", "/api", "/apis"].contains(&&*path), "{path}")
            }
        }
    }
    used_permissions.sort_unstable();
    used_permissions.dedup();
    check_permissions(&granted_permissions(of_kind(&fixture.base, "ClusterRole")), &used_permissions);

    for refused in ["get secrets", "list secrets", "get pods", "create pods", "delete nodes", "get leases"] {
        assert!(!fixture.can(refused), "{refused}");
    }
    assert!(fixture.can("list pods") && fixture.can("watch nodes"));
}

#[test]
fn a_forbidden_kind_is_a_gap_and_the_rest_is_recorded() {
    let Some(fixture) = PermissionsFixture::start() else { return };
    let mut role = of_kind(&fixture.base, "ClusterRole").clone();
    let rules = role["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["apiGroups"] != json!(["policy"]));
    fixture.cluster.kubectl_with_input(&["replace", "-f", "-"], &role.to_string()).unwrap();
    // The API server sees the new role through a watch, a little later.
    wait_for("the new role", || (!fixture.can("list poddisruptionbudgets")).then_some(()));

    let recorder = fixture.record("part.kine");
    let budgets = RequestTarget::Resource(permission("policy", "poddisruptionbudgets", "list"));
    fixture.wait_until("the forbidden kind is retried", |requests| {
        has_watched(requests, granted_permissions(&role))
            && requests.iter().filter(|one| one.target == budgets).count() >= 2
    });
    create(&fixture.cluster, &json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "late" } }));
    wait_for("a later change is recorded", || {
        let nodes = run(fixture.folder.path(), &["get", "nodes", "--history", "part.kine", "-o", "name"]);
        nodes.out.contains("node/late\n").then_some(())
    });
    let output = recorder.stop();
    let warnings: Vec<&str> = output.err.lines().filter(|line| line.starts_with("warning:")).collect();
    assert_eq!(warnings.len(), 1, "{}", output.err);
    let why = "PodDisruptionBudget.policy: cannot be watched, retrying: the server responded 403";
    assert!(warnings[0].contains(why), "{}", warnings[0]);
    assert!(output.err.contains("PodDisruptionBudget.policy forbidden for this user"), "{}", output.err);
    let info = fixture.info("part.kine");
    let gaps = info["gaps"].as_array().unwrap();
    assert!(!gaps.is_empty());
    for gap in gaps {
        assert_eq!(gap["kinds"], json!(["PodDisruptionBudget.policy"]));
        assert!(gap["why"].as_str().unwrap().contains("403"), "{gap}");
    }
    for AuditedRequest { target: what, code } in fixture.requests() {
        assert_eq!(code, if what == budgets { 403 } else { 200 }, "{what:?}");
    }
}

// === impl PermissionsFixture ===

impl PermissionsFixture {
    /// `None` without Go.
    pub(crate) fn start() -> Option<PermissionsFixture> {
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
            // Kubernetes' own Workloads and PodGroups, which are off by default.
            "--runtime-config=scheduling.k8s.io/v1alpha2=true".to_owned(),
            "--feature-gates=GenericWorkload=true".to_owned(),
            format!("--audit-policy-file={}", policy_file.display()),
            format!("--audit-log-path={}", folder.path().join("audit.log").display()),
        ];
        let cluster =
            start(ClusterOptions { rbac: true, apiserver_flags: flags, ..ClusterOptions::default() })?;
        let base = objects(&renderer.kustomize("base"));
        for kind in ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"] {
            create(&cluster, of_kind(&base, kind));
        }
        let fixture = PermissionsFixture { cluster, base, folder };
        fixture.define_foreign_kinds();
        let mut kubeconfig: Value =
            serde_json::from_slice(&std::fs::read(fixture.cluster.kubeconfig()).unwrap()).unwrap();
        let token = fixture.cluster.kubectl(&["create", "token", "kinescope", "-n=kinescope"]).unwrap();
        kubeconfig["users"][0]["user"]["token"] = token.trim().into();
        std::fs::create_dir(fixture.folder.path().join(".kube")).unwrap();
        std::fs::write(fixture.folder.path().join(".kube/config"), kubeconfig.to_string()).unwrap();
        Some(fixture)
    }

    /// Creates definitions of the custom kinds that the recorder looks for.
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

    /// Starts a recorder with that account.
    fn record(&self, history: &str) -> Recorder {
        let mut record = command(self.folder.path());
        record.args(["record", "--into", history]);
        Recorder(record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// The requests of the account so far.
    fn requests(&self) -> Vec<AuditedRequest> {
        let log = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap_or_default();
        // The last line may be incomplete.
        let lines = log.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines.map(|line: Value| AuditedRequest::read(&line)).collect()
    }

    fn wait_until(&self, what: &str, condition: impl Fn(&[AuditedRequest]) -> bool) {
        wait_for(what, || condition(&self.requests()).then_some(()));
    }

    /// The result of `kubectl auth can-i`, for example for `get secrets`.
    fn can(&self, verb_and_resource: &str) -> bool {
        let (verb, resource) = verb_and_resource.split_once(' ').unwrap();
        let account = format!("--as={ACCOUNT}");
        self.cluster.kubectl(&["auth", "can-i", verb, resource, &account, "-A"]).is_ok()
    }

    fn info(&self, history: &str) -> Value {
        let info = run(self.folder.path(), &["info", history, "-o", "json"]).success();
        serde_json::from_str(&info).unwrap()
    }
}

// === impl AuditedRequest ===

impl AuditedRequest {
    fn read(line: &Value) -> AuditedRequest {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &line["objectRef"];
        let what = match object.is_null() {
            true => RequestTarget::NonResource(word(&line["requestURI"])),
            false => {
                RequestTarget::Resource([&object["apiGroup"], &object["resource"], &line["verb"]].map(word))
            }
        };
        AuditedRequest { target: what, code: line["responseStatus"]["code"].as_u64().unwrap() }
    }
}

// === impl Recorder ===

impl Recorder {
    /// Stops the recorder and returns its output.
    fn stop(mut self) -> ProgramOutput {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let output = ProgramOutput { code: self.0.wait().unwrap().code().unwrap_or(-1), out, err };
        assert_eq!(output.code, 0, "{}", output.err);
        output
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Killing a process that has ended fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether everything that may be watched has been watched.
fn has_watched(requests: &[AuditedRequest], mut permissions: Vec<Permission>) -> bool {
    permissions.retain(|[_, _, verb]| verb == "watch");
    permissions
        .into_iter()
        .map(RequestTarget::Resource)
        .all(|watch| requests.iter().any(|one| one.target == watch))
}

#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(120);
    while Instant::now() < end {
        if let Some(value) = poll() {
            return value;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("timed out waiting for {what}");
}

//! The configuration file of the clusters to record: our own YAML, SimKube's tracer configuration, or Gardener's
//! `clusters.csv`.

mod gardener;
mod native;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use formats::manifests;
use formats::sktrace::TracerConfig;
use kubernetes::quantity::Quantity;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::{ApiServerConfig, Assignment};
use crate::policy::RecordingPolicy;
use crate::secret_key;

/// A parsed configuration file.
pub struct Config {
    /// The folder of the histories.
    folder: PathBuf,
    /// One per cluster.
    pub assignments: Vec<Assignment>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Command line options that complete or override a configuration file.
#[derive(Clone, Default)]
pub struct ConfigOverrides {
    /// The folder of the histories; overrides the file.
    pub folder: Option<PathBuf>,
    /// The kubeconfig of the single cluster of a tracer's configuration.
    pub kubeconfig: Option<PathBuf>,
    /// The context in that kubeconfig.
    pub context: Option<String>,
    /// A pattern for the kubeconfigs of Gardener's shoots: `{landscape}`, `{project}` and `{shoot}` are replaced by the
    /// columns of a row.
    pub kubeconfig_pattern: Option<String>,
    /// The same for the seeds that hold their control planes.
    pub control_kubeconfig_pattern: Option<String>,
}

/// The default redaction key file: in the folder of the histories, not in a history.
const KEY_FILE: &str = "redact.key";

// === impl Config ===

impl Config {
    /// Reads the file and the files it refers to.
    pub fn read(path: &Path, overrides: &ConfigOverrides) -> anyhow::Result<Config> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {file}"))?;
        let base_folder = path.parent().unwrap_or(Path::new(""));
        if path.extension().is_some_and(|extension| extension == "csv") {
            return gardener::read(&text, overrides).with_context(|| file);
        }
        let value = manifests::parse_yaml(&file, &text)?;
        if value.get("clusters").is_some() {
            return native::read(value, base_folder, overrides).with_context(|| file);
        }
        if value.get("trackedObjects").is_some() {
            return read_tracer_config(&file, &text, overrides);
        }
        bail!(
            "{file} has no clusters: expected `clusters:`, or `trackedObjects:` as in the configuration of SimKube's tracer"
        )
    }

    /// The folder, `.` if it is empty.
    pub fn folder_path(&self) -> &Path {
        if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder }
    }

    /// Validates that names are unique, since each names a history, and that no Secrets are selected.
    fn validated(self) -> anyhow::Result<Config> {
        for (index, assignment) in self.assignments.iter().enumerate() {
            let name = &*assignment.name;
            let is_file_name = !name.is_empty()
                && name.len() <= 200
                && !name.starts_with(['.', '-'])
                && name.chars().all(|c| c.is_alphanumeric() || "-_.@".contains(c));
            if !is_file_name {
                bail!(
                    "invalid cluster name {name:?}: it is the name of the history file; expected letters, digits, - _ . @"
                );
            }
            if self.assignments[..index].iter().any(|other| other.history_path == assignment.history_path) {
                bail!("duplicate cluster name {name}");
            }
            assignment.policy.check().with_context(|| name.to_owned())?;
        }
        let folder = &self.folder;
        std::fs::create_dir_all(self.folder_path())
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(self)
    }
}

/// SimKube's tracer watches the cluster that it runs in. Its kinds are recorded in addition to the default ones.
fn read_tracer_config(file: &str, text: &str, overrides: &ConfigOverrides) -> anyhow::Result<Config> {
    let (tracer, warnings) = TracerConfig::parse(file, text)?;
    let folder = overrides.folder.clone().unwrap_or_default();
    let name = file_name(overrides.context.as_deref().unwrap_or("cluster"));
    let policy = RecordingPolicy {
        if_served: tracer.kinds().collect(),
        redaction: Some(secret_key::read_redact_key(&folder.join(KEY_FILE))?),
        ..RecordingPolicy::default()
    };
    let assignment = Assignment {
        history_path: folder.join(format!("{name}.kine")),
        name: name.into(),
        cluster: api_server(overrides.kubeconfig.clone(), overrides.context.clone()),
        control_plane: None,
        policy,
        settings: vec![tracer.to_object()],
    };
    Config { folder, assignments: vec![assignment], warnings }.validated().with_context(|| file.to_owned())
}

/// The configuration of an API server; reconnects when its context in the kubeconfig changes.
fn api_server(kubeconfig: Option<PathBuf>, context: Option<String>) -> ApiServerConfig {
    let hash = kubeconfig.as_ref().and_then(|path| context_hash(path, context.as_deref()));
    ApiServerConfig { kubeconfig, context_hash: hash, context }
}

/// A hash of a context with its cluster and user, as a kubeconfig may hold those of other clusters too. `None` if it
/// cannot be read.
fn context_hash(path: &Path, context: Option<&str>) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let value = manifests::parse_yaml(&path.display().to_string(), &text).ok()?;
    let find_entry = |list: &str, name: &Value| {
        let entries = value[list].as_array();
        entries.and_then(|all| all.iter().find(|entry| entry["name"] == *name)).cloned().unwrap_or_default()
    };
    let name = context.map_or_else(|| value["current-context"].clone(), Value::from);
    let context = find_entry("contexts", &name);
    let cluster = find_entry("clusters", &context["context"]["cluster"]);
    let user = find_entry("users", &context["context"]["user"]);
    Some(xxh3_64(json!([name, context, cluster, user]).to_string().as_bytes()))
}

/// Parses a duration: `60` and `60s` are equal, as in kube-scheduler-simulator's recorder.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("invalid duration {text:?}: expected 60, 60s, 5m, 2h or 30d, for example");
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(invalid()),
    };
    let number: u64 = number.parse().map_err(|_| invalid())?;
    number.checked_mul(seconds).filter(|seconds| *seconds > 0).map(Duration::from_secs).ok_or_else(invalid)
}

/// Parses a size in bytes, as a Kubernetes quantity.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let invalid = || format!("invalid size {text:?}: expected 500Mi or 10Gi, for example");
    let size = Quantity::parse(text).map_err(|_| invalid())?.value();
    u64::try_from(size).ok().filter(|size| *size > 0).ok_or_else(invalid)
}

/// A file name for a context, whose name may contain slashes and colons.
pub fn file_name(source: &str) -> String {
    let clean: String =
        source.chars().map(|c| if c.is_alphanumeric() || "-_.@".contains(c) { c } else { '-' }).collect();
    clean.trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use history::Retention;
    use live::EventChoice;

    use super::*;
    use crate::policy::RecordingDetail;

    #[test]
    fn context_names_become_file_names() {
        assert_eq!(
            file_name("arn:aws:eks:eu-west-1:1234:cluster/prod"),
            "arn-aws-eks-eu-west-1-1234-cluster-prod"
        );
        assert_eq!(file_name("../../etc"), "-..-etc");
        assert_eq!(file_name("kind-dev"), "kind-dev");
    }

    /// A kubeconfig of two clusters.
    fn write_kubeconfig(folder: &Path, east: &str, west: &str) {
        let entry = |name: &str, token: &str| {
            [
                json!({"name": name, "context": {"cluster": name, "user": name}}),
                json!({"name": name, "cluster": {"server": format!("https://{name}.example")}}),
                json!({"name": name, "user": {"token": token}}),
            ]
        };
        let [[east, c1, u1], [west, c2, u2]] = [entry("east", east), entry("west", west)];
        let all = json!({
            "current-context": "east", "contexts": [east, west], "clusters": [c1, c2], "users": [u1, u2],
        });
        std::fs::write(folder.join("kubeconfig"), all.to_string()).unwrap();
    }

    #[test]
    fn only_the_cluster_whose_context_changed_is_restarted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("clusters.yaml");
        let clusters =
            "[{name: a, kubeconfig: kubeconfig}, {name: b, kubeconfig: kubeconfig, context: west}]";
        std::fs::write(&file, format!("redact: false\nclusters: {clusters}")).unwrap();
        let read = || Config::read(&file, &ConfigOverrides::default()).unwrap().assignments;
        write_kubeconfig(folder.path(), "1", "1");
        let before = read();
        let is_as_before = || -> Vec<bool> {
            read().iter().zip(&before).map(|(now, before)| now.is_unchanged_from(before)).collect()
        };
        assert_eq!(is_as_before(), [true, true]);
        write_kubeconfig(folder.path(), "1", "2");
        assert_eq!(is_as_before(), [true, false]);
        write_kubeconfig(folder.path(), "2", "1");
        assert_eq!(is_as_before(), [false, true]);
        // While the file is being written.
        std::fs::write(folder.path().join("kubeconfig"), "contexts: [").unwrap();
        assert_eq!(is_as_before(), [true, true]);
        std::fs::write(folder.path().join("kubeconfig"), "contexts: []").unwrap();
        assert_eq!(is_as_before(), [false, false]);
    }

    /// The policies of a file.
    fn policies(
        name: &str,
        text: &str,
        overrides: ConfigOverrides,
    ) -> Vec<(RecordingPolicy, Option<String>)> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        let overrides = ConfigOverrides { folder: Some(folder.path().to_owned()), ..overrides };
        let config = Config::read(&file, &overrides).unwrap();
        let of = |assignment: Assignment| {
            (assignment.policy, assignment.control_plane.map(|control| control.namespace))
        };
        config.assignments.into_iter().map(of).collect()
    }

    #[test]
    fn every_configuration_format_is_parsed_into_policies() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let ours = "{redact: false, events: scheduling, retention: {age: 1h, size: 1Ki}, clusters: [\
            {name: a, kinds: [pods], also: [ing], skip: [cm], namespaces: [web], selector: app=web, usage: 5m}, \
            {name: b, events: none, everything: true, controlPlane: {namespace: shoot}}]}";
        let first = RecordingPolicy {
            kinds: Some(words(&["pods"])),
            also: words(&["ing"]),
            skip: words(&["cm"]),
            namespaces: words(&["web"]),
            selector: Some("app=web".to_owned()),
            events: EventChoice::Scheduling,
            usage: Some(Duration::from_secs(300)),
            retention: Retention { nanos: Some(3_600_000_000_000), bytes: Some(1024) },
            ..RecordingPolicy::default()
        };
        let second = RecordingPolicy {
            events: EventChoice::None,
            detail: RecordingDetail::Everything,
            retention: first.retention,
            ..RecordingPolicy::default()
        };
        let expected = [(first, None), (second, Some("shoot".to_owned()))];
        assert_eq!(policies("clusters.yaml", ours, ConfigOverrides::default()), expected);

        let keyless = |policy: &RecordingPolicy| RecordingPolicy { redaction: None, ..policy.clone() };
        let tracer = "trackedObjects: {apps/v1.Deployment: {}}";
        let [(policy, None)] = &policies("tracer.yml", tracer, ConfigOverrides::default())[..] else {
            panic!()
        };
        let if_served = vec![model::Kind::new("apps", "Deployment")];
        assert!(policy.redaction.is_some());
        assert_eq!(keyless(policy), RecordingPolicy { if_served, ..RecordingPolicy::default() });

        let patterns = ConfigOverrides {
            kubeconfig_pattern: Some("{shoot}.yaml".to_owned()),
            control_kubeconfig_pattern: Some("control-{shoot}.yaml".to_owned()),
            ..ConfigOverrides::default()
        };
        let table = policies("clusters.csv", "live,dev,prod\n", patterns);
        let [(policy, Some(namespace))] = &table[..] else { panic!() };
        assert!(policy.redaction.is_some() && namespace == "shoot--dev--prod");
        assert_eq!(keyless(policy), RecordingPolicy::default());
    }

    #[test]
    fn durations_are_parsed() {
        assert_eq!(parse_duration("60"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        for invalid in ["", "0", "-1", "1w", "s", "99999999999999999999", "9999999999999999d"] {
            assert!(parse_duration(invalid).is_err(), "{invalid}");
        }
    }
}

//! The file that names the clusters: our own YAML, the configuration of SimKube's tracer, or Gardener's
//! `clusters.csv`.

mod gardener;
mod ours;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use formats::manifests;
use formats::sktrace::TracerConfig;
use history::Retention;
use kubernetes::quantity::Quantity;
use kubernetes::rules::{RedactKey, Rules};
use live::{KindChoice, Wanted};
use xxhash_rust::xxh3::xxh3_64;

use super::{Assignment, Keep, Plane};
use crate::secret_key;

/// What a file says is to be recorded.
pub(crate) struct Config {
    /// Where the histories are.
    folder: PathBuf,
    pub(crate) assignments: Vec<Assignment>,
    /// What the user should know about it.
    pub(crate) warnings: Vec<String>,
}

/// What is said beside a file that does not say everything itself.
#[derive(Clone, Default)]
pub(crate) struct Beside {
    /// Where the histories go, whatever the file says.
    pub(crate) folder: Option<PathBuf>,
    /// Of the one cluster of a tracer's configuration.
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
    /// Where the kubeconfigs of Gardener's shoots and of their control planes are: `{landscape}`, `{project}` and
    /// `{shoot}` stand for a row's words.
    pub(crate) kubeconfigs: Option<String>,
    pub(crate) control_kubeconfigs: Option<String>,
}

/// The key that values are hidden with, if none is named: beside the histories, not in them.
const KEY_FILE: &str = "redact.key";

// === impl Config ===

impl Config {
    /// Reads the file, and all that it names.
    pub(crate) fn read(path: &Path, beside: &Beside) -> anyhow::Result<Config> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {file}"))?;
        let at = path.parent().unwrap_or(Path::new(""));
        if path.extension().is_some_and(|extension| extension == "csv") {
            return gardener::read(&text, beside).with_context(|| file);
        }
        let value = manifests::of_yaml(&file, &text)?;
        if value.get("clusters").is_some() {
            return ours::read(value, at, beside).with_context(|| file);
        }
        if value.get("trackedObjects").is_some() {
            return of_tracer(&file, &text, beside);
        }
        bail!(
            "{file} names no clusters: it has neither `clusters:` nor, as SimKube's tracer is configured, \
             `trackedObjects:`"
        )
    }

    /// The folder, as a user would name it.
    pub(crate) fn place(&self) -> &Path {
        if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder }
    }

    /// That no two clusters have one name, and with it one history.
    fn checked(self) -> anyhow::Result<Config> {
        for (index, assignment) in self.assignments.iter().enumerate() {
            let name = &*assignment.name;
            let is_file_name = !name.is_empty()
                && name.len() <= 200
                && !name.starts_with(['.', '-'])
                && name.chars().all(|c| c.is_alphanumeric() || "-_.@".contains(c));
            if !is_file_name {
                bail!(
                    "{name:?} cannot name a cluster: its history is called so; take letters, digits, - _ . @"
                );
            }
            if self.assignments[..index].iter().any(|other| other.into == assignment.into) {
                bail!("two clusters are called {name}");
            }
        }
        let folder = &self.folder;
        std::fs::create_dir_all(self.place()).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(self)
    }
}

/// SimKube's tracer looks at the one cluster it is in. Its kinds are recorded beside those that always are.
fn of_tracer(file: &str, text: &str, beside: &Beside) -> anyhow::Result<Config> {
    let (tracer, warnings) = TracerConfig::parse(file, text)?;
    let folder = beside.folder.clone().unwrap_or_default();
    let name = file_name(beside.context.as_deref().unwrap_or("cluster"));
    let kinds = KindChoice { if_there: tracer.kinds().collect(), ..KindChoice::default() };
    let assignment = Assignment {
        into: folder.join(format!("{name}.kine")),
        name: name.into(),
        cluster: plane(
            beside.kubeconfig.clone(),
            beside.context.clone(),
            Wanted { kinds, ..Wanted::default() },
        ),
        control_plane: None,
        keep: Keep::Significant(rules(&folder.join(KEY_FILE))?),
        retention: Retention::default(),
        settings: vec![tracer.kept()],
    };
    Config { folder, assignments: vec![assignment], warnings }.checked().with_context(|| file.to_owned())
}

/// An API server that is looked for anew when its kubeconfig changes.
fn plane(kubeconfig: Option<PathBuf>, context: Option<String>, wanted: Wanted) -> Plane {
    let seen = kubeconfig.as_ref().and_then(|path| Some(xxh3_64(&std::fs::read(path).ok()?)));
    Plane { kubeconfig, seen, context, wanted }
}

/// The rules with the key in a file.
fn rules(key: &Path) -> anyhow::Result<Rules> {
    let key = secret_key::in_file(key)?;
    Ok(Rules { redact: Some(RedactKey(*key.first_chunk().expect("32 bytes begin with 16"))) })
}

/// A length of time: `60` and `60s` are the same, as with kube-scheduler-simulator's recorder.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no length of time such as 60, 60s, 5m, 2h or 30d");
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).filter(|seconds| *seconds > 0).map(Duration::from_secs).ok_or_else(wrong)
}

/// A size in bytes, in the words Kubernetes has for them.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size such as 500Mi or 10Gi");
    let size = Quantity::parse(text).map_err(|_| wrong())?.value();
    u64::try_from(size).ok().filter(|size| *size > 0).ok_or_else(wrong)
}

/// A context's name as the name of a file: some hold slashes and colons.
pub(crate) fn file_name(source: &str) -> String {
    let clean: String =
        source.chars().map(|c| if c.is_alphanumeric() || "-_.@".contains(c) { c } else { '-' }).collect();
    clean.trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_become_files_beside_each_other() {
        assert_eq!(
            file_name("arn:aws:eks:eu-west-1:1234:cluster/prod"),
            "arn-aws-eks-eu-west-1-1234-cluster-prod"
        );
        assert_eq!(file_name("../../etc"), "-..-etc");
        assert_eq!(file_name("kind-dev"), "kind-dev");
    }

    #[test]
    fn lengths_of_time_are_read() {
        assert_eq!(duration("60"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        for wrong in ["", "0", "-1", "1w", "s", "99999999999999999999", "9999999999999999d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}

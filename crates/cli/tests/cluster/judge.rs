//! kubectl on virtual clusters and on a real control plane: the same commands must print the same.
//!
//! The real one has kube-apiserver, etcd, kube-scheduler, kube-controller-manager, and KWOK for kubelets. One virtual
//! cluster has components of its own, on the other one the real components work. Times, uids, versions, addresses and
//! generated names are replaced before the comparison.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use regex::Regex;
use testcluster::{Cluster, ClusterOptions, Components, Program};

use crate::common::{command, program_output};
use crate::server::Server;

/// A cluster that kubectl talks to.
struct Judged {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
}

/// Replacements that make outputs comparable.
struct Normalizer {
    replacements: Vec<(Regex, &'static str)>,
}

/// One command and its standard input.
struct Step<'a> {
    arguments: Vec<&'a str>,
    input: &'a str,
    /// Whether the outputs must be equal. Commands that wait print what they happen to see.
    is_compared: bool,
}

impl Judged {
    /// Standard output, standard error and exit status of a command.
    fn run(&self, step: &Step<'_>) -> String {
        let mut kubectl = Command::new(&self.kubectl);
        kubectl.env("KUBE_EDITOR", "sed -i s/two/edited/");
        kubectl.env("KUBERC", "off").env("TZ", "UTC").arg("--kubeconfig").arg(&self.kubeconfig);
        kubectl.arg("--cache-dir").arg(self.kubeconfig.with_extension("cache")).args(&step.arguments);
        kubectl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = kubectl.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), step.input.as_bytes()).unwrap();
        let output = program_output(child.wait_with_output().unwrap());
        format!("{}{}exit {}\n", output.out, output.err, output.code)
    }
}

impl Normalizer {
    fn new() -> Normalizer {
        let letters = "[bcdfghjklmnpqrstvwxz2456789]";
        let patterns = [
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z".to_owned(), "TIME"),
            (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000".to_owned(), "TIME"),
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}".to_owned(), "UID"),
            (r#"(resourceVersion"?: )"?\d+"?"#.to_owned(), "${1}VERSION"),
            (r"in record \(\d+\)".to_owned(), "in record (VERSION)"),
            (r"eyJ[\w-]+\.[\w-]+\.[\w-]+".to_owned(), "TOKEN"),
            (r"\b10\.\d+\.\d+\.\d+\b".to_owned(), "ADDRESS"),
            (format!(r"\b(web|db|once|agent|late|typed)-{letters}{{6,10}}-{letters}{{5}}\b"), "$1-HASH-NAME"),
            (format!(r"\b(web|db|once|agent|late|typed)-{letters}{{6,10}}\b"), "$1-HASH"),
            (format!(r"\b(web|db|once|agent|late|typed)-{letters}{{5}}\b"), "$1-NAME"),
            (r"\bevery-\d+\b".to_owned(), "every-NUMBER"),
            (format!(r"(pod-template-hash|controller-revision-hash)([=:] ?){letters}{{6,10}}"), "$1${2}HASH"),
            (r"\b(\d+d)?(\d+h)?(\d+m)?(\d+s)\b|\b\d+m\b|<unknown>|<invalid>".to_owned(), "AGE"),
            // The kind of KWOK's Stages is served out of the box.
            (r"(?m)^kwok\.x-k8s\.io/v1alpha1\n".to_owned(), ""),
            // Only the preferred version of a kind is served.
            (r"(?m)^autoscaling/v1\n".to_owned(), ""),
            // What the values of an enum mean is not served.
            (r"\n[ \t]*\n[ \t]*Possible enum values:\n(?:[ \t]*\S.*\n)*".to_owned(), "\n"),
            (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}".to_owned(), "TIME"),
            (r"(LIVE|MERGED)-\d+".to_owned(), "$1-NUMBER"),
            (r"[ \t]+".to_owned(), " "),
            (r"(?m) +$".to_owned(), ""),
        ];
        let regex = |(pattern, text): (String, &'static str)| (Regex::new(&pattern).unwrap(), text);
        Normalizer { replacements: patterns.into_iter().map(regex).collect() }
    }

    fn normalize(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (regex, replacement) in &self.replacements {
            text = regex.replace_all(&text, *replacement).into_owned();
        }
        text
    }
}

/// The steps of a script: a line that begins with `$` is a command, the lines after it its standard input. The output of
/// a command after `$~` is not compared.
fn steps(script: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for part in script.split("\n$").map(|part| part.trim_start_matches('$')) {
        let (line, input) = part.split_once('\n').unwrap_or((part, ""));
        let (line, is_compared) = line.strip_prefix('~').map_or((line, true), |line| (line, false));
        steps.push(Step { arguments: split_words(line), input, is_compared });
    }
    steps
}

/// Words separated by spaces; those in single quotes may contain spaces.
fn split_words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').unwrap_or((quoted, "")),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word);
        rest = after.trim_start();
    }
    words
}

/// A virtual cluster with its server, and the real components if they work on it.
struct VirtualJudged {
    judged: Judged,
    /// Before the server, so that none logs errors about it.
    components: Components,
    _server: Server,
}

impl VirtualJudged {
    /// Starts a virtual cluster with these components of its own.
    fn start(kubectl: &Path, folder: &Path, controllers: &str) -> VirtualJudged {
        std::fs::create_dir(folder).unwrap();
        let server = Server::of(command(folder).args(["cluster", "--controllers", controllers]));
        let kubeconfig = folder.join("kinescope.kubeconfig");
        let components = Components::new(&kubeconfig, folder);
        let judged = Judged { kubectl: kubectl.to_owned(), kubeconfig };
        VirtualJudged { judged, components, _server: server }
    }

    /// Starts one without components of its own, on which the real ones work with their default controllers. KWOK renews no
    /// Leases: without a long grace period its nodes would be lost, and found again, every 50 seconds. (The real cluster has
    /// no controller that looks for lost nodes.)
    fn start_with_real_components(kubectl: &Path, folder: &Path) -> VirtualJudged {
        let mut cluster = VirtualJudged::start(kubectl, folder, "none");
        let patience = "--node-monitor-grace-period=1h".to_owned();
        cluster.components.start_controller_manager(&[patience]).unwrap();
        cluster.components.start_scheduler(16, &[]).unwrap();
        cluster.components.start_kwok(&stages()).unwrap();
        cluster
    }
}

fn stages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testcluster/stages.yaml")
}

#[test]
fn kubectl_prints_the_same_as_on_a_real_cluster() {
    let Some(mut real) =
        Cluster::start(ClusterOptions { service_accounts: true, ..ClusterOptions::default() }).unwrap()
    else {
        // Written directly: the test runner captures the output of print macros.
        std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no go\n").unwrap();
        return;
    };
    real.start_controller_manager().unwrap();
    real.start_scheduler(16, &[]).unwrap();
    real.start_kwok(&stages()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let programs = testcluster::build(&[Program::Kubectl]).unwrap().unwrap();
    let kubectl = Program::Kubectl.in_folder(&programs);
    let all = "scheduler,kubelet,gc,pv,workloads";
    let own = VirtualJudged::start(&kubectl, &folder.path().join("own"), all);
    let mut hosting = VirtualJudged::start_with_real_components(&kubectl, &folder.path().join("hosting"));
    let real = Judged { kubectl, kubeconfig: real.kubeconfig().to_owned() };
    let normalizer = Normalizer::new();
    let mut differences = String::new();
    for step in steps(include_str!("judge.script")) {
        let clusters = [&real, &own.judged, &hosting.judged];
        let [real, own, hosting] = std::thread::scope(|scope| {
            let runs = clusters.map(|cluster| scope.spawn(|| normalizer.normalize(&cluster.run(&step))));
            runs.map(|run| run.join().unwrap())
        });
        for (name, ours) in [("ours", own), ("ours, with the real components", hosting)] {
            if real != ours && step.is_compared {
                let command = step.arguments.join(" ");
                differences += &format!("$ kubectl {command}\n--- real\n{real}--- {name}\n{ours}\n");
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
    hosting.components.check_running().unwrap();
}

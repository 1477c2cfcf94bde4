//! `kinescope snapshot explain`: what a cycle decides about a pod, a pod group or a queue, and why.

use std::path::PathBuf;

use anyhow::bail;
use model::NamespacedName;
use snapshot::{Explanation, ExplanationSubject, explain};

use super::explain_text;
use super::input::{CycleArgs, HistoryArgs, PATHS_HELP, print_warnings, read};
use crate::Outcome;
use crate::output::Printer;

const AFTER: &str = "\
One cycle is run. A pod that waits is explained by the verdict on every node after the cycle, any other pod by the \
nodes as they were before it. A pod group is explained by its gang, its place in the order of jobs, and the errors of \
its pods; a queue by its quota and fair share, those of its siblings, and who borrows from it.

";

const EXAMPLES: &str = "

Examples:
  kinescope snapshot explain pod/train-7-0 -n ml snapshot.zip
  kinescope snapshot explain podgroup/train-7 --history gpu.kine --at 14:03
  kinescope snapshot explain queue/team-a snapshot.zip -o json";

/// Explain a pod, a pod group or a queue
#[derive(clap::Args)]
#[command(after_help = format!("{AFTER}{PATHS_HELP}{EXAMPLES}"))]
pub(super) struct ExplainSnapshot {
    /// What to explain: pod/[NAMESPACE/]NAME, podgroup/[NAMESPACE/]NAME, queue/NAME
    #[arg(value_name = "pod/NAME|podgroup/NAME|queue/NAME")]
    what: String,
    /// Snapshot: the ZIP of KAI-Scheduler, or its JSON; - for standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Namespace of the pod or pod group [default: default for pods, any for pod groups]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Time in the history [default: its end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
    #[command(flatten)]
    history: HistoryArgs,
    #[command(flatten)]
    run: CycleArgs,
    /// Output format; wide shows all resources, nodes and scores
    #[arg(short, long, value_parser = ["table", "wide", "json"], default_value = "table")]
    output: String,
}

impl ExplainSnapshot {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let subject = self.subject()?;
        let snapshot = self.run.at_now(read(self.file.as_deref(), self.at.as_deref(), &self.history)?)?;
        let explanation = explain(&snapshot, &self.run.options(1), &subject)?;
        let input = match &explanation {
            Explanation::Pod(pod) => &pod.snapshot,
            Explanation::PodGroup(group) => &group.snapshot,
            Explanation::Queue(queue) => &queue.snapshot,
        };
        print_warnings(out, &input.warnings);
        match self.output.as_str() {
            "json" => writeln!(out.data()?, "{:#}", serde_json::to_value(&explanation)?)?,
            style => explain_text::write(out, &explanation, style == "wide")?,
        }
        Ok(Outcome::Done)
    }

    fn subject(&self) -> anyhow::Result<ExplanationSubject> {
        let expected = "expected pod/NAME, podgroup/NAME or queue/NAME";
        let Some((kind, rest)) = self.what.split_once('/') else {
            bail!("invalid subject {:?}: {expected}", self.what);
        };
        let (namespace, name) = match rest.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, rest),
        };
        if name.is_empty() {
            bail!("invalid subject {:?}: {expected}", self.what);
        }
        if let (Some(one), Some(other)) = (namespace, &self.namespace)
            && one != other
        {
            bail!("{:?} is not in the namespace {other}: omit one of the two", self.what);
        }
        let namespace = namespace.or(self.namespace.as_deref());
        Ok(match kind {
            "pod" | "pods" | "po" => ExplanationSubject::Pod(NamespacedName {
                namespace: namespace.unwrap_or("default").into(),
                name: name.into(),
            }),
            "podgroup" | "podgroups" | "pg" => {
                ExplanationSubject::PodGroup(namespace.map(str::to_owned), name.to_owned())
            }
            "queue" | "queues" if namespace.is_none() => ExplanationSubject::Queue(name.to_owned()),
            "queue" | "queues" => bail!("queues have no namespace: use queue/{name}"),
            other => bail!("cannot explain {other:?}: {expected}"),
        })
    }
}

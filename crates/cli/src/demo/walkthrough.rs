//! The steps of the demo's walkthrough: commands, and comments on them.

use std::path::Path;

use model::Moment;
use workload::shop::DayHighlights;

/// A step of the walkthrough: a comment, and a command with the lines of its output to show.
pub(super) struct WalkthroughStep {
    pub(super) comment: String,
    pub(super) command: Vec<String>,
    pub(super) shown_lines: LineFilter,
}

/// Selects the lines of a command's output to show.
pub(super) enum LineFilter {
    /// The first lines, up to this number.
    First(usize),
    /// The lines that contain one of these texts, with their continuation lines.
    Containing(&'static [&'static str]),
}

/// A replay of the walkthrough: its output folder, and the settings it changes.
pub(super) struct ReplayVariant {
    pub(super) folder: &'static str,
    /// The name of its column in the comparison.
    pub(super) name: &'static str,
    set: &'static [&'static str],
}

pub(super) const UNCHANGED: ReplayVariant =
    ReplayVariant { folder: "unchanged", name: "unchanged", set: &[] };
pub(super) const MORE_NODES: ReplayVariant =
    ReplayVariant { folder: "more-nodes", name: "more nodes", set: &["nodeGroups.general.max=90"] };
pub(super) const FASTER_SCALE_DOWN: ReplayVariant = ReplayVariant {
    folder: "faster-scale-down",
    name: "1m unneeded",
    set: &[
        "nodeGroups.general.max=90",
        "autoscaler.scale-down-unneeded-time=1m",
        "autoscaler.scale-down-delay-after-add=1m",
    ],
};

pub(super) const MINUTE: i64 = 60_000_000_000;
/// The lines of a replay's summary that show the effect of a setting.
const REPLAY_EFFECT: LineFilter = LineFilter::Containing(&[
    "recorded    replayed",
    "Time to bind",
    "Pending pods, mean",
    "Pods evicted by scale-down",
    "Nodes, mean",
    "max nodes",
    "  general  ",
]);

// === impl WalkthroughStep ===

impl WalkthroughStep {
    /// All steps, in order. Replays are written into the folder.
    pub(super) fn all(highlights: &DayHighlights, folder: &Path) -> Vec<WalkthroughStep> {
        let mut steps = diagnosis_steps(highlights);
        steps.extend(replay_steps(highlights, folder));
        steps
    }

    fn new(text: impl Into<String>, line_filter: LineFilter, command: &[&str]) -> WalkthroughStep {
        let command = command.iter().map(|argument| (*argument).to_owned()).collect();
        WalkthroughStep { comment: text.into(), command, shown_lines: line_filter }
    }
}

/// The steps that find out why pods were pending.
fn diagnosis_steps(highlights: &DayHighlights) -> Vec<WalkthroughStep> {
    let now = clock_time(highlights.bad_moment);
    let mut steps = vec![
        WalkthroughStep::new("What is in the history?", LineFilter::First(10), &["info"]),
        WalkthroughStep::new(
            format!("At {} a sale began. At {now}, which pods were pending?", clock_time(highlights.sale)),
            LineFilter::First(12),
            &pending_pods_command(&now),
        ),
    ];
    if let Some(pod) = &highlights.unmatched_pod {
        steps.push(WalkthroughStep::new(
            "Those at the top were pending since before the sale. Why does the scheduler reject each node?",
            LineFilter::Containing(&["Pod:", "Decision:", "Reason:", "Message:"]),
            &["explain", &format!("pod/{}", pod.name), "-n", &pod.namespace, "--at", &now],
        ));
        let broken = &highlights.broken_deployment;
        let (before, after) =
            (highlights.bad_rollout.plus_nanos(-MINUTE), highlights.bad_rollout.plus_nanos(MINUTE));
        steps.push(WalkthroughStep::new(
            "Its required node affinity matches no node. Since when?",
            LineFilter::First(3),
            &[
                "log",
                &format!("deploy/{}", broken.name),
                "-n",
                &broken.namespace,
                "--from",
                &clock_time(before),
                "--to",
                &clock_time(after),
                "--fields",
                "spec.template.spec",
            ],
        ));
    }
    if let Some(pod) = &highlights.waiting_pod {
        steps.push(WalkthroughStep::new(
            "A typo in a new version: nmve for nvme. But the storefront pods have no node affinity. Why are they \
             pending, and why did the autoscaler not add nodes for them?",
            LineFilter::Containing(&["Pod:", "Decision:", "Message:", "Scale-up:", "Skipped:"]),
            &["explain", &format!("pod/{}", pod.name), "-n", &pod.namespace, "--at", &now],
        ));
    }
    steps
}

/// The steps that replay the same hours, with the recorded settings and with others.
fn replay_steps(highlights: &DayHighlights, folder: &Path) -> Vec<WalkthroughStep> {
    let from = clock_time(highlights.bad_rollout.plus_nanos(-5 * MINUTE));
    let to = clock_time(highlights.sale_over.plus_nanos(30 * MINUTE));
    let out = |what_if: &ReplayVariant| folder.join(what_if.folder).display().to_string();
    let replay = |what_if: &ReplayVariant, text: &str, line_filter| {
        let out = out(what_if);
        let mut command = vec!["replay", "--from", &from, "--to", &to];
        command.extend(what_if.set.iter().flat_map(|set| ["--set", set]));
        command.extend(["--out", &out]);
        WalkthroughStep::new(text, line_filter, &command)
    };
    let other = format!("{}/replay.kine", out(&MORE_NODES));
    let now = clock_time(highlights.bad_moment);
    vec![
        replay(
            &UNCHANGED,
            "The cluster was full, and its node groups were at max size. What if that were larger? First, is a replay \
             accurate? The same hours with the recorded settings:",
            LineFilter::Containing(&["node count:", "Placements:", "on the same node", "same group or type"]),
        ),
        replay(
            &MORE_NODES,
            "As many nodes as recorded, and most pods were bound to the same node or one of the same group. Now with a \
             larger max size:",
            REPLAY_EFFECT,
        ),
        WalkthroughStep::new(
            "Far fewer pending pods, for a few more nodes. A replay writes a history too: which pods would still be pending?",
            LineFilter::First(12),
            &[&pending_pods_command(&now)[..], &["--history", &other]].concat(),
        ),
        replay(
            &FASTER_SCALE_DOWN,
            "Those with the typo, which no node matches. But nodes cost money. What if they were also removed after one \
             unneeded minute, instead of six?",
            REPLAY_EFFECT,
        ),
    ]
}

fn pending_pods_command(at: &str) -> [&str; 8] {
    ["get", "pods", "-n", "web", "--field-selector", "status.phase=Pending", "--at", at]
}

/// The time of day as a user would type it, in the user's time zone.
pub(super) fn clock_time(moment: Moment) -> String {
    let time = moment.timestamp().to_zoned(jiff::tz::TimeZone::system());
    let format = if time.second() == 0 { "%H:%M" } else { "%H:%M:%S" };
    time.strftime(format).to_string()
}

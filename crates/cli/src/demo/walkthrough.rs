//! The steps of the demo's walkthrough: commands, and comments on them.

use std::path::Path;

use model::Moment;
use workload::shop::Story;

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
    ReplayVariant { folder: "as-it-was", name: "as it was", set: &[] };
pub(super) const MORE_NODES: ReplayVariant =
    ReplayVariant { folder: "more-nodes", name: "more nodes", set: &["nodeGroups.general.max=90"] };
pub(super) const FASTER_SCALE_DOWN: ReplayVariant = ReplayVariant {
    folder: "given-back",
    name: "given back",
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
    "They waited",
    "Pods that wait",
    "Pods evicted by scale-down",
    "Nodes, on average",
    "most nodes",
    "  general  ",
]);

// === impl WalkthroughStep ===

impl WalkthroughStep {
    /// All steps, in order. Replays are written into the folder.
    pub(super) fn all(story: &Story, folder: &Path) -> Vec<WalkthroughStep> {
        let mut scenes = diagnosis_steps(story);
        scenes.extend(replay_steps(story, folder));
        scenes
    }

    fn new(words: impl Into<String>, shown: LineFilter, command: &[&str]) -> WalkthroughStep {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        WalkthroughStep { comment: words.into(), command, shown_lines: shown }
    }
}

/// The steps that find out why pods were pending.
fn diagnosis_steps(story: &Story) -> Vec<WalkthroughStep> {
    let now = clock_time(story.bad_moment);
    let mut scenes = vec![
        WalkthroughStep::new("What is in the history?", LineFilter::First(10), &["info"]),
        WalkthroughStep::new(
            format!(
                "At {} a sale began. At {now}, which pods were waiting for a node?",
                clock_time(story.sale)
            ),
            LineFilter::First(12),
            &pending_pods_command(&now),
        ),
    ];
    if let Some(pod) = &story.misplaced_pod {
        scenes.push(WalkthroughStep::new(
            "Those at the top had been waiting since before the sale. What does the scheduler hold against each node?",
            LineFilter::Containing(&["Pod:", "Decision:", "Decided by:", "Message:"]),
            &["explain", &format!("pod/{}", pod.name), "-n", &pod.namespace, "--at", &now],
        ));
        let broken = &story.broken_deployment;
        let (before, after) = (story.bad_rollout.plus_nanos(-MINUTE), story.bad_rollout.plus_nanos(MINUTE));
        scenes.push(WalkthroughStep::new(
            "It asks for nodes of which there are none. Since when?",
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
    if let Some(pod) = &story.waiting_pod {
        scenes.push(WalkthroughStep::new(
            "A slip of the pen in a new version: nmve for nvme. But the others ask for nothing special. Why do they wait, \
             and why did the autoscaler not bring nodes for them?",
            LineFilter::Containing(&["Pod:", "Decision:", "Message:", "Scale-up:", "Skipped:"]),
            &["explain", &format!("pod/{}", pod.name), "-n", &pod.namespace, "--at", &now],
        ));
    }
    scenes
}

/// The steps that replay the same hours, with the recorded settings and with others.
fn replay_steps(story: &Story, folder: &Path) -> Vec<WalkthroughStep> {
    let from = clock_time(story.bad_rollout.plus_nanos(-5 * MINUTE));
    let to = clock_time(story.sale_over.plus_nanos(30 * MINUTE));
    let out = |what_if: &ReplayVariant| folder.join(what_if.folder).display().to_string();
    let replay = |what_if: &ReplayVariant, words: &str, shown| {
        let out = out(what_if);
        let mut command = vec!["replay", "--from", &from, "--to", &to];
        command.extend(what_if.set.iter().flat_map(|set| ["--set", set]));
        command.extend(["--out", &out]);
        WalkthroughStep::new(words, shown, &command)
    };
    let other = format!("{}/replay.kine", out(&MORE_NODES));
    let now = clock_time(story.bad_moment);
    vec![
        replay(
            &UNCHANGED,
            "The cluster was full, and its groups of nodes had grown as far as they may. What if they might grow further? \
             First, can a replay be believed? The same hours again, with the settings they had:",
            LineFilter::Containing(&[
                "the curves of",
                "Placements:",
                "on the same node",
                "same group or type",
            ]),
        ),
        replay(
            &MORE_NODES,
            "There were as many nodes as recorded, and most pods went to the same one or to one like it. Now with a larger \
             group:",
            REPLAY_EFFECT,
        ),
        WalkthroughStep::new(
            "Far fewer pods wait, for a few nodes more. A replay leaves a history too: which would still have been waiting?",
            LineFilter::First(12),
            &[&pending_pods_command(&now)[..], &["--history", &other]].concat(),
        ),
        replay(
            &FASTER_SCALE_DOWN,
            "Those with the slip of the pen, and whoever needs nodes of another group. But nodes cost. What if they were also \
             given back after one idle minute, instead of six?",
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

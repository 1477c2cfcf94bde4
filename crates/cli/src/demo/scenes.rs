//! The walk through the shop's day: what is typed, and what is said about it.

use std::path::Path;

use model::Moment;
use workload::shop::Story;

/// One step of the walk.
pub(super) struct Scene {
    pub(super) words: String,
    pub(super) command: Vec<String>,
    pub(super) shown: Shown,
}

/// What of an answer is shown.
pub(super) enum Shown {
    /// So many lines.
    First(usize),
    /// Those with one of these words, and what continues them.
    With(&'static [&'static str]),
}

/// A replay of the walk: its folder, and what is set otherwise.
pub(super) struct WhatIf {
    pub(super) folder: &'static str,
    /// In the comparison.
    pub(super) name: &'static str,
    set: &'static [&'static str],
}

pub(super) const AS_IT_WAS: WhatIf = WhatIf { folder: "as-it-was", name: "as it was", set: &[] };
pub(super) const MORE_NODES: WhatIf =
    WhatIf { folder: "more-nodes", name: "more nodes", set: &["nodeGroups.general.max=90"] };
pub(super) const GIVEN_BACK: WhatIf = WhatIf {
    folder: "given-back",
    name: "given back",
    set: &[
        "nodeGroups.general.max=90",
        "autoscaler.scale-down-unneeded-time=1m",
        "autoscaler.scale-down-delay-after-add=1m",
    ],
};

pub(super) const MINUTE: i64 = 60_000_000_000;
/// What is worth reading of the difference that another setting makes.
const DIFFERENCE: Shown = Shown::With(&[
    "recorded    replayed",
    "They waited",
    "Pods that wait",
    "Pods evicted by scale-down",
    "Nodes, on average",
    "most nodes",
    "  general  ",
]);

// === impl Scene ===

impl Scene {
    /// All of them, in order. Replays are put into the folder.
    pub(super) fn all(story: &Story, folder: &Path) -> Vec<Scene> {
        let mut scenes = at_the_bad_moment(story);
        scenes.extend(what_if(story, folder));
        scenes
    }

    fn new(words: impl Into<String>, shown: Shown, command: &[&str]) -> Scene {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        Scene { words: words.into(), command, shown }
    }
}

/// What was wrong, and why.
fn at_the_bad_moment(story: &Story) -> Vec<Scene> {
    let now = clock(story.bad_moment);
    let mut scenes = vec![
        Scene::new("What is in the history?", Shown::First(10), &["info"]),
        Scene::new(
            format!("At {} a sale began. At {now}, which pods were waiting for a node?", clock(story.sale)),
            Shown::First(12),
            &waiting(&now),
        ),
    ];
    if let Some(pod) = &story.misplaced_pod {
        scenes.push(Scene::new(
            "Those at the top had been waiting since before the sale. What does the scheduler hold against each node?",
            Shown::With(&["Pod:", "Decision:", "Decided by:", "Message:"]),
            &["explain", &format!("pod/{}", pod.name), "-n", &pod.namespace, "--at", &now],
        ));
        let broken = &story.broken_deployment;
        let (before, after) = (story.bad_rollout.plus_nanos(-MINUTE), story.bad_rollout.plus_nanos(MINUTE));
        scenes.push(Scene::new(
            "It asks for nodes of which there are none. Since when?",
            Shown::First(3),
            &[
                "log",
                &format!("deploy/{}", broken.name),
                "-n",
                &broken.namespace,
                "--from",
                &clock(before),
                "--to",
                &clock(after),
                "--fields",
                "spec.template.spec",
            ],
        ));
    }
    if let Some(pod) = &story.waiting_pod {
        scenes.push(Scene::new(
            "A slip of the pen in a new version: nmve for nvme. But the others ask for nothing special. Why do they wait, \
             and why did the autoscaler not bring nodes for them?",
            Shown::With(&["Pod:", "Decision:", "Message:", "Scale-up:", "Skipped:"]),
            &["explain", &format!("pod/{}", pod.name), "-n", &pod.namespace, "--at", &now],
        ));
    }
    scenes
}

/// The same hours again, as they were and otherwise.
fn what_if(story: &Story, folder: &Path) -> Vec<Scene> {
    let from = clock(story.bad_rollout.plus_nanos(-5 * MINUTE));
    let to = clock(story.sale_over.plus_nanos(30 * MINUTE));
    let out = |what_if: &WhatIf| folder.join(what_if.folder).display().to_string();
    let replay = |what_if: &WhatIf, words: &str, shown| {
        let out = out(what_if);
        let mut command = vec!["replay", "--from", &from, "--to", &to];
        command.extend(what_if.set.iter().flat_map(|set| ["--set", set]));
        command.extend(["--out", &out]);
        Scene::new(words, shown, &command)
    };
    let other = format!("{}/replay.kine", out(&MORE_NODES));
    let now = clock(story.bad_moment);
    vec![
        replay(
            &AS_IT_WAS,
            "The cluster was full, and its groups of nodes had grown as far as they may. What if they might grow further? \
             First, can a replay be believed? The same hours again, with the settings they had:",
            Shown::With(&["the curves of", "Placements:", "on the same node", "same group or type"]),
        ),
        replay(
            &MORE_NODES,
            "There were as many nodes as recorded, and most pods went to the same one or to one like it. Now with a larger \
             group:",
            DIFFERENCE,
        ),
        Scene::new(
            "Far fewer pods wait, for a few nodes more. A replay leaves a history too: which would still have been waiting?",
            Shown::First(12),
            &[&waiting(&now)[..], &["--history", &other]].concat(),
        ),
        replay(
            &GIVEN_BACK,
            "Those with the slip of the pen, and whoever needs nodes of another group. But nodes cost. What if they were also \
             given back after one idle minute, instead of six?",
            DIFFERENCE,
        ),
    ]
}

fn waiting(at: &str) -> [&str; 8] {
    ["get", "pods", "-n", "web", "--field-selector", "status.phase=Pending", "--at", at]
}

/// The clock time a user would type, in the user's zone.
pub(super) fn clock(moment: Moment) -> String {
    let time = moment.timestamp().to_zoned(jiff::tz::TimeZone::system());
    let format = if time.second() == 0 { "%H:%M" } else { "%H:%M:%S" };
    time.strftime(format).to_string()
}

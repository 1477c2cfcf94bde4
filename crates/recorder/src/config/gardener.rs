//! `clusters.csv` of Gardener's scaling history recorder: a landscape, a project and a shoot a row.

use std::path::PathBuf;

use anyhow::{Context, bail};
use history::Retention;
use live::Wanted;

use super::{Beside, Config, KEY_FILE, plane, rules};
use crate::assignment::of_control_plane;
use crate::{Assignment, Keep};

pub(super) fn read(text: &str, beside: &Beside) -> anyhow::Result<Config> {
    let Some(pattern) = &beside.kubeconfigs else {
        bail!(
            "say with --kubeconfigs where its clusters' are: /secrets/{{landscape}}_{{project}}_{{shoot}}.yaml"
        );
    };
    let folder = beside.folder.clone().unwrap_or_default();
    let rules = rules(&folder.join(KEY_FILE))?;
    let mut assignments = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        let [landscape, project, shoot] = words[..] else {
            bail!(
                "line {number}: a row has three columns, landscape, project and shoot, and this has {}",
                words.len()
            );
        };
        let file = |pattern: &str| {
            let path = pattern.replace("{landscape}", landscape).replace("{project}", project);
            PathBuf::from(path.replace("{shoot}", shoot))
        };
        let name = format!("{landscape}_{project}_{shoot}");
        let control_plane = beside.control_kubeconfigs.as_deref().map(|pattern| {
            plane(Some(file(pattern)), None, of_control_plane(format!("shoot--{project}--{shoot}")))
        });
        assignments.push(Assignment {
            into: folder.join(format!("{name}.kine")),
            name: name.into(),
            cluster: plane(Some(file(pattern)), None, Wanted::default()),
            control_plane,
            keep: Keep::Significant(rules.clone()),
            retention: Retention::default(),
            settings: Vec::new(),
        });
    }
    Config { folder, assignments, warnings: Vec::new() }.checked().context("its rows")
}

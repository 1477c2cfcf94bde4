//! `clusters.csv` of Gardener's scaling history recorder: one landscape, project and shoot per row.

use std::path::PathBuf;

use anyhow::{Context, bail};

use super::{Config, ConfigOverrides, KEY_FILE, api_server};
use crate::policy::RecordingPolicy;
use crate::{Assignment, ControlPlaneConfig, secret_key};

pub(super) fn read(text: &str, overrides: &ConfigOverrides) -> anyhow::Result<Config> {
    let Some(pattern) = &overrides.kubeconfig_pattern else {
        bail!(
            "--kubeconfigs is required for a CSV of shoots: /secrets/{{landscape}}_{{project}}_{{shoot}}.yaml"
        );
    };
    let folder = overrides.folder.clone().unwrap_or_default();
    let redaction = Some(secret_key::read_redact_key(&folder.join(KEY_FILE))?);
    let policy = RecordingPolicy { redaction, ..RecordingPolicy::default() };
    let mut assignments = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let columns: Vec<&str> = line.split(',').map(str::trim).collect();
        let [landscape, project, shoot] = columns[..] else {
            bail!(
                "line {number}: expected three columns, landscape, project and shoot, found {}",
                columns.len()
            );
        };
        let kubeconfig_path = |pattern: &str| {
            let path = pattern.replace("{landscape}", landscape).replace("{project}", project);
            PathBuf::from(path.replace("{shoot}", shoot))
        };
        let name = format!("{landscape}_{project}_{shoot}");
        let control_plane = overrides.control_kubeconfig_pattern.as_deref().map(|pattern| {
            let server = api_server(Some(kubeconfig_path(pattern)), None);
            ControlPlaneConfig { server, namespace: format!("shoot--{project}--{shoot}") }
        });
        assignments.push(Assignment {
            history_path: folder.join(format!("{name}.kine")),
            name: name.into(),
            cluster: api_server(Some(kubeconfig_path(pattern)), None),
            control_plane,
            policy: policy.clone(),
            settings: Vec::new(),
        });
    }
    Config { folder, assignments, warnings: Vec::new() }.validated().context("the rows")
}

//! Settings of the autoscaler that a Deployment runs.

use kubernetes::read::{nullable, view};
use model::Object;
use serde::Deserialize;

use super::super::settings::{Settings, Version};
use super::{BadFlags, GroupSize, group_sizes};

/// An autoscaler that a Deployment runs in the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct DeployedAutoscaler {
    /// Its settings.
    pub settings: Settings,
    /// The sizes of the node groups that its flags name.
    pub group_sizes: Vec<GroupSize>,
    /// Messages about assumptions where the Deployment is not explicit.
    pub assumptions: Vec<String>,
}

#[derive(Deserialize)]
struct DeploymentJson {
    #[serde(default, deserialize_with = "nullable")]
    spec: SpecJson,
}

#[derive(Default, Deserialize)]
struct SpecJson {
    #[serde(default, deserialize_with = "nullable")]
    template: TemplateJson,
}

#[derive(Default, Deserialize)]
struct TemplateJson {
    #[serde(default, deserialize_with = "nullable")]
    spec: PodJson,
}

#[derive(Default, Deserialize)]
struct PodJson {
    #[serde(default, deserialize_with = "nullable")]
    containers: Vec<ContainerJson>,
}

#[derive(Default, Deserialize)]
struct ContainerJson {
    #[serde(default, deserialize_with = "nullable")]
    name: String,
    #[serde(default, deserialize_with = "nullable")]
    image: String,
    #[serde(default, deserialize_with = "nullable")]
    command: Vec<String>,
    #[serde(default, deserialize_with = "nullable")]
    args: Vec<String>,
}

const PROGRAM: &str = "cluster-autoscaler";

/// The simulated versions, in the order in which they are tried for flags of an unknown version.
const VERSIONS_TO_TRY: [Version; 6] =
    [Version::V1_36, Version::V1_35, Version::V1_34, Version::V1_33, Version::V1_32, Version::V1_37];

// === impl Settings ===

impl Settings {
    /// The settings of the cluster-autoscaler in a Deployment; `None` if it runs none.
    pub fn from_deployment(deployment: &Object) -> Result<Option<DeployedAutoscaler>, BadFlags> {
        let json: DeploymentJson = view(deployment).map_err(|error| BadFlags {
            flag: format!("of the Deployment {}", deployment.meta().name),
            why: error,
        })?;
        let containers = json.spec.template.spec.containers;
        let Some(container) = containers.iter().find(|container| container.is_autoscaler()) else {
            return Ok(None);
        };
        let mut assumed = Vec::new();
        let arguments = container.arguments(&mut assumed);
        let settings = match container.version() {
            Some(Ok(version)) => Settings::from_flags(version, &arguments)?,
            Some(Err(tag)) => {
                assumed.push(format!("cluster-autoscaler {tag} is not simulated"));
                from_flags_of_any_version(nearest_version(tag), &arguments, &mut assumed)?
            }
            None => {
                assumed.push(
                    "the version of cluster-autoscaler is unknown: the image has no version tag".to_owned(),
                );
                from_flags_of_any_version(Version::V1_36, &arguments, &mut assumed)?
            }
        };
        Ok(Some(DeployedAutoscaler { settings, group_sizes: group_sizes(&arguments), assumptions: assumed }))
    }
}

/// The simulated version nearest to another one.
fn nearest_version(tag: &str) -> Version {
    let minor = tag
        .trim_start_matches('v')
        .strip_prefix("1.")
        .and_then(|after_major| after_major.split(['.', '-']).next());
    match minor.and_then(|minor| minor.parse::<u32>().ok()) {
        Some(..32) => Version::V1_32,
        Some(38..) => Version::V1_37,
        _ => Version::V1_36,
    }
}

/// The settings for a version, or for the first one that has all the flags.
fn from_flags_of_any_version(
    version: Version,
    arguments: &[String],
    assumed: &mut Vec<String>,
) -> Result<Settings, BadFlags> {
    let first = Settings::from_flags(version, arguments);
    let others = VERSIONS_TO_TRY.iter().map(|other| Settings::from_flags(*other, arguments));
    match std::iter::once(first.clone()).chain(others).find_map(Result::ok) {
        Some(settings) => {
            assumed.push(format!(
                "cluster-autoscaler {} is simulated, which supports all of its flags",
                settings.version
            ));
            Ok(settings)
        }
        None => first,
    }
}

// === impl ContainerJson ===

impl ContainerJson {
    fn is_autoscaler(&self) -> bool {
        let runs_autoscaler = |token: &String| token.split_whitespace().any(is_program);
        self.name == PROGRAM
            || self.image_name().ends_with(PROGRAM)
            || self.command.first().is_some_and(runs_autoscaler)
            || (self.command.len() > 1 && self.command[1..].iter().chain(&self.args).any(runs_autoscaler))
    }

    /// `registry.k8s.io/autoscaling/cluster-autoscaler` of `registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1@…`.
    fn image_name(&self) -> &str {
        let image = self.image.split('@').next().unwrap_or_default();
        match image.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => name,
            _ => image,
        }
    }

    /// The version of the image, or its tag if that version is not simulated.
    fn version(&self) -> Option<Result<Version, &str>> {
        let image = self.image.split('@').next().unwrap_or_default();
        let tag = image.get(self.image_name().len() + 1..)?;
        let is_version = tag.trim_start_matches('v').starts_with(|first: char| first.is_ascii_digit());
        is_version.then(|| Version::parse(tag).map_err(|_| tag))
    }

    /// The arguments of the program.
    fn arguments(&self, assumed: &mut Vec<String>) -> Vec<String> {
        let command_line: Vec<&String> = self.command.iter().chain(&self.args).collect();
        let script = command_line
            .iter()
            .find(|token| token.contains(char::is_whitespace) && token.split_whitespace().any(is_program));
        let Some(script) = script else {
            return command_line.into_iter().cloned().collect();
        };
        assumed.push("the autoscaler is started by a shell; its flags are read from the script".to_owned());
        let ends = |token: &&str| !token.contains(['>', '<', '|', ';', '&']);
        let after = script.split_whitespace().skip_while(|token| !is_program(token)).skip(1).take_while(ends);
        after.map(|token| token.replace(['"', '\''], "")).collect()
    }
}

fn is_program(token: &str) -> bool {
    token.rsplit('/').next() == Some(PROGRAM)
}

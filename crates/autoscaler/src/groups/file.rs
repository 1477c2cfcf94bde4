//! `node-groups.yaml`: the users' file of node groups.

mod document;
mod group;
#[cfg(test)]
mod tests;
mod values;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use self::group::GroupFile;
use super::super::settings::{Expander, Settings};
use super::super::yaml;
use super::{NodeGroup, PodPricing};

/// Node groups, with prices and settings for the cloud provider and the autoscaler.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeGroups {
    /// In the order of the file.
    pub groups: Vec<NodeGroup>,
    /// Prices of pods, if the file has them.
    pub pricing: Option<PodPricing>,
    /// The label with the GPU type of a node; empty if the file has none.
    pub gpu_label: Arc<str>,
    /// The autoscaler's settings, if the file has them.
    pub settings: Option<Settings>,
}

/// An error in a node groups file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid node groups: {place}: {why}")]
pub struct BadGroups {
    /// The path of the field: `groups[2].template.cpu`.
    pub place: String,
    /// What is wrong and what would be right.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NodeGroupsFile {
    groups: Vec<GroupFile>,
    pricing: Option<PricingFile>,
    #[serde(default)]
    gpu_label: String,
    settings: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PricingFile {
    cpu: f64,
    /// Per GiB.
    memory: f64,
}

// === impl NodeGroups ===

impl NodeGroups {
    /// Parses the text of a `node-groups.yaml`.
    pub fn parse(text: &str) -> Result<NodeGroups, BadGroups> {
        let document = yaml::parse_strict(text).map_err(|message| BadGroups::new("the document", message))?;
        NodeGroups::read(&document)
    }

    /// Reads the document of a `node-groups.yaml`.
    pub fn read(document: &Value) -> Result<NodeGroups, BadGroups> {
        if !document.is_object() {
            return Err(BadGroups::new("the document", "expected an object with groups"));
        }
        let file: NodeGroupsFile = serde_path_to_error::deserialize(document).map_err(|error| {
            let path = error.path().to_string();
            BadGroups::new(if path == "." { "the document" } else { &path }, error.into_inner().to_string())
        })?;
        let settings = file.settings.as_ref().map(Settings::read).transpose();
        let settings = settings.map_err(|error| match error.flag.as_str() {
            "settings" => BadGroups::new("settings", error.why),
            flag => BadGroups::new(&format!("settings.{}", flag.trim_start_matches('-')), error.why),
        })?;
        let pricing = file.pricing.map(PricingFile::pricing).transpose()?;
        let mut groups: Vec<NodeGroup> = Vec::new();
        for (index, group) in file.groups.into_iter().enumerate() {
            let path = format!("groups[{index}]");
            if let Some(first) = groups.iter().position(|other| *other.name == *group.name) {
                let message = format!("duplicate name {:?}, see groups[{first}]", group.name);
                return Err(BadGroups::new(&format!("{path}.name"), message));
            }
            groups.push(group.group(&path)?);
        }
        let groups = NodeGroups { groups, pricing, gpu_label: file.gpu_label.into(), settings };
        groups.check_prices()?;
        Ok(groups)
    }

    /// Checks that all prices are present if the expander `price` is used.
    fn check_prices(&self) -> Result<(), BadGroups> {
        let uses_price_expander = |settings: &Settings| settings.expander.contains(&Expander::Price);
        if !self.settings.as_ref().is_some_and(uses_price_expander) {
            return Ok(());
        }
        if self.pricing.is_none() {
            return Err(BadGroups::new("pricing", "required by the expander price"));
        }
        match self.groups.iter().position(|group| group.price.is_none()) {
            Some(index) => {
                let path = format!("groups[{index}].price");
                Err(BadGroups::new(&path, "required by the expander price"))
            }
            None => Ok(()),
        }
    }
}

// === impl PricingFile ===

impl PricingFile {
    fn pricing(self) -> Result<PodPricing, BadGroups> {
        let cpu = price(self.cpu, "pricing.cpu")?;
        let memory_gib = price(self.memory, "pricing.memory")?;
        Ok(PodPricing { cpu, memory_gib })
    }
}

// === impl BadGroups ===

impl BadGroups {
    fn new(path: &str, message: impl Into<String>) -> BadGroups {
        BadGroups { place: path.to_owned(), why: message.into() }
    }
}

fn price(price: f64, path: &str) -> Result<f64, BadGroups> {
    match price {
        price if !price.is_finite() => Err(BadGroups::new(path, "not a price")),
        price if price < 0.0 => Err(BadGroups::new(path, format!("{price} must not be negative"))),
        price => Ok(price),
    }
}

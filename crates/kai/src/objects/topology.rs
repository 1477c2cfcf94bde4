//! The parsed view of a Topology.

use std::sync::Arc;

use kubernetes::objects::ObjectMeta;
use kubernetes::read::nullable;
use serde::Deserialize;

/// The levels of a cluster's topology.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TopologyView {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: TopologySpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TopologySpec {
    /// From the widest to the narrowest.
    #[serde(deserialize_with = "nullable")]
    pub levels: Vec<TopologyLevel>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct TopologyLevel {
    #[serde(deserialize_with = "nullable")]
    pub node_label: Arc<str>,
    /// Another name of the level in constraints.
    #[serde(deserialize_with = "nullable")]
    pub alias: Arc<str>,
}

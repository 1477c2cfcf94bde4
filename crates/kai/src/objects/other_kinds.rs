//! Parsed views of PriorityClasses, ResourceSlices and DeviceClasses, and of objects that only have to exist.

use std::sync::Arc;

use kubernetes::objects::ObjectMeta;
use kubernetes::read::nullable;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A priority class.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PriorityClassView {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub value: i32,
    #[serde(deserialize_with = "nullable")]
    pub global_default: bool,
}

/// An object that only has to exist.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NamedView {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
}

/// Devices of a driver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceSliceView {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: ResourceSliceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ResourceSliceSpec {
    #[serde(deserialize_with = "nullable")]
    pub driver: Arc<str>,
    pub node_name: Option<Arc<str>>,
    #[serde(deserialize_with = "nullable")]
    pub devices: Vec<IgnoredAny>,
}

/// A class of devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DeviceClassView {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: DeviceClassSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DeviceClassSpec {
    /// The resource that containers may request instead of a claim.
    pub extended_resource_name: Option<Arc<str>>,
}

//! Differences between releases: a snapshot does not contain the version that wrote it, so hints decide.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::ObjectList;

/// Hints in a file about the release that wrote it.
#[derive(Default)]
pub(super) struct ReleaseHints {
    /// The release is older than v0.10, whose configuration has explicit `disable…: false`.
    before_0_10: bool,
    /// There are claims or slices of `resource.k8s.io/v1beta1`.
    has_v1beta1_claims: bool,
}

// === impl ReleaseHints ===

impl ReleaseHints {
    /// Looks for hints in the scheduler's configuration.
    pub(super) fn observe_config(&mut self, text: &str) {
        #[derive(Deserialize)]
        struct Config {
            #[serde(default)]
            tiers: Option<Vec<Tier>>,
        }
        #[derive(Deserialize)]
        struct Tier {
            #[serde(default)]
            plugins: Option<Vec<Plugin>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Plugin {
            #[serde(default)]
            disable_job_order: Option<bool>,
        }
        let Ok(config) = serde_json::from_str::<Config>(text) else { return };
        let mut plugins = config.tiers.iter().flatten().flat_map(|tier| tier.plugins.iter().flatten());
        self.before_0_10 = plugins.any(|plugin| plugin.disable_job_order == Some(false));
    }

    /// The apiVersion of an item without one.
    ///
    /// Topologies are Kueue's up to v0.10 and KAI's own since v0.12. They have the same fields, and so have the other
    /// objects in the files of these releases: a file not known to be older than v0.10 is taken to have KAI's. Claims
    /// and slices differ by version in their fields; device classes do not, and get the version of the claims and
    /// slices before them.
    pub(super) fn api_version(&mut self, list: &ObjectList, text: &str) -> &'static str {
        let old = match list.key {
            "resourceClaims" => is_v1beta1_claim(text),
            "resourceSlices" => is_v1beta1_slice(text),
            "deviceClasses" => self.has_v1beta1_claims,
            "topologies" if self.before_0_10 => return "kueue.x-k8s.io/v1alpha1",
            _ => return list.api_version,
        };
        self.has_v1beta1_claims |= old;
        if old { "resource.k8s.io/v1beta1" } else { list.api_version }
    }
}

/// Converts an object of `resource.k8s.io` to v1, the only version that v0.10 and later read.
pub(super) fn to_v1(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let requests = spec.get_mut("devices").and_then(|devices| devices.get_mut("requests"));
    for request in requests.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(request) = request.as_object_mut()
            && !request.contains_key("exactly")
            && !request.contains_key("firstAvailable")
        {
            let name = request.remove("name");
            let exactly =
                std::mem::replace(request, name.map(|name| ("name".to_owned(), name)).into_iter().collect());
            request.insert("exactly".to_owned(), Value::Object(exactly));
        }
    }
    for device in spec.get_mut("devices").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(device) = device.as_object_mut()
            && let Some(Value::Object(basic)) = device.remove("basic")
        {
            let all: Map<String, Value> = basic.into_iter().chain(std::mem::take(device)).collect();
            *device = all;
        }
    }
}

/// In v1 a device request is under `exactly` or `firstAvailable`.
fn is_v1beta1_claim(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Claim {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        devices: Devices,
    }
    #[derive(Deserialize)]
    struct Devices {
        requests: Vec<Request>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Request {
        exactly: Option<IgnoredAny>,
        device_class_name: Option<IgnoredAny>,
    }
    serde_json::from_str::<Claim>(text).is_ok_and(|claim| {
        let mut requests = claim.spec.devices.requests.iter();
        requests.any(|request| request.exactly.is_none() && request.device_class_name.is_some())
    })
}

/// In v1 a device's attributes are no longer under `basic`.
fn is_v1beta1_slice(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Slice {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        devices: Vec<Device>,
    }
    #[derive(Deserialize)]
    struct Device {
        basic: Option<IgnoredAny>,
    }
    serde_json::from_str::<Slice>(text)
        .is_ok_and(|slice| slice.spec.devices.iter().any(|device| device.basic.is_some()))
}

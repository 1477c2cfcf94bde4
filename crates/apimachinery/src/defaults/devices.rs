//! Defaults of the kinds of dynamic resource allocation.

use kubernetes::fields::{Fields, default_to, text};

pub(super) fn device_request(request: &mut Fields) {
    default_to(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" {
        default_to(request, "count", 1);
    }
}

pub(super) fn device_toleration(toleration: &mut Fields) {
    default_to(toleration, "operator", "Equal");
}

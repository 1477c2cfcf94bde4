//! DefaultBinder: binds. What that takes is for the caller to decide.

use super::registration::Registration;
use crate::plugin::ExtensionPoint;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration =
    Registration { name: "DefaultBinder", points: |_| &[ExtensionPoint::Bind], ..Registration::EMPTY };

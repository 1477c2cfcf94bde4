//! DefaultBinder: binds. What that takes is for the caller to decide.

use crate::plugin::{ExtensionPoint, Registration};

/// What it says of itself.
pub(crate) const REGISTRATION: Registration =
    Registration { name: "DefaultBinder", points: |_| &[ExtensionPoint::Bind], ..Registration::EMPTY };

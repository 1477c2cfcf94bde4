//! DefaultBinder: binding, which the caller simulates.

use super::registration::Registration;
use crate::plugin::ExtensionPoint;

pub(crate) const REGISTRATION: Registration = Registration::new("DefaultBinder", |_| &[ExtensionPoint::Bind]);

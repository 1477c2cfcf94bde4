//! What users add to the built-in rules.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use super::Address;

/// Changes objects before they are sent to the target, or leaves them out. It sees what the built-in rules have left.
///
/// What is sent about a change is the difference of what the rules leave of two versions. What a rule changes of one that is
/// created, and of none that is updated, stays.
pub trait Rule: fmt::Debug + Send + Sync {
    /// What becomes of a version of an object, or why it is left out.
    fn apply(&self, address: &Address, when: When, object: &mut Value) -> Result<(), LeftOut>;
}

/// What an object is about to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum When {
    Created,
    Updated,
}

/// Why something is left out, in words that many have in common.
pub type LeftOut = Cow<'static, str>;

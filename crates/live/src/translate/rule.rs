//! The trait of user rules, which are applied after the built-in rules.

use std::borrow::Cow;
use std::fmt;

use model::ObjectRef;
use serde_json::Value;

/// Changes objects before they are sent to the target, or excludes them. It receives objects after the built-in rules.
///
/// An update is the difference between two versions after the rules. A change that a rule makes only at creation
/// therefore persists.
pub trait Rule: fmt::Debug + Send + Sync {
    /// Changes a version of an object, or returns why it is excluded.
    fn apply(
        &self,
        object_ref: &ObjectRef,
        trigger: RuleTrigger,
        object: &mut Value,
    ) -> Result<(), ExclusionReason>;
}

/// The kind of request that the object is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RuleTrigger {
    Created,
    Updated,
}

/// Why an object is excluded; the text is the key by which exclusions are counted.
pub type ExclusionReason = Cow<'static, str>;

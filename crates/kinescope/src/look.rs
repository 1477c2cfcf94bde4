//! Looking into a history: what the command line and the web application have in common.

mod amounts;
mod as_of;
mod audit;
pub(crate) mod autoscaler_setup;
mod chosen;
mod edit;
mod feed;
mod kept;
mod kind_words;
mod labels;
pub(crate) mod scheduler_settings;
mod summary;

pub(crate) use self::amounts::{bytes, counted, grouped};
pub(crate) use self::as_of::{AsOf, objects};
pub(crate) use self::audit::{AuditedWrites, WrittenBy};
pub(crate) use self::chosen::Chosen;
pub(crate) use self::edit::{Edit, Root};
pub(crate) use self::feed::{Feed, FeedSummary, Shown};
pub(crate) use self::kept::kept;
pub(crate) use self::kind_words::{Found, KindWords};
pub(crate) use self::labels::has_labels;
pub(crate) use self::summary::{changes, gap_as_json, summary_as_json};

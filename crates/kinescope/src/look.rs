//! Looking into a history: what the command line and the web application have in common.

mod amounts;
mod chosen;
mod feed;
mod kind_words;
mod labels;
mod summary;

pub(crate) use self::amounts::{bytes, counted, grouped};
pub(crate) use self::chosen::Chosen;
pub(crate) use self::feed::{Feed, Shown};
pub(crate) use self::kind_words::{Found, KindWords};
pub(crate) use self::labels::has_labels;
pub(crate) use self::summary::{changes, gap_as_json, summary_as_json};

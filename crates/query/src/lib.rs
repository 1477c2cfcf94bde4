//! Looking into a history: what the command line and the web application have in common.

mod amounts;
mod as_of;
mod audit;
pub mod autoscaler_setup;
mod chosen;
mod edit;
mod feed;
mod kept;
mod kind_words;
mod labels;
mod listener;
pub mod scheduler_settings;
mod summary;
mod text_file;

pub use self::amounts::{bytes, counted, grouped, span};
pub use self::as_of::{AsOf, objects};
pub use self::audit::{AuditedWrites, WrittenBy};
pub use self::chosen::Chosen;
pub use self::edit::{Edit, Root};
pub use self::feed::{Feed, FeedSummary, Shown};
pub use self::kept::kept;
pub use self::kind_words::{Found, KindWords};
pub use self::labels::has_labels;
pub use self::listener::Listener;
pub use self::summary::{changes, gap_as_json, gap_in_words, summary_as_json};
pub use self::text_file::{read_text, read_tracer_config, read_yaml};

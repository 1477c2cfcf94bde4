//! Queries of a history that the command line, the server and the use cases share.

mod as_of;
mod audit;
pub mod autoscaler_choice;
mod config_edit;
mod export_stream;
mod kind_resolver;
mod number_format;
mod open_history;
mod option_names;
mod progress_listener;
mod replay_settings;
pub mod scheduler_choice;
mod suggestion;
mod summary;
mod text_file;

pub use self::as_of::{AsOf, objects_as_of};
pub use self::audit::{AuditedWrites, WriteAttribution};
pub use self::config_edit::{ConfigEdit, ConfigRoot};
pub use self::export_stream::{ExportScope, ExportStream, ExportSummary};
pub use self::kind_resolver::{KindResolver, ResourceType};
pub use self::number_format::{count_noun, format_bytes, format_duration, group_digits};
pub use self::open_history::OpenHistory;
pub use self::option_names::OptionNames;
pub use self::progress_listener::ProgressListener;
pub use self::replay_settings::recorded_replay_settings;
pub use self::suggestion::similar;
pub use self::summary::{count_changes, gap_as_json, gap_as_text, summary_as_json};
pub use self::text_file::{read_text, read_tracer_config, read_yaml};

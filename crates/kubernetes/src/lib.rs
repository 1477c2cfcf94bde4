//! Kubernetes' own rules about its objects, as pure functions.
//!
//! Nothing here makes scheduling or control decisions, and nothing reads a clock, a file or a socket.

pub mod admission;
pub mod amounts;
pub mod anonymize;
pub mod change_filter;
pub mod conditions;
pub mod custom_definition;
pub mod daemon_sets;
pub mod event_conversion;
pub mod eviction;
pub mod fields;
pub mod go;
pub mod kinds;
pub mod labels;
pub mod objects;
pub mod owners;
pub mod pod_lifecycles;
pub mod quantity;
pub mod read;
pub mod recording;
pub mod requests;
pub mod resource_list;
pub mod selector;
pub mod table;
pub mod taints;
pub mod time;
pub mod version;
pub mod well_known;
pub mod yaml;

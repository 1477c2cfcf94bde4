//! What Kubernetes itself prescribes about its objects, as pure functions.
//!
//! Nothing here decides anything, and nothing reads a clock, a file or a socket.

pub mod admission;
pub mod amounts;
pub mod anonymise;
pub mod daemons;
pub mod go;
pub mod kinds;
pub mod labels;
pub mod owners;
pub mod pod_lives;
pub mod quantity;
pub mod read;
pub mod recording;
pub mod requests;
pub mod rules;
pub mod selector;
pub mod strategic_merge;
pub mod table;
pub mod taints;
pub mod time;
pub mod version;

//! What Kubernetes itself prescribes about its objects, as pure functions.
//!
//! Nothing here decides anything, and nothing reads a clock, a file or a socket.

pub mod admission;
pub mod anonymise;
pub mod kinds;
pub mod owners;
pub mod pod_lives;
pub mod quantity;
pub mod requests;
pub mod rules;
pub mod selector;
pub mod strategic_merge;
pub mod table;

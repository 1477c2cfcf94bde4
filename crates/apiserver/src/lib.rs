//! The Kubernetes HTTP API over a [`Store`]: discovery, get, list, watch, tables, and Status errors.
//!
//! What the store holds, and whether it can be changed, is up to the store.

mod discovery;
mod handler;
mod list;
mod list_options;
mod media_type;
mod request_info;
mod resource;
mod server;
mod status;
mod store;
mod table;
mod watch;

pub use resource::{Resource, ResourceTable};
pub use server::{ApiServer, ServerSecurity};
pub use store::{ObjectList, Store, StoreError};

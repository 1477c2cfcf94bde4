//! The Kubernetes HTTP API over a [`Store`]: discovery, reads, watches, tables, writes and Status errors.
//!
//! What the store holds, and whether it can be changed, is up to the store. [`MemoryStore`] is one that can; what an API
//! server does around a write is in [`Registry`].

mod apply_config;
mod body;
mod component_status;
mod connections;
mod custom_kind;
mod discovery;
mod event_window;
mod field_validation;
mod handler;
mod health;
mod list;
mod list_options;
mod listener;
mod media_type;
mod memory_store;
mod object_map;
mod openapi;
mod patch;
mod registry;
mod request_info;
mod request_log;
mod resource;
mod response;
mod reviews;
mod server;
mod service_account_token;
mod status;
mod store;
mod subresource;
mod table;
#[cfg(test)]
mod tests;
mod user;
mod watch;
mod write_handler;
mod write_query;

pub use custom_kind::CustomKind;
pub use memory_store::{ChangeReader, Clock, MemoryStore, StoreChange, StoreSnapshot};
pub use object_map::ObjectMap;
pub use patch::Patch;
pub use registry::{
    DeleteOptions, Deletion, FieldWriter, Preconditions, PropagationPolicy, Registry, UpdatedPart,
    WriteOptions,
};
pub use request_info::RequestInfo;
pub use resource::{Resource, ResourceTable};
pub use server::{ApiServer, ServeOptions, ServerSecurity};
pub use service_account_token::TokenSigner;
pub use status::ApiError;
pub use store::{
    EventFuture, EventSource, ObjectList, Store, StoreError, StoreEvent, Write, resource_version_of,
};

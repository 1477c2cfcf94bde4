//! The rules of a Kubernetes API server about a single object: decoding, defaults, strategies, validation, patches, field
//! managers, the schemas of custom resources, and hashes of pod templates.
//!
//! Pure functions over JSON, and one table of the built-in kinds' Go types. Rules that need other objects are in
//! `apiserver`.

pub mod cel;
pub mod decoding;
pub mod defaults;
pub mod managed_fields;
mod names;
pub mod openapi;
pub mod protobuf;
mod schema;
pub mod strategic_merge;
pub mod strategy;
pub mod structural;
pub mod template_hash;
pub mod validation;

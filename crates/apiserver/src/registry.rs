//! The registry: writes of objects with everything that an API server does around them. Defaults, admission,
//! validation, optimistic concurrency, graceful deletion.
//!
//! Requests and the cluster's own components write through the same methods.

mod admission;
mod binding;
mod create;
mod custom_definitions;
mod delete;
mod eviction;
mod field_managers;
mod metadata;
mod scale;
mod service_ip;
mod token;
mod update;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{Kind, Moment, NamespacedName, Object};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::Value;

pub(crate) use create::check_type;
pub(crate) use delete::success_status;
pub use delete::{DeleteOptions, Deletion, Preconditions, PropagationPolicy};
pub(crate) use field_managers::AppliedConfig;
pub use field_managers::FieldWriter;
pub use update::UpdatedPart;

use crate::resource::{Resource, ResourceTable};
use crate::service_account_token::TokenSigner;
use crate::status::ApiError;
use crate::store::{Store, StoreError, Write, resource_version_of};

/// Writes to a store.
pub struct Registry {
    store: Arc<dyn Store>,
    /// Generates uids and the random part of names.
    rng: Mutex<Pcg64>,
    /// Checks of custom objects, by kind.
    validators: Vec<(Kind, Validator)>,
    /// The components of the cluster that run in this process, as ComponentStatuses name them.
    components: Vec<&'static str>,
    /// Held while a Service is written, so that no two get the same address.
    allocations: Mutex<()>,
    /// Signs the tokens of service accounts, if there are any.
    token_signer: Option<TokenSigner>,
}

/// A check of an object. The error names the field, what is wrong, and what would be right.
type Validator = Box<dyn Fn(&Value) -> Result<(), String> + Send + Sync>;

/// Options of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions<'a> {
    /// Everything is done but the write itself.
    pub dry_run: bool,
    /// The writer is a component of the cluster: it never has to wait for components that are behind.
    pub is_component: bool,
    /// A new object keeps the uid that it has.
    pub keeps_uid: bool,
    /// Who manages the fields that are written.
    pub writer: FieldWriter<'a>,
    /// Where warnings about the object go; `None` if nobody reads them.
    pub warnings: Option<&'a RefCell<Vec<String>>>,
}

/// The most attempts of a write that others overtake.
const MAX_ATTEMPTS: usize = 16;

// === impl WriteOptions ===

impl WriteOptions<'_> {
    /// Hands on warnings.
    fn warn(&self, warnings: &mut Vec<String>) {
        if let Some(all) = self.warnings {
            all.borrow_mut().append(warnings);
        }
    }
}

// === impl Registry ===

impl Registry {
    /// Writes to this store. Names and uids follow from the seed.
    pub fn new(store: Arc<dyn Store>, seed: u64) -> Registry {
        let rng = Mutex::new(Pcg64::seed_from_u64(seed));
        Registry {
            store,
            rng,
            validators: Vec::new(),
            components: Vec::new(),
            allocations: Mutex::new(()),
            token_signer: None,
        }
    }

    /// Refuses objects of a custom kind that do not pass a check.
    #[must_use]
    pub fn with_validator(
        mut self,
        kind: Kind,
        validator: impl Fn(&Value) -> Result<(), String> + Send + Sync + 'static,
    ) -> Registry {
        self.validators.push((kind, Box::new(validator)));
        self
    }

    /// Names the components of the cluster that run in this process: `scheduler`, `controller-manager`.
    #[must_use]
    pub fn with_components(self, components: Vec<&'static str>) -> Registry {
        Registry { components, ..self }
    }

    pub(crate) fn components(&self) -> &[&'static str] {
        &self.components
    }

    fn check_custom(&self, kind: &Kind, name: &str, object: &Value) -> Result<(), ApiError> {
        for (_, validator) in self.validators.iter().filter(|(checked, _)| checked == kind) {
            validator(object).map_err(|why| {
                ApiError::unprocessable(format!("{}.{} {name:?} is invalid: {why}", kind.kind, kind.group))
            })?;
        }
        Ok(())
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// One object of a kind that the store has.
    pub fn get(&self, kind: &Kind, name: &NamespacedName) -> Option<Object> {
        let table = self.store.resources();
        self.store.get(table.of_kind(kind)?, name).ok()?
    }

    fn table(&self) -> Arc<ResourceTable> {
        self.store.resources()
    }

    fn now(&self) -> Moment {
        self.store.now()
    }

    fn rng(&self) -> MutexGuard<'_, Pcg64> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock of a write of a Service; `None` for other kinds.
    fn lock_allocations(&self, resource: &Resource) -> Option<MutexGuard<'_, ()>> {
        let is_service = resource.kind.is("", "Service");
        is_service.then(|| self.allocations.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A random UUID, version 4.
    fn new_uid(&self) -> String {
        let (high, low): (u64, u64) = {
            let mut rng = self.rng();
            (rng.random(), rng.random())
        };
        let (high, low) = (high & !0xf000 | 0x4000, low & !(3 << 62) | (2 << 62));
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    fn current(&self, resource: &Resource, name: &NamespacedName) -> Result<Object, ApiError> {
        self.store.get(resource, name)?.ok_or_else(|| ApiError::not_found(resource, &name.name))
    }

    /// Writes the new state of an object, unless it is a dry run.
    fn commit(
        &self,
        resource: &Resource,
        name: &NamespacedName,
        old: Option<&Object>,
        object: Value,
        is_deletion: bool,
        options: WriteOptions<'_>,
    ) -> Result<Object, CommitError> {
        if options.dry_run {
            let object = Object::parse(&object.to_string());
            return object.map_err(|error| ApiError::bad_request(error.to_string()).into());
        }
        let write = Write {
            kind: resource.storage_kind(),
            name: name.clone(),
            expected: old.map(resource_version_of),
            object,
            is_deletion,
            may_wait: !options.is_component,
        };
        match self.store.commit(write) {
            Ok(object) => {
                if is_deletion && resource.custom.is_some() {
                    self.finish_definition(&resource.kind)?;
                }
                Ok(object)
            }
            Err(StoreError::Conflict) => Err(CommitError::Overtaken),
            Err(error) => Err(CommitError::Refused(error.into())),
        }
    }
}

/// A write that did not happen.
enum CommitError {
    /// Another writer was first.
    Overtaken,
    Refused(ApiError),
}

impl From<ApiError> for CommitError {
    fn from(error: ApiError) -> CommitError {
        CommitError::Refused(error)
    }
}

#[cfg(test)]
mod tests;

//! Execution of a single API operation, with retries.

use std::sync::Arc;
use std::time::Duration;

use model::Kind;
use rand::RngExt;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::foreign::first_foreign_dependent;
use super::outcomes::{AppliedEffect, OperationOutcome, SkipReason};
use super::target::{UID_ANNOTATION, is_gone};
use super::{Applier, lock};
use crate::list_watch::RequestFailure;
use crate::translate::{ApiOperation, Verb};

type Result<T> = std::result::Result<T, RequestFailure>;

/// How long transient failures are retried.
const RETRY_TIMEOUT: Duration = Duration::from_secs(300);
/// How long rejections by admission plugins are retried whose informers lag behind.
const ADMISSION_RETRY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for the deletion of an object of the same name.
const DELETION_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait until a newly defined kind is served.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What kept an object from being created.
enum CreateObstacle {
    /// It was created before, and the response was lost.
    AlreadyCreated(Value),
    /// A foreign object has the same name.
    NameTaken(Value),
    /// The obstacle is gone.
    Cleared,
    /// Something else, or the deletion of an object of the same name takes too long. The failure says whether a retry may
    /// help.
    Other,
}

impl Applier {
    /// Executes one operation, and retries transient failures.
    pub(super) async fn execute(&self, operation: &ApiOperation) -> OperationOutcome {
        let started = Instant::now();
        let mut failures = 0;
        loop {
            let failure = match self.attempt(operation).await {
                Ok(outcome) => return outcome,
                Err(failure) => failure,
            };
            let time_limit = retry_timeout(&failure);
            let retry_after = failure.retry_after.unwrap_or_default().min(time_limit / 2);
            let wait =
                failure.backoff(failures, lock(&self.rng).random()).min(time_limit / 4).max(retry_after);
            failures += 1;
            if started.elapsed() + wait >= time_limit {
                return OperationOutcome::Failed(failure);
            }
            sleep(wait).await;
        }
    }

    async fn attempt(&self, operation: &ApiOperation) -> Result<OperationOutcome> {
        let object_ref = &operation.object_ref;
        if !self.target.has_kind(&object_ref.kind) && !self.wait_until_served(&object_ref.kind).await? {
            return Ok(OperationOutcome::Skipped(SkipReason::KindNotServed));
        }
        if !matches!(operation.verb, Verb::Create { .. }) && lock(&self.untouchable).contains(object_ref) {
            return Ok(OperationOutcome::Skipped(SkipReason::NotCreatedByRun));
        }
        match &operation.verb {
            Verb::Create { object } => self.create(operation, object).await,
            Verb::Patch { patch, .. } => self.apply_patch(operation, patch).await,
            Verb::Bind { node } => self.bind(operation, node).await,
            Verb::Delete { grace_period_seconds } => self.delete(operation, *grace_period_seconds).await,
            Verb::CompleteDeletion { is_deleting } => self.complete_deletion(operation, *is_deleting).await,
        }
    }

    /// Whether the server has a kind; waits for one that was defined by this run.
    async fn wait_until_served(&self, kind: &Kind) -> Result<bool> {
        let started = Instant::now();
        while !self.target.refresh_kind(kind).await? {
            if !lock(&self.defined_kinds).contains(kind) || started.elapsed() > DISCOVERY_TIMEOUT {
                return Ok(false);
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(true)
    }

    async fn create(&self, operation: &ApiOperation, object: &Value) -> Result<OperationOutcome> {
        let mut body = object.clone();
        lock(&self.uids).translate_references(&mut body);
        self.detach_foreign_storage(operation, &mut body).await?;
        self.target.add_run_metadata(&mut body, Some(&operation.uid));
        let created = match self.target.create(&operation.object_ref, &body).await {
            Ok(created) => created,
            Err(failure) => match self.find_obstacle(operation, &failure).await? {
                CreateObstacle::Other => return Err(failure),
                CreateObstacle::AlreadyCreated(existing) => existing,
                CreateObstacle::Cleared => {
                    // If there is another obstacle, the next attempt determines it.
                    let retried = self.target.create(&operation.object_ref, &body).await;
                    retried.map_err(|failure| match failure.status {
                        Some(404 | 409) => RequestFailure { status: None, ..failure },
                        _ => failure,
                    })?
                }
                CreateObstacle::NameTaken(existing) => {
                    // Objects that the target's controllers created for this run may be referenced, foreign ones may
                    // not.
                    if self.target.is_of_run(&existing) || have_common_owner(&body, &existing) {
                        self.learn_uid(operation, &existing);
                    }
                    lock(&self.untouchable).insert(operation.object_ref.clone());
                    return Ok(OperationOutcome::Skipped(SkipReason::AlreadyExisted));
                }
            },
        };
        self.learn_uid(operation, &created);
        lock(&self.untouchable).remove(&operation.object_ref);
        self.correct_created(operation, &body, &created).await?;
        self.write_status(operation, &body, &created).await?;
        Ok(OperationOutcome::Applied(AppliedEffect::Created))
    }

    /// Determines what kept an object from being created.
    async fn find_obstacle(
        &self,
        operation: &ApiOperation,
        failure: &RequestFailure,
    ) -> Result<CreateObstacle> {
        match failure.status {
            Some(409) => {}
            Some(404)
                if !operation.object_ref.namespace.is_empty() && failure.message.contains("namespaces") =>
            {
                self.target.create_namespace(&operation.object_ref.namespace).await?;
                return Ok(CreateObstacle::Cleared);
            }
            _ => return Ok(CreateObstacle::Other),
        }
        let started = Instant::now();
        loop {
            let Some(existing) = self.target.get(&operation.object_ref).await? else {
                return Ok(CreateObstacle::Cleared);
            };
            let is_ours = self.target.is_created_for(&existing, &operation.uid);
            let is_deleting = existing.pointer("/metadata/deletionTimestamp").is_some();
            // In a resumed run its deletion may have begun too; otherwise it is left over from an earlier run.
            if is_ours && (!is_deleting || self.is_resuming.initialized()) {
                return Ok(CreateObstacle::AlreadyCreated(existing));
            }
            if !is_deleting {
                return Ok(CreateObstacle::NameTaken(existing));
            }
            if started.elapsed() > DELETION_TIMEOUT {
                return Ok(CreateObstacle::Other);
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Corrects an object that differs from what was sent: a namespace that was created before it was recorded, and a
    /// node that the server has tainted because it is new.
    async fn correct_created(
        &self,
        operation: &ApiOperation,
        desired: &Value,
        created: &Value,
    ) -> Result<()> {
        let Some(uid) = self.uid_of(operation) else { return Ok(()) };
        let mut patch = json!({});
        match &*operation.object_ref.kind.kind {
            "Namespace" if created["metadata"]["annotations"].get(UID_ANNOTATION).is_none() => {
                for field in ["labels", "annotations"] {
                    patch["metadata"][field] = desired["metadata"][field].clone();
                }
            }
            "Node" if created["spec"].get("taints") != desired["spec"].get("taints") => {
                patch["spec"]["taints"] = desired["spec"]["taints"].clone();
            }
            _ => return Ok(()),
        }
        patch["metadata"]["uid"] = Value::from(&*uid);
        self.patch(operation, "", &patch, &uid).await.map(drop)
    }

    fn learn_uid(&self, operation: &ApiOperation, object: &Value) {
        if let Some(target_uid) = object.pointer("/metadata/uid").and_then(Value::as_str) {
            lock(&self.uids).insert(&operation.uid, target_uid);
        }
    }

    /// Most kinds ignore the status in a create request: it is written afterwards.
    async fn write_status(&self, operation: &ApiOperation, desired: &Value, created: &Value) -> Result<()> {
        let desired = desired.get("status").and_then(Value::as_object).filter(|status| !status.is_empty());
        let Some(desired) = desired.filter(|_| self.target.has_status(&operation.object_ref.kind)) else {
            return Ok(());
        };
        let is_current = |(key, value): (&String, &Value)| created["status"].get(key) == Some(value);
        let Some(uid) = self.uid_of(operation).filter(|_| !desired.iter().all(is_current)) else {
            return Ok(());
        };
        let patch = json!({"metadata": {"uid": &*uid}, "status": desired});
        // An object that was deleted meanwhile was still created.
        self.patch(operation, "status", &patch, &uid).await.map(drop)
    }

    async fn apply_patch(&self, operation: &ApiOperation, patch: &Value) -> Result<OperationOutcome> {
        let Some(uid) = self.uid_of(operation) else {
            return Ok(OperationOutcome::Skipped(self.missing_reason(operation)));
        };
        let mut patch = patch.clone();
        lock(&self.uids).translate_references(&mut patch);
        self.detach_foreign_storage(operation, &mut patch).await?;
        let status = if self.target.has_status(&operation.object_ref.kind) {
            patch.as_object_mut().and_then(|patch| patch.remove("status"))
        } else {
            None
        };
        if patch.as_object().is_some_and(|patch| !patch.is_empty()) {
            // The uid ensures that a later object of the same name is not changed.
            patch["metadata"]["uid"] = Value::from(&*uid);
            if let Some(skip_reason) = self.patch(operation, "", &patch, &uid).await? {
                return Ok(OperationOutcome::Skipped(skip_reason));
            }
        }
        if let Some(status) = status {
            let patch = json!({"metadata": {"uid": &*uid}, "status": status});
            if let Some(skip_reason) = self.patch(operation, "status", &patch, &uid).await? {
                return Ok(OperationOutcome::Skipped(skip_reason));
            }
        }
        Ok(OperationOutcome::Applied(AppliedEffect::Patched))
    }

    /// Sends a patch; returns the reason if it was skipped.
    async fn patch(
        &self,
        operation: &ApiOperation,
        subresource: &str,
        patch: &Value,
        uid: &str,
    ) -> Result<Option<SkipReason>> {
        let version = match &operation.verb {
            Verb::Patch { api_version, .. } => Some(&**api_version),
            _ => None,
        };
        let failure = match self.target.patch_in(&operation.object_ref, version, subresource, patch).await {
            Ok(_) => return Ok(None),
            Err(failure) => failure,
        };
        match failure.status {
            Some(404) => Ok(Some(SkipReason::AlreadyGone)),
            // Some servers answer a different uid with 409, others with 422.
            Some(409 | 422) => match self.target.get(&operation.object_ref).await? {
                None => Ok(Some(SkipReason::AlreadyGone)),
                Some(existing) if existing["metadata"]["uid"] != *uid => {
                    Ok(Some(SkipReason::NotCreatedByRun))
                }
                // A concurrent write: the next attempt may succeed.
                Some(_) if failure.status == Some(409) => Err(RequestFailure { status: None, ..failure }),
                Some(_) => Err(failure),
            },
            _ => Err(failure),
        }
    }

    /// The target uid of the operation's object, if it was created.
    fn uid_of(&self, operation: &ApiOperation) -> Option<Arc<str>> {
        lock(&self.uids).get(&operation.uid)
    }

    fn missing_reason(&self, operation: &ApiOperation) -> SkipReason {
        if lock(&self.uids).is_marked_deleted(&operation.uid) {
            SkipReason::AlreadyGone
        } else {
            SkipReason::NeverCreated
        }
    }

    async fn bind(&self, operation: &ApiOperation, node: &str) -> Result<OperationOutcome> {
        let Some(uid) = self.uid_of(operation) else {
            return Ok(OperationOutcome::Skipped(self.missing_reason(operation)));
        };
        match self.target.bind(&operation.object_ref, &uid, node).await {
            Ok(()) => Ok(OperationOutcome::Applied(AppliedEffect::Bound)),
            Err(failure) if failure.status == Some(404) => {
                Ok(OperationOutcome::Skipped(SkipReason::AlreadyGone))
            }
            // A request without a response may have been executed.
            Err(failure) if failure.status == Some(409) => {
                match self.target.get(&operation.object_ref).await? {
                    None => Ok(OperationOutcome::Skipped(SkipReason::AlreadyGone)),
                    Some(pod) if pod["metadata"]["uid"] != *uid => {
                        Ok(OperationOutcome::Skipped(SkipReason::NotCreatedByRun))
                    }
                    Some(pod) => match pod["spec"]["nodeName"].as_str() {
                        Some(bound_node) if bound_node == node => {
                            Ok(OperationOutcome::Applied(AppliedEffect::Bound))
                        }
                        Some(_) => Ok(OperationOutcome::Skipped(SkipReason::BoundElsewhere)),
                        None => Err(failure),
                    },
                }
            }
            Err(failure) => Err(failure),
        }
    }

    async fn delete(
        &self,
        operation: &ApiOperation,
        grace_period_seconds: Option<i64>,
    ) -> Result<OperationOutcome> {
        let Some(uid) = self.uid_of(operation) else {
            return Ok(OperationOutcome::Skipped(self.missing_reason(operation)));
        };
        match self.delete_unless_foreign(operation, &uid, grace_period_seconds).await? {
            Ok(response) => {
                if is_gone(&response) {
                    lock(&self.uids).mark_deleted(&operation.uid);
                }
                Ok(OperationOutcome::Applied(AppliedEffect::Deleted))
            }
            Err(skip_reason) => Ok(OperationOutcome::Skipped(skip_reason)),
        }
    }

    /// Deletes an object that still exists, and removes its finalizers.
    async fn complete_deletion(
        &self,
        operation: &ApiOperation,
        is_deleting: bool,
    ) -> Result<OperationOutcome> {
        let Some(uid) = self.uid_of(operation) else {
            let was_known = lock(&self.uids).remove(&operation.uid);
            return Ok(if was_known {
                OperationOutcome::Finished
            } else {
                OperationOutcome::Skipped(SkipReason::NeverCreated)
            });
        };
        let outcome = match self.delete_unless_foreign(operation, &uid, Some(0)).await? {
            Ok(response) => {
                self.target.remove_finalizers(&operation.object_ref, &uid, &response).await?;
                OperationOutcome::Applied(AppliedEffect::Deleted)
            }
            Err(skip_reason) => OperationOutcome::Skipped(skip_reason),
        };
        lock(&self.uids).remove(&operation.uid);
        Ok(if is_deleting { OperationOutcome::Finished } else { outcome })
    }

    /// Deletes an object; returns the server's response, or why it was skipped.
    async fn delete_unless_foreign(
        &self,
        operation: &ApiOperation,
        uid: &str,
        grace_period_seconds: Option<i64>,
    ) -> Result<std::result::Result<Value, SkipReason>> {
        if let Some(deleted) = &mut *lock(&self.deleted) {
            deleted.insert(uid.into());
        }
        if first_foreign_dependent(&self.target, &operation.object_ref, Some(&self.target.run))
            .await?
            .is_some()
        {
            return Ok(Err(SkipReason::ContainsForeignObjects));
        }
        match self.target.delete(&operation.object_ref, uid, grace_period_seconds).await {
            Ok(response) => Ok(Ok(response)),
            Err(failure) if failure.status == Some(404) => Ok(Err(SkipReason::AlreadyGone)),
            Err(failure) if failure.status == Some(409) => Ok(Err(SkipReason::NotCreatedByRun)),
            Err(failure) => Err(failure),
        }
    }
}

/// Whether two objects have an owner in common.
fn have_common_owner(one: &Value, other: &Value) -> bool {
    let owners = |object: &Value| -> Vec<Value> {
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        owners.into_iter().flatten().map(|owner| owner["uid"].clone()).collect()
    };
    let first_uids = owners(one);
    owners(other).iter().any(|owner| first_uids.contains(owner))
}

/// How long such a failure is retried.
fn retry_timeout(failure: &RequestFailure) -> Duration {
    // The object exists, but the informers of the admission plugins may not have it yet.
    let is_dependency_pending = |message: &str| {
        ["service account", "serviceaccount", "no PriorityClass with name"]
            .iter()
            .any(|phrase| message.contains(phrase))
    };
    match failure.status {
        Some(403) if is_dependency_pending(&failure.message) => ADMISSION_RETRY_TIMEOUT,
        _ if failure.is_transient() => RETRY_TIMEOUT,
        _ => Duration::ZERO,
    }
}

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

/// The reason why an object could not be created.
enum CreateConflict {
    /// It was created before, and the response was lost.
    AlreadyCreated(Value),
    /// A foreign object has the same name.
    NameTaken(Value),
    /// The obstacle is gone.
    Cleared,
    /// A permanent one.
    Permanent,
}

impl Applier {
    /// Executes one operation, and retries transient failures.
    pub(super) async fn execute(&self, deed: &ApiOperation) -> OperationOutcome {
        let began = Instant::now();
        let mut failures = 0;
        loop {
            let failure = match self.attempt(deed).await {
                Ok(outcome) => return outcome,
                Err(failure) => failure,
            };
            let patience = retry_timeout(&failure);
            let wait = failure.backoff(failures, lock(&self.rng).random()).min(patience / 4);
            failures += 1;
            if began.elapsed() + wait >= patience {
                return OperationOutcome::Rejected(failure);
            }
            sleep(wait).await;
        }
    }

    async fn attempt(&self, deed: &ApiOperation) -> Result<OperationOutcome> {
        let address = &deed.address;
        if !self.target.has_kind(&address.kind) && !self.wait_until_served(&address.kind).await? {
            return Ok(OperationOutcome::Skipped(SkipReason::KindNotServed));
        }
        if !matches!(deed.verb, Verb::Create { .. }) && lock(&self.foreign).contains(address) {
            return Ok(OperationOutcome::Skipped(SkipReason::NotCreatedByRun));
        }
        match &deed.verb {
            Verb::Create { object } => self.create(deed, object).await,
            Verb::Patch { patch, .. } => self.update(deed, patch).await,
            Verb::Bind { node } => self.bind(deed, node).await,
            Verb::Delete { grace_period_seconds: grace } => self.delete(deed, *grace).await,
            Verb::Remove { is_deleting: begun } => self.remove(deed, *begun).await,
        }
    }

    /// Whether the server has a kind; waits for one that was defined by this run.
    async fn wait_until_served(&self, kind: &Kind) -> Result<bool> {
        let began = Instant::now();
        while !self.target.refresh_kind(kind).await? {
            if !lock(&self.defined_kinds).contains(kind) || began.elapsed() > DISCOVERY_TIMEOUT {
                return Ok(false);
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(true)
    }

    async fn create(&self, deed: &ApiOperation, object: &Value) -> Result<OperationOutcome> {
        let mut body = object.clone();
        lock(&self.uids).translate_references(&mut body);
        self.detach_foreign_storage(deed, &mut body).await?;
        self.target.add_run_metadata(&mut body, Some(&deed.uid));
        let made = match self.target.create(&deed.address, &body).await {
            Ok(made) => made,
            Err(failure) => match self.classify_conflict(deed, &failure).await? {
                CreateConflict::Permanent => return Err(failure),
                CreateConflict::AlreadyCreated(found) => found,
                CreateConflict::Cleared => {
                    // If there is another obstacle, the next attempt determines it.
                    let again = self.target.create(&deed.address, &body).await;
                    again.map_err(|failure| match failure.status {
                        Some(404 | 409) => RequestFailure { status: None, ..failure },
                        _ => failure,
                    })?
                }
                CreateConflict::NameTaken(found) => {
                    // Objects that the target's controllers created for this run may be referenced, foreign ones may
                    // not.
                    if self.target.is_of_run(&found) || have_common_owner(&body, &found) {
                        self.learn_uid(deed, &found);
                    }
                    lock(&self.foreign).insert(deed.address.clone());
                    return Ok(OperationOutcome::Skipped(SkipReason::AlreadyExisted));
                }
            },
        };
        self.learn_uid(deed, &made);
        lock(&self.foreign).remove(&deed.address);
        self.correct_created(deed, &body, &made).await?;
        self.write_status(deed, &body, &made).await?;
        Ok(OperationOutcome::Applied(AppliedEffect::Created))
    }

    /// Determines why an object could not be created.
    async fn classify_conflict(
        &self,
        deed: &ApiOperation,
        failure: &RequestFailure,
    ) -> Result<CreateConflict> {
        match failure.status {
            Some(409) => {}
            Some(404) if !deed.address.namespace.is_empty() && failure.message.contains("namespaces") => {
                self.target.create_namespace(&deed.address.namespace).await?;
                return Ok(CreateConflict::Cleared);
            }
            _ => return Ok(CreateConflict::Permanent),
        }
        let began = Instant::now();
        loop {
            let Some(found) = self.target.get(&deed.address).await? else {
                return Ok(CreateConflict::Cleared);
            };
            let is_ours = self.target.is_created_for(&found, &deed.uid);
            let is_going = found.pointer("/metadata/deletionTimestamp").is_some();
            // In a resumed run its deletion may have begun too; otherwise it is left over from an earlier run.
            if is_ours && (!is_going || self.is_resuming.initialized()) {
                return Ok(CreateConflict::AlreadyCreated(found));
            }
            if !is_going {
                return Ok(CreateConflict::NameTaken(found));
            }
            if began.elapsed() > DELETION_TIMEOUT {
                return Ok(CreateConflict::Permanent);
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Corrects an object that differs from what was sent: a namespace that was created before it was recorded, and a
    /// node that the server has tainted because it is new.
    async fn correct_created(&self, deed: &ApiOperation, wanted: &Value, made: &Value) -> Result<()> {
        let Some(uid) = self.uid_of(deed) else { return Ok(()) };
        let mut patch = json!({});
        match &*deed.address.kind.kind {
            "Namespace" if made["metadata"]["annotations"].get(UID_ANNOTATION).is_none() => {
                for field in ["labels", "annotations"] {
                    patch["metadata"][field] = wanted["metadata"][field].clone();
                }
            }
            "Node" if made["spec"].get("taints") != wanted["spec"].get("taints") => {
                patch["spec"]["taints"] = wanted["spec"]["taints"].clone();
            }
            _ => return Ok(()),
        }
        patch["metadata"]["uid"] = Value::from(&*uid);
        self.patch(deed, "", &patch, &uid).await.map(drop)
    }

    fn learn_uid(&self, deed: &ApiOperation, found: &Value) {
        if let Some(new) = found.pointer("/metadata/uid").and_then(Value::as_str) {
            lock(&self.uids).insert(&deed.uid, new);
        }
    }

    /// Most kinds ignore the status in a create request: it is written afterwards.
    async fn write_status(&self, deed: &ApiOperation, wanted: &Value, made: &Value) -> Result<()> {
        let wanted = wanted.get("status").and_then(Value::as_object).filter(|status| !status.is_empty());
        let Some(wanted) = wanted.filter(|_| self.target.has_status(&deed.address.kind)) else {
            return Ok(());
        };
        let has = |(key, value): (&String, &Value)| made["status"].get(key) == Some(value);
        let Some(uid) = self.uid_of(deed).filter(|_| !wanted.iter().all(has)) else { return Ok(()) };
        let patch = json!({"metadata": {"uid": &*uid}, "status": wanted});
        // An object that was deleted meanwhile was still created.
        self.patch(deed, "status", &patch, &uid).await.map(drop)
    }

    async fn update(&self, deed: &ApiOperation, patch: &Value) -> Result<OperationOutcome> {
        let Some(uid) = self.uid_of(deed) else {
            return Ok(OperationOutcome::Skipped(self.missing_reason(deed)));
        };
        let mut patch = patch.clone();
        lock(&self.uids).translate_references(&mut patch);
        self.detach_foreign_storage(deed, &mut patch).await?;
        let status = if self.target.has_status(&deed.address.kind) {
            patch.as_object_mut().and_then(|patch| patch.remove("status"))
        } else {
            None
        };
        if patch.as_object().is_some_and(|patch| !patch.is_empty()) {
            // The uid ensures that a later object of the same name is not changed.
            patch["metadata"]["uid"] = Value::from(&*uid);
            if let Some(left) = self.patch(deed, "", &patch, &uid).await? {
                return Ok(OperationOutcome::Skipped(left));
            }
        }
        if let Some(status) = status {
            let patch = json!({"metadata": {"uid": &*uid}, "status": status});
            if let Some(left) = self.patch(deed, "status", &patch, &uid).await? {
                return Ok(OperationOutcome::Skipped(left));
            }
        }
        Ok(OperationOutcome::Applied(AppliedEffect::Changed))
    }

    /// Sends a patch; returns the reason if it was skipped.
    async fn patch(
        &self,
        deed: &ApiOperation,
        part: &str,
        patch: &Value,
        uid: &str,
    ) -> Result<Option<SkipReason>> {
        let version = match &deed.verb {
            Verb::Patch { api_version, .. } => Some(&**api_version),
            _ => None,
        };
        let failure = match self.target.patch_in(&deed.address, version, part, patch).await {
            Ok(_) => return Ok(None),
            Err(failure) => failure,
        };
        match failure.status {
            Some(404) => Ok(Some(SkipReason::AlreadyGone)),
            // Some servers answer a different uid with 409, others with 422.
            Some(409 | 422) => match self.target.get(&deed.address).await? {
                None => Ok(Some(SkipReason::AlreadyGone)),
                Some(found) if found["metadata"]["uid"] != *uid => Ok(Some(SkipReason::NotCreatedByRun)),
                // A concurrent write: the next attempt may succeed.
                Some(_) if failure.status == Some(409) => Err(RequestFailure { status: None, ..failure }),
                Some(_) => Err(failure),
            },
            _ => Err(failure),
        }
    }

    /// The target uid of the operation's object, if it was created.
    fn uid_of(&self, deed: &ApiOperation) -> Option<Arc<str>> {
        lock(&self.uids).get(&deed.uid)
    }

    fn missing_reason(&self, deed: &ApiOperation) -> SkipReason {
        if lock(&self.uids).is_marked_deleted(&deed.uid) {
            SkipReason::AlreadyGone
        } else {
            SkipReason::NeverCreated
        }
    }

    async fn bind(&self, deed: &ApiOperation, node: &str) -> Result<OperationOutcome> {
        let Some(uid) = self.uid_of(deed) else {
            return Ok(OperationOutcome::Skipped(self.missing_reason(deed)));
        };
        match self.target.bind(&deed.address, &uid, node).await {
            Ok(()) => Ok(OperationOutcome::Applied(AppliedEffect::Bound)),
            Err(failure) if failure.status == Some(404) => {
                Ok(OperationOutcome::Skipped(SkipReason::AlreadyGone))
            }
            // A request without a response may have been executed.
            Err(failure) if failure.status == Some(409) => match self.target.get(&deed.address).await? {
                None => Ok(OperationOutcome::Skipped(SkipReason::AlreadyGone)),
                Some(pod) if pod["metadata"]["uid"] != *uid => {
                    Ok(OperationOutcome::Skipped(SkipReason::NotCreatedByRun))
                }
                Some(pod) => match pod["spec"]["nodeName"].as_str() {
                    Some(found) if found == node => Ok(OperationOutcome::Applied(AppliedEffect::Bound)),
                    Some(_) => Ok(OperationOutcome::Skipped(SkipReason::BoundElsewhere)),
                    None => Err(failure),
                },
            },
            Err(failure) => Err(failure),
        }
    }

    async fn delete(&self, deed: &ApiOperation, grace: Option<i64>) -> Result<OperationOutcome> {
        let Some(uid) = self.uid_of(deed) else {
            return Ok(OperationOutcome::Skipped(self.missing_reason(deed)));
        };
        match self.delete_unless_foreign(deed, &uid, grace).await? {
            Ok(answer) => {
                if is_gone(&answer) {
                    lock(&self.uids).mark_deleted(&deed.uid);
                }
                Ok(OperationOutcome::Applied(AppliedEffect::Deleted))
            }
            Err(left) => Ok(OperationOutcome::Skipped(left)),
        }
    }

    /// Deletes an object that still exists, and removes its finalizers.
    async fn remove(&self, deed: &ApiOperation, begun: bool) -> Result<OperationOutcome> {
        let Some(uid) = self.uid_of(deed) else {
            let was_there = lock(&self.uids).remove(&deed.uid);
            return Ok(if was_there {
                OperationOutcome::Finished
            } else {
                OperationOutcome::Skipped(SkipReason::NeverCreated)
            });
        };
        let outcome = match self.delete_unless_foreign(deed, &uid, Some(0)).await? {
            Ok(answer) => {
                self.target.remove_finalizers(&deed.address, &uid, &answer).await?;
                OperationOutcome::Applied(AppliedEffect::Deleted)
            }
            Err(left) => OperationOutcome::Skipped(left),
        };
        lock(&self.uids).remove(&deed.uid);
        Ok(if begun { OperationOutcome::Finished } else { outcome })
    }

    /// Deletes an object; returns the server's response, or why it was skipped.
    async fn delete_unless_foreign(
        &self,
        deed: &ApiOperation,
        uid: &str,
        grace: Option<i64>,
    ) -> Result<std::result::Result<Value, SkipReason>> {
        if let Some(deleted) = &mut *lock(&self.deleted) {
            deleted.insert(uid.into());
        }
        if first_foreign_dependent(&self.target, &deed.address, Some(&self.target.run)).await?.is_some() {
            return Ok(Err(SkipReason::ContainsForeignObjects));
        }
        match self.target.delete(&deed.address, uid, grace).await {
            Ok(answer) => Ok(Ok(answer)),
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
    let ours = owners(one);
    owners(other).iter().any(|owner| ours.contains(owner))
}

/// How long such a failure is retried.
fn retry_timeout(failure: &RequestFailure) -> Duration {
    // The object exists, but the informers of the admission plugins may not have it yet.
    let is_coming = |words: &str| {
        ["service account", "serviceaccount", "no PriorityClass with name"]
            .iter()
            .any(|it| words.contains(it))
    };
    match failure.status {
        Some(403) if is_coming(&failure.message) => ADMISSION_RETRY_TIMEOUT,
        _ if failure.is_transient() => RETRY_TIMEOUT,
        _ => Duration::ZERO,
    }
}

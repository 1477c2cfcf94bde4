//! One deed done to the server: what each of its answers means.

use std::sync::Arc;
use std::time::Duration;

use model::Kind;
use rand::RngExt;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::foreign::first_held;
use super::tally::{Done, Left, Outcome};
use super::target::{UID, is_gone};
use super::{Applier, lock};
use crate::transplant::{Deed, Doing};
use crate::watching::Failure;

type Result<T> = std::result::Result<T, Failure>;

/// So long a deed is tried again that fails for a reason that may pass.
const PATIENCE: Duration = Duration::from_secs(300);
/// The same of what the server does not know of yet, though it is there.
const UNTIL_KNOWN: Duration = Duration::from_secs(10);
/// So long it is waited for an object to be gone that is in the way.
const UNTIL_GONE: Duration = Duration::from_secs(60);
/// So long it is waited for a kind that was defined.
const UNTIL_SERVED: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// What stands in the way of an object that could not be created.
enum Hindrance {
    /// Nothing: it had been made, and the answer was lost.
    MadeBefore(Value),
    /// An object of that name that is none of ours.
    AnotherWasThere(Value),
    /// It is out of the way now.
    Passing,
    /// Something that stays.
    Final,
}

impl Applier {
    /// Does one deed, again and again while it may still go well.
    pub(super) async fn perform(&self, deed: &Deed) -> Outcome {
        let began = Instant::now();
        let mut failures = 0;
        loop {
            let failure = match self.attempt(deed).await {
                Ok(outcome) => return outcome,
                Err(failure) => failure,
            };
            let patience = patience(&failure);
            let wait = failure.wait(failures, lock(&self.chance).random()).min(patience / 4);
            failures += 1;
            if began.elapsed() + wait >= patience {
                return Outcome::Refused(failure);
            }
            sleep(wait).await;
        }
    }

    async fn attempt(&self, deed: &Deed) -> Result<Outcome> {
        let address = &deed.address;
        if !self.target.has(&address.kind) && !self.comes_to_have(&address.kind).await? {
            return Ok(Outcome::Left(Left::NoSuchKind));
        }
        if !matches!(deed.doing, Doing::Create { .. }) && lock(&self.others).contains(address) {
            return Ok(Outcome::Left(Left::NotOurs));
        }
        match &deed.doing {
            Doing::Create { object } => self.create(deed, object).await,
            Doing::Change { patch, .. } => self.change(deed, patch).await,
            Doing::Bind { node } => self.bind(deed, node).await,
            Doing::Delete { grace } => self.delete(deed, *grace).await,
            Doing::Remove { begun } => self.remove(deed, *begun).await,
        }
    }

    /// Whether the server has a kind by now. One that was defined a moment ago it gets.
    async fn comes_to_have(&self, kind: &Kind) -> Result<bool> {
        let began = Instant::now();
        while !self.target.look_again(kind).await? {
            if !lock(&self.defined).contains(kind) || began.elapsed() > UNTIL_SERVED {
                return Ok(false);
            }
            sleep(BETWEEN_LOOKS).await;
        }
        Ok(true)
    }

    async fn create(&self, deed: &Deed, object: &Value) -> Result<Outcome> {
        let mut body = object.clone();
        lock(&self.identities).translate(&mut body);
        self.spare_others(deed, &mut body).await?;
        self.target.mark(&mut body, Some(&deed.uid));
        let made = match self.target.create(&deed.address, &body).await {
            Ok(made) => made,
            Err(failure) => match self.why_not_created(deed, &failure).await? {
                Hindrance::Final => return Err(failure),
                Hindrance::MadeBefore(found) => found,
                Hindrance::Passing => {
                    // If something is in the way once more, the next attempt finds out what it is.
                    let again = self.target.create(&deed.address, &body).await;
                    again.map_err(|failure| match failure.status {
                        Some(404 | 409) => Failure { status: None, ..failure },
                        _ => failure,
                    })?
                }
                Hindrance::AnotherWasThere(found) => {
                    // What the target's controllers made for this run may be referred to, what is of others may not.
                    if self.target.is_of_run(&found) || have_common_owner(&body, &found) {
                        self.learn(deed, &found);
                    }
                    lock(&self.others).insert(deed.address.clone());
                    return Ok(Outcome::Left(Left::WasThere));
                }
            },
        };
        self.learn(deed, &made);
        lock(&self.others).remove(&deed.address);
        self.mend(deed, &body, &made).await?;
        self.write_status(deed, &body, &made).await?;
        Ok(Outcome::Done(Done::Created))
    }

    /// What stands in the way of an object that could not be created.
    async fn why_not_created(&self, deed: &Deed, failure: &Failure) -> Result<Hindrance> {
        match failure.status {
            Some(409) => {}
            Some(404) if !deed.address.namespace.is_empty() && failure.words.contains("namespaces") => {
                self.target.make_namespace(&deed.address.namespace).await?;
                return Ok(Hindrance::Passing);
            }
            _ => return Ok(Hindrance::Final),
        }
        let began = Instant::now();
        loop {
            let Some(found) = self.target.get(&deed.address).await? else { return Ok(Hindrance::Passing) };
            let is_ours = self.target.is_ours(&found, &deed.uid);
            let is_going = found.pointer("/metadata/deletionTimestamp").is_some();
            // Of a run that goes on also its deletion may have begun; else it is what an earlier run has left.
            if is_ours && (!is_going || self.resumes.initialized()) {
                return Ok(Hindrance::MadeBefore(found));
            }
            if !is_going {
                return Ok(Hindrance::AnotherWasThere(found));
            }
            if began.elapsed() > UNTIL_GONE {
                return Ok(Hindrance::Final);
            }
            sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Puts right what is not as it was sent: a namespace that was made before it was recorded, and a node that the server
    /// has tainted because it is new.
    async fn mend(&self, deed: &Deed, wanted: &Value, made: &Value) -> Result<()> {
        let Some(uid) = self.uid_of(deed) else { return Ok(()) };
        let mut patch = json!({});
        match &*deed.address.kind.kind {
            "Namespace" if made["metadata"]["annotations"].get(UID).is_none() => {
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

    fn learn(&self, deed: &Deed, found: &Value) {
        if let Some(new) = found.pointer("/metadata/uid").and_then(Value::as_str) {
            lock(&self.identities).learn(&deed.uid, new);
        }
    }

    /// Servers take no status with a new object of most kinds: it is written behind it.
    async fn write_status(&self, deed: &Deed, wanted: &Value, made: &Value) -> Result<()> {
        let wanted = wanted.get("status").and_then(Value::as_object).filter(|status| !status.is_empty());
        let Some(wanted) = wanted.filter(|_| self.target.has_status(&deed.address.kind)) else {
            return Ok(());
        };
        let has = |(key, value): (&String, &Value)| made["status"].get(key) == Some(value);
        let Some(uid) = self.uid_of(deed).filter(|_| !wanted.iter().all(has)) else { return Ok(()) };
        let patch = json!({"metadata": {"uid": &*uid}, "status": wanted});
        // One that is gone by now was created all the same.
        self.patch(deed, "status", &patch, &uid).await.map(drop)
    }

    async fn change(&self, deed: &Deed, patch: &Value) -> Result<Outcome> {
        let Some(uid) = self.uid_of(deed) else { return Ok(Outcome::Left(self.why_not_there(deed))) };
        let mut patch = patch.clone();
        lock(&self.identities).translate(&mut patch);
        self.spare_others(deed, &mut patch).await?;
        let status = if self.target.has_status(&deed.address.kind) {
            patch.as_object_mut().and_then(|patch| patch.remove("status"))
        } else {
            None
        };
        if patch.as_object().is_some_and(|patch| !patch.is_empty()) {
            // Another life of the name is not changed.
            patch["metadata"]["uid"] = Value::from(&*uid);
            if let Some(left) = self.patch(deed, "", &patch, &uid).await? {
                return Ok(Outcome::Left(left));
            }
        }
        if let Some(status) = status {
            let patch = json!({"metadata": {"uid": &*uid}, "status": status});
            if let Some(left) = self.patch(deed, "status", &patch, &uid).await? {
                return Ok(Outcome::Left(left));
            }
        }
        Ok(Outcome::Done(Done::Changed))
    }

    /// Why there was nothing to change, if there was not.
    async fn patch(&self, deed: &Deed, part: &str, patch: &Value, uid: &str) -> Result<Option<Left>> {
        let version = match &deed.doing {
            Doing::Change { api_version, .. } => Some(&**api_version),
            _ => None,
        };
        let failure = match self.target.patch_in(&deed.address, version, part, patch).await {
            Ok(_) => return Ok(None),
            Err(failure) => failure,
        };
        match failure.status {
            Some(404) => Ok(Some(Left::Gone)),
            // Another uid is a conflict to some servers, and an invalid change to others.
            Some(409 | 422) => match self.target.get(&deed.address).await? {
                None => Ok(Some(Left::Gone)),
                Some(found) if found["metadata"]["uid"] != *uid => Ok(Some(Left::NotOurs)),
                // Others write it at the same time: the next attempt may find it quiet.
                Some(_) if failure.status == Some(409) => Err(Failure { status: None, ..failure }),
                Some(_) => Err(failure),
            },
            _ => Err(failure),
        }
    }

    /// The uid in the target of what a deed is done to, if that was ever made.
    fn uid_of(&self, deed: &Deed) -> Option<Arc<str>> {
        lock(&self.identities).of(&deed.uid)
    }

    fn why_not_there(&self, deed: &Deed) -> Left {
        if lock(&self.identities).has_lost(&deed.uid) { Left::Gone } else { Left::NeverThere }
    }

    async fn bind(&self, deed: &Deed, node: &str) -> Result<Outcome> {
        let Some(uid) = self.uid_of(deed) else { return Ok(Outcome::Left(self.why_not_there(deed))) };
        match self.target.bind(&deed.address, &uid, node).await {
            Ok(()) => Ok(Outcome::Done(Done::Bound)),
            Err(failure) if failure.status == Some(404) => Ok(Outcome::Left(Left::Gone)),
            // A request that was not answered may have been carried out.
            Err(failure) if failure.status == Some(409) => match self.target.get(&deed.address).await? {
                None => Ok(Outcome::Left(Left::Gone)),
                Some(pod) if pod["metadata"]["uid"] != *uid => Ok(Outcome::Left(Left::NotOurs)),
                Some(pod) => match pod["spec"]["nodeName"].as_str() {
                    Some(found) if found == node => Ok(Outcome::Done(Done::Bound)),
                    Some(_) => Ok(Outcome::Left(Left::BoundElsewhere)),
                    None => Err(failure),
                },
            },
            Err(failure) => Err(failure),
        }
    }

    async fn delete(&self, deed: &Deed, grace: Option<i64>) -> Result<Outcome> {
        let Some(uid) = self.uid_of(deed) else { return Ok(Outcome::Left(self.why_not_there(deed))) };
        match self.take_away(deed, &uid, grace).await? {
            Ok(answer) => {
                if is_gone(&answer) {
                    lock(&self.identities).lose(&deed.uid);
                }
                Ok(Outcome::Done(Done::Deleted))
            }
            Err(left) => Ok(Outcome::Left(left)),
        }
    }

    /// Deletes what is still there, and takes away what would hold it.
    async fn remove(&self, deed: &Deed, begun: bool) -> Result<Outcome> {
        let Some(uid) = self.uid_of(deed) else {
            let was_there = lock(&self.identities).forget(&deed.uid);
            return Ok(if was_there { Outcome::Finished } else { Outcome::Left(Left::NeverThere) });
        };
        let outcome = match self.take_away(deed, &uid, Some(0)).await? {
            Ok(answer) => {
                self.target.release(&deed.address, &uid, &answer).await?;
                Outcome::Done(Done::Deleted)
            }
            Err(left) => Outcome::Left(left),
        };
        lock(&self.identities).forget(&deed.uid);
        Ok(if begun { Outcome::Finished } else { outcome })
    }

    /// The server's answer to a deletion, or why there was nothing to delete.
    async fn take_away(
        &self,
        deed: &Deed,
        uid: &str,
        grace: Option<i64>,
    ) -> Result<std::result::Result<Value, Left>> {
        if let Some(deleted) = &mut *lock(&self.deleted) {
            deleted.insert(uid.into());
        }
        if first_held(&self.target, &deed.address, Some(&self.target.run)).await?.is_some() {
            return Ok(Err(Left::HoldsOthers));
        }
        match self.target.delete(&deed.address, uid, grace).await {
            Ok(answer) => Ok(Ok(answer)),
            Err(failure) if failure.status == Some(404) => Ok(Err(Left::Gone)),
            Err(failure) if failure.status == Some(409) => Ok(Err(Left::NotOurs)),
            Err(failure) => Err(failure),
        }
    }
}

/// Whether two objects belong to one owner.
fn have_common_owner(one: &Value, other: &Value) -> bool {
    let owners = |object: &Value| -> Vec<Value> {
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        owners.into_iter().flatten().map(|owner| owner["uid"].clone()).collect()
    };
    let ours = owners(one);
    owners(other).iter().any(|owner| ours.contains(owner))
}

/// How long something is tried again that failed so.
fn patience(failure: &Failure) -> Duration {
    // What a pod needs is there for whoever asks, but not at once for those who decide about pods.
    let is_coming = |words: &str| {
        ["service account", "serviceaccount", "no PriorityClass with name"]
            .iter()
            .any(|it| words.contains(it))
    };
    match failure.status {
        Some(403) if is_coming(&failure.words) => UNTIL_KNOWN,
        _ if failure.is_passing() => PATIENCE,
        _ => Duration::ZERO,
    }
}

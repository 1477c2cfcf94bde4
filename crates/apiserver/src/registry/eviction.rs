//! The subresource `eviction` of pods: a deletion that PodDisruptionBudgets may refuse.

use kubernetes::conditions::set_pod_condition;
use kubernetes::eviction::{BudgetVerdict, check_budget};
use kubernetes::time::whole_second;
use model::{Kind, NamespacedName};
use serde_json::{Value, json};

use super::delete::{DeleteOptions, Deletion, Preconditions};
use super::metadata::{is_terminating, metadata_text};
use super::update::{UpdatedPart, parsed};
use super::{Registry, WriteOptions};
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::StoreError;

/// When a client should try an eviction again.
const RETRY_AFTER_SECONDS: u32 = 10;

impl Registry {
    /// Evicts a pod: deletes it if its budgets allow it.
    pub fn evict(
        &self,
        pods: &Resource,
        name: &NamespacedName,
        options: DeleteOptions,
        write: WriteOptions<'_>,
    ) -> Result<Deletion, ApiError> {
        let write = WriteOptions { dry_run: write.dry_run || !options.dry_run.is_empty(), ..write };
        let pod = parsed(&self.current(pods, name)?)?;
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        // Pods that do not run, or have ended, disrupt nothing.
        if !matches!(phase, "Succeeded" | "Failed" | "Pending") && !is_terminating(&pod) {
            self.spend_budget(name, &pod, write)?;
        }
        let uid = metadata_text(&pod, "uid").to_owned();
        let now = whole_second(self.now()).to_string();
        self.update(pods, name, UpdatedPart::Status, write, |pod| {
            let mut evicted = pod.clone();
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            set_pod_condition(&mut evicted, condition, &now);
            Ok(evicted)
        })?;
        let preconditions = options.preconditions.clone().unwrap_or_default();
        let preconditions = Preconditions { uid: preconditions.uid.or(Some(uid)), ..preconditions };
        self.delete(pods, name, &DeleteOptions { preconditions: Some(preconditions), ..options }, write)
    }

    /// Takes one disruption from the pod's budget.
    fn spend_budget(
        &self,
        name: &NamespacedName,
        pod: &Value,
        write: WriteOptions<'_>,
    ) -> Result<(), ApiError> {
        let kind = Kind::new("policy", "PodDisruptionBudget");
        let table = self.table();
        let resource = table.of_kind(&kind).ok_or_else(ApiError::unknown_path)?;
        let list = self.store.list(resource)?;
        let budgets =
            list.objects.range(Some(&name.namespace), None).filter_map(|budget| budget.value().ok());
        let matching: Vec<Value> =
            budgets.filter(|budget| kubernetes::eviction::is_covered(budget, pod)).collect();
        let budget = match &matching[..] {
            [] => return Ok(()),
            [budget] => budget,
            _ => {
                let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(StoreError::Failed(message.to_owned()).into());
            }
        };
        let budget_name = metadata_text(budget, "name").to_owned();
        let key = NamespacedName::new(name.namespace.clone(), &*budget_name);
        let now = whole_second(self.now()).to_string();
        self.update(resource, &key, UpdatedPart::Status, write, |budget| match check_budget(budget, pod) {
            BudgetVerdict::Unlimited => Ok(budget.clone()),
            BudgetVerdict::Allowed => {
                let mut spent = budget.clone();
                let left = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0) - 1;
                spent["status"]["disruptionsAllowed"] = left.into();
                if !spent["status"]["disruptedPods"].is_object() {
                    spent["status"]["disruptedPods"] = json!({});
                }
                spent["status"]["disruptedPods"][&*name.name] = now.as_str().into();
                Ok(spent)
            }
            BudgetVerdict::Refused { cause } => {
                let message = "Cannot evict pod as it would violate the pod's disruption budget.";
                // A client that is told when to try again does so by itself: only a budget that was not computed
                // yet may soon allow more.
                let seconds = if is_computed(budget) { 0 } else { RETRY_AFTER_SECONDS };
                let error = ApiError::too_many_requests(message, seconds);
                Err(error
                    .with_cause("DisruptionBudget", &format!("The disruption budget {budget_name} {cause}")))
            }
        })?;
        Ok(())
    }
}

/// Whether the status of a budget is that of its spec.
fn is_computed(budget: &Value) -> bool {
    let generation = |part: &str, field: &str| budget[part][field].as_i64().unwrap_or(0);
    generation("status", "observedGeneration") >= generation("metadata", "generation")
}

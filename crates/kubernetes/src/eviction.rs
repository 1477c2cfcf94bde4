//! The rule of the eviction API: whether a PodDisruptionBudget allows the eviction of a pod.

use serde::Deserialize;
use serde_json::Value;

use crate::selector::{LabelSelector, Selector};

/// Whether a budget allows an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetVerdict {
    /// The pod is not healthy, and its eviction does not count.
    Unlimited,
    /// The eviction is allowed, and uses up one disruption.
    Allowed,
    /// It is not. The cause continues the sentence "The disruption budget NAME ...".
    Refused {
        /// `needs 2 healthy pods and has 2 currently`
        cause: String,
    },
}

/// Whether a budget covers a pod of its namespace.
pub fn is_covered(budget: &Value, pod: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    // A budget without a selector covers no pods.
    if selector.is_null() {
        return false;
    }
    let Ok(selector) = LabelSelector::deserialize(selector) else { return false };
    let labels = &pod["metadata"]["labels"];
    Selector::of(Some(&selector)).is_ok_and(|selector| selector.matches(|key| labels[key].as_str()))
}

/// Whether a budget that covers a pod allows its eviction.
pub fn check_budget(budget: &Value, pod: &Value) -> BudgetVerdict {
    let status = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    let (healthy, desired) = (status("currentHealthy"), status("desiredHealthy"));
    if !is_ready(pod) {
        let is_always_allowed = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        if is_always_allowed || (healthy >= desired && desired > 0) {
            return BudgetVerdict::Unlimited;
        }
    }
    if status("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        return BudgetVerdict::Refused { cause: "is still being processed by the server.".to_owned() };
    }
    if status("disruptionsAllowed") <= 0 {
        let cause = format!("needs {desired} healthy pods and has {healthy} currently");
        return BudgetVerdict::Refused { cause };
    }
    BudgetVerdict::Allowed
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn budget(allowed: i64, healthy: i64, desired: i64) -> Value {
        json!({
            "metadata": {"generation": 1}, "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {
                "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy,
                "desiredHealthy": desired,
            },
        })
    }

    fn pod(ready: &str) -> Value {
        json!({
            "metadata": {"labels": {"app": "web"}},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    #[test]
    fn a_budget_is_spent_by_healthy_pods_only() {
        assert_eq!(check_budget(&budget(1, 3, 2), &pod("True")), BudgetVerdict::Allowed);
        let cause = "needs 2 healthy pods and has 2 currently".to_owned();
        assert_eq!(check_budget(&budget(0, 2, 2), &pod("True")), BudgetVerdict::Refused { cause });
        assert_eq!(check_budget(&budget(0, 2, 2), &pod("False")), BudgetVerdict::Unlimited);
        let cause = "needs 2 healthy pods and has 1 currently".to_owned();
        assert_eq!(check_budget(&budget(0, 1, 2), &pod("False")), BudgetVerdict::Refused { cause });
    }

    #[test]
    fn a_budget_that_was_not_computed_yet_allows_nothing() {
        let mut new = budget(1, 3, 2);
        new["status"] = json!({});
        let verdict = check_budget(&new, &pod("True"));
        assert!(
            matches!(verdict, BudgetVerdict::Refused { cause } if cause.contains("still being processed"))
        );
    }

    #[test]
    fn a_budget_covers_the_pods_that_it_selects() {
        assert!(is_covered(&budget(0, 0, 0), &pod("True")));
        assert!(!is_covered(&budget(0, 0, 0), &json!({"metadata": {}})));
        assert!(!is_covered(&json!({"spec": {}}), &pod("True")));
        assert!(is_covered(&json!({"spec": {"selector": {}}}), &pod("True")));
    }
}

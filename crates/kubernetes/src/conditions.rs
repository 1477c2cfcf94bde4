//! Conditions of a status, edited as Kubernetes' components do.

use serde_json::{Value, json};

/// Sets a condition of a pod. The transition time changes with the condition's status only.
///
/// Returns whether anything changed: status, reason or message.
pub fn set_pod_condition(pod: &mut Value, mut condition: Value, now: &str) -> bool {
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = pod["status"]["conditions"].as_array_mut() else { return false };
    let old = conditions.iter_mut().find(|old| old["type"] == condition["type"]);
    let is_same = |field: &str| old.as_ref().is_some_and(|old| old[field] == condition[field]);
    if ["status", "reason", "message"].into_iter().all(is_same) {
        return false;
    }
    condition["lastTransitionTime"] = match &old {
        Some(old) if is_same("status") => old["lastTransitionTime"].clone(),
        _ => now.into(),
    };
    condition["lastProbeTime"] = Value::Null;
    match old {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transition_is_a_change_of_the_status() {
        let mut pod = json!({});
        let condition =
            |value: &str, message: &str| json!({"type": "Ready", "status": value, "message": message});
        assert!(set_pod_condition(&mut pod, condition("False", "a"), "t1"));
        assert!(!set_pod_condition(&mut pod, condition("False", "a"), "t2"));
        assert!(set_pod_condition(&mut pod, condition("False", "b"), "t3"));
        assert_eq!(pod["status"]["conditions"][0]["lastTransitionTime"], "t1");
        assert!(set_pod_condition(&mut pod, condition("True", "b"), "t4"));
        assert_eq!(pod["status"]["conditions"][0]["lastTransitionTime"], "t4");
        assert_eq!(pod["status"]["conditions"].as_array().unwrap().len(), 1);
    }
}

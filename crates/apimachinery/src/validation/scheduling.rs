//! Checks of the fields by which pods choose nodes: affinity, tolerations, spread constraints, scheduling
//! gates.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath};
use super::json_fields::{entries, get, integer, list, optional_integer, optional_text, text, texts};
use super::selectors::{LabelValues, check_label_selector, check_node_selector, check_node_selector_term};
use crate::names::{NameRule, label_value, qualified_name};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Invalid parts of a pod that its updates may keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct SelectorTolerance {
    /// In the selectors of pod affinity.
    pub(super) affinity: LabelValues,
    /// In the expressions of required node affinity.
    pub(super) node_affinity: LabelValues,
    /// In the selectors of spread constraints; `Any` tolerates every error in them.
    pub(super) spread: LabelValues,
}

// === impl SelectorTolerance ===

impl SelectorTolerance {
    /// For new pods.
    pub(super) const NONE: SelectorTolerance = SelectorTolerance {
        affinity: LabelValues::Checked,
        node_affinity: LabelValues::Checked,
        spread: LabelValues::Checked,
    };

    /// For updates of a pod with this spec.
    pub(super) fn of_old(spec: &Value) -> SelectorTolerance {
        let found = |check: &dyn Fn(&mut FieldErrors)| {
            let mut errors = FieldErrors::default();
            check(&mut errors);
            if errors.is_empty() { LabelValues::Checked } else { LabelValues::Any }
        };
        let path = FieldPath::SPEC;
        let affinity = &spec["affinity"];
        SelectorTolerance {
            affinity: found(&|errors| {
                let terms = ["podAffinity", "podAntiAffinity"].into_iter().flat_map(|name| {
                    let preferred =
                        list(&affinity[name], PREFERRED).iter().map(|term| &term["podAffinityTerm"]);
                    list(&affinity[name], REQUIRED).iter().chain(preferred)
                });
                terms.for_each(|term| check_term_selectors(errors, term, path, LabelValues::Checked));
            }),
            node_affinity: found(&|errors| {
                let terms = list(&affinity["nodeAffinity"][REQUIRED], "nodeSelectorTerms").iter();
                let expressions = terms.flat_map(|term| list(term, "matchExpressions"));
                for value in expressions.flat_map(|expression| texts(expression, "values")) {
                    errors.invalid_all(path, value, label_value(value));
                }
            }),
            spread: found(&|errors| {
                for constraint in list(spec, "topologySpreadConstraints") {
                    check_label_selector(errors, constraint, "labelSelector", path, LabelValues::Checked);
                }
            }),
        }
    }
}

/// Checks the affinity of a pod.
pub(super) fn check_affinity(
    errors: &mut FieldErrors,
    spec: &Value,
    path: FieldPath<'_>,
    tolerance: SelectorTolerance,
) {
    let Some(affinity) = get(spec, "affinity") else { return };
    let path = path.child("affinity");
    if let Some(node_affinity) = get(affinity, "nodeAffinity") {
        let path = path.child("nodeAffinity");
        if let Some(required) = get(node_affinity, REQUIRED) {
            check_node_selector(errors, required, path.child(REQUIRED), tolerance.node_affinity);
        }
        let path = path.child(PREFERRED);
        for (index, term) in list(node_affinity, PREFERRED).iter().enumerate() {
            let path = path.index(index);
            check_weight(errors, term, path);
            check_node_selector_term(errors, &term["preference"], path.child("preference"), LabelValues::Any);
        }
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let pod_affinity = &affinity[name];
        let path = path.child(name);
        let (required, preferred) = (path.child(REQUIRED), path.child(PREFERRED));
        for (index, term) in list(pod_affinity, REQUIRED).iter().enumerate() {
            check_pod_affinity_term(errors, term, required.index(index), tolerance.affinity);
        }
        for (index, term) in list(pod_affinity, PREFERRED).iter().enumerate() {
            let path = preferred.index(index);
            check_weight(errors, term, path);
            let (term, path) = (&term["podAffinityTerm"], path.child("podAffinityTerm"));
            check_pod_affinity_term(errors, term, path, tolerance.affinity);
        }
    }
}

fn check_weight(errors: &mut FieldErrors, term: &Value, path: FieldPath<'_>) {
    let weight = integer(term, "weight");
    if !(1..=100).contains(&weight) {
        errors.invalid(path.child("weight"), weight, "must be in the range 1-100");
    }
}

fn check_pod_affinity_term(errors: &mut FieldErrors, term: &Value, path: FieldPath<'_>, values: LabelValues) {
    check_term_selectors(errors, term, path, values);
    for namespace in texts(term, "namespaces") {
        errors.invalid_all(path.child("namespace"), namespace, NameRule::Label.check(namespace, false));
    }
    check_label_keys(errors, term, path);
    let topology_key = text(term, "topologyKey");
    if topology_key.is_empty() {
        errors.required(path.child("topologyKey"), "can not be empty");
    }
    errors.invalid_all(path.child("topologyKey"), topology_key, qualified_name(topology_key));
}

fn check_term_selectors(errors: &mut FieldErrors, term: &Value, path: FieldPath<'_>, values: LabelValues) {
    for name in ["labelSelector", "namespaceSelector"] {
        check_label_selector(errors, term, name, path.child(name), values);
    }
}

/// Checks `matchLabelKeys` and `mismatchLabelKeys`. For pods, an API server has merged them into the selector
/// before.
fn check_label_keys(errors: &mut FieldErrors, term: &Value, path: FieldPath<'_>) {
    let selector = get(term, "labelSelector");
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        let path = path.child(name);
        if selector.is_none() {
            if !list(term, name).is_empty() {
                errors.forbidden(path, "must not be specified when labelSelector is not set");
            }
            continue;
        }
        for (index, key) in texts(term, name).enumerate() {
            errors.invalid_all(path.index(index), key, qualified_name(key));
        }
    }
    let positions = first_positions(texts(term, "matchLabelKeys"));
    if let Some(selector) = selector {
        let mut keys: BTreeSet<&str> = entries(selector, "matchLabels").map(|(key, _)| key).collect();
        for expression in list(selector, "matchExpressions") {
            let key = text(expression, "key");
            if let Some(index) = positions.get(key).filter(|_| keys.contains(key)) {
                errors.invalid(path.index(*index), key, "exists in both matchLabelKeys and labelSelector");
            }
            keys.insert(key);
        }
    }
    let match_path = path.child("matchLabelKeys");
    let mismatched: BTreeSet<&str> = texts(term, "mismatchLabelKeys").collect();
    for (index, key) in texts(term, "matchLabelKeys").enumerate() {
        if mismatched.contains(key) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.invalid(match_path.index(index), key, detail);
        }
    }
}

/// Where each text occurs first.
fn first_positions<'v>(texts: impl Iterator<Item = &'v str>) -> BTreeMap<&'v str, usize> {
    let mut positions = BTreeMap::new();
    for (index, text) in texts.enumerate() {
        positions.entry(text).or_insert(index);
    }
    positions
}

/// Checks the topology spread constraints of a pod.
pub(super) fn check_spread_constraints(
    errors: &mut FieldErrors,
    spec: &Value,
    path: FieldPath<'_>,
    tolerance: SelectorTolerance,
) {
    let path = path.child("topologySpreadConstraints");
    let constraints = list(spec, "topologySpreadConstraints");
    let key_of = |constraint| ["topologyKey", "whenUnsatisfiable"].map(|name| text(constraint, name));
    // The last constraint with each key; the earlier ones are the repeated ones.
    let last: BTreeMap<[&str; 2], usize> =
        constraints.iter().enumerate().map(|(index, constraint)| (key_of(constraint), index)).collect();
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        check_positive_integer(errors, integer(constraint, "maxSkew"), path.child("maxSkew"));
        let (topology_key, action) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        if topology_key.is_empty() {
            errors.required(path.child("topologyKey"), "can not be empty");
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            errors.not_supported(path.child("whenUnsatisfiable"), action, &actions);
        }
        if last.get(&[topology_key, action]) != Some(&index) {
            let path = path.child("{topologyKey, whenUnsatisfiable}");
            errors.duplicate(path, format!("{{{topology_key}, {action}}}"));
        }
        if let Some(domains) = optional_integer(constraint, "minDomains") {
            check_positive_integer(errors, domains, path.child("minDomains"));
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(path.child("minDomains"), domains, detail);
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policies = ["Honor", "Ignore"];
            if let Some(policy) = optional_text(constraint, name).filter(|policy| !policies.contains(policy))
            {
                errors.not_supported(path.child(name), policy, &policies);
            }
        }
        check_label_keys(errors, constraint, path);
        if tolerance.spread == LabelValues::Checked {
            let path = path.child("labelSelector");
            check_label_selector(errors, constraint, "labelSelector", path, LabelValues::Checked);
        }
    }
}

fn check_positive_integer(errors: &mut FieldErrors, value: i64, path: FieldPath<'_>) {
    if value <= 0 {
        errors.invalid(path, value, "must be greater than zero");
    }
}

/// Checks tolerations.
pub(super) fn check_tolerations(errors: &mut FieldErrors, tolerations: &[Value], path: FieldPath<'_>) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let path = path.index(index);
        let [key, operator, value, effect] =
            ["key", "operator", "value", "effect"].map(|name| text(toleration, name));
        if !key.is_empty() {
            errors.invalid_all(path.child("key"), key, qualified_name(key));
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(path.child("operator"), operator, detail);
        }
        if get(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(path.child("effect"), effect, detail);
        }
        match operator {
            "Equal" | "" => {
                let messages = label_value(value);
                if !messages.is_empty() {
                    errors.invalid(path.child("operator"), value, messages.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    errors.invalid(path.child("operator"), value, detail);
                }
            }
            "Lt" | "Gt" => {
                errors.not_supported(path.child("operator"), operator, &["Equal", "Exists", "Lt", "Gt"]);
            }
            _ => errors.not_supported(path.child("operator"), operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            check_taint_effect(errors, effect, path.child("effect"));
        }
    }
}

/// Checks the effect of a taint.
pub(super) fn check_taint_effect(errors: &mut FieldErrors, effect: &str, path: FieldPath<'_>) {
    if effect.is_empty() {
        errors.required(path, "");
    } else if !EFFECTS.contains(&effect) {
        errors.not_supported(path, effect, &EFFECTS);
    }
}

/// Checks scheduling gates.
pub(super) fn check_scheduling_gates(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let path = path.child("schedulingGates");
    let mut names = BTreeSet::new();
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        errors.invalid_all(path.index(index), name, qualified_name(name));
        if !names.insert(name) {
            errors.duplicate(path.index(index), name);
        }
    }
}

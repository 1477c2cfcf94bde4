//! User rules read from a file: a matcher for objects, and an action.

use json_patch::Patch;
use kubernetes::kinds;
use kubernetes::selector::Selector;
use model::{Kind, ObjectRef};
use serde::Deserialize;
use serde_json::Value;

use super::cel_expression::CelExpression;
use super::pointer;
use super::rule::{ExclusionReason, Rule, RuleTrigger};

/// One rule of a file.
#[derive(Debug)]
pub struct UserRule {
    /// Its name, or `rule N`.
    name: String,
    kinds: Vec<String>,
    namespaces: Vec<String>,
    selector: Option<Selector>,
    /// The text of the selector.
    selector_text: Option<String>,
    trigger: Option<RuleTrigger>,
    condition: Option<CelExpression>,
    action: RuleAction,
}

/// The action of a rule.
#[derive(Debug)]
enum RuleAction {
    Drop,
    Edit { patch: Option<Patch>, merge: Option<Value>, set: Vec<(String, CelExpression)> },
}

/// The file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map with `rules`")]
struct RuleFileSpec {
    rules: Vec<RuleSpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleSpec {
    name: Option<String>,
    #[serde(default)]
    kinds: Vec<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    selector: Option<String>,
    when: Option<TriggerSpec>,
    #[serde(rename = "match")]
    matches: Option<String>,
    #[serde(default)]
    drop: bool,
    json_patch: Option<Value>,
    merge_patch: Option<Value>,
    #[serde(default)]
    set: Vec<SetSpec>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TriggerSpec {
    Create,
    Update,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetSpec {
    path: String,
    to: String,
}

/// Parses the rules of a file; errors name the rule.
pub fn parse_rules(file: Value) -> Result<Vec<UserRule>, String> {
    let spec: RuleFileSpec = serde_json::from_value(file).map_err(|error| error.to_string())?;
    let numbered = spec.rules.into_iter().enumerate();
    numbered.map(|(index, spec)| UserRule::parse(index, spec)).collect()
}

// === impl UserRule ===

impl UserRule {
    fn parse(index: usize, spec: RuleSpec) -> Result<UserRule, String> {
        let name = spec.name.clone().unwrap_or_else(|| format!("rule {}", index + 1));
        UserRule::parse_named(&name, spec).map_err(|why| format!("{name}: {why}"))
    }

    fn parse_named(name: &str, spec: RuleSpec) -> Result<UserRule, String> {
        let expression = |text: &str| {
            CelExpression::parse(text).map_err(|why| format!("invalid CEL expression {text:?}: {why}"))
        };
        let is_edit = spec.json_patch.is_some() || spec.merge_patch.is_some() || !spec.set.is_empty();
        let action = match (spec.drop, is_edit) {
            (true, true) => {
                return Err("drop cannot be combined with jsonPatch, mergePatch or set".to_owned());
            }
            (false, false) => return Err("expected drop: true, jsonPatch, mergePatch or set".to_owned()),
            (true, false) => RuleAction::Drop,
            (false, true) => RuleAction::Edit {
                patch: spec.json_patch.map(parse_json_patch).transpose()?,
                merge: spec.merge_patch.map(parse_merge_patch).transpose()?,
                set: spec
                    .set
                    .iter()
                    .map(|set| Ok((parse_pointer(&set.path)?, expression(&set.to)?)))
                    .collect::<Result<_, String>>()?,
            },
        };
        if let Some(kind) = spec.kinds.iter().find(|kind| kind.is_empty()) {
            return Err(format!("invalid kind {kind:?}"));
        }
        let selector = spec.selector.as_deref().map(Selector::parse).transpose();
        Ok(UserRule {
            name: name.to_owned(),
            kinds: spec.kinds,
            namespaces: spec.namespaces,
            selector: selector.map_err(|error| error.to_string())?,
            selector_text: spec.selector,
            trigger: spec.when.map(|trigger| match trigger {
                TriggerSpec::Create => RuleTrigger::Created,
                TriggerSpec::Update => RuleTrigger::Updated,
            }),
            condition: spec.matches.as_deref().map(expression).transpose()?,
            action,
        })
    }

    /// Its name, or `rule N`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A description for users.
    pub fn describe(&self) -> String {
        let mut which = match &self.kinds[..] {
            [] => "all kinds".to_owned(),
            kinds => kinds.join(", "),
        };
        if !self.namespaces.is_empty() {
            which += &format!(" in {}", self.namespaces.join(", "));
        }
        if let Some(selector) = &self.selector_text {
            which += &format!(" with {selector}");
        }
        if let Some(expression) = &self.condition {
            which += &format!(" where {expression:?}");
        }
        let trigger_text = match self.trigger {
            None => "",
            Some(RuleTrigger::Created) => ", before it is created",
            Some(RuleTrigger::Updated) => ", before it is updated",
        };
        let effect = match &self.action {
            RuleAction::Drop => "dropped".to_owned(),
            RuleAction::Edit { patch, merge, set } => {
                let patch = patch.as_ref().map(|_| "a JSON patch".to_owned());
                let merge = merge.as_ref().map(|_| "a merge patch".to_owned());
                let set = set.iter().map(|(path, expression)| format!("{path} set to {expression:?}"));
                patch.into_iter().chain(merge).chain(set).collect::<Vec<_>>().join(", ")
            }
        };
        format!("{which}{trigger_text}: {effect}")
    }

    fn matches(&self, object_ref: &ObjectRef, trigger: RuleTrigger, object: &Value) -> Result<bool, String> {
        let label = |key: &str| object["metadata"]["labels"].get(key)?.as_str();
        let is_selected = self.trigger.is_none_or(|required| required == trigger)
            && (self.kinds.is_empty()
                || self.kinds.iter().any(|kind_name| is_kind_named(&object_ref.kind, kind_name)))
            && (self.namespaces.is_empty()
                || self.namespaces.iter().any(|name| **name == *object_ref.namespace))
            && self.selector.as_ref().is_none_or(|selector| selector.matches(label));
        match &self.condition {
            Some(expression) if is_selected => match expression.evaluate(object)? {
                Value::Bool(is_match) => Ok(is_match),
                other => Err(format!("match returned {other}, expected true or false")),
            },
            _ => Ok(is_selected),
        }
    }

    fn apply_action(&self, object: &mut Value) -> Result<(), ExclusionReason> {
        let RuleAction::Edit { patch, merge, set } = &self.action else {
            return Err(format!("dropped by {}", self.name).into());
        };
        if let Some(patch) = patch {
            json_patch::patch(object, patch).map_err(|error| self.cannot_apply(&error.to_string()))?;
        }
        if let Some(merge) = merge {
            json_patch::merge(object, merge);
        }
        for (path, expression) in set {
            let value = expression.evaluate(object).map_err(|why| self.cannot_apply(&why))?;
            set_value(object, path, &value).map_err(|why| self.cannot_apply(&why))?;
        }
        Ok(())
    }

    fn cannot_apply(&self, why: &str) -> ExclusionReason {
        format!("{} cannot be applied: {why}", self.name).into()
    }
}

impl Rule for UserRule {
    fn apply(
        &self,
        object_ref: &ObjectRef,
        trigger: RuleTrigger,
        object: &mut Value,
    ) -> Result<(), ExclusionReason> {
        match self.matches(object_ref, trigger, object) {
            Ok(true) => self.apply_action(object),
            Ok(false) => Ok(()),
            Err(why) => Err(self.cannot_apply(&why)),
        }
    }
}

/// Whether a name, in kubectl's syntax, stands for a kind.
fn is_kind_named(kind: &Kind, kind_name: &str) -> bool {
    let (name, group) = kind_name.split_once('.').unwrap_or((kind_name, ""));
    let info = kinds::of(kind);
    let plural = info.map_or_else(|| kinds::guess_plural(&kind.kind), |info| info.plural.to_owned());
    let is_short_name = info.is_some_and(|info| info.short_names.contains(&name));
    kind.group.starts_with(group)
        && (kind.kind.eq_ignore_ascii_case(name) || plural.eq_ignore_ascii_case(name) || is_short_name)
}

fn parse_json_patch(patch: Value) -> Result<Patch, String> {
    serde_json::from_value(patch).map_err(|error| format!("invalid jsonPatch: {error}"))
}

fn parse_merge_patch(patch: Value) -> Result<Value, String> {
    if patch.is_object() { Ok(patch) } else { Err("invalid mergePatch: must be an object".to_owned()) }
}

fn parse_pointer(path: &str) -> Result<String, String> {
    match path.strip_prefix('/') {
        Some(inner) if !inner.is_empty() => Ok(path.to_owned()),
        _ => Err(format!("{path:?} is not a JSON pointer such as /spec/replicas")),
    }
}

/// Sets every value that a pointer matches. Missing maps on the path are created.
fn set_value(object: &mut Value, path: &str, value: &Value) -> Result<(), String> {
    let (parent, field) = path.rsplit_once('/').unwrap_or(("", path));
    create_maps(object, parent);
    let field = pointer::unescape(field);
    let mut error = None;
    pointer::for_each(object, parent, &mut |target| match target {
        Value::Object(fields) => drop(fields.insert(field.clone(), value.clone())),
        Value::Array(members) => match field.parse::<usize>().ok().and_then(|index| members.get_mut(index)) {
            Some(member) => *member = value.clone(),
            None => error = Some(format!("no entry {field} at {parent:?}")),
        },
        _ => error = Some(format!("the value at {parent:?} has no fields")),
    });
    error.map_or(Ok(()), Err)
}

/// Creates the missing maps on a path, up to the first list.
fn create_maps(object: &mut Value, path: &str) {
    let mut target = object;
    for segment in path.split('/').skip(1) {
        let Value::Object(fields) = target else { return };
        target =
            fields.entry(pointer::unescape(segment)).or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment() -> (ObjectRef, Value) {
        let object_ref =
            ObjectRef { kind: Kind::new("apps", "Deployment"), namespace: "shop".into(), name: "web".into() };
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [
                {"name": "a", "resources": {"requests": {"cpu": "500m"}}}, {"name": "b"}]}}}});
        (object_ref, object)
    }

    fn read(text: &str) -> Result<Vec<UserRule>, String> {
        parse_rules(serde_saphyr::from_str(text).map_err(|error| error.to_string())?)
    }

    /// A Deployment after the rules.
    fn applied(text: &str, trigger: RuleTrigger) -> Result<Value, ExclusionReason> {
        let (object_ref, mut object) = deployment();
        for rule in read(text).unwrap() {
            rule.apply(&object_ref, trigger, &mut object)?;
        }
        Ok(object)
    }

    #[track_caller]
    fn check_match(matcher: &str, expected: bool) {
        let text = format!("rules: [{{name: it, {matcher}, drop: true}}]");
        let is_dropped = applied(&text, RuleTrigger::Created) == Err("dropped by it".into());
        assert_eq!(is_dropped, expected, "{matcher}");
    }

    #[test]
    fn rules_match_by_all_conditions() {
        for kinds in ["Deployment", "deploy", "deployments.apps", "pods, Deployment", "deployments.app"] {
            check_match(&format!("kinds: [{kinds}]"), true);
        }
        check_match("kinds: [Pod]", false);
        check_match("kinds: [deployments.batch]", false);
        check_match("namespaces: [shop]", true);
        check_match("namespaces: [other]", false);
        check_match("selector: 'app in (web, api)'", true);
        check_match("selector: app!=web", false);
        check_match("match: object.spec.replicas > 2", true);
        check_match("match: object.spec.replicas > 3", false);
        check_match("when: create", true);
        check_match("when: update", false);
        check_match("kinds: [Deployment], match: 'object.kind == \"Pod\"'", false);
    }

    #[test]
    fn a_file_that_is_no_map_is_refused() {
        assert_eq!(read("7").unwrap_err(), "invalid type: integer `7`, expected a map with `rules`");
    }

    #[test]
    fn rules_change_objects() {
        let text = r#"
rules:
- kinds: [deployments]
  jsonPatch: [{op: replace, path: /spec/replicas, value: 1}]
- mergePatch: {metadata: {labels: {tier: test}}}
- set:
  - {path: /spec/replicas, to: object.spec.replicas * 7}
  - {path: "/spec/template/spec/containers/*/resources/requests/cpu", to: "'1'"}
  - {path: /metadata/annotations/a~1b, to: "'was ' + object.metadata.name"}
"#;
        let (_, mut expected) = deployment();
        expected["spec"]["replicas"] = json!(7);
        expected["metadata"]["labels"]["tier"] = json!("test");
        expected["metadata"]["annotations"] = json!({"a/b": "was web"});
        expected["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1");
        assert_eq!(applied(text, RuleTrigger::Created), Ok(expected));
    }

    #[test]
    fn the_example_of_the_documentation_works() {
        let page = include_str!("../../../../docs/live-replay.md");
        let (_, rest) = page.split_once("```yaml\n").unwrap();
        let rules = read(rest.split_once("```").unwrap().0).unwrap();
        let apply = |kind: Kind, mut object: Value| {
            let object_ref = ObjectRef { kind, namespace: "shop".into(), name: "a".into() };
            let applied = rules[1..]
                .iter()
                .try_for_each(|rule| rule.apply(&object_ref, RuleTrigger::Created, &mut object));
            applied.map(|()| object)
        };
        let halved = apply(Kind::new("apps", "Deployment"), json!({"spec": {"replicas": 4}})).unwrap();
        assert_eq!(halved["spec"]["replicas"], 2);
        let pod = apply(Kind::new("", "Pod"), json!({"spec": {}})).unwrap();
        assert_eq!(pod["spec"]["schedulerName"], "my-scheduler");
        let node =
            apply(Kind::new("", "Node"), json!({"status": {"allocatable": {"cpu": "1500m"}}})).unwrap();
        assert_eq!(node["status"]["allocatable"]["cpu"], "3");
        let (object_ref, mut node) = (ObjectRef::cluster_scoped("", "Node", "n"), json!({}));
        let dropped = rules[0].apply(&object_ref, RuleTrigger::Created, &mut node);
        assert_eq!(dropped, Err("dropped by nodes of its own".into()));
    }

    #[test]
    fn objects_to_which_a_rule_cannot_be_applied_are_excluded_with_a_reason() {
        for (rule, because) in [
            ("jsonPatch: [{op: remove, path: /spec/none}]", "rule 1 cannot be applied"),
            ("match: object.spec.none > 1, drop: true", "rule 1 cannot be applied"),
            ("match: object.spec.replicas, drop: true", "match returned 3, expected true or false"),
            ("set: [{path: /spec/replicas/x, to: '1'}]", "has no fields"),
        ] {
            let error = applied(&format!("rules: [{{{rule}}}]"), RuleTrigger::Updated).unwrap_err();
            assert!(error.contains(because), "{rule}: {error}");
        }
    }

    #[test]
    fn invalid_rules_are_rejected() {
        for (text, because) in [
            ("rules: [{kinds: [Pod]}]", "rule 1: expected drop: true, jsonPatch, mergePatch or set"),
            ("rules: [{drop: true, mergePatch: {}}]", "drop cannot be combined with"),
            ("rules: [{name: a, match: 'object.', drop: true}]", "a: invalid CEL expression \"object.\""),
            ("rules: [{selector: '=', drop: true}]", "rule 1: "),
            ("rules: [{jsonPatch: [{op: jump, path: /a}]}]", "invalid jsonPatch"),
            ("rules: [{mergePatch: 7}]", "invalid mergePatch"),
            ("rules: [{set: [{path: a, to: '1'}]}]", "is not a JSON pointer"),
            ("rules: [{dorp: true}]", "dorp"),
            ("rules: 7", ""),
            ("[", ""),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(because), "{text}: {error}");
        }
    }

    #[test]
    fn rules_have_descriptions() {
        let text = "rules: [{kinds: [pods], namespaces: [a], selector: b=c, when: create, match: object.x, drop: true}]";
        let words = read(text).unwrap()[0].describe();
        assert_eq!(words, "pods in a with b=c where object.x, before it is created: dropped");
    }
}

//! Rules as users write them in a file: which objects they mean, and what becomes of those.

use json_patch::Patch;
use kubernetes::kinds;
use kubernetes::selector::Selector;
use model::Kind;
use serde::Deserialize;
use serde_json::Value;

use super::expression::Expression;
use super::rule::{LeftOut, Rule, When};
use super::{Address, pointer};

/// One rule of a file.
#[derive(Debug)]
pub struct FileRule {
    /// What it is called, or which of the file it is.
    name: String,
    kinds: Vec<String>,
    namespaces: Vec<String>,
    selector: Option<Selector>,
    /// As it was written.
    told_selector: Option<String>,
    when: Option<When>,
    matches: Option<Expression>,
    deed: FileDeed,
}

/// What a rule does.
#[derive(Debug)]
enum FileDeed {
    Drop,
    Edit { patch: Option<Patch>, merge: Option<Value>, set: Vec<(String, Expression)> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    rules: Vec<ToldRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ToldRule {
    name: Option<String>,
    #[serde(default)]
    kinds: Vec<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    selector: Option<String>,
    when: Option<ToldWhen>,
    #[serde(rename = "match")]
    matches: Option<String>,
    #[serde(default)]
    drop: bool,
    json_patch: Option<Value>,
    merge_patch: Option<Value>,
    #[serde(default)]
    set: Vec<ToldSet>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ToldWhen {
    Create,
    Update,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToldSet {
    path: String,
    to: String,
}

/// Reads the rules of a file; what is wrong with them is said with the rule it is about.
pub fn read_rules(file: Value) -> Result<Vec<FileRule>, String> {
    let told: Told = serde_json::from_value(file).map_err(|error| error.to_string())?;
    let numbered = told.rules.into_iter().enumerate();
    numbered.map(|(index, told)| FileRule::read(index, told)).collect()
}

// === impl FileRule ===

impl FileRule {
    fn read(index: usize, told: ToldRule) -> Result<FileRule, String> {
        let name = told.name.clone().unwrap_or_else(|| format!("rule {}", index + 1));
        FileRule::understand(&name, told).map_err(|why| format!("{name}: {why}"))
    }

    fn understand(name: &str, told: ToldRule) -> Result<FileRule, String> {
        let expression = |text: &str| {
            Expression::parse(text).map_err(|why| format!("{text:?} is no CEL expression: {why}"))
        };
        let is_edit = told.json_patch.is_some() || told.merge_patch.is_some() || !told.set.is_empty();
        let deed = match (told.drop, is_edit) {
            (true, true) => return Err("what is dropped is not changed: say one of them".to_owned()),
            (false, false) => return Err("say drop: true, jsonPatch, mergePatch or set".to_owned()),
            (true, false) => FileDeed::Drop,
            (false, true) => FileDeed::Edit {
                patch: told.json_patch.map(read_patch).transpose()?,
                merge: told.merge_patch.map(read_merge).transpose()?,
                set: told
                    .set
                    .iter()
                    .map(|set| Ok((read_path(&set.path)?, expression(&set.to)?)))
                    .collect::<Result<_, String>>()?,
            },
        };
        if let Some(kind) = told.kinds.iter().find(|kind| kind.is_empty()) {
            return Err(format!("{kind:?} is no kind"));
        }
        let selector = told.selector.as_deref().map(Selector::parse).transpose();
        Ok(FileRule {
            name: name.to_owned(),
            kinds: told.kinds,
            namespaces: told.namespaces,
            selector: selector.map_err(|error| error.to_string())?,
            told_selector: told.selector,
            when: told.when.map(|when| match when {
                ToldWhen::Create => When::Created,
                ToldWhen::Update => When::Updated,
            }),
            matches: told.matches.as_deref().map(expression).transpose()?,
            deed,
        })
    }

    /// What it is called, or which of the file it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does, in words.
    pub fn words(&self) -> String {
        let mut which = match &self.kinds[..] {
            [] => "every kind".to_owned(),
            kinds => kinds.join(", "),
        };
        if !self.namespaces.is_empty() {
            which += &format!(" in {}", self.namespaces.join(", "));
        }
        if let Some(selector) = &self.told_selector {
            which += &format!(" with {selector}");
        }
        if let Some(expression) = &self.matches {
            which += &format!(" where {expression:?}");
        }
        let when = match self.when {
            None => "",
            Some(When::Created) => ", before it is created",
            Some(When::Updated) => ", before it is updated",
        };
        let deed = match &self.deed {
            FileDeed::Drop => "left out".to_owned(),
            FileDeed::Edit { patch, merge, set } => {
                let patch = patch.as_ref().map(|_| "a JSON patch".to_owned());
                let merge = merge.as_ref().map(|_| "a merge patch".to_owned());
                let set = set.iter().map(|(path, expression)| format!("{path} set to {expression:?}"));
                patch.into_iter().chain(merge).chain(set).collect::<Vec<_>>().join(", ")
            }
        };
        format!("{which}{when}: {deed}")
    }

    fn means(&self, address: &Address, when: When, object: &Value) -> Result<bool, String> {
        let label = |key: &str| object["metadata"]["labels"].get(key)?.as_str();
        let fits = self.when.is_none_or(|only| only == when)
            && (self.kinds.is_empty() || self.kinds.iter().any(|word| is_called(&address.kind, word)))
            && (self.namespaces.is_empty()
                || self.namespaces.iter().any(|name| **name == *address.namespace))
            && self.selector.as_ref().is_none_or(|selector| selector.matches(label));
        match &self.matches {
            Some(expression) if fits => match expression.of(object)? {
                Value::Bool(is_match) => Ok(is_match),
                other => Err(format!("match came to {other}, which is neither true nor false")),
            },
            _ => Ok(fits),
        }
    }

    fn edit(&self, object: &mut Value) -> Result<(), LeftOut> {
        let FileDeed::Edit { patch, merge, set } = &self.deed else {
            return Err(format!("dropped by {}", self.name).into());
        };
        if let Some(patch) = patch {
            json_patch::patch(object, patch).map_err(|error| self.cannot(&error.to_string()))?;
        }
        if let Some(merge) = merge {
            json_patch::merge(object, merge);
        }
        for (path, expression) in set {
            let value = expression.of(object).map_err(|why| self.cannot(&why))?;
            put(object, path, &value).map_err(|why| self.cannot(&why))?;
        }
        Ok(())
    }

    fn cannot(&self, why: &str) -> LeftOut {
        format!("{} cannot be applied: {why}", self.name).into()
    }
}

impl Rule for FileRule {
    fn apply(&self, address: &Address, when: When, object: &mut Value) -> Result<(), LeftOut> {
        match self.means(address, when, object) {
            Ok(true) => self.edit(object),
            Ok(false) => Ok(()),
            Err(why) => Err(self.cannot(&why)),
        }
    }
}

/// Whether a word, as kubectl takes it, means a kind.
fn is_called(kind: &Kind, word: &str) -> bool {
    let (name, group) = word.split_once('.').unwrap_or((word, ""));
    let known = kinds::of(kind);
    let plural = known.map_or_else(|| kinds::guess_plural(&kind.kind), |known| known.plural.to_owned());
    let is_short = known.is_some_and(|known| known.short_names.contains(&name));
    kind.group.starts_with(group)
        && (kind.kind.eq_ignore_ascii_case(name) || plural.eq_ignore_ascii_case(name) || is_short)
}

fn read_patch(patch: Value) -> Result<Patch, String> {
    serde_json::from_value(patch).map_err(|error| format!("jsonPatch is none: {error}"))
}

fn read_merge(patch: Value) -> Result<Value, String> {
    if patch.is_object() { Ok(patch) } else { Err("mergePatch is none: it must be a map".to_owned()) }
}

fn read_path(path: &str) -> Result<String, String> {
    match path.strip_prefix('/') {
        Some(inner) if !inner.is_empty() => Ok(path.to_owned()),
        _ => Err(format!("{path:?} is no JSON pointer such as /spec/replicas")),
    }
}

/// Puts a value into every place that a pointer leads to. Maps that are missing on the way are made.
fn put(object: &mut Value, path: &str, value: &Value) -> Result<(), String> {
    let (parent, field) = path.rsplit_once('/').unwrap_or(("", path));
    make_maps(object, parent);
    let field = pointer::unescaped(field);
    let mut trouble = None;
    pointer::each(object, parent, &mut |place| match place {
        Value::Object(fields) => drop(fields.insert(field.clone(), value.clone())),
        Value::Array(members) => match field.parse::<usize>().ok().and_then(|at| members.get_mut(at)) {
            Some(member) => *member = value.clone(),
            None => trouble = Some(format!("there is no member {field} at {parent:?}")),
        },
        _ => trouble = Some(format!("what is at {parent:?} has no fields")),
    });
    trouble.map_or(Ok(()), Err)
}

/// Makes the maps that a path goes through, up to the first list.
fn make_maps(object: &mut Value, path: &str) {
    let mut place = object;
    for segment in path.split('/').skip(1) {
        let Value::Object(fields) = place else { return };
        place = fields
            .entry(pointer::unescaped(segment))
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment() -> (Address, Value) {
        let address =
            Address { kind: Kind::new("apps", "Deployment"), namespace: "shop".into(), name: "web".into() };
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [
                {"name": "a", "resources": {"requests": {"cpu": "500m"}}}, {"name": "b"}]}}}});
        (address, object)
    }

    fn read(text: &str) -> Result<Vec<FileRule>, String> {
        read_rules(serde_saphyr::from_str(text).map_err(|error| error.to_string())?)
    }

    /// What the rules make of a Deployment that is to be created.
    fn applied(text: &str, when: When) -> Result<Value, LeftOut> {
        let (address, mut object) = deployment();
        for rule in read(text).unwrap() {
            rule.apply(&address, when, &mut object)?;
        }
        Ok(object)
    }

    #[track_caller]
    fn means(matcher: &str, expected: bool) {
        let text = format!("rules: [{{name: it, {matcher}, drop: true}}]");
        let is_dropped = applied(&text, When::Created) == Err("dropped by it".into());
        assert_eq!(is_dropped, expected, "{matcher}");
    }

    #[test]
    fn rules_mean_what_they_say() {
        for kinds in ["Deployment", "deploy", "deployments.apps", "pods, Deployment", "deployments.app"] {
            means(&format!("kinds: [{kinds}]"), true);
        }
        means("kinds: [Pod]", false);
        means("kinds: [deployments.batch]", false);
        means("namespaces: [shop]", true);
        means("namespaces: [other]", false);
        means("selector: 'app in (web, api)'", true);
        means("selector: app!=web", false);
        means("match: object.spec.replicas > 2", true);
        means("match: object.spec.replicas > 3", false);
        means("when: create", true);
        means("when: update", false);
        means("kinds: [Deployment], match: 'object.kind == \"Pod\"'", false);
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
        assert_eq!(applied(text, When::Created), Ok(expected));
    }

    #[test]
    fn the_example_of_the_documentation_does_what_it_says() {
        let page = include_str!("../../../../docs/live-replay.md");
        let (_, rest) = page.split_once("```yaml\n").unwrap();
        let rules = read(rest.split_once("```").unwrap().0).unwrap();
        let apply = |kind: Kind, mut object: Value| {
            let address = Address { kind, namespace: "shop".into(), name: "a".into() };
            let applied =
                rules[1..].iter().try_for_each(|rule| rule.apply(&address, When::Created, &mut object));
            applied.map(|()| object)
        };
        let halved = apply(Kind::new("apps", "Deployment"), json!({"spec": {"replicas": 4}})).unwrap();
        assert_eq!(halved["spec"]["replicas"], 2);
        let pod = apply(Kind::new("", "Pod"), json!({"spec": {}})).unwrap();
        assert_eq!(pod["spec"]["schedulerName"], "my-scheduler");
        let node =
            apply(Kind::new("", "Node"), json!({"status": {"allocatable": {"cpu": "1500m"}}})).unwrap();
        assert_eq!(node["status"]["allocatable"]["cpu"], "3");
        let (address, mut node) = (Address::of_cluster("", "Node", "n"), json!({}));
        let dropped = rules[0].apply(&address, When::Created, &mut node);
        assert_eq!(dropped, Err("dropped by nodes of its own".into()));
    }

    #[test]
    fn what_a_rule_cannot_do_is_left_out_and_told() {
        for (rule, because) in [
            ("jsonPatch: [{op: remove, path: /spec/none}]", "rule 1 cannot be applied"),
            ("match: object.spec.none > 1, drop: true", "rule 1 cannot be applied"),
            ("match: object.spec.replicas, drop: true", "came to 3, which is neither true nor false"),
            ("set: [{path: /spec/replicas/x, to: '1'}]", "has no fields"),
        ] {
            let error = applied(&format!("rules: [{{{rule}}}]"), When::Updated).unwrap_err();
            assert!(error.contains(because), "{rule}: {error}");
        }
    }

    #[test]
    fn rules_that_are_none_are_refused() {
        for (text, because) in [
            ("rules: [{kinds: [Pod]}]", "rule 1: say drop: true, jsonPatch, mergePatch or set"),
            ("rules: [{drop: true, mergePatch: {}}]", "say one of them"),
            ("rules: [{name: a, match: 'object.', drop: true}]", "a: \"object.\" is no CEL expression"),
            ("rules: [{selector: '=', drop: true}]", "rule 1: "),
            ("rules: [{jsonPatch: [{op: jump, path: /a}]}]", "jsonPatch is none"),
            ("rules: [{mergePatch: 7}]", "mergePatch is none"),
            ("rules: [{set: [{path: a, to: '1'}]}]", "is no JSON pointer"),
            ("rules: [{dorp: true}]", "dorp"),
            ("rules: 7", ""),
            ("[", ""),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(because), "{text}: {error}");
        }
    }

    #[test]
    fn rules_are_told_in_words() {
        let text = "rules: [{kinds: [pods], namespaces: [a], selector: b=c, when: create, match: object.x, drop: true}]";
        let words = read(text).unwrap()[0].words();
        assert_eq!(words, "pods in a with b=c where object.x, before it is created: left out");
    }
}

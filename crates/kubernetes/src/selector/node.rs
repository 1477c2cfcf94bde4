//! Node selectors: terms of which at least one must match, as in node affinity and volumes.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{BadSelector, Expression, ExpressionContext, Selector};

/// Terms of which at least one must match a node. Without terms nothing matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "NodeSelectorJson")]
pub struct NodeSelector {
    terms: Vec<NodeSelectorTerm>,
}

/// Requirements on a node's labels and name, all of which must hold. Without any, nothing matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "NodeTermJson")]
pub struct NodeSelectorTerm {
    /// `None` for a term without requirements.
    requirements: Option<Result<TermRequirements, BadSelector>>,
    /// The node names allowed by `metadata.name In`, sorted; `None` if the term has no such requirement.
    names: Option<Vec<String>>,
}

// === impl NodeSelector ===

impl NodeSelector {
    /// Whether a term matches the node of that name; `label` looks up its labels.
    ///
    /// An invalid term is an error only if no other one matches.
    pub fn matches<'l>(
        &self,
        name: &str,
        label: impl Fn(&str) -> Option<&'l str>,
    ) -> Result<bool, &BadSelector> {
        let mut first_error = None;
        for term in &self.terms {
            match term.matches(name, &label) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        first_error.map_or(Ok(false), Err)
    }

    /// The names of the only nodes that can match, if every term lists some; empty if all terms are contradictory.
    ///
    /// An invalid term still lists its names here.
    pub fn names(&self) -> Option<BTreeSet<&str>> {
        let mut names = BTreeSet::new();
        for term in &self.terms {
            names.extend(term.names.as_ref()?.iter().map(String::as_str));
        }
        (!self.terms.is_empty()).then_some(names)
    }

    /// The only node that its first term with node names allows, as in pods that a DaemonSet creates.
    pub fn single_name(&self) -> Option<&str> {
        match &self.terms.iter().find_map(|term| term.names.as_ref())?[..] {
            [name] => Some(name),
            _ => None,
        }
    }

    /// The first error in its terms, if any.
    pub fn check(&self) -> Result<(), &BadSelector> {
        self.terms.iter().try_for_each(NodeSelectorTerm::check)
    }
}

// === impl NodeSelectorTerm ===

impl NodeSelectorTerm {
    /// Whether it matches the node of that name; `label` looks up its labels.
    pub fn matches<'l>(
        &self,
        name: &str,
        label: impl Fn(&str) -> Option<&'l str>,
    ) -> Result<bool, &BadSelector> {
        match &self.requirements {
            Some(Ok(tests)) => Ok(tests.labels.matches(label) && tests.fields_match(name)),
            Some(Err(error)) => Err(error),
            None => Ok(false),
        }
    }

    /// Its error, if it is invalid.
    pub fn check(&self) -> Result<(), &BadSelector> {
        match &self.requirements {
            Some(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeSelectorJson {
    #[serde(default)]
    node_selector_terms: Option<Vec<NodeTermJson>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeTermJson {
    #[serde(default)]
    match_expressions: Option<Vec<Expression>>,
    #[serde(default)]
    match_fields: Option<Vec<Expression>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TermRequirements {
    labels: Selector,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FieldRequirement {
    field: String,
    equal: bool,
    value: String,
}

impl From<NodeSelectorJson> for NodeSelector {
    fn from(json: NodeSelectorJson) -> NodeSelector {
        let terms = json.node_selector_terms.into_iter().flatten().enumerate().map(|(index, term)| {
            let mut term = NodeSelectorTerm::from(term);
            if let Some(Err(error)) = &mut term.requirements {
                error.place = format!("nodeSelectorTerms[{index}].{}", error.place);
            }
            term
        });
        NodeSelector { terms: terms.collect() }
    }
}

impl From<NodeTermJson> for NodeSelectorTerm {
    fn from(json: NodeTermJson) -> NodeSelectorTerm {
        let expressions = json.match_expressions.unwrap_or_default();
        let fields = json.match_fields.unwrap_or_default();
        let empty = expressions.is_empty() && fields.is_empty();
        let names = names_of_term(&fields);
        NodeSelectorTerm { requirements: (!empty).then(|| term_requirements(&expressions, fields)), names }
    }
}

impl TermRequirements {
    /// A node's name is the only supported field; all others are empty. Without a name there are no fields to match.
    fn fields_match(&self, name: &str) -> bool {
        let value = |field: &str| if field == "metadata.name" { name } else { "" };
        name.is_empty() || self.fields.iter().all(|test| (value(&test.field) == test.value) == test.equal)
    }
}

fn names_of_term(fields: &[Expression]) -> Option<Vec<String>> {
    let lists = fields.iter().filter(|field| field.key == "metadata.name" && field.operator == "In");
    let sets = lists.map(|field| field.values.iter().flatten().cloned().collect::<BTreeSet<String>>());
    let left = sets.reduce(|left, list| left.intersection(&list).cloned().collect())?;
    Some(left.into_iter().collect())
}

fn term_requirements(
    expressions: &[Expression],
    fields: Vec<Expression>,
) -> Result<TermRequirements, BadSelector> {
    let bad_selector = |list: &str, index: usize| {
        let place = format!("{list}[{index}]");
        move |why| BadSelector { place, why }
    };
    let requirements = expressions.iter().enumerate().map(|(index, expression)| {
        expression.requirement(ExpressionContext::Nodes).map_err(bad_selector("matchExpressions", index))
    });
    let fields = fields
        .into_iter()
        .enumerate()
        .map(|(index, expression)| field_requirement(expression).map_err(bad_selector("matchFields", index)));
    Ok(TermRequirements {
        labels: Selector::all(requirements.collect::<Result<_, _>>()?),
        fields: fields.collect::<Result<_, _>>()?,
    })
}

fn field_requirement(expression: Expression) -> Result<FieldRequirement, String> {
    let Expression { key: field, operator, values } = expression;
    let equal = match operator.as_str() {
        "In" => true,
        "NotIn" => false,
        other => return Err(format!("unknown operator {other:?} on a field: expected In or NotIn")),
    };
    let values: Result<[String; 1], _> = values.unwrap_or_default().try_into();
    let [value] =
        values.map_err(|values| format!("a field requires exactly one value, got {}", values.len()))?;
    Ok(FieldRequirement { field, equal, value })
}

#[cfg(test)]
mod tests {
    use super::super::tests::rows;
    use super::*;
    use serde_json::json;

    #[test]
    fn terms_match_the_nodes_that_kubernetes_matches() {
        let (subjects, rows) = rows("nodeSelector");
        assert!(rows.len() > 80);
        for row in rows {
            let selector: NodeSelector = serde_json::from_value(row["nodeSelector"].clone()).unwrap();
            assert_eq!(selector.check().is_ok(), row["valid"] == true, "{row}");
            let found: String = subjects["nodes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|node| {
                    let meta = &node["metadata"];
                    let label = |key: &str| meta["labels"].get(key)?.as_str();
                    match selector.matches(meta["name"].as_str().unwrap(), label) {
                        Ok(true) => '1',
                        Ok(false) => '0',
                        Err(_) => 'e',
                    }
                })
                .collect();
            assert_eq!(found, row["matches"].as_str().unwrap(), "{row}");
        }
    }

    #[track_caller]
    fn check_names(terms: serde_json::Value, expected: Option<&[&str]>) {
        let selector: NodeSelector = serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap();
        assert_eq!(selector.names(), expected.map(|names| names.iter().copied().collect()));
    }

    #[test]
    fn the_only_nodes_are_known_if_every_term_names_some() {
        let names = |names: &[&str]| json!({"key": "metadata.name", "operator": "In", "values": names});
        check_names(json!([]), None);
        check_names(json!([{"matchFields": [names(&["b", "a"])]}]), Some(&["a", "b"]));
        check_names(json!([{"matchFields": [names(&["b", "a"]), names(&["c", "b"])]}]), Some(&["b"]));
        check_names(json!([{"matchFields": [names(&["a"]), names(&["b"])]}]), Some(&[]));
        check_names(
            json!([{"matchFields": [names(&["a"])]}, {"matchFields": [names(&["b"])]}]),
            Some(&["a", "b"]),
        );
        check_names(json!([{"matchFields": [names(&["a"])]}, {}]), None);
    }

    #[test]
    fn an_error_names_its_term() {
        let term = json!({"matchFields": [{"key": "metadata.name", "operator": "Gt", "values": ["1"]}]});
        let selector: NodeSelector =
            serde_json::from_value(json!({"nodeSelectorTerms": [{}, term]})).unwrap();
        let error = selector.matches("n1", |_| None).unwrap_err();
        assert_eq!(error.place, "nodeSelectorTerms[1].matchFields[0]");
    }
}

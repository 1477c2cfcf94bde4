//! Sets of field paths as trees, with the set operations of structured-merge-diff and the form `fieldsV1`.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::merge_schema::TypeRef;
use super::path_element::{BadPathElement, PathElement};

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldSet {
    /// Sorted by element.
    nodes: Vec<Node>,
}

/// The paths that begin with an element. It is a member, or has children, or both.
#[derive(Clone, Debug, PartialEq)]
struct Node {
    element: PathElement,
    /// Whether the path that ends here is in the set.
    is_member: bool,
    children: FieldSet,
}

/// The reason why `fieldsV1` cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadFieldSet(String);

// === impl FieldSet ===

impl FieldSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds paths behind all others; [`FieldSet::sort`] has to follow unless they are.
    pub(super) fn push(&mut self, element: PathElement, is_member: bool, children: FieldSet) {
        if is_member || !children.is_empty() {
            self.nodes.push(Node { element, is_member, children });
        }
    }

    pub(super) fn sort(&mut self) {
        self.nodes.sort_by(|left, right| left.element.cmp(&right.element));
    }

    /// Adds one path.
    pub(super) fn insert(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else { return };
        let element = PathElement::field(first);
        let index = match self.position(&element) {
            Ok(index) => index,
            Err(index) => {
                let node = Node { element, is_member: false, children: FieldSet::default() };
                self.nodes.insert(index, node);
                index
            }
        };
        self.nodes[index].is_member |= rest.is_empty();
        self.nodes[index].children.insert(rest);
    }

    fn position(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    /// Whether the path of this element alone is in the set, and the paths behind it.
    pub(super) fn get(&self, element: &PathElement) -> Option<(bool, &FieldSet)> {
        let node = &self.nodes[self.position(element).ok()?];
        Some((node.is_member, &node.children))
    }

    /// Each first element with whether it is a member, and the paths behind it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&PathElement, bool, &FieldSet)> {
        self.nodes.iter().map(|node| (&node.element, node.is_member, &node.children))
    }

    /// Whether a path of fields is in the set.
    pub(super) fn has(&self, path: &[&str]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        let found = self.get(&PathElement::field(first));
        found
            .is_some_and(|(is_member, children)| if rest.is_empty() { is_member } else { children.has(rest) })
    }

    pub(super) fn union(self, other: FieldSet) -> FieldSet {
        if self.is_empty() {
            return other;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len() + other.nodes.len());
        let (mut left, mut right) = (self.nodes.into_iter().peekable(), other.nodes.into_iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => return FieldSet { nodes },
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(left), Some(right)) => left.element.cmp(&right.element),
            };
            let left = if order.is_le() { left.next() } else { None };
            let right = if order.is_ge() { right.next() } else { None };
            match (left, right) {
                (Some(left), Some(right)) => nodes.push(Node {
                    element: left.element,
                    is_member: left.is_member || right.is_member,
                    children: left.children.union(right.children),
                }),
                (left, right) => nodes.extend(left.or(right)),
            }
        }
    }

    pub(super) fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut both = FieldSet::default();
        for node in &self.nodes {
            if let Some((is_member, children)) = other.get(&node.element) {
                let children = node.children.intersection(children);
                both.push(node.element.clone(), node.is_member && is_member, children);
            }
        }
        both
    }

    /// The paths that are not in the other set.
    pub(super) fn difference(mut self, other: &FieldSet) -> FieldSet {
        self.retain_parts(other, |node, is_member, children| {
            node.is_member &= !is_member;
            node.children = std::mem::take(&mut node.children).difference(children);
        });
        self
    }

    /// The paths that are not in the other set, and not behind one that is.
    pub(super) fn recursive_difference(mut self, other: &FieldSet) -> FieldSet {
        self.retain_parts(other, |node, is_member, children| {
            node.is_member &= !is_member;
            node.children = match is_member {
                true => FieldSet::default(),
                false => std::mem::take(&mut node.children).recursive_difference(children),
            };
        });
        self
    }

    /// Changes the nodes that another set has too, and removes those that are empty then.
    fn retain_parts(&mut self, other: &FieldSet, mut change: impl FnMut(&mut Node, bool, &FieldSet)) {
        if other.is_empty() {
            return;
        }
        self.nodes.retain_mut(|node| {
            let Some((is_member, children)) = other.get(&node.element) else { return true };
            change(node, is_member, children);
            node.is_member || !node.children.is_empty()
        });
    }

    /// The same set, with each declared field of a struct that has a path behind it.
    pub(super) fn with_named_fields(&self, type_: Option<TypeRef<'_>>) -> FieldSet {
        let atom = type_.map(TypeRef::resolve);
        let nodes = self.nodes.iter().map(|node| {
            let (mut is_declared, mut inner) = (false, None);
            match &node.element {
                PathElement::Field(name) => {
                    if let Some(map) = atom.as_ref().and_then(|atom| atom.map.as_ref()) {
                        let field = map.field(name);
                        is_declared = field.is_some();
                        inner = field.or(map.element);
                    }
                }
                PathElement::Key(_) => {
                    inner = atom.as_ref().and_then(|atom| atom.list.as_ref()).map(|list| list.element);
                }
                PathElement::Value(_) | PathElement::Index(_) => {}
            }
            Node {
                element: node.element.clone(),
                is_member: node.is_member || is_declared && !node.children.is_empty(),
                children: node.children.with_named_fields(inner),
            }
        });
        FieldSet { nodes: nodes.collect() }
    }

    /// The paths that begin with one of these patterns; `*` is any element.
    pub(super) fn matching(&self, patterns: &[&[&str]]) -> FieldSet {
        let nodes = self.nodes.iter().filter_map(|node| {
            let matches = |name: &str| match &node.element {
                _ if name == "*" => true,
                PathElement::Field(field) => **field == *name,
                _ => false,
            };
            let rests: Vec<&[&str]> = patterns
                .iter()
                .filter_map(|pattern| pattern.split_first().filter(|(first, _)| matches(first)))
                .map(|(_, rest)| rest)
                .collect();
            if rests.is_empty() {
                return None;
            }
            let children = match rests.iter().any(|rest| rest.is_empty()) {
                true => node.children.clone(),
                false => node.children.matching(&rests),
            };
            let is_empty = !node.is_member && children.is_empty();
            (!is_empty).then(|| Node { element: node.element.clone(), is_member: node.is_member, children })
        });
        FieldSet { nodes: nodes.collect() }
    }

    /// Calls a function with the text of each path: the shorter ones first.
    pub(super) fn each_path(&self, prefix: &mut String, each: &mut impl FnMut(&str)) {
        let length = prefix.len();
        for node in self.nodes.iter().filter(|node| node.is_member) {
            prefix.push_str(&node.element.to_string());
            each(prefix);
            prefix.truncate(length);
        }
        for node in &self.nodes {
            prefix.push_str(&node.element.to_string());
            node.children.each_path(prefix, each);
            prefix.truncate(length);
        }
    }

    /// The length of the longest path.
    pub(super) fn depth(&self) -> usize {
        self.nodes.iter().map(|node| 1 + node.children.depth()).max().unwrap_or(0)
    }

    /// The form in `fieldsV1`.
    pub(crate) fn to_fields(&self) -> Value {
        let fields = self.nodes.iter().map(|node| {
            let mut inner = node.children.to_fields();
            if node.is_member
                && let Some(inner) = inner.as_object_mut().filter(|inner| !inner.is_empty())
            {
                inner.insert(".".to_owned(), Map::new().into());
            }
            (node.element.to_key(), inner)
        });
        Value::Object(fields.collect())
    }

    /// Reads `fieldsV1`. Recursion follows the nesting, which the JSON parser bounds.
    pub(crate) fn from_fields(fields: &Value) -> Result<FieldSet, BadFieldSet> {
        let fields = match fields {
            Value::Object(fields) => fields,
            Value::Null => return Ok(FieldSet::default()),
            _ => return Err(BadFieldSet("expected an object of fields".to_owned())),
        };
        let mut set = FieldSet::default();
        for (key, inner) in fields.iter().filter(|(key, _)| *key != ".") {
            let element = match PathElement::parse(key) {
                Ok(element) => element,
                Err(BadPathElement::UnknownType) => continue,
                Err(BadPathElement::Invalid(why)) => return Err(BadFieldSet(why)),
            };
            let children = FieldSet::from_fields(inner)?;
            let is_member = children.is_empty() || inner.get(".").is_some();
            set.push(element, is_member, children);
        }
        set.sort();
        Ok(set)
    }
}

//! Import cycles between sibling modules of a crate.
//!
//! A module may import from its parent and its children; siblings must have an order. Paths are followed through
//! re-exports. Tests are ignored.

use std::collections::{BTreeMap, BTreeSet};

/// The path of a module; empty for the crate itself.
type ModulePath = Vec<String>;

/// The modules of one crate.
#[derive(Default)]
pub(crate) struct Modules {
    /// The text of each module without tests and comments.
    texts: BTreeMap<ModulePath, String>,
    /// By module: the names it re-exports, with their paths.
    exports: BTreeMap<ModulePath, BTreeMap<String, String>>,
}

/// How many re-exports in a chain are followed.
const MAX_REEXPORTS: usize = 6;

impl Modules {
    /// Adds a file by its path within `src`. Test files are ignored.
    pub(crate) fn add(&mut self, path: &str, text: &str) {
        let Some(module) = module_of(path) else { return };
        let text = without_comments(without_tests(text));
        for tree in use_trees(&text).filter(|tree| tree.is_public) {
            let exports = self.exports.entry(module.clone()).or_default();
            for path in expand_use_tree(tree.text) {
                if let Some(name) = path.rsplit("::").next() {
                    exports.insert(name.to_owned(), path.clone());
                }
            }
        }
        self.texts.insert(module, text);
    }

    /// Every set of siblings that import each other, each sorted by name.
    pub(crate) fn cycles(&self) -> Vec<Vec<String>> {
        let siblings = self.imported_siblings();
        let mut cycles = BTreeSet::new();
        for module in siblings.keys() {
            let mut cycle: Vec<&ModulePath> = reachable(&siblings, module)
                .into_iter()
                .filter(|other| reachable(&siblings, other).contains(module))
                .collect();
            if cycle.len() > 1 {
                cycle.sort_unstable();
                cycles.insert(cycle.iter().map(|module| module.join("::")).collect::<Vec<_>>());
            }
        }
        cycles.into_iter().collect()
    }

    /// For each module, the siblings that it or one of its descendants imports from.
    fn imported_siblings(&self) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
        let mut siblings: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
        for (module, text) in &self.texts {
            let uses = use_trees(text).flat_map(|tree| expand_use_tree(tree.text));
            for path in uses.chain(inline_paths(text)) {
                let Some(imported) = self.resolve(module, &path, 0) else { continue };
                let common = module.iter().zip(&imported).take_while(|(a, b)| a == b).count();
                if common < module.len() && common < imported.len() {
                    let from = module[..=common].to_vec();
                    siblings.entry(from).or_default().insert(imported[..=common].to_vec());
                }
            }
        }
        siblings
    }

    /// The module that a path refers to, seen from another module; `None` if it is outside the crate.
    fn resolve(&self, from: &[String], path: &str, steps: usize) -> Option<ModulePath> {
        let mut names = path.split("::").peekable();
        let mut module: ModulePath = from.to_vec();
        match *names.peek()? {
            "crate" => {
                module.clear();
                names.next();
            }
            "self" => drop(names.next()),
            "super" => {
                while names.next_if_eq(&"super").is_some() {
                    module.pop();
                }
            }
            name => {
                if !self.texts.contains_key(&child(&module, name)) {
                    return None;
                }
            }
        }
        while let Some(name) = names.next_if(|name| self.texts.contains_key(&child(&module, name))) {
            module.push(name.to_owned());
        }
        let export = names.next().and_then(|name| self.exports.get(&module)?.get(name));
        match export.filter(|_| steps < MAX_REEXPORTS) {
            Some(path) => self.resolve(&module, path, steps + 1).or(Some(module)),
            None => Some(module),
        }
    }
}

fn child(module: &[String], name: &str) -> ModulePath {
    module.iter().map(String::as_str).chain([name]).map(str::to_owned).collect()
}

fn module_of(path: &str) -> Option<ModulePath> {
    let mut names: ModulePath = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|name| name == "mod") || names == ["lib"] || names == ["main"] {
        names.pop();
    }
    let is_test = |name: &String| name == "tests" || name == "testing";
    (!names.iter().any(is_test)).then_some(names)
}

/// The text before the inline test module, which is the last item.
fn without_tests(text: &str) -> &str {
    let tests = text.match_indices("#[cfg(test)]\nmod ").find(|(at, _)| {
        let rest = &text[*at..];
        rest.find('{') < rest.find(';')
    });
    tests.map_or(text, |(at, _)| &text[..at])
}

fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// A `use` declaration.
struct UseTree<'a> {
    is_public: bool,
    text: &'a str,
}

fn use_trees(text: &str) -> impl Iterator<Item = UseTree<'_>> {
    let starts = text.match_indices("use ").filter(|(at, _)| {
        let before = text[..*at].trim_end_matches(' ');
        before.is_empty()
            || before.ends_with(['\n', '{', '}', ';'])
            || before.ends_with("pub")
            || before.ends_with(')')
    });
    starts.filter_map(|(at, word)| {
        let rest = &text[at + word.len()..];
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        Some(UseTree { is_public: line.trim_start().starts_with("pub"), text: &rest[..rest.find(';')?] })
    })
}

/// All paths of a `use` tree.
fn expand_use_tree(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, list)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        return if path.is_empty() { Vec::new() } else { vec![path.to_owned()] };
    };
    let list = list.trim_end().strip_suffix('}').unwrap_or(list);
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    let prefixed = |path: String| match path.as_str() {
        "self" => prefix.trim_end_matches(':').to_owned(),
        path => format!("{prefix}{path}"),
    };
    parts.into_iter().flat_map(expand_use_tree).map(prefixed).collect()
}

/// Paths in the text that begin with `crate::` or `super::`.
fn inline_paths(text: &str) -> impl Iterator<Item = String> {
    ["crate::", "super::"].into_iter().flat_map(move |word| {
        text.match_indices(word).map(|(at, _)| {
            let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
            let end = text[at..].find(|letter| !is_path(letter)).map_or(text.len(), |end| at + end);
            text[at..end].trim_end_matches(':').to_owned()
        })
    })
}

/// All modules that can be reached from one, including itself if it is in a cycle.
fn reachable<'s>(
    siblings: &'s BTreeMap<ModulePath, BTreeSet<ModulePath>>,
    from: &ModulePath,
) -> BTreeSet<&'s ModulePath> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&ModulePath> = siblings.get(from).into_iter().flatten().collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(siblings.get(module).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&[&str]]) {
        let mut modules = Modules::default();
        files.iter().for_each(|(path, text)| modules.add(path, text));
        assert_eq!(modules.cycles(), expected);
    }

    #[test]
    fn ordered_modules_are_not_a_cycle() {
        check(
            &[("lib.rs", "mod a;\nmod b;\n"), ("a.rs", "use crate::b::B;\n"), ("b.rs", "use std::fmt;\n")],
            &[],
        );
    }

    #[test]
    fn two_modules_that_import_each_other_are_a_cycle() {
        check(&[("a.rs", "use crate::b::B;\n"), ("b.rs", "fn f() -> super::a::A {}\n")], &[&["a", "b"]]);
    }

    #[test]
    fn an_indirect_cycle_is_found() {
        let files = [
            ("a.rs", "use super::b;\n"),
            ("b.rs", "use super::{c::{C, D}, x};\n"),
            ("c/d.rs", "use crate::a::A;\n"),
        ];
        check(&[&files[..], &[("c.rs", "mod d;\n")]].concat(), &[&["a", "b", "c"]]);
    }

    #[test]
    fn reexports_are_followed() {
        let files = [
            ("lib.rs", "pub use b::B;\n"),
            ("a.rs", "use crate::B;\n"),
            ("b.rs", "pub(crate) use self::c::C;\n"),
            ("b/c.rs", "use crate::a::A;\n"),
        ];
        check(&files, &[&["a", "b"]]);
    }

    #[test]
    fn parents_children_comments_and_tests_are_ignored() {
        check(&[("a.rs", "mod b;\nuse b::B;\n"), ("a/b.rs", "use super::A;\n")], &[]);
        check(
            &[
                ("a.rs", "use crate::b::B;\n"),
                ("b.rs", "// crate::a::A\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
            ],
            &[],
        );
        check(&[("a.rs", "use crate::b::B;\n"), ("b.rs", ""), ("b/tests.rs", "use crate::a::A;\n")], &[]);
    }

    #[test]
    fn nested_siblings_are_checked() {
        check(
            &[("x.rs", ""), ("x/a.rs", "use super::b::B;\n"), ("x/b.rs", "use crate::x::a::A;\n")],
            &[&["x::a", "x::b"]],
        );
    }
}

//! Checks of names, module docs and headings: types with the same name, retired names, first sentences that do not
//! describe the module, and headings of types without an `impl` in the file.

use std::collections::BTreeMap;

/// Names of types and modules that were replaced and must not be used again, one per line: `crate name`.
const RETIRED_NAMES: &str = include_str!("retired_names.txt");

/// Words with which a first sentence paraphrases instead of describing.
const QUESTION_WORDS: [&str; 4] = ["What", "Who", "How", "Which"];

/// The types of one crate that other modules can see, by name, with the files that define them.
#[derive(Default)]
pub(crate) struct VisibleTypes {
    files: BTreeMap<String, Vec<String>>,
}

impl VisibleTypes {
    /// Adds a file by its path within `src`.
    pub(crate) fn add(&mut self, file: &str, text: &str) {
        for definition in definitions(text).filter(|definition| definition.is_visible) {
            self.files.entry(definition.name.to_owned()).or_default().push(file.to_owned());
        }
    }

    /// Names of several types, with the files that define them.
    pub(crate) fn ambiguous(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.files.iter().filter(|(_, files)| files.len() > 1).map(|(name, files)| (&**name, &files[..]))
    }
}

/// The line and the description of each problem in one file of a crate.
pub(crate) fn check_words(name: &str, module: &str, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let is_retired =
        |word: &str| RETIRED_NAMES.lines().any(|line| line.split_once(' ') == Some((name, word)));
    let parts = module.trim_end_matches(".rs").split('/');
    for part in parts.filter(|part| is_retired(part)) {
        found.push((0, format!("{part}: a retired name in {name}, see CONTRIBUTING.md")));
    }
    for definition in definitions(text).filter(|definition| is_retired(definition.name)) {
        let what = format!("{}: a retired name in {name}, see CONTRIBUTING.md", definition.name);
        found.push((definition.line, what));
    }
    for (line, heading) in
        (1..).zip(text.lines()).filter_map(|(line, content)| Some((line, heading(content)?)))
    {
        if !text.lines().any(|content| content.starts_with("impl") && has_word(content, heading)) {
            found.push((line, format!("a heading of {heading}, which has no `impl` in this file")));
        }
    }
    let first = text.lines().next().and_then(|line| line.strip_prefix("//! "));
    let first_word = first.and_then(|line| line.split(|c: char| !c.is_alphabetic()).next());
    if let Some(word) = first_word.filter(|word| QUESTION_WORDS.contains(word)) {
        found.push((
            1,
            format!("a module's first sentence must say what the module holds and not begin with {word:?}"),
        ));
    }
    found
}

/// The type in a heading such as `// === impl Node<T> ===`.
fn heading(line: &str) -> Option<&str> {
    let name = line.trim_start().strip_prefix("// === impl ")?.strip_suffix(" ===")?;
    name.rsplit(' ').next()?.split('<').next()
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

/// A struct, enum, trait or alias.
struct Definition<'a> {
    line: usize,
    name: &'a str,
    is_visible: bool,
}

/// All definitions at the beginning of a line: those of tests and inside functions are indented.
fn definitions(text: &str) -> impl Iterator<Item = Definition<'_>> {
    (1..).zip(text.lines()).filter_map(|(line, content)| {
        let (is_visible, rest) = match content.strip_prefix("pub") {
            Some(rest) => (true, rest.split_once(' ')?.1),
            None => (false, content),
        };
        let (keyword, rest) = rest.split_once(' ')?;
        if !["struct", "enum", "trait", "type"].contains(&keyword) {
            return None;
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        Some(Definition { line, name: &rest[..end], is_visible })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_with_the_same_name_are_found() {
        let mut types = VisibleTypes::default();
        types.add("a.rs", "pub struct Node<T>;\nstruct Pod;\n    pub struct Inner;\n");
        types.add("b.rs", "pub(crate) enum Node {\npub struct Pod;\n");
        let ambiguous: Vec<_> = types.ambiguous().collect();
        assert_eq!(ambiguous, [("Node", &["a.rs".to_owned(), "b.rs".to_owned()][..])]);
    }

    #[test]
    fn module_docs_that_begin_with_a_question_word_are_found() {
        let check = |text: &str| check_words("model", "a.rs", text).len();
        assert_eq!(check("//! Who is on the nodes.\n"), 1);
        assert_eq!(check("//! Whole numbers.\n"), 0);
        assert_eq!(check("/// How it is.\n"), 0);
    }

    #[test]
    fn headings_of_types_without_an_impl_are_found() {
        let check =
            |heading: &str| check_words("model", "a.rs", &format!("{heading}\n\nimpl Node<'_> {{}}\n")).len();
        assert_eq!(check("// === impl Node ==="), 0);
        assert_eq!(check("// === impl Node<'_> ==="), 0);
        assert_eq!(check("// === impl Display for Node ==="), 0);
        assert_eq!(check("// === impl Pod ==="), 1);
    }

    #[test]
    fn retired_names_are_found() {
        let (name, retired) = RETIRED_NAMES.lines().next().unwrap().split_once(' ').unwrap();
        let text = format!("pub(crate) struct {retired} {{\n");
        assert_eq!(check_words(name, "a.rs", &text).len(), 1);
        assert_eq!(check_words(name, &format!("{retired}/b.rs"), "").len(), 1);
        assert_eq!(check_words("another", "a.rs", &text).len(), 0);
    }
}

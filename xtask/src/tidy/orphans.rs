//! Source files that no `mod` declares, and that are therefore never compiled.

use std::collections::BTreeSet;

/// The files of one crate, and the modules that its files declare.
#[derive(Default)]
pub(crate) struct SourceFiles {
    files: Vec<String>,
    declared: BTreeSet<String>,
}

impl SourceFiles {
    /// Adds a file by its path within `src`.
    pub(crate) fn add(&mut self, file: &str, text: &str) {
        self.files.push(file.to_owned());
        let declarations = text.lines().filter_map(|line| line.trim().strip_suffix(';')?.rsplit_once("mod "));
        self.declared.extend(declarations.map(|(_, name)| name.to_owned()));
    }

    /// The files whose name no file of the crate declares as a module.
    pub(crate) fn orphans(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str).filter(|file| {
            let path = file.strip_suffix(".rs").unwrap_or(file);
            let path = path.strip_suffix("/mod").unwrap_or(path);
            let name = path.rsplit('/').next().unwrap_or(path);
            file.ends_with(".rs") && !["lib", "main"].contains(&path) && !self.declared.contains(name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_no_module_declares_are_found() {
        let mut files = SourceFiles::default();
        files.add("lib.rs", "pub(crate) mod a;\n#[cfg(test)]\nmod tests;\nmod inline {\n}\n");
        files.add("a/mod.rs", "");
        files.add("tests.rs", "");
        files.add("schema.sql", "");
        files.add("forgotten.rs", "");
        assert_eq!(files.orphans().collect::<Vec<_>>(), ["forgotten.rs"]);
    }
}

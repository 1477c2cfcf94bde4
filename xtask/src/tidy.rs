//! Checks that the compiler does not make: the order of crates and modules, names and module docs, the size of files,
//! unfinished code and local paths.

mod manifest;
mod modules;
mod orphans;
mod walks;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use manifest::Manifest;
use modules::Modules;
use orphans::SourceFiles;
use walks::check_walks;
use words::{VisibleTypes, check_words};

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Relative to the workspace.
    file: String,
    /// Zero if it concerns the whole file.
    line: usize,
    problem: String,
}

/// Each crate, with the crates of the workspace that it may depend on.
const CRATES: &[(&str, AllowedDependencies)] = &[
    ("model", AllowedDependencies::Only(&[])),
    ("kubernetes", AllowedDependencies::Only(&["model"])),
    ("apimachinery", AllowedDependencies::Only(&["model", "kubernetes"])),
    ("history", AllowedDependencies::Only(&["model"])),
    ("formats", AllowedDependencies::Only(&["model", "kubernetes", "apimachinery"])),
    ("live", AllowedDependencies::Only(&["model", "kubernetes"])),
    ("apiserver", AllowedDependencies::Only(&["model", "kubernetes", "apimachinery"])),
    ("scheduler", AllowedDependencies::Only(&["model", "kubernetes"])),
    ("controllers", AllowedDependencies::Only(&["model", "kubernetes", "apimachinery"])),
    ("autoscaler", AllowedDependencies::Only(&["model", "kubernetes", "scheduler"])),
    ("kai", AllowedDependencies::Only(&["model", "kubernetes", "scheduler"])),
    (
        "simulation",
        AllowedDependencies::Only(&["model", "kubernetes", "scheduler", "autoscaler", "controllers"]),
    ),
    ("calibration", AllowedDependencies::Only(&["model", "kubernetes", "autoscaler", "simulation"])),
    (
        "replay",
        AllowedDependencies::Only(&[
            "model",
            "kubernetes",
            "history",
            "formats",
            "live",
            "scheduler",
            "autoscaler",
            "controllers",
            "simulation",
            "calibration",
            "query",
            "recorder",
        ]),
    ),
    (
        "query",
        AllowedDependencies::Only(&[
            "model",
            "kubernetes",
            "history",
            "formats",
            "scheduler",
            "autoscaler",
            "simulation",
            "calibration",
        ]),
    ),
    (
        "explain",
        AllowedDependencies::Only(&[
            "model",
            "kubernetes",
            "history",
            "formats",
            "scheduler",
            "autoscaler",
            "query",
        ]),
    ),
    ("recorder", AllowedDependencies::Only(&["model", "kubernetes", "history", "formats", "live", "query"])),
    (
        "snapshot",
        AllowedDependencies::Only(&[
            "model",
            "kubernetes",
            "history",
            "formats",
            "live",
            "scheduler",
            "kai",
            "query",
        ]),
    ),
    (
        "virtualcluster",
        AllowedDependencies::Only(&[
            "model",
            "kubernetes",
            "apimachinery",
            "history",
            "formats",
            "apiserver",
            "query",
            "scheduler",
            "autoscaler",
            "controllers",
            "simulation",
        ]),
    ),
    (
        "workload",
        AllowedDependencies::Only(&[
            "model",
            "kubernetes",
            "scheduler",
            "autoscaler",
            "controllers",
            "simulation",
        ]),
    ),
    ("testcluster", AllowedDependencies::Only(&[])),
    ("testobjects", AllowedDependencies::Only(&["model"])),
    (
        "conformance",
        AllowedDependencies::Only(&[
            "model",
            "kubernetes",
            "formats",
            "scheduler",
            "autoscaler",
            "controllers",
            "kai",
            "simulation",
            "calibration",
            "testcluster",
        ]),
    ),
    (
        "server",
        AllowedDependencies::Only(&[
            "model",
            "kubernetes",
            "history",
            "formats",
            "live",
            "scheduler",
            "autoscaler",
            "query",
            "explain",
            "replay",
            "recorder",
        ]),
    ),
    (
        "kinescope",
        AllowedDependencies::Only(&[
            "model",
            "formats",
            "history",
            "query",
            "explain",
            "replay",
            "virtualcluster",
        ]),
    ),
    (
        "cli",
        AllowedDependencies::Only(&[
            "model",
            "kubernetes",
            "history",
            "formats",
            "live",
            "apiserver",
            "scheduler",
            "kai",
            "snapshot",
            "autoscaler",
            "calibration",
            "query",
            "explain",
            "replay",
            "recorder",
            "virtualcluster",
            "server",
            "workload",
        ]),
    ),
    ("benches", AllowedDependencies::Any),
    ("xtask", AllowedDependencies::Any),
];

enum AllowedDependencies {
    Only(&'static [&'static str]),
    Any,
}

/// Crates that the tests of every crate may depend on too.
const TEST_DEPENDENCIES: [&str; 4] = ["conformance", "testcluster", "testobjects", "workload"];

/// Crates that the tests of one crate may depend on too: a test of `workload` derives settings from the generated shop.
const EXTRA_TEST_DEPENDENCIES: [(&str, &str); 1] = [("workload", "calibration")];

/// Separate workspaces, which use the crates from outside.
const SEPARATE_WORKSPACES: [&str; 2] = ["fuzz/", "interop/"];

const MAX_LINES: usize = 700;
/// Written in two parts, so that this file does not contain them.
const UNFINISHED: [&str; 3] = [concat!("todo", "!"), concat!("dbg", "!"), concat!("#[", "ignore")];
/// Absolute paths that exist only on one machine.
const PRIVATE_FOLDERS: [&str; 4] =
    [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];
/// Folders that are not checked: build output and git's data.
const IGNORED_FOLDERS: [&str; 2] = ["target", ".git"];

/// All findings, in the order of the files.
pub(crate) fn check(root: &Path) -> io::Result<Vec<Finding>> {
    let mut files = Vec::new();
    walk(root, &mut files)?;
    files.sort_unstable();
    let mut found = Vec::new();
    let mut crates: BTreeMap<String, (Modules, VisibleTypes, SourceFiles)> = BTreeMap::new();
    for path in &files {
        // Binary files have no lines.
        let Ok(text) = String::from_utf8(fs::read(path)?) else { continue };
        let file = relative(root, path);
        check_file(&file, &text, &mut found);
        let is_crate = !SEPARATE_WORKSPACES.iter().any(|folder| file.starts_with(folder));
        if is_crate && path.file_name().is_some_and(|name| name == "Cargo.toml") {
            check_manifest(&file, &text, &mut found);
        }
        if let Some((folder, module)) = file.split_once("/src/") {
            let (modules, types, sources) = crates.entry(folder.to_owned()).or_default();
            sources.add(module, &text);
            modules.add(module, &text);
            types.add(module, &text);
            let name = folder.rsplit('/').next().unwrap_or(folder);
            let words = check_words(name, module, &text);
            found.extend(words.into_iter().map(|(line, what)| Finding {
                file: file.clone(),
                line,
                problem: what,
            }));
        }
    }
    for (folder, (modules, types, sources)) in crates {
        for file in sources.orphans() {
            let what = "no `mod` declares this file, so it is never compiled".to_owned();
            found.push(Finding { file: format!("{folder}/src/{file}"), line: 0, problem: what });
        }
        for (name, files) in types.ambiguous() {
            let what =
                format!("several types visible to other modules are called {name}: {}", files.join(", "));
            found.push(Finding { file: format!("{folder}/src"), line: 0, problem: what });
        }
        for cycle in modules.cycles() {
            let what = format!("modules that import each other: {}", cycle.join(", "));
            found.push(Finding { file: format!("{folder}/src"), line: 0, problem: what });
        }
    }
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let walks = check_walks(root, &architecture).into_iter();
    found.extend(walks.map(|(line, what)| Finding {
        file: "ARCHITECTURE.md".to_owned(),
        line,
        problem: what,
    }));
    let testdata = root.join("testdata");
    let notes = fs::read_to_string(testdata.join("README.md")).unwrap_or_default();
    for path in files.iter().filter(|path| path.starts_with(&testdata)) {
        check_is_documented(&relative(&testdata, path), &notes, &mut found);
    }
    Ok(found)
}

/// Whether the workspace has a package of this name.
pub(crate) fn is_package(root: &Path, name: &str) -> bool {
    let name = format!("name = {name:?}");
    let folders = fs::read_dir(root.join("crates")).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut manifests =
        folders.chain([root.join("benches"), root.join("xtask")]).map(|folder| folder.join("Cargo.toml"));
    manifests.any(|path| fs::read_to_string(path).is_ok_and(|text| text.lines().any(|line| line == name)))
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        // In a second work tree `.git` is a file.
        if IGNORED_FOLDERS.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if kind.is_file() {
            files.push(entry.path());
        } else if kind.is_dir() {
            walk(&entry.path(), files)?;
        }
    }
    Ok(())
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn check_file(file: &str, text: &str, found: &mut Vec<Finding>) {
    let mut find = |line, what: String| found.push(Finding { file: file.to_owned(), line, problem: what });
    let (is_rust, is_prose) = (file.ends_with(".rs"), file.ends_with(".md"));
    for (line, content) in (1..).zip(text.lines()) {
        for folder in PRIVATE_FOLDERS.iter().filter(|folder| has_path(content, folder)) {
            find(line, format!("a path of one machine: {folder}…"));
        }
        if is_rust {
            for word in UNFINISHED.iter().filter(|word| content.contains(**word)) {
                find(line, format!("unfinished: {word}"));
            }
        }
        if is_rust || is_prose {
            if content.contains('\t') {
                find(line, "a tab".to_owned());
            }
            if content.ends_with([' ', '\t']) {
                find(line, "trailing whitespace".to_owned());
            }
        }
    }
    let lines = text.lines().count();
    if is_rust && lines > MAX_LINES {
        find(0, format!("{lines} lines, more than {MAX_LINES}: split the file by meaning"));
    }
}

/// Whether a line contains an absolute path that begins with `folder`, not the end of a longer path or of a URL.
fn has_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        !line[..at].ends_with(|before: char| before.is_alphanumeric() || "._-~/}>*".contains(before))
    })
}

fn check_manifest(file: &str, text: &str, found: &mut Vec<Finding>) {
    let mut find = |what: String| found.push(Finding { file: file.to_owned(), line: 0, problem: what });
    let manifest = Manifest::read(text);
    // The workspace's own manifest has no package.
    let Some(name) = &manifest.name else { return };
    if !manifest.has_workspace_lints {
        find("[lints] workspace = true is missing".to_owned());
    }
    match CRATES.iter().find(|(known, _)| known == name) {
        None => find(format!("{name} is missing from the order of crates: add it in xtask/src/tidy.rs")),
        Some((_, AllowedDependencies::Any)) => {}
        Some((_, AllowedDependencies::Only(allowed))) => {
            let is_crate = |name: &&String| CRATES.iter().any(|(known, _)| known == name);
            let is_for_tests = |other: &&String| {
                TEST_DEPENDENCIES.contains(&other.as_str())
                    || EXTRA_TEST_DEPENDENCIES.contains(&(name.as_str(), other.as_str()))
            };
            let tests = manifest.test_dependencies.iter().filter(|other| !is_for_tests(other));
            for other in manifest.dependencies.iter().chain(tests).filter(is_crate) {
                if !allowed.contains(&other.as_str()) {
                    find(format!("{name} must not depend on {other}"));
                }
            }
        }
    }
}

/// Checks that the README of the test data mentions this file or a folder that contains it.
fn check_is_documented(file: &str, notes: &str, found: &mut Vec<Finding>) {
    let folders = file.match_indices('/').map(|(at, _)| &file[..=at]);
    let is_named = folders.chain([file]).any(|path| notes.contains(&format!("`{path}`")));
    if !is_named && file != "README.md" {
        let what = "testdata/README.md does not describe the file and how it was made".to_owned();
        found.push(Finding { file: format!("testdata/{file}"), line: 0, problem: what });
    }
}

// === impl Finding ===

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.problem),
            line => write!(f, "{}:{line}: {}", self.file, self.problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(run: impl FnOnce(&mut Vec<Finding>), expected: &[&str]) {
        let mut found = Vec::new();
        run(&mut found);
        let found: Vec<String> = found.iter().map(Finding::to_string).collect();
        assert_eq!(found, expected);
    }

    #[track_caller]
    fn check_lines(file: &str, text: &str, expected: &[&str]) {
        check(|found| check_file(file, text, found), expected);
    }

    #[track_caller]
    fn check_dependencies(name: &str, dependencies: &str, expected: &[&str]) {
        let text = format!(
            "[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n[dependencies]\n{dependencies}"
        );
        check(|found| check_manifest("Cargo.toml", &text, found), expected);
    }

    #[test]
    fn trailing_blanks_and_tabs_are_found_in_code_and_documents() {
        check_lines("a.md", "good\nbad \n", &["a.md:2: trailing whitespace"]);
        check_lines("a.rs", "\tx\n", &["a.rs:1: a tab"]);
        check_lines("a.jsonl", "\tx \n", &[]);
    }

    #[test]
    fn unfinished_code_is_found() {
        check_lines(
            "a.rs",
            &format!("{}()", UNFINISHED[0]),
            &[&format!("a.rs:1: unfinished: {}", UNFINISHED[0])],
        );
        check_lines("a.rs", "// what is left to do!", &[]);
    }

    #[test]
    fn long_files_are_found() {
        check_lines("a.rs", &"x\n".repeat(MAX_LINES), &[]);
        check_lines(
            "a.rs",
            &"x\n".repeat(MAX_LINES + 1),
            &["a.rs: 701 lines, more than 700: split the file by meaning"],
        );
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let folder = PRIVATE_FOLDERS[0];
        let expected = format!("a.toml:1: a path of one machine: {folder}…");
        check_lines("a.toml", &format!("cd {folder}me"), &[&expected]);
        check_lines("a.toml", &format!("\"{folder}me\""), &[&expected]);
        check_lines("a.toml", &format!("https://example.com{folder}page"), &[]);
        check_lines("a.toml", &format!("/var{folder}me"), &[]);
    }

    #[test]
    fn a_crate_depends_only_on_crates_below_it() {
        check_dependencies(
            "formats",
            "model.workspace = true\nkubernetes.workspace = true\nzstd = \"1\"",
            &[],
        );
        check_dependencies(
            "history",
            "model.workspace = true\nkubernetes.workspace = true",
            &["Cargo.toml: history must not depend on kubernetes"],
        );
        check_dependencies("benches", "history.workspace = true", &[]);
        for for_tests in TEST_DEPENDENCIES {
            check_dependencies("history", &format!("[dev-dependencies]\n{for_tests}.workspace = true"), &[]);
        }
        check_dependencies(
            "history",
            "workload.workspace = true\n[dev-dependencies]\nformats.workspace = true",
            &[
                "Cargo.toml: history must not depend on workload",
                "Cargo.toml: history must not depend on formats",
            ],
        );
        check_dependencies(
            "new",
            "",
            &["Cargo.toml: new is missing from the order of crates: add it in xtask/src/tidy.rs"],
        );
    }

    #[test]
    fn a_crate_without_the_lints_is_found() {
        let text = "[package]\nname = \"model\"\n";
        check(
            |found| check_manifest("Cargo.toml", text, found),
            &["Cargo.toml: [lints] workspace = true is missing"],
        );
        check(|found| check_manifest("Cargo.toml", "[workspace]\n", found), &[]);
    }

    #[test]
    fn undocumented_test_data_is_found() {
        let notes = "* `a/one.jsonl`: what it is.\n* `films/`: three films.\n";
        for named in ["a/one.jsonl", "films/x/y.gz", "README.md"] {
            check(|found| check_is_documented(named, notes, found), &[]);
        }
        check(
            |found| check_is_documented("a/two.jsonl", notes, found),
            &["testdata/a/two.jsonl: testdata/README.md does not describe the file and how it was made"],
        );
    }
}

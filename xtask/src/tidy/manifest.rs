//! A minimal parser of `Cargo.toml` files for the order of crates. It expects one entry per line.

/// The prefix of the workspace's package names; their libraries do not have it.
const PREFIX: &str = "kinescope-";

/// The relevant content of a manifest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// The package's name without [`PREFIX`]; `None` in a workspace's own file.
    pub(super) name: Option<String>,
    /// Whether the workspace's lints are enabled.
    pub(super) has_workspace_lints: bool,
    /// Its dependencies by package name, including build dependencies and those of single platforms.
    pub(super) dependencies: Vec<String>,
    /// Its dev-dependencies.
    pub(super) test_dependencies: Vec<String>,
}

impl Manifest {
    /// Reads a manifest that cargo has accepted.
    pub(super) fn read(text: &str) -> Manifest {
        let mut manifest = Manifest::default();
        let mut section = "";
        for line in text.lines().map(str::trim) {
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_end_matches(']');
                // `[dependencies.name]`
                if let Some((table, name)) = section.rsplit_once('.')
                    && is_dependencies(table)
                {
                    manifest
                        .dependencies_of_table(table)
                        .push(name.strip_prefix(PREFIX).unwrap_or(name).to_owned());
                }
                continue;
            }
            let Some((entry, value)) = line.split_once('=') else { continue };
            let (entry, value) = (entry.trim(), value.trim());
            match section {
                "package" if entry == "name" => {
                    let name = unquoted(value);
                    manifest.name = Some(name.strip_prefix(PREFIX).unwrap_or(name).to_owned());
                }
                "lints" if entry == "workspace" => manifest.has_workspace_lints = value == "true",
                _ if entry.starts_with('#') => {}
                table if is_dependencies(table) => {
                    // `name.workspace = true`, or `other = { package = "name" }`
                    let name = entry.split('.').next().unwrap_or(entry);
                    let package = value.split_once("package").map(|(_, rest)| rest);
                    let package = package.and_then(|rest| rest.split('"').nth(1));
                    let package = package.unwrap_or(unquoted(name));
                    manifest
                        .dependencies_of_table(table)
                        .push(package.strip_prefix(PREFIX).unwrap_or(package).to_owned());
                }
                _ => {}
            }
        }
        manifest
    }

    fn dependencies_of_table(&mut self, table: &str) -> &mut Vec<String> {
        match table.ends_with("dev-dependencies") {
            true => &mut self.test_dependencies,
            false => &mut self.dependencies,
        }
    }
}

/// `dependencies`, `dev-dependencies`, `target.'cfg(unix)'.dependencies`; not the workspace's list of versions.
fn is_dependencies(table: &str) -> bool {
    table.ends_with("dependencies") && !table.starts_with("workspace")
}

fn unquoted(value: &str) -> &str {
    value.trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_every_form_are_found() {
        let manifest = Manifest::read(
            "[package]\nname = \"kinescope-a\"\n\n[lints]\nworkspace = true\n\n[dependencies]\n# b = \"1\"\nc.workspace = true\n\
             d = { path = \"d\" }\ne = { package = \"f\", version = \"1\" }\n[dev-dependencies]\ng = \"1\"\n\
             [target.'cfg(unix)'.dependencies]\nh = \"1\"\n[dependencies.i]\nversion = \"1\"\n",
        );
        assert_eq!(manifest.name.as_deref(), Some("a"));
        assert!(manifest.has_workspace_lints);
        assert_eq!(manifest.dependencies, ["c", "d", "f", "h", "i"]);
        assert_eq!(manifest.test_dependencies, ["g"]);
    }

    #[test]
    fn a_workspace_is_not_a_package() {
        let text =
            "[workspace]\nmembers = [\"a\"]\n[workspace.dependencies]\nb = \"1\"\n[workspace.lints.rust]\n";
        assert_eq!(Manifest::read(text), Manifest::default());
    }
}

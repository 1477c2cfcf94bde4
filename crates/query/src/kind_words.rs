//! From the word a user types to the kinds of a history.

use anyhow::bail;
use history::{History, Selection};
use kubernetes::kinds;
use kubernetes::table::Layout;
use model::{Kind, Moment, Object};
use serde::Deserialize;

/// The kinds a history knows, and the definitions of custom ones.
pub struct KindWords {
    recorded: Vec<Kind>,
    custom: Vec<Custom>,
    /// Those of which nobody says so, but whose objects are in no namespace.
    cluster_wide: Vec<Kind>,
}

/// What a recorded CustomResourceDefinition says of its kind.
struct Custom {
    kind: Kind,
    words: Vec<String>,
    namespaced: bool,
    definition: Object,
    version: String,
}

/// What is asked for, found in the history or at least known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The kind.
    pub kind: Kind,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

// === impl KindWords ===

impl KindWords {
    /// The kinds of a history, and what custom ones are called at a moment.
    pub fn read(history: &History, moment: Moment) -> anyhow::Result<KindWords> {
        let recorded = history.kinds()?;
        let definition = Kind::new("apiextensions.k8s.io", "CustomResourceDefinition");
        let mut custom = Vec::new();
        if recorded.contains(&definition) {
            let selection = Selection { kinds: Some(vec![definition]), ..Selection::default() };
            history.each_at(moment, &selection, |version| custom.extend(Custom::of(version.object)))?;
        }
        let mut cluster_wide = Vec::new();
        for kind in recorded.iter().filter(|kind| kinds::of(kind).is_none()) {
            if !history.names(kind, Some(""), "", 1)?.is_empty() {
                cluster_wide.push(kind.clone());
            }
        }
        Ok(KindWords { recorded, custom, cluster_wide })
    }

    /// The kinds that words such as `pods`, `po,svc`, `deploy.apps` or `all` mean.
    pub fn find(&self, words: &str) -> anyhow::Result<Vec<Found>> {
        let mut found: Vec<Found> = Vec::new();
        for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let mut more = self.category(word);
            if more.is_empty() {
                more.push(self.one(word)?);
            }
            for kind in more {
                if !found.contains(&kind) {
                    found.push(kind);
                }
            }
        }
        if found.is_empty() {
            bail!("no kind is named: say pods, for instance");
        }
        Ok(found)
    }

    /// How the objects of a kind are shown as a table.
    pub fn layout(&self, kind: &Kind) -> Layout {
        let custom = self.custom.iter().find(|custom| custom.kind == *kind);
        custom
            .and_then(|custom| Layout::of_crd(&custom.definition, &custom.version))
            .unwrap_or_else(|| Layout::of_kind(kind))
    }

    /// The name of a kind as kubectl lists it: `deployments.apps`.
    pub fn plural(kind: &Kind) -> String {
        let plural = match kinds::of(kind) {
            Some(info) => info.plural.to_owned(),
            None => kinds::guess_plural(&kind.kind),
        };
        if kind.group.is_empty() { plural } else { format!("{plural}.{}", kind.group) }
    }

    fn category(&self, word: &str) -> Vec<Found> {
        kinds::in_category(word)
            .map(|info| Found { kind: Kind::new(info.group, info.kind), namespaced: info.namespaced })
            .filter(|found| self.recorded.contains(&found.kind))
            .collect()
    }

    fn one(&self, word: &str) -> anyhow::Result<Found> {
        let lower = word.to_lowercase();
        let known = kinds::candidates(word);
        let as_found = |info: &kinds::KindInfo| Found {
            kind: Kind::new(info.group, info.kind),
            namespaced: info.namespaced,
        };
        // `events` are of two groups that show the same; take the one that was recorded.
        if let Some(found) =
            known.iter().map(|info| as_found(info)).find(|found| self.recorded.contains(&found.kind))
        {
            return Ok(found);
        }
        if let Some(custom) = self.custom.iter().find(|custom| custom.words.contains(&lower)) {
            return Ok(Found { kind: custom.kind.clone(), namespaced: custom.namespaced });
        }
        // A custom kind whose definition was not recorded goes by the names Kubernetes would have guessed for it.
        let by_guess = self.recorded.iter().find(|kind| {
            let (singular, plural) = (kind.kind.to_lowercase(), kinds::guess_plural(&kind.kind));
            [&singular, &plural]
                .into_iter()
                .any(|name| *name == lower || format!("{name}.{}", kind.group) == lower)
        });
        if let Some(kind) = by_guess {
            return Ok(Found { kind: kind.clone(), namespaced: !self.cluster_wide.contains(kind) });
        }
        if let Some(info) = known.first() {
            return Ok(as_found(info));
        }
        let names: Vec<String> = self.recorded.iter().map(KindWords::plural).collect();
        bail!("there is no resource type {word:?}; the history has {}", names.join(", "));
    }
}

// === impl Custom ===

impl Custom {
    fn of(definition: Object) -> Option<Custom> {
        #[derive(Deserialize)]
        struct Crd {
            spec: Spec,
        }
        #[derive(Deserialize)]
        struct Spec {
            group: String,
            names: Names,
            scope: String,
            versions: Vec<Served>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Names {
            kind: String,
            plural: String,
            #[serde(default)]
            singular: Option<String>,
            #[serde(default)]
            short_names: Option<Vec<String>>,
        }
        #[derive(Deserialize)]
        struct Served {
            name: String,
            #[serde(default)]
            storage: bool,
        }
        let crd: Crd = definition.view().ok()?;
        let Spec { group, names, scope, versions } = crd.spec;
        let mut words = vec![names.plural.clone(), names.kind.to_lowercase()];
        words.extend(names.singular);
        words.extend(names.short_names.into_iter().flatten());
        let full: Vec<String> = words.iter().map(|word| format!("{word}.{group}")).collect();
        words.extend(full);
        let version = versions.iter().find(|version| version.storage).or(versions.first())?;
        Some(Custom {
            kind: Kind::new(&group, &names.kind),
            words,
            namespaced: scope == "Namespaced",
            version: version.name.clone(),
            definition,
        })
    }
}

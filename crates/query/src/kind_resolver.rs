//! Resolution of resource types as users type them to the kinds of a history.

use anyhow::bail;
use history::{History, Selection};
use kubernetes::kinds;
use kubernetes::table::TableConvertor;
use model::{Kind, Moment, Object};
use serde::Deserialize;

/// The kinds of a history, with the definitions of custom resources.
pub struct KindResolver {
    recorded: Vec<Kind>,
    custom: Vec<CustomKind>,
    /// Kinds without a definition whose objects are in no namespace.
    cluster_wide: Vec<Kind>,
}

/// A kind of a recorded CustomResourceDefinition.
struct CustomKind {
    kind: Kind,
    names: Vec<String>,
    namespaced: bool,
    definition: Object,
    version: String,
}

/// A resource type of the history or of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceType {
    /// The kind.
    pub kind: Kind,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

// === impl KindResolver ===

impl KindResolver {
    /// Reads the kinds of a history, and the CustomResourceDefinitions at a moment.
    pub fn read(history: &History, moment: Moment) -> anyhow::Result<KindResolver> {
        let recorded = history.kinds()?;
        let definition = kinds::definition_kind();
        let mut custom = Vec::new();
        if recorded.contains(&definition) {
            let selection = Selection { kinds: Some(vec![definition]), ..Selection::default() };
            history
                .for_each_at(moment, &selection, |version| custom.extend(CustomKind::of(version.object)))?;
        }
        let mut cluster_wide = Vec::new();
        for kind in recorded.iter().filter(|kind| kinds::of(kind).is_none()) {
            if !history.names_with_prefix(kind, Some(""), "", 1)?.is_empty() {
                cluster_wide.push(kind.clone());
            }
        }
        Ok(KindResolver { recorded, custom, cluster_wide })
    }

    /// The resource types that an argument such as `pods`, `po,svc`, `deploy.apps` or `all` names.
    pub fn resolve(&self, names: &str) -> anyhow::Result<Vec<ResourceType>> {
        let mut found: Vec<ResourceType> = Vec::new();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let mut more = self.resolve_category(name);
            if more.is_empty() {
                more.push(self.resolve_one(name)?);
            }
            for kind in more {
                if !found.contains(&kind) {
                    found.push(kind);
                }
            }
        }
        if found.is_empty() {
            bail!("no resource type specified: expected one such as pods");
        }
        Ok(found)
    }

    /// The table layout of a kind.
    pub fn layout(&self, kind: &Kind) -> TableConvertor {
        let custom = self.custom.iter().find(|custom| custom.kind == *kind);
        custom
            .and_then(|custom| TableConvertor::of_crd(&custom.definition, &custom.version))
            .unwrap_or_else(|| TableConvertor::of_kind(kind))
    }

    /// The name of a kind as kubectl lists it: `deployments.apps`.
    pub fn plural(kind: &Kind) -> String {
        let plural = match kinds::of(kind) {
            Some(info) => info.plural.to_owned(),
            None => kinds::guess_plural(&kind.kind),
        };
        if kind.group.is_empty() { plural } else { format!("{plural}.{}", kind.group) }
    }

    fn resolve_category(&self, category: &str) -> Vec<ResourceType> {
        kinds::in_category(category)
            .map(|info| ResourceType { kind: Kind::new(info.group, info.kind), namespaced: info.namespaced })
            .filter(|found| self.recorded.contains(&found.kind))
            .collect()
    }

    fn resolve_one(&self, resource_name: &str) -> anyhow::Result<ResourceType> {
        let lower = resource_name.to_lowercase();
        let known_kinds = kinds::candidates(resource_name);
        let as_found = |info: &kinds::KindInfo| ResourceType {
            kind: Kind::new(info.group, info.kind),
            namespaced: info.namespaced,
        };
        // `events` exist in two API groups with the same content; the recorded one is taken.
        if let Some(found) =
            known_kinds.iter().map(|info| as_found(info)).find(|found| self.recorded.contains(&found.kind))
        {
            return Ok(found);
        }
        if let Some(custom) = self.custom.iter().find(|custom| custom.names.contains(&lower)) {
            return Ok(ResourceType { kind: custom.kind.clone(), namespaced: custom.namespaced });
        }
        // A custom kind whose definition was not recorded is found by the names that Kubernetes would guess.
        let by_guess = self.recorded.iter().find(|kind| {
            let (singular, plural) = (kind.kind.to_lowercase(), kinds::guess_plural(&kind.kind));
            [&singular, &plural]
                .into_iter()
                .any(|name| *name == lower || format!("{name}.{}", kind.group) == lower)
        });
        if let Some(kind) = by_guess {
            return Ok(ResourceType { kind: kind.clone(), namespaced: !self.cluster_wide.contains(kind) });
        }
        if let Some(info) = known_kinds.first() {
            return Ok(as_found(info));
        }
        let names: Vec<String> = self.recorded.iter().map(KindResolver::plural).collect();
        bail!("unknown resource type {resource_name:?}; the history has: {}", names.join(", "));
    }
}

// === impl CustomKind ===

impl CustomKind {
    fn of(definition: Object) -> Option<CustomKind> {
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
        let mut all_names = vec![names.plural.clone(), names.kind.to_lowercase()];
        all_names.extend(names.singular);
        all_names.extend(names.short_names.into_iter().flatten());
        let full: Vec<String> = all_names.iter().map(|name| format!("{name}.{group}")).collect();
        all_names.extend(full);
        let version = versions.iter().find(|version| version.storage).or(versions.first())?;
        Some(CustomKind {
            kind: Kind::new(&group, &names.kind),
            names: all_names,
            namespaced: scope == "Namespaced",
            version: version.name.clone(),
            definition,
        })
    }
}

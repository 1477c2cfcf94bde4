//! Resolution of resource types as users type them to the kinds of a history.

use anyhow::bail;
use history::{History, Selection};
use kubernetes::custom_definition::CustomDefinition;
use kubernetes::kinds;
use kubernetes::table::TableConvertor;
use model::{Kind, Moment, Object};

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
    /// The kind as it is shown: an API server has the same Events in two groups, and shows them as those of the group
    /// that was asked for; `events` are those of the core group.
    pub shown: Kind,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

/// The API groups that have Events.
const EVENT_GROUPS: [&str; 2] = ["", "events.k8s.io"];

// === impl ResourceType ===

impl ResourceType {
    fn of(kind: Kind, namespaced: bool) -> ResourceType {
        ResourceType { shown: kind.clone(), kind, namespaced }
    }
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
            for resource_type in more {
                if !found.contains(&resource_type) {
                    found.push(resource_type);
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
            .map(|info| ResourceType::of(Kind::new(info.group, info.kind), info.namespaced))
            .filter(|found| self.recorded.contains(&found.kind))
            .collect()
    }

    fn resolve_one(&self, resource_name: &str) -> anyhow::Result<ResourceType> {
        let lower = resource_name.to_lowercase();
        let known_kinds = kinds::candidates(resource_name);
        let as_found =
            |info: &kinds::KindInfo| ResourceType::of(Kind::new(info.group, info.kind), info.namespaced);
        // Events exist in two API groups with the same content: the recorded one is taken, whichever was asked for.
        let asked = known_kinds.first().map(|info| Kind::new(info.group, info.kind));
        let recorded_event = || {
            EVENT_GROUPS
                .map(|group| Kind::new(group, "Event"))
                .into_iter()
                .find(|kind| self.recorded.contains(kind))
        };
        if let Some(shown) = asked.filter(is_event)
            && !self.recorded.contains(&shown)
            && let Some(kind) = recorded_event()
        {
            return Ok(ResourceType { kind, shown, namespaced: true });
        }
        if let Some(found) =
            known_kinds.iter().map(|info| as_found(info)).find(|found| self.recorded.contains(&found.kind))
        {
            return Ok(found);
        }
        if let Some(custom) = self.custom.iter().find(|custom| custom.names.contains(&lower)) {
            return Ok(ResourceType::of(custom.kind.clone(), custom.namespaced));
        }
        // A custom kind whose definition was not recorded is found by the names that Kubernetes would guess.
        let by_guess = self.recorded.iter().find(|kind| {
            let (singular, plural) = (kind.kind.to_lowercase(), kinds::guess_plural(&kind.kind));
            [&singular, &plural]
                .into_iter()
                .any(|name| *name == lower || format!("{name}.{}", kind.group) == lower)
        });
        if let Some(kind) = by_guess {
            return Ok(ResourceType::of(kind.clone(), !self.cluster_wide.contains(kind)));
        }
        if let Some(info) = known_kinds.first() {
            return Ok(as_found(info));
        }
        let names: Vec<String> = self.recorded.iter().map(KindResolver::plural).collect();
        bail!("unknown resource type {resource_name:?}; the history has: {}", names.join(", "));
    }
}

fn is_event(kind: &Kind) -> bool {
    EVENT_GROUPS.iter().any(|group| kind.is(group, "Event"))
}

// === impl CustomKind ===

impl CustomKind {
    fn of(definition: Object) -> Option<CustomKind> {
        let CustomDefinition { kind, names, namespaced, versions, .. } =
            CustomDefinition::parse(&definition)?;
        let mut all_names = vec![names.plural, names.kind.to_lowercase(), names.singular];
        all_names.extend(names.short_names);
        let full: Vec<String> = all_names.iter().map(|name| format!("{name}.{}", kind.group)).collect();
        all_names.extend(full);
        let version = versions.iter().find(|version| version.storage).or(versions.first())?.name.clone();
        Some(CustomKind { kind, names: all_names, namespaced, version, definition })
    }
}

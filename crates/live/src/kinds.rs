//! Selection of the kinds to record: a default set, the names that a user gives, and the kinds that the server has.

mod discovery;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use kubernetes::kinds::is_secret;
use kubernetes::recording::{DEFAULT_KINDS, EXCLUDED_OBJECTS, kinds_of};
use model::Kind;

use crate::{Error, Result};
pub(crate) use discovery::{ServedKind, discover};

/// The kinds to record, named as kubectl accepts them. By default those that matter to scheduling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindChoice {
    /// Kinds that replace the default set.
    pub only: Option<Vec<String>>,
    /// Additional kinds.
    pub also: Vec<String>,
    /// Additional kinds, recorded as soon as the server has them.
    pub if_served: Vec<Kind>,
    /// Excluded kinds.
    pub skip: Vec<String>,
}

/// The kinds that are recorded by default, with their plurals: an account must be allowed to list and watch these.
pub fn default_resources() -> Vec<(Kind, String)> {
    let plural = |kind: &Kind| match kubernetes::kinds::of(kind) {
        Some(info) => info.plural.to_owned(),
        None => kubernetes::kinds::guess_plural(&kind.kind),
    };
    default_kinds().map(|kind| (kind.clone(), plural(&kind))).collect()
}

fn default_kinds() -> impl Iterator<Item = Kind> {
    kinds_of(DEFAULT_KINDS)
}

/// The field selector that excludes objects of a kind; not used when namespaces are given.
pub(crate) fn field_selector(kind: &Kind) -> Option<&'static str> {
    let excluded =
        EXCLUDED_OBJECTS.iter().find(|(group, name, _)| *kind.group == **group && *kind.kind == **name);
    excluded.map(|(_, _, selector)| *selector)
}

// === impl KindChoice ===

impl KindChoice {
    /// Rejects Secrets as far as possible without contacting a server.
    pub fn check(&self) -> Result<()> {
        let resource_names = self.only.iter().flatten().chain(&self.also);
        let named = resource_names.filter_map(|resource_name| {
            let info = kubernetes::kinds::find(resource_name)?;
            Some((resource_name.clone(), Kind::new(info.group, info.kind)))
        });
        let mut named = named.chain(self.if_served.iter().map(|kind| (kind.to_string(), kind.clone())));
        match named.find(|(_, kind)| is_secret(kind)) {
            Some((resource_name, _)) => Err(secrets_refused(resource_name)),
            None => Ok(()),
        }
    }

    /// Selects from the served kinds, without duplicates. This is the only source of watched kinds, and it never
    /// returns Secrets.
    pub(crate) fn select(&self, served: &[ServedKind]) -> Result<Vec<ServedKind>> {
        self.check()?;
        let found =
            |kind: &Kind| served.iter().find(|candidate| candidate.kind == *kind && candidate.can_be_watched);
        let mut chosen: Vec<&ServedKind> = Vec::new();
        match &self.only {
            Some(resource_names) => {
                for resource_name in resource_names {
                    chosen.push(resolve(resource_name, served)?);
                }
            }
            None => chosen.extend(default_kinds().filter_map(|kind| found(&kind))),
        }
        for resource_name in &self.also {
            chosen.push(resolve(resource_name, served)?);
        }
        chosen.extend(self.if_served.iter().filter_map(found));
        if let Some(candidate) = chosen.iter().find(|candidate| candidate.is_secret()) {
            return Err(secrets_refused(candidate.qualified_name()));
        }
        let mut skipped = HashSet::new();
        for resource_name in &self.skip {
            match resolve(resource_name, served) {
                Ok(found) => drop(skipped.insert(&found.kind)),
                // A known kind that the server does not have needs no exclusion.
                Err(_) if kubernetes::kinds::find(resource_name).is_some() || is_default(resource_name) => {}
                Err(error) => return Err(error),
            }
        }
        let mut chosen_kinds = HashSet::new();
        chosen.retain(|candidate| !skipped.contains(&candidate.kind) && chosen_kinds.insert(&candidate.kind));
        Ok(chosen.into_iter().cloned().collect())
    }

    /// Like [`select`](Self::select), but ignores names that match no served kind: the kind may have been removed.
    pub(crate) fn select_available(&self, served: &[ServedKind]) -> Result<Vec<ServedKind>> {
        let available = |resource_names: &Vec<String>| -> Vec<String> {
            let is_available = |resource_name: &&String| {
                resolve(resource_name, served).is_ok_and(|candidate| !candidate.is_secret())
            };
            resource_names.iter().filter(is_available).cloned().collect()
        };
        let (also, skip) = (available(&self.also), available(&self.skip));
        let (only, if_served) = (self.only.as_ref().map(available), self.if_served.clone());
        KindChoice { only, also, if_served, skip }.select(served)
    }
}

/// The served kind that a name stands for. `events` are those of `events.k8s.io`: the core group has the same Events
/// with fewer fields.
fn resolve<'a>(resource_name: &str, served: &'a [ServedKind]) -> Result<&'a ServedKind> {
    let invalid = |why: String| Error::InvalidKind { word: resource_name.to_owned(), why };
    let found = candidates(resource_name, served);
    let Some(mut resolved) = found.first().copied() else {
        let similar = similar_names(resource_name, served);
        return Err(invalid(match similar.is_empty() {
            true => "the server doesn't have this resource type; see kubectl api-resources".to_owned(),
            false => format!("the server doesn't have this resource type; similar: {}", similar.join(", ")),
        }));
    };
    if resolved.kind.is("", "Event") {
        let newer_kind = Kind::new("events.k8s.io", "Event");
        resolved = served.iter().find(|candidate| candidate.kind == newer_kind).unwrap_or(resolved);
    }
    match resolved.can_be_watched {
        true => Ok(resolved),
        false => Err(invalid("the server does not support list and watch for it".to_owned())),
    }
}

fn secrets_refused(resource_name: String) -> Error {
    Error::InvalidKind { word: resource_name, why: "Secrets are never recorded".to_owned() }
}

/// The kinds that a name may stand for, kubectl's choice first: the rule of [`kubernetes::kinds::candidates`], applied
/// to the kinds of a server.
fn candidates<'a>(resource_name: &str, served: &'a [ServedKind]) -> Vec<&'a ServedKind> {
    let (name, group) = resource_name.split_once('.').unwrap_or((resource_name, ""));
    let matching = |predicate: &dyn Fn(&ServedKind) -> bool| -> Vec<&'a ServedKind> {
        served.iter().filter(|candidate| candidate.has_name(name) && predicate(candidate)).collect()
    };
    if let Some((version, group)) = group.split_once('.') {
        let found = matching(&|candidate| {
            candidate.versions.iter().any(|candidate| candidate == version)
                && (group.is_empty() || *candidate.kind.group == *group)
        });
        if !found.is_empty() {
            return found;
        }
    }
    let exact = matching(&|candidate| group.is_empty() || *candidate.kind.group == *group);
    match exact.is_empty() {
        false => exact,
        true => matching(&|candidate| candidate.kind.group.starts_with(group)),
    }
}

/// Whether a name stands for a kind of the default set, which the server may not have.
fn is_default(resource_name: &str) -> bool {
    let (name, group) = resource_name.split_once('.').unwrap_or((resource_name, ""));
    default_resources().iter().any(|(kind, plural)| {
        let has_name = kind.kind.eq_ignore_ascii_case(name) || plural.eq_ignore_ascii_case(name);
        has_name && kind.group.starts_with(group)
    })
}

/// Up to three similar names, for the error message.
fn similar_names(resource_name: &str, served: &[ServedKind]) -> Vec<String> {
    let name = resource_name.split_once('.').map_or(resource_name, |(name, _)| name).to_lowercase();
    let mut similar: Vec<(usize, &ServedKind)> = served
        .iter()
        .map(|candidate| {
            (
                edit_distance(&name, &candidate.plural)
                    .min(edit_distance(&name, &candidate.kind.kind.to_lowercase())),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= 2 && *distance < name.chars().count())
        .collect();
    similar.sort_by_key(|(distance, _)| *distance);
    similar.into_iter().take(3).map(|(_, candidate)| candidate.qualified_name()).collect()
}

/// The Levenshtein distance.
fn edit_distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

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
        Some(known) => known.plural.to_owned(),
        None => kubernetes::kinds::guess_plural(&kind.kind),
    };
    default_kinds().map(|kind| (kind.clone(), plural(&kind))).collect()
}

fn default_kinds() -> impl Iterator<Item = Kind> {
    kinds_of(DEFAULT_KINDS)
}

/// The field selector that excludes objects of a kind; not used when namespaces are given.
pub(crate) fn field_selector(kind: &Kind) -> Option<&'static str> {
    let of = EXCLUDED_OBJECTS.iter().find(|(group, name, _)| *kind.group == **group && *kind.kind == **name);
    of.map(|(_, _, selector)| *selector)
}

// === impl KindChoice ===

impl KindChoice {
    /// Rejects Secrets as far as possible without contacting a server.
    pub fn check(&self) -> Result<()> {
        let words = self.only.iter().flatten().chain(&self.also);
        let named = words.filter_map(|word| {
            let info = kubernetes::kinds::find(word)?;
            Some((word.clone(), Kind::new(info.group, info.kind)))
        });
        let mut named = named.chain(self.if_served.iter().map(|kind| (kind.to_string(), kind.clone())));
        match named.find(|(_, kind)| is_secret(kind)) {
            Some((word, _)) => Err(secrets_refused(word)),
            None => Ok(()),
        }
    }

    /// Selects from the served kinds, without duplicates. This is the only source of watched kinds, and it never
    /// returns Secrets.
    pub(crate) fn select(&self, served: &[ServedKind]) -> Result<Vec<ServedKind>> {
        self.check()?;
        let found = |kind: &Kind| served.iter().find(|one| one.kind == *kind && one.can_be_watched);
        let mut chosen: Vec<&ServedKind> = Vec::new();
        match &self.only {
            Some(words) => {
                for word in words {
                    chosen.push(resolve(word, served)?);
                }
            }
            None => chosen.extend(default_kinds().filter_map(|kind| found(&kind))),
        }
        for word in &self.also {
            chosen.push(resolve(word, served)?);
        }
        chosen.extend(self.if_served.iter().filter_map(found));
        if let Some(one) = chosen.iter().find(|one| one.is_secret()) {
            return Err(secrets_refused(one.qualified_name()));
        }
        let mut skipped = HashSet::new();
        for word in &self.skip {
            match resolve(word, served) {
                Ok(found) => drop(skipped.insert(&found.kind)),
                // A known kind that the server does not have needs no exclusion.
                Err(_) if kubernetes::kinds::find(word).is_some() || is_default(word) => {}
                Err(error) => return Err(error),
            }
        }
        let mut taken = HashSet::new();
        chosen.retain(|one| !skipped.contains(&one.kind) && taken.insert(&one.kind));
        Ok(chosen.into_iter().cloned().collect())
    }

    /// Like [`select`](Self::select), but ignores names that match no served kind: the kind may have been removed.
    pub(crate) fn select_available(&self, served: &[ServedKind]) -> Result<Vec<ServedKind>> {
        let there = |words: &Vec<String>| -> Vec<String> {
            let is_there = |word: &&String| resolve(word, served).is_ok_and(|one| !one.is_secret());
            words.iter().filter(is_there).cloned().collect()
        };
        let (also, skip) = (there(&self.also), there(&self.skip));
        let (only, if_there) = (self.only.as_ref().map(there), self.if_served.clone());
        KindChoice { only, also, if_served: if_there, skip }.select(served)
    }
}

/// The served kind that a name stands for. `events` are those of `events.k8s.io`: the core group has the same Events
/// with fewer fields.
fn resolve<'a>(word: &str, served: &'a [ServedKind]) -> Result<&'a ServedKind> {
    let wrong = |why: String| Error::InvalidKind { word: word.to_owned(), why };
    let found = candidates(word, served);
    let Some(mut first) = found.first().copied() else {
        let near = similar_names(word, served);
        return Err(wrong(match near.is_empty() {
            true => "the server has nothing of that name; kubectl api-resources shows what it has".to_owned(),
            false => format!("the server has nothing of that name; it has {}", near.join(", ")),
        }));
    };
    if first.kind == Kind::new("", "Event") {
        let better = Kind::new("events.k8s.io", "Event");
        first = served.iter().find(|one| one.kind == better).unwrap_or(first);
    }
    match first.can_be_watched {
        true => Ok(first),
        false => Err(wrong("the server cannot list and watch it".to_owned())),
    }
}

fn secrets_refused(word: String) -> Error {
    Error::InvalidKind { word, why: "Secrets are never recorded; leave it out".to_owned() }
}

/// The kinds that a name may stand for, kubectl's choice first: the rule of [`kubernetes::kinds::candidates`], applied
/// to the kinds of a server.
fn candidates<'a>(word: &str, served: &'a [ServedKind]) -> Vec<&'a ServedKind> {
    let (name, group) = word.split_once('.').unwrap_or((word, ""));
    let matching = |fits: &dyn Fn(&ServedKind) -> bool| -> Vec<&'a ServedKind> {
        served.iter().filter(|one| one.has_name(name) && fits(one)).collect()
    };
    if let Some((version, group)) = group.split_once('.') {
        let found = matching(&|one| {
            one.versions.iter().any(|one| one == version) && (group.is_empty() || *one.kind.group == *group)
        });
        if !found.is_empty() {
            return found;
        }
    }
    let exact = matching(&|one| group.is_empty() || *one.kind.group == *group);
    match exact.is_empty() {
        false => exact,
        true => matching(&|one| one.kind.group.starts_with(group)),
    }
}

/// Whether a name stands for a kind of the default set, which the server may not have.
fn is_default(word: &str) -> bool {
    let (name, group) = word.split_once('.').unwrap_or((word, ""));
    default_resources().iter().any(|(kind, plural)| {
        let is_called = kind.kind.eq_ignore_ascii_case(name) || plural.eq_ignore_ascii_case(name);
        is_called && kind.group.starts_with(group)
    })
}

/// Up to three similar names, for the error message.
fn similar_names(word: &str, served: &[ServedKind]) -> Vec<String> {
    let name = word.split_once('.').map_or(word, |(name, _)| name).to_lowercase();
    let mut near: Vec<(usize, &ServedKind)> = served
        .iter()
        .map(|one| {
            (edit_distance(&name, &one.plural).min(edit_distance(&name, &one.kind.kind.to_lowercase())), one)
        })
        .filter(|(distance, _)| *distance <= 2 && *distance < name.chars().count())
        .collect();
    near.sort_by_key(|(distance, _)| *distance);
    near.into_iter().take(3).map(|(_, one)| one.qualified_name()).collect()
}

/// The Levenshtein distance.
fn edit_distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut before = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let replaced = before + usize::from(a != *b);
            before = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(before + 1);
        }
    }
    row[other.len()]
}

//! Which kinds are recorded: a default set, a user's words, and what the server has.

mod discovery;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use kubernetes::kinds::is_secret;
use kubernetes::recording::{DEFAULT_KINDS, EXCLUDED_OBJECTS, kinds_of};
use model::Kind;

use crate::{Error, Result};
pub(crate) use discovery::{Served, discover};

/// Which kinds to record, in the words kubectl takes for them. By default those that matter to scheduling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindChoice {
    /// These instead of the default set.
    pub only: Option<Vec<String>>,
    /// These too.
    pub also: Vec<String>,
    /// These too, as soon as the server has them.
    pub if_there: Vec<Kind>,
    /// But not these.
    pub skip: Vec<String>,
}

/// The kinds that are recorded by default, each with its plural: what an account must be allowed to list and watch.
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

/// A field selector for the objects of a kind that are recorded, unless their namespace is asked for.
pub(crate) fn field_selector(kind: &Kind) -> Option<&'static str> {
    let of = EXCLUDED_OBJECTS.iter().find(|(group, name, _)| *kind.group == **group && *kind.kind == **name);
    of.map(|(_, _, selector)| *selector)
}

// === impl KindChoice ===

impl KindChoice {
    /// Refuses what can be refused before a server is asked: words and kinds that mean Secrets.
    pub fn check(&self) -> Result<()> {
        let words = self.only.iter().flatten().chain(&self.also);
        let named = words.filter_map(|word| {
            let info = kubernetes::kinds::find(word)?;
            Some((word.clone(), Kind::new(info.group, info.kind)))
        });
        let mut named = named.chain(self.if_there.iter().map(|kind| (kind.to_string(), kind.clone())));
        match named.find(|(_, kind)| is_secret(kind)) {
            Some((word, _)) => Err(secrets(word)),
            None => Ok(()),
        }
    }

    /// The kinds chosen of those served, each once. No kind is watched that did not come from here, and none that comes
    /// from here holds Secrets.
    pub(crate) fn of(&self, served: &[Served]) -> Result<Vec<Served>> {
        self.check()?;
        let found = |kind: &Kind| served.iter().find(|one| one.kind == *kind && one.can_be_watched);
        let mut chosen: Vec<&Served> = Vec::new();
        match &self.only {
            Some(words) => {
                for word in words {
                    chosen.push(find(word, served)?);
                }
            }
            None => chosen.extend(default_kinds().filter_map(|kind| found(&kind))),
        }
        for word in &self.also {
            chosen.push(find(word, served)?);
        }
        chosen.extend(self.if_there.iter().filter_map(found));
        if let Some(one) = chosen.iter().find(|one| one.is_secret()) {
            return Err(secrets(one.words()));
        }
        let mut skipped = HashSet::new();
        for word in &self.skip {
            match find(word, served) {
                Ok(found) => drop(skipped.insert(&found.kind)),
                // What is not here need not be left out.
                Err(_) if kubernetes::kinds::find(word).is_some() || is_default(word) => {}
                Err(error) => return Err(error),
            }
        }
        let mut taken = HashSet::new();
        chosen.retain(|one| !skipped.contains(&one.kind) && taken.insert(&one.kind));
        Ok(chosen.into_iter().cloned().collect())
    }

    /// The same, but for words that mean nothing now: what they meant may have gone.
    pub(crate) fn of_those_there(&self, served: &[Served]) -> Result<Vec<Served>> {
        let there = |words: &Vec<String>| -> Vec<String> {
            let is_there = |word: &&String| find(word, served).is_ok_and(|one| !one.is_secret());
            words.iter().filter(is_there).cloned().collect()
        };
        let (also, skip) = (there(&self.also), there(&self.skip));
        let (only, if_there) = (self.only.as_ref().map(there), self.if_there.clone());
        KindChoice { only, also, if_there, skip }.of(served)
    }
}

/// What a word means. Events are those of `events.k8s.io`: the core group shows the same ones with less in them.
fn find<'a>(word: &str, served: &'a [Served]) -> Result<&'a Served> {
    let wrong = |why: String| Error::Word { word: word.to_owned(), why };
    let found = candidates(word, served);
    let Some(mut first) = found.first().copied() else {
        let near = near(word, served);
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

fn secrets(word: String) -> Error {
    Error::Word { word, why: "Secrets are never recorded; leave it out".to_owned() }
}

/// What a word may stand for, the one kubectl takes first: the rule of [`kubernetes::kinds::candidates`], for what a
/// server has.
fn candidates<'a>(word: &str, served: &'a [Served]) -> Vec<&'a Served> {
    let (name, group) = word.split_once('.').unwrap_or((word, ""));
    let matching = |fits: &dyn Fn(&Served) -> bool| -> Vec<&'a Served> {
        served.iter().filter(|one| one.is_called(name) && fits(one)).collect()
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

/// Whether a word names a kind of the default set that the server may not have.
fn is_default(word: &str) -> bool {
    let (name, group) = word.split_once('.').unwrap_or((word, ""));
    default_resources().iter().any(|(kind, plural)| {
        let is_called = kind.kind.eq_ignore_ascii_case(name) || plural.eq_ignore_ascii_case(name);
        is_called && kind.group.starts_with(group)
    })
}

/// Up to three names that the user may have meant.
fn near(word: &str, served: &[Served]) -> Vec<String> {
    let name = word.split_once('.').map_or(word, |(name, _)| name).to_lowercase();
    let mut near: Vec<(usize, &Served)> = served
        .iter()
        .map(|one| (distance(&name, &one.plural).min(distance(&name, &one.kind.kind.to_lowercase())), one))
        .filter(|(distance, _)| *distance <= 2 && *distance < name.chars().count())
        .collect();
    near.sort_by_key(|(distance, _)| *distance);
    near.into_iter().take(3).map(|(_, one)| one.words()).collect()
}

/// How many letters must be put in, taken out or replaced to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
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

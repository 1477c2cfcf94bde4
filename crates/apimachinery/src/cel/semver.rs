//! Semantic versions, as the Go package `semver` reads and compares them.

use std::cmp::Ordering;

use kubernetes::go::text::quote;

/// A version. What follows a `+` does not count.
#[derive(Clone, Debug)]
pub(super) struct Semver {
    pub(super) numbers: [u64; 3],
    prerelease: Vec<Part>,
}

/// Numbers are before texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Text(String),
}

// === impl Semver ===

impl Semver {
    pub(super) fn parse(text: &str) -> Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = *parts else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, prerelease) = match rest.split_once('-') {
            Some((patch, prerelease)) => (patch, Some(prerelease)),
            None => (rest, None),
        };
        let numbers = [number("major", major)?, number("minor", minor)?, number("patch", patch)?];
        let prerelease = prerelease.into_iter().flat_map(|parts| parts.split('.')).map(Part::parse);
        let prerelease = prerelease.collect::<Result<_, _>>()?;
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !part.bytes().all(is_allowed) {
                return Err(format!("Invalid character(s) found in build meta data {}", quote(part)));
            }
        }
        Ok(Semver { numbers, prerelease })
    }

    pub(super) fn compare(&self, other: &Semver) -> Ordering {
        // A version is after its prereleases.
        let is_release = |version: &Semver| version.prerelease.is_empty();
        let numbers = self.numbers.cmp(&other.numbers);
        numbers
            .then(is_release(self).cmp(&is_release(other)))
            .then_with(|| self.prerelease.cmp(&other.prerelease))
    }
}

// === impl Part ===

impl Part {
    fn parse(text: &str) -> Result<Part, String> {
        if text.is_empty() {
            return Err("Prerelease is empty".to_owned());
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            if text.len() > 1 && text.starts_with('0') {
                let quoted = quote(text);
                return Err(format!("Numeric PreRelease version must not contain leading zeroes {quoted}"));
            }
            return text.parse().map(Part::Number).map_err(|_| out_of_range(text));
        }
        if text.bytes().all(is_allowed) {
            return Ok(Part::Text(text.to_owned()));
        }
        Err(format!("Invalid character(s) found in prerelease {}", quote(text)))
    }
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {}", quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        let capital = name[..1].to_uppercase() + &name[1..];
        return Err(format!("{capital} number must not contain leading zeroes {}", quote(text)));
    }
    text.parse().map_err(|_| match text {
        "" => "strconv.ParseUint: parsing \"\": invalid syntax".to_owned(),
        _ => out_of_range(text),
    })
}

fn out_of_range(text: &str) -> String {
    format!("strconv.ParseUint: parsing {}: value out of range", quote(text))
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

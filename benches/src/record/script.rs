//! What a scripted API server says: lists and watches of a made-up cluster, as bytes that are ready to be sent.

use kubernetes::kinds::{self, KindInfo};
use model::{IncomingChange, What};
use serde_json::{Value, json};
use workload::churn::{Churn, churn};

use crate::Result;

/// All that there is to say.
pub(super) struct Script {
    pub(super) reels: Vec<Reel>,
    /// How many changes follow the lists.
    pub(super) changes: usize,
}

/// What there is to say of one kind.
pub(super) struct Reel {
    pub(super) info: &'static KindInfo,
    /// The bodies of a list's pages.
    pub(super) pages: Vec<Vec<u8>>,
    /// The events that follow, each as a chunk of an HTTP body: API servers send each by itself.
    pub(super) chunks: Vec<u8>,
    pub(super) events: Vec<Event>,
}

/// An event of a watch.
#[derive(Clone, Copy)]
pub(super) struct Event {
    /// The version of its object, which rises.
    pub(super) version: u64,
    /// Where its chunk ends.
    pub(super) end: usize,
    /// Its place among the events of all kinds.
    pub(super) turn: usize,
}

/// As many as the recorder asks for.
const PAGE: usize = 500;

// === impl Script ===

impl Script {
    /// A cluster that is listed with so many objects alive and then goes on. All kinds of Kubernetes are served; of
    /// most there is nothing.
    pub(super) fn new(settings: Churn) -> Result<Script> {
        let alive = settings.alive;
        let mut stream = churn(Churn { managed_fields: true, ..settings });
        let mut reels: Vec<Reel> = kinds::all().iter().map(Reel::new).collect();
        let mut items: Vec<Vec<String>> = vec![Vec::new(); reels.len()];
        let place = |reels: &[Reel], observed: &IncomingChange| {
            let kind = &observed.key.kind;
            let found = reels
                .iter()
                .position(|reel| *reel.info.group == *kind.group && *reel.info.kind == *kind.kind);
            found.ok_or_else(|| format!("{kind} is no kind that Kubernetes serves"))
        };
        let mut listed = 0;
        for observed in stream.by_ref().take(alive) {
            listed = version(&observed)?;
            items[place(&reels, &observed)?].push(item(observed.what.object().as_str())?);
        }
        for (reel, items) in reels.iter_mut().zip(items) {
            reel.list(&items, listed);
        }
        let mut changes = 0;
        for observed in stream {
            let place = place(&reels, &observed)?;
            reels[place].push(&observed, changes)?;
            changes += 1;
        }
        Ok(Script { reels, changes })
    }

    /// The reels of which there is something to tell after the lists.
    pub(super) fn moving(&self) -> impl Iterator<Item = &Reel> {
        self.reels.iter().filter(|reel| !reel.events.is_empty())
    }

    /// What the server has, in the one answer that new servers give for a root of theirs.
    pub(super) fn discovery(&self, is_core: bool) -> Value {
        let mut groups: Vec<Value> = Vec::new();
        for reel in self.reels.iter().filter(|reel| reel.info.group.is_empty() == is_core) {
            let KindInfo { group, kind, plural, short_names, namespaced, .. } = reel.info;
            let version = reel.info.versions[0];
            let scope = if *namespaced { "Namespaced" } else { "Cluster" };
            groups.push(json!({
                "metadata": { "name": group },
                "versions": [{ "version": version, "resources": [{
                    "resource": plural,
                    "responseKind": { "group": group, "version": version, "kind": kind },
                    "scope": scope,
                    "singularResource": reel.info.singular(),
                    "verbs": ["get", "list", "watch"],
                    "shortNames": short_names,
                }] }],
            }));
        }
        json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": groups })
    }
}

// === impl Reel ===

impl Reel {
    fn new(info: &'static KindInfo) -> Reel {
        Reel { info, pages: Vec::new(), chunks: Vec::new(), events: Vec::new() }
    }

    /// `/apis/apps/v1/deployments`
    pub(super) fn path(&self) -> String {
        let root = if self.info.group.is_empty() { "/api" } else { "/apis" };
        format!("{root}/{}/{}", self.api_version(), self.info.plural)
    }

    /// `apps/v1`
    fn api_version(&self) -> String {
        match (self.info.group, self.info.versions[0]) {
            ("", version) => version.to_owned(),
            (group, version) => format!("{group}/{version}"),
        }
    }

    /// The last version that there is to tell; 0 if nothing follows the list.
    pub(super) fn last(&self) -> u64 {
        self.events.last().map_or(0, |event| event.version)
    }

    fn list(&mut self, items: &[String], listed: u64) {
        let count = items.len().div_ceil(PAGE).max(1);
        for number in 1..=count {
            let page = &items[(number - 1) * PAGE..items.len().min(number * PAGE)];
            let next = if number < count { format!(r#","continue":"{number}""#) } else { String::new() };
            self.pages.push(
                format!(
                    r#"{{"kind":"{}List","apiVersion":"{}","metadata":{{"resourceVersion":"{listed}"{next}}},"items":[{}]}}"#,
                    self.info.kind,
                    self.api_version(),
                    page.join(",")
                )
                .into_bytes(),
            );
        }
    }

    fn push(&mut self, observed: &IncomingChange, turn: usize) -> Result<()> {
        let word = match &observed.what {
            What::Added(_) => "ADDED",
            What::Modified(_) => "MODIFIED",
            What::Deleted(_) => "DELETED",
        };
        let line = format!("{{\"type\":\"{word}\",\"object\":{}}}\n", observed.what.object().as_str());
        self.chunks.extend_from_slice(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes());
        self.events.push(Event { version: version(observed)?, end: self.chunks.len(), turn });
        Ok(())
    }
}

fn version(observed: &IncomingChange) -> Result<u64> {
    let meta = observed.what.object().meta();
    Ok(meta.resource_version.ok_or("an object without a version")?.parse()?)
}

/// Items of lists carry no kind and no apiVersion.
fn item(object: &str) -> Result<String> {
    let at = object.find("\"metadata\"").ok_or("an object without metadata")?;
    Ok(format!("{{{}", &object[at..]))
}

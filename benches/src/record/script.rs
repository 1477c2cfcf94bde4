//! The responses of a scripted API server: lists and watches of a generated cluster, as bytes ready to be sent.

use kubernetes::kinds::{self, KindInfo};
use model::{IncomingChange, What};
use serde_json::{Value, json};
use workload::churn::{ChurnOptions, churn};

use crate::Result;

/// The responses for all kinds.
pub(super) struct ServerScript {
    pub(super) kinds: Vec<KindScript>,
    /// The number of changes after the lists.
    pub(super) changes: usize,
}

/// The responses for one kind.
pub(super) struct KindScript {
    pub(super) info: &'static KindInfo,
    /// The bodies of a list's pages.
    pub(super) pages: Vec<Vec<u8>>,
    /// The events that follow, each as a chunk of an HTTP body, as API servers send them.
    pub(super) chunks: Vec<u8>,
    pub(super) events: Vec<ScriptedEvent>,
}

/// An event of a watch.
#[derive(Clone, Copy)]
pub(super) struct ScriptedEvent {
    /// The resource version of its object; versions rise.
    pub(super) version: u64,
    /// The end of its chunk.
    pub(super) end: usize,
    /// Its index among the events of all kinds.
    pub(super) index: usize,
}

/// The page size that the recorder requests.
const PAGE_SIZE: usize = 500;

// === impl ServerScript ===

impl ServerScript {
    /// A cluster whose live objects are listed and then change. All kinds of Kubernetes are served; most have no
    /// objects.
    pub(super) fn new(settings: ChurnOptions) -> Result<ServerScript> {
        let alive = settings.live_objects;
        let mut stream = churn(ChurnOptions { managed_fields: true, ..settings });
        let mut kind_scripts: Vec<KindScript> = kinds::all().iter().map(KindScript::new).collect();
        let mut items: Vec<Vec<String>> = vec![Vec::new(); kind_scripts.len()];
        let position = |kind_scripts: &[KindScript], observed: &IncomingChange| {
            let kind = &observed.key.kind;
            let found = kind_scripts.iter().position(|kind_script| {
                *kind_script.info.group == *kind.group && *kind_script.info.kind == *kind.kind
            });
            found.ok_or_else(|| format!("Kubernetes does not serve the kind {kind}"))
        };
        let mut listed = 0;
        for observed in stream.by_ref().take(alive) {
            listed = version(&observed)?;
            items[position(&kind_scripts, &observed)?].push(list_item(observed.what.object().as_str())?);
        }
        for (kind_script, items) in kind_scripts.iter_mut().zip(items) {
            kind_script.add_pages(&items, listed);
        }
        let mut changes = 0;
        for observed in stream {
            let position = position(&kind_scripts, &observed)?;
            kind_scripts[position].add_event(&observed, changes)?;
            changes += 1;
        }
        Ok(ServerScript { kinds: kind_scripts, changes })
    }

    /// The kinds that change after the lists.
    pub(super) fn changing_kinds(&self) -> impl Iterator<Item = &KindScript> {
        self.kinds.iter().filter(|kind_script| !kind_script.events.is_empty())
    }

    /// The aggregated discovery response for `/api` or `/apis`.
    pub(super) fn discovery(&self, is_core: bool) -> Value {
        let mut groups: Vec<Value> = Vec::new();
        for kind_script in
            self.kinds.iter().filter(|kind_script| kind_script.info.group.is_empty() == is_core)
        {
            let KindInfo { group, kind, plural, short_names, namespaced, .. } = kind_script.info;
            let version = kind_script.info.versions[0];
            let scope = if *namespaced { "Namespaced" } else { "Cluster" };
            groups.push(json!({
                "metadata": { "name": group },
                "versions": [{ "version": version, "resources": [{
                    "resource": plural,
                    "responseKind": { "group": group, "version": version, "kind": kind },
                    "scope": scope,
                    "singularResource": kind_script.info.singular(),
                    "verbs": ["get", "list", "watch"],
                    "shortNames": short_names,
                }] }],
            }));
        }
        json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": groups })
    }
}

// === impl KindScript ===

impl KindScript {
    fn new(info: &'static KindInfo) -> KindScript {
        KindScript { info, pages: Vec::new(), chunks: Vec::new(), events: Vec::new() }
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

    /// The resource version of the last event; 0 if there is none.
    pub(super) fn last_version(&self) -> u64 {
        self.events.last().map_or(0, |event| event.version)
    }

    fn add_pages(&mut self, items: &[String], listed: u64) {
        let count = items.len().div_ceil(PAGE_SIZE).max(1);
        for number in 1..=count {
            let page = &items[(number - 1) * PAGE_SIZE..items.len().min(number * PAGE_SIZE)];
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

    fn add_event(&mut self, observed: &IncomingChange, index: usize) -> Result<()> {
        let event_type = match &observed.what {
            What::Added(_) => "ADDED",
            What::Modified(_) => "MODIFIED",
            What::Deleted(_) => "DELETED",
        };
        let line = format!("{{\"type\":\"{event_type}\",\"object\":{}}}\n", observed.what.object().as_str());
        self.chunks.extend_from_slice(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes());
        self.events.push(ScriptedEvent { version: version(observed)?, end: self.chunks.len(), index });
        Ok(())
    }
}

fn version(observed: &IncomingChange) -> Result<u64> {
    let meta = observed.what.object().meta();
    Ok(meta.resource_version.ok_or("an object without a version")?.parse()?)
}

/// An object as a list item, without kind and apiVersion.
fn list_item(object: &str) -> Result<String> {
    let at = object.find("\"metadata\"").ok_or("an object without metadata")?;
    Ok(format!("{{{}", &object[at..]))
}

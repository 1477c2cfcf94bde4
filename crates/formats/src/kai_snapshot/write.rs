//! Writes a moment as a snapshot of the KAI scheduler, for its own snapshot tool.

use std::borrow::Cow;
use std::io::Write;

use model::{Change, Gap, Kind, Moment, Object};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, ZipWriter};

use super::partition::Partition;
use super::settings::{SchedulerSettings, ServedKinds};
use super::{ENTRY_NAME, OBJECT_LISTS, OWN_KEY, SETTINGS_API_VERSION, SETTINGS_KIND, releases};
use crate::manifests::without_type_meta;
use crate::{Result, WriteSummary, go_json};

/// Lists that are restricted to the partition.
const PARTITIONED_LISTS: [&str; 3] = ["nodes", "queues", "podGroups"];
/// Lists that are null where the API server does not serve their kinds.
const DRA_LISTS: [&str; 3] = ["resourceClaims", "resourceSlices", "deviceClasses"];
const NODE_TOPOLOGIES_LIST: &str = "nodeResourceTopologies";
/// Above this size the objects may exceed the 4 GiB of an entry without ZIP64: escaping makes a byte at most six.
const ZIP64_THRESHOLD: usize = 512 << 20;

/// Writes a snapshot. All objects are held until the end, because they are written list by list.
///
/// What the scheduler itself captured is written as it was. Of other finished pods, succeeded ones become stubs and
/// failed ones are left out, as the scheduler does since August 2026. Pods keep all fields, as in releases up to v0.15.
pub struct KaiSnapshotWriter<W> {
    out: W,
    partition: Option<Partition>,
    has_config_map_data: bool,
    /// The time of the changes.
    time: Option<Moment>,
    lists: [Vec<Object>; OBJECT_LISTS.len()],
    /// Kueue's topologies, which the scheduler used up to v0.10.
    old_topologies: Vec<Object>,
    settings: Option<Object>,
    written: WriteSummary,
}

/// Writes the JSON of a snapshot into its ZIP entry.
struct EntryWriter<W: Write> {
    zip: ZipWriter<StreamWriter<W>>,
    buffer: Vec<u8>,
}

// === impl KaiSnapshotWriter ===

impl<W: Write> KaiSnapshotWriter<W> {
    /// Writes to `out`. Without a partition, that of the recorded settings applies, or else the objects without the
    /// label.
    pub fn new(out: W, partition: Option<Partition>) -> KaiSnapshotWriter<W> {
        KaiSnapshotWriter {
            out,
            partition,
            has_config_map_data: true,
            time: None,
            lists: Default::default(),
            old_topologies: Vec::new(),
            settings: None,
            written: WriteSummary::default(),
        }
    }

    /// Leaves out the data of ConfigMaps; the scheduler only needs to know that they exist.
    pub fn without_config_map_data(self) -> KaiSnapshotWriter<W> {
        KaiSnapshotWriter { has_config_map_data: false, ..self }
    }
}

impl<W: Write> crate::Writer for KaiSnapshotWriter<W> {
    fn change(&mut self, change: &Change) -> Result<()> {
        let Some(object) = change.what.state() else { return Ok(()) };
        self.time = self.time.max(Some(change.at));
        let kind = &change.key.kind;
        if *kind == Kind::of(SETTINGS_API_VERSION, SETTINGS_KIND) && self.settings.is_none() {
            self.settings = Some(object.clone());
        } else if kind.is("kueue.x-k8s.io", "Topology") {
            self.old_topologies.push(object.clone());
        } else if let Some(list) =
            OBJECT_LISTS.iter().position(|list| Kind::of(list.api_version, list.kind) == *kind)
        {
            self.lists[list].push(object.clone());
        } else {
            self.written.left_out.count(&format!("objects of {}", kind.kind));
        }
        Ok(())
    }

    fn gap(&mut self, _: &Gap) -> Result<()> {
        self.written.left_out.count("gaps");
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<WriteSummary> {
        self.choose_topologies();
        if self.settings.is_none() {
            self.drop_failed_pods();
        }
        let serves = ServedKinds {
            claims: DRA_LISTS.iter().any(|key| self.has_objects(key)),
            node_topologies: self.has_objects(NODE_TOPOLOGIES_LIST),
        };
        let mut settings = SchedulerSettings::new(self.settings.as_ref(), self.partition.take());
        if self.settings.is_none() {
            settings.set_served(serves);
        }
        self.written.count += u64::from(self.settings.is_some());
        self.written.added = settings.added;
        let length: usize = self.lists.iter().flatten().map(|object| object.as_str().len()).sum();
        let mut zip = ZipWriter::new_stream(self.out);
        // No modification time, so that the same moment makes the same file.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(zip::DateTime::default())
            .large_file(length > ZIP64_THRESHOLD);
        zip.start_file(ENTRY_NAME, options).map_err(std::io::Error::from)?;
        let mut lists = EntryWriter { zip, buffer: Vec::new() };
        lists.text("{\"config\":")?;
        lists.value(&settings.config)?;
        lists.text(",\"schedulerParams\":")?;
        lists.value(&settings.scheduler_params)?;
        lists.text(",\"rawObjects\":{")?;
        for (index, (list, objects)) in OBJECT_LISTS.iter().zip(&self.lists).enumerate() {
            lists.text(if index == 0 { "" } else { "," })?;
            lists.text(&format!("\"{}\":", list.key))?;
            let served = match list.key {
                NODE_TOPOLOGIES_LIST => serves.node_topologies,
                key if DRA_LISTS.contains(&key) => serves.claims,
                _ => true,
            };
            if !served {
                lists.value(&Value::Null)?;
                continue;
            }
            lists.text("[")?;
            let mut comma = "";
            for object in objects {
                if PARTITIONED_LISTS.contains(&list.key) && !settings.partition.contains(object) {
                    self.written.left_out.count("objects outside the partition");
                    continue;
                }
                lists.text(comma)?;
                let mut value = without_type_meta(object)?;
                match list.key {
                    key if DRA_LISTS.contains(&key) => releases::to_v1(&mut value),
                    "pods" if self.settings.is_none() && phase(object).as_deref() == Some("Succeeded") => {
                        value = succeeded_stub(&value);
                    }
                    "configMaps" if !self.has_config_map_data => remove_data(&mut value),
                    _ => {}
                }
                lists.value(&value)?;
                comma = ",";
                self.written.count += 1;
            }
            lists.text("]")?;
        }
        lists.text("}")?;
        if let Some(discovery) = &settings.discovery {
            lists.text(",\"discovery\":")?;
            lists.value(discovery)?;
        }
        if let Some(time) = self.time {
            lists.text(&format!(",\"{OWN_KEY}\":"))?;
            lists.value(&json!({"time": time.to_string()}))?;
        }
        lists.text("}")?;
        let mut out = lists.zip.finish().map_err(std::io::Error::from)?.into_inner();
        out.flush()?;
        Ok(self.written)
    }
}

impl<W> KaiSnapshotWriter<W> {
    fn has_objects(&self, key: &str) -> bool {
        OBJECT_LISTS.iter().zip(&self.lists).any(|(list, objects)| list.key == key && !objects.is_empty())
    }

    fn drop_failed_pods(&mut self) {
        let KaiSnapshotWriter { lists, written, .. } = self;
        lists[0].retain(|pod| {
            let has_failed = phase(pod).as_deref() == Some("Failed");
            if has_failed {
                written.left_out.count("pods that have failed");
            }
            !has_failed
        });
    }

    /// Kueue's topologies have the same fields and were used before the scheduler had its own kind. Where there are
    /// objects of its own kind, those of Kueue belong to another system.
    fn choose_topologies(&mut self) {
        let old = std::mem::take(&mut self.old_topologies);
        let at = OBJECT_LISTS
            .iter()
            .position(|list| list.key == "topologies")
            .expect("the object lists include topologies");
        if self.lists[at].is_empty() {
            self.lists[at] = old;
        } else {
            old.iter().for_each(|_| self.written.left_out.count("objects of Kueue's Topology"));
        }
    }
}

// === impl EntryWriter ===

impl<W: Write> EntryWriter<W> {
    fn text(&mut self, text: &str) -> Result<()> {
        Ok(self.zip.write_all(text.as_bytes())?)
    }

    /// Writes a value and a line end, as Go's encoder does.
    fn value(&mut self, value: &Value) -> Result<()> {
        self.buffer.clear();
        go_json::write_value(&mut self.buffer, value);
        self.buffer.push(b'\n');
        Ok(self.zip.write_all(&self.buffer)?)
    }
}

/// What the scheduler keeps of a pod that has succeeded: it counts for its pod group, and for nothing else.
fn succeeded_stub(pod: &Value) -> Value {
    let from = &pod["metadata"];
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid"] {
        if !from[field].is_null() {
            metadata.insert(field.to_owned(), from[field].clone());
        }
    }
    for (field, key) in [("annotations", "pod-group-name"), ("labels", "kai.scheduler/subgroup-name")] {
        if !from[field][key].is_null() {
            metadata.insert(field.to_owned(), json!({key: from[field][key]}));
        }
    }
    json!({"metadata": metadata, "spec": {"containers": null}, "status": {"phase": "Succeeded"}})
}

fn remove_data(config_map: &mut Value) {
    if let Some(fields) = config_map.as_object_mut() {
        fields.remove("data");
        fields.remove("binaryData");
    }
}

fn phase(pod: &Object) -> Option<String> {
    #[derive(Deserialize)]
    struct Pod<'a> {
        #[serde(borrow, default)]
        status: Option<Status<'a>>,
    }
    #[derive(Deserialize)]
    struct Status<'a> {
        #[serde(borrow, default)]
        phase: Option<Cow<'a, str>>,
    }
    pod.view::<Pod<'_>>().ok().and_then(|pod| Some(pod.status?.phase?.into_owned()))
}

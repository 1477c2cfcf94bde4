//! A moment as the KAI scheduler would have shown it, for its own tool to read.

use std::borrow::Cow;
use std::io::Write;

use model::{Change, Gap, Kind, Object};
use serde::Deserialize;
use serde_json::Value;
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, ZipWriter};

use super::partition::Partition;
use super::settings::{Serves, Settings};
use super::{ENTRY, LISTS, SETTINGS_API_VERSION, SETTINGS_KIND, releases};
use crate::manifests::nameless;
use crate::{Result, Written, go_json};

/// Lists that hold only what belongs to the partition.
const PARTITIONED: [&str; 3] = ["nodes", "queues", "podGroups"];
/// Lists that are null where the API server does not have their kinds.
const CLAIMS: [&str; 3] = ["resourceClaims", "resourceSlices", "deviceClasses"];
const NODE_TOPOLOGIES: &str = "nodeResourceTopologies";
/// Objects of so many bytes can come to more than the 4 GiB that a plain ZIP entry holds: a byte becomes six at most.
const LARGE: usize = 512 << 20;

/// Writes a snapshot. The objects of the moment are held until the end: their lists come one after the other.
///
/// Pods keep all they have, as in releases up to v0.15; finished ones are left out, as in v0.17.
pub struct Writer<W> {
    out: W,
    partition: Option<Partition>,
    lists: [Vec<Object>; LISTS.len()],
    /// Topologies as they were up to v0.10.
    old_topologies: Vec<Object>,
    settings: Option<Object>,
    written: Written,
}

/// The lists of one snapshot, as they go out.
struct Lists<W: Write> {
    zip: ZipWriter<StreamWriter<W>>,
    buffer: Vec<u8>,
}

// === impl Writer ===

impl<W: Write> Writer<W> {
    /// Writes to `out`. Without a partition it is the one of the recorded settings, or what bears no partition's label.
    pub fn new(out: W, partition: Option<Partition>) -> Writer<W> {
        Writer {
            out,
            partition,
            lists: Default::default(),
            old_topologies: Vec::new(),
            settings: None,
            written: Written::default(),
        }
    }
}

impl<W: Write> crate::Writer for Writer<W> {
    fn change(&mut self, change: &Change) -> Result<()> {
        let Some(object) = change.what.state() else { return Ok(()) };
        let kind = &change.key.kind;
        if *kind == Kind::of(SETTINGS_API_VERSION, SETTINGS_KIND) && self.settings.is_none() {
            self.settings = Some(object.clone());
        } else if *kind == Kind::new("kueue.x-k8s.io", "Topology") {
            self.old_topologies.push(object.clone());
        } else if let Some(list) =
            LISTS.iter().position(|list| Kind::of(list.api_version, list.kind) == *kind)
        {
            if LISTS[list].key == "pods" && is_finished(object) {
                self.written.left_out.count("pods already finished");
            } else {
                self.lists[list].push(object.clone());
            }
        } else {
            self.written.left_out.count(&format!("objects of {}", kind.kind));
        }
        Ok(())
    }

    fn gap(&mut self, _: &Gap) -> Result<()> {
        self.written.left_out.count("gaps");
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Written> {
        self.choose_topologies();
        let serves = Serves {
            claims: CLAIMS.iter().any(|key| self.has(key)),
            node_topologies: self.has(NODE_TOPOLOGIES),
        };
        let settings = Settings::new(self.settings.as_ref(), self.partition.take(), serves);
        self.written.count += u64::from(self.settings.is_some());
        let length: usize = self.lists.iter().flatten().map(|object| object.as_str().len()).sum();
        let mut zip = ZipWriter::new_stream(self.out);
        // No time of writing: the same moment is the same file.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(zip::DateTime::default())
            .large_file(length > LARGE);
        zip.start_file(ENTRY, options).map_err(std::io::Error::from)?;
        let mut lists = Lists { zip, buffer: Vec::new() };
        lists.text("{\"config\":")?;
        lists.value(&settings.config)?;
        lists.text(",\"schedulerParams\":")?;
        lists.value(&settings.scheduler_params)?;
        lists.text(",\"rawObjects\":{")?;
        for (index, (list, objects)) in LISTS.iter().zip(&self.lists).enumerate() {
            lists.text(if index == 0 { "" } else { "," })?;
            lists.text(&format!("\"{}\":", list.key))?;
            let served = match list.key {
                NODE_TOPOLOGIES => serves.node_topologies,
                key if CLAIMS.contains(&key) => serves.claims,
                _ => true,
            };
            if !served {
                lists.value(&Value::Null)?;
                continue;
            }
            lists.text("[")?;
            let mut comma = "";
            for object in objects {
                if PARTITIONED.contains(&list.key) && !settings.partition.holds(object) {
                    self.written.left_out.count("objects outside the partition");
                    continue;
                }
                lists.text(comma)?;
                lists.object(object, CLAIMS.contains(&list.key))?;
                comma = ",";
                self.written.count += 1;
            }
            lists.text("]")?;
        }
        lists.text("},\"discovery\":")?;
        lists.value(&settings.discovery)?;
        lists.text("}")?;
        let mut out = lists.zip.finish().map_err(std::io::Error::from)?.into_inner();
        out.flush()?;
        Ok(self.written)
    }
}

impl<W> Writer<W> {
    fn has(&self, key: &str) -> bool {
        LISTS.iter().zip(&self.lists).any(|(list, objects)| list.key == key && !objects.is_empty())
    }

    /// Kueue's topologies look the same, and were the scheduler's before it had its own. Where it has, they are another
    /// system's.
    fn choose_topologies(&mut self) {
        let old = std::mem::take(&mut self.old_topologies);
        let at =
            LISTS.iter().position(|list| list.key == "topologies").expect("the scheduler has topologies");
        if self.lists[at].is_empty() {
            self.lists[at] = old;
        } else {
            old.iter().for_each(|_| self.written.left_out.count("objects of Kueue's Topology"));
        }
    }
}

// === impl Lists ===

impl<W: Write> Lists<W> {
    fn text(&mut self, text: &str) -> Result<()> {
        Ok(self.zip.write_all(text.as_bytes())?)
    }

    /// A value and a line end, which Go's encoder puts behind each.
    fn value(&mut self, value: &Value) -> Result<()> {
        self.buffer.clear();
        go_json::write_value(&mut self.buffer, value);
        self.buffer.push(b'\n');
        Ok(self.zip.write_all(&self.buffer)?)
    }

    /// The list says what its items are, so that they do not.
    fn object(&mut self, object: &Object, is_claim: bool) -> Result<()> {
        let mut value = nameless(object)?;
        if is_claim {
            releases::to_v1(&mut value);
        }
        self.value(&value)
    }
}

fn is_finished(pod: &Object) -> bool {
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
    let phase = pod.view::<Pod<'_>>().ok().and_then(|pod| pod.status?.phase);
    matches!(phase.as_deref(), Some("Succeeded" | "Failed"))
}

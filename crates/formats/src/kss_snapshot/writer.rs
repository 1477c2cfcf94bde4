//! The writer of exports, which needs all objects of the moment before it writes.

use std::collections::BTreeMap;
use std::io::Write;

use model::{Change, Gap, Key, Kind, Object};
use serde_json::Value;

use super::{EXPORT_FIELDS, ExportField, SCHEDULER_CONFIG};
use crate::manifests::{self, without_type_meta};
use crate::{Result, WriteSummary, go_json};

/// Writes the objects of a moment.
pub struct KssSnapshotWriter<W> {
    out: W,
    yaml: bool,
    /// The objects per field.
    objects: [BTreeMap<Key, Object>; EXPORT_FIELDS.len()],
    written: WriteSummary,
}

// === impl KssSnapshotWriter ===

impl<W: Write> KssSnapshotWriter<W> {
    /// Writes to `out`: JSON as the simulator's server returns it, or YAML as its web page does.
    pub fn new(out: W, yaml: bool) -> KssSnapshotWriter<W> {
        KssSnapshotWriter { out, yaml, objects: Default::default(), written: WriteSummary::default() }
    }

    /// Whether an object belongs to the export. Objects that the API server creates by itself do not.
    fn is_exported(&mut self, object: &Object) -> bool {
        let meta = object.meta();
        let left_out = match &*meta.kind {
            "PriorityClass" if meta.name.starts_with("system-") => "priority classes of the system",
            "Namespace" if meta.name == "default" || meta.name.starts_with("kube-") => {
                "namespaces of the system"
            }
            _ => return true,
        };
        self.written.left_out.count(left_out);
        false
    }

    fn write_json(&mut self, name: &str, items: &[Object]) -> Result<()> {
        let mut text = Vec::new();
        go_json::write_string(&mut text, name);
        text.push(b':');
        if name == SCHEDULER_CONFIG {
            go_json::write_value(&mut text, &config(items)?);
        } else {
            text.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                go_json::write_value(&mut text, &without_type_meta(item)?);
                self.out.write_all(&text)?;
                text.clear();
            }
            text.push(b']');
        }
        Ok(self.out.write_all(&text)?)
    }

    fn write_yaml(&mut self, name: &str, items: &[Object]) -> Result<()> {
        if name == SCHEDULER_CONFIG {
            let field = Value::Object([(name.to_owned(), config(items)?)].into_iter().collect());
            return Ok(self.out.write_all(manifests::to_yaml(&field).as_bytes())?);
        }
        writeln!(self.out, "{name}:{}", if items.is_empty() { " []" } else { "" })?;
        for item in items {
            // Written as a list with one item, because items are not indented below their field.
            self.out
                .write_all(manifests::to_yaml(&Value::from(vec![without_type_meta(item)?])).as_bytes())?;
        }
        Ok(())
    }
}

impl<W: Write> crate::Writer for KssSnapshotWriter<W> {
    fn change(&mut self, change: &Change) -> Result<()> {
        let key = &change.key;
        let is_of = |field: &ExportField| {
            *field.kind == *key.kind.kind && Kind::of(field.api_version, field.kind) == key.kind
        };
        let objects = EXPORT_FIELDS.iter().position(is_of).map(|field| &mut self.objects[field]);
        match (objects, change.what.state()) {
            (Some(objects), Some(object)) => drop(objects.insert(key.clone(), object.clone())),
            (Some(objects), None) => drop(objects.remove(key)),
            (None, Some(_)) => self.written.left_out.count(&format!("objects of {}", key.kind.kind)),
            (None, None) => {}
        }
        Ok(())
    }

    fn gap(&mut self, _: &Gap) -> Result<()> {
        self.written.left_out.count("gaps");
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<WriteSummary> {
        let fields = std::mem::take(&mut self.objects);
        for (index, (ExportField { key: name, .. }, objects)) in
            EXPORT_FIELDS.into_iter().zip(fields).enumerate()
        {
            let mut items: Vec<Object> =
                objects.into_values().filter(|object| self.is_exported(object)).collect();
            // An export has a single configuration.
            while name == SCHEDULER_CONFIG && items.len() > 1 {
                items.pop();
                self.written.left_out.count("objects of KubeSchedulerConfiguration");
            }
            self.written.count += items.len() as u64;
            if self.yaml {
                self.write_yaml(name, &items)?;
            } else {
                self.out.write_all(if index == 0 { b"{" } else { b"," })?;
                self.write_json(name, &items)?;
            }
        }
        if !self.yaml {
            self.out.write_all(b"}\n")?;
        }
        self.out.flush()?;
        Ok(self.written)
    }
}

/// The configuration without the name it got on import; null if there is none.
fn config(items: &[Object]) -> Result<Value> {
    let Some(config) = items.first() else { return Ok(Value::Null) };
    let mut value = config.value().map_err(std::io::Error::other)?;
    if let Value::Object(fields) = &mut value {
        fields.remove("metadata");
    }
    Ok(value)
}

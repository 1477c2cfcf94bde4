//! An export, written when all objects of the moment are there.

use std::collections::BTreeMap;
use std::io::Write;

use model::{Change, Gap, Key, Kind, Object};
use serde_json::Value;

use super::{CONFIG, FIELDS, Field};
use crate::manifests::{self, nameless};
use crate::{Result, Written, go_json};

/// Writes the objects of a moment.
pub struct Writer<W> {
    out: W,
    yaml: bool,
    /// Those of each field.
    objects: [BTreeMap<Key, Object>; FIELDS.len()],
    written: Written,
}

// === impl Writer ===

impl<W: Write> Writer<W> {
    /// Writes to `out`: JSON as the server gives it, or YAML as its web page does.
    pub fn new(out: W, yaml: bool) -> Writer<W> {
        Writer { out, yaml, objects: Default::default(), written: Written::default() }
    }

    /// Whether an object belongs to the export. What the API server makes by itself does not.
    fn takes(&mut self, object: &Object) -> bool {
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
        if name == CONFIG {
            go_json::write_value(&mut text, &config(items)?);
        } else {
            text.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                go_json::write_value(&mut text, &nameless(item)?);
                self.out.write_all(&text)?;
                text.clear();
            }
            text.push(b']');
        }
        Ok(self.out.write_all(&text)?)
    }

    fn write_yaml(&mut self, name: &str, items: &[Object]) -> Result<()> {
        if name == CONFIG {
            let field = Value::Object([(name.to_owned(), config(items)?)].into_iter().collect());
            return Ok(self.out.write_all(manifests::to_yaml(&field).as_bytes())?);
        }
        writeln!(self.out, "{name}:{}", if items.is_empty() { " []" } else { "" })?;
        for item in items {
            // A list of one: its items are not indented below their field.
            self.out.write_all(manifests::to_yaml(&Value::from(vec![nameless(item)?])).as_bytes())?;
        }
        Ok(())
    }
}

impl<W: Write> crate::Writer for Writer<W> {
    fn change(&mut self, change: &Change) -> Result<()> {
        let key = &change.key;
        let is_of = |field: &Field| {
            *field.kind == *key.kind.kind && Kind::of(field.api_version, field.kind) == key.kind
        };
        let objects = FIELDS.iter().position(is_of).map(|field| &mut self.objects[field]);
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

    fn finish(mut self: Box<Self>) -> Result<Written> {
        let fields = std::mem::take(&mut self.objects);
        for (index, (Field { key: name, .. }, objects)) in FIELDS.into_iter().zip(fields).enumerate() {
            let mut items: Vec<Object> = objects.into_values().filter(|object| self.takes(object)).collect();
            // There is room for one configuration.
            while name == CONFIG && items.len() > 1 {
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

/// The configuration without the name it was given here; null if there is none.
fn config(items: &[Object]) -> Result<Value> {
    let Some(config) = items.first() else { return Ok(Value::Null) };
    let mut value = config.value().map_err(std::io::Error::other)?;
    if let Value::Object(fields) = &mut value {
        fields.remove("metadata");
    }
    Ok(value)
}

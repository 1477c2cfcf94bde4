//! The text with which Go's spew prints a PodTemplateSpec: the type and the value of every field, whether it is set or not.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::quantity;
use crate::schema::{self, StructId, Type};

/// The names of fields in Go that are not the JSON name with a capital letter: of a type, or of any.
#[rustfmt::skip]
const GO_NAMES: &[(&str, &str, &str)] = &[
    ("core.AzureDiskVolumeSource", "diskURI", "DataDiskURI"),
    ("core.FCVolumeSource", "wwids", "WWIDs"),
    ("core.GCEPersistentDiskVolumeSource", "pdName", "PDName"),
    ("core.GlusterfsVolumeSource", "endpoints", "EndpointsName"),
    ("core.HTTPGetAction", "httpHeaders", "HTTPHeaders"),
    ("core.HostAlias", "ip", "IP"),
    ("core.ISCSIVolumeSource", "chapAuthDiscovery", "DiscoveryCHAPAuth"),
    ("core.ISCSIVolumeSource", "chapAuthSession", "SessionCHAPAuth"),
    ("core.ISCSIVolumeSource", "iqn", "IQN"),
    ("core.ISCSIVolumeSource", "iscsiInterface", "ISCSIInterface"),
    ("core.LifecycleHandler", "httpGet", "HTTPGet"),
    ("core.LifecycleHandler", "tcpSocket", "TCPSocket"),
    ("core.PodSecurityContext", "fsGroup", "FSGroup"),
    ("core.PodSecurityContext", "fsGroupChangePolicy", "FSGroupChangePolicy"),
    ("core.PodSpec", "dnsConfig", "DNSConfig"),
    ("core.PodSpec", "dnsPolicy", "DNSPolicy"),
    ("core.PodSpec", "os", "OS"),
    ("core.PodSpec", "serviceAccount", "DeprecatedServiceAccount"),
    ("core.Probe", "grpc", "GRPC"),
    ("core.Probe", "httpGet", "HTTPGet"),
    ("core.Probe", "tcpSocket", "TCPSocket"),
    ("core.RBDVolumeSource", "image", "RBDImage"),
    ("core.RBDVolumeSource", "monitors", "CephMonitors"),
    ("core.RBDVolumeSource", "pool", "RBDPool"),
    ("core.RBDVolumeSource", "user", "RadosUser"),
    ("core.ScaleIOVolumeSource", "sslEnabled", "SSLEnabled"),
    ("core.Volume", "awsElasticBlockStore", "AWSElasticBlockStore"),
    ("core.Volume", "cephfs", "CephFS"),
    ("core.Volume", "csi", "CSI"),
    ("core.Volume", "fc", "FC"),
    ("core.Volume", "gcePersistentDisk", "GCEPersistentDisk"),
    ("core.Volume", "iscsi", "ISCSI"),
    ("core.Volume", "nfs", "NFS"),
    ("core.Volume", "rbd", "RBD"),
    ("core.Volume", "storageos", "StorageOS"),
    ("core.WindowsSecurityContextOptions", "gmsaCredentialSpec", "GMSACredentialSpec"),
    ("core.WindowsSecurityContextOptions", "gmsaCredentialSpecName", "GMSACredentialSpecName"),
    ("", "apiGroup", "APIGroup"),
    ("", "apiVersion", "APIVersion"),
    ("", "fsType", "FSType"),
    ("", "metadata", "ObjectMeta"),
    ("", "seLinuxChangePolicy", "SELinuxChangePolicy"),
    ("", "seLinuxOptions", "SELinuxOptions"),
    ("", "tty", "TTY"),
    ("", "uid", "UID"),
];

/// Prints values into a text.
#[derive(Default)]
struct Printer {
    text: String,
}

/// The text of a template; `None` if it has a field or a value that its Go type does not have.
pub(super) fn dump_pod_template(template: &Value) -> Option<String> {
    let id = schema::named("core.PodTemplateSpec")?;
    let mut printer = Printer::default();
    printer.typed(&Type::Struct(id), Some(template))?;
    Some(printer.text)
}

/// The name of a type in Go.
fn go_type(type_: &Type) -> Option<String> {
    Some(match type_ {
        Type::Text(name) => (*name).to_owned(),
        Type::Int32 => "int32".to_owned(),
        Type::Int64 => "int64".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Quantity | Type::ResourceQuantity => "resource.Quantity".to_owned(),
        Type::Time => "v1.Time".to_owned(),
        Type::IntOrString => "intstr.IntOrString".to_owned(),
        // The groups that a template has types of, core and meta, are both packages v1.
        Type::Struct(id) => format!("v1.{}", schema::get(*id).go_name()),
        Type::Pointer(inner) => format!("*{}", go_type(inner)?),
        Type::List(inner) => format!("[]{}", go_type(inner)?),
        Type::Map(_, inner) if **inner == Type::ResourceQuantity => "v1.ResourceList".to_owned(),
        Type::Map("string", inner) => format!("map[string]{}", go_type(inner)?),
        // No field of a template has these.
        Type::Map(..)
        | Type::Float
        | Type::MicroTime
        | Type::Bytes
        | Type::Any
        | Type::Interface
        | Type::SchemaOrBool(_)
        | Type::SchemaOrArray(_)
        | Type::SchemaOrStrings(_) => return None,
    })
}

fn go_name(struct_name: &str, field: &str) -> String {
    let special = GO_NAMES
        .iter()
        .find(|(of, json_name, _)| *json_name == field && (*of == struct_name || of.is_empty()));
    if let Some((_, _, name)) = special {
        return (*name).to_owned();
    }
    let mut name = field.to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    name
}

// === impl Printer ===

impl Printer {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// A value after its type.
    fn typed(&mut self, type_: &Type, value: Option<&Value>) -> Option<()> {
        // Lists and maps without entries are not stored, so they are nil for controllers.
        let is_empty = |value: &&Value| match value {
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty() && matches!(type_, Type::Map(..)),
            Value::Null => true,
            Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        };
        let value = value.filter(|value| !is_empty(value));
        write!(self.text, "({})", go_type(type_)?).ok()?;
        let is_nil = value.is_none() && matches!(type_, Type::Pointer(_) | Type::List(_) | Type::Map(..));
        if is_nil {
            self.push("<nil>");
            return Some(());
        }
        self.untyped(type_, value)
    }

    /// A value without its type: an entry of a list, for example. One that is missing is zero.
    fn untyped(&mut self, type_: &Type, value: Option<&Value>) -> Option<()> {
        match type_ {
            Type::Text(_) => self.push(value.map_or(Some(""), Value::as_str)?),
            Type::Int32 | Type::Int64 => {
                write!(self.text, "{}", value.map_or(Some(0), Value::as_i64)?).ok()?;
            }
            Type::Bool => write!(self.text, "{}", value.map_or(Some(false), Value::as_bool)?).ok()?,
            Type::Quantity | Type::ResourceQuantity => {
                self.push(&quantity::dump(value.map_or(Some(""), Value::as_str)?)?);
            }
            // The metadata of a template has no times.
            Type::Time if value.is_none() => {
                self.push("{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}");
            }
            Type::IntOrString => self.int_or_string(value)?,
            Type::Struct(id) => self.fields(*id, value)?,
            Type::Pointer(inner) => self.untyped(inner, value)?,
            Type::List(inner) => self.list(inner, value?.as_array()?)?,
            Type::Map(_, inner) => self.map(inner, value?.as_object()?)?,
            _ => return None,
        }
        Some(())
    }

    fn int_or_string(&mut self, value: Option<&Value>) -> Option<()> {
        let (kind, number, text) = match value {
            Some(Value::String(text)) => (1, 0, &**text),
            Some(number) => (0, number.as_i64()?, ""),
            None => (0, 0, ""),
        };
        let written =
            write!(self.text, "{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}");
        written.ok()
    }

    fn fields(&mut self, id: StructId, value: Option<&Value>) -> Option<()> {
        let struct_type = schema::get(id);
        let nothing = Map::new();
        let values = value.map_or(Some(&nothing), Value::as_object)?;
        if values.keys().any(|name| struct_type.field(name).is_none()) {
            return None;
        }
        self.push("{");
        let mut embedded: &[&str] = &[];
        for (index, field) in struct_type.fields.iter().enumerate() {
            let shared = embedded.iter().zip(&field.embedded).take_while(|(one, other)| one == other).count();
            embedded[shared..].iter().for_each(|_| self.push("}"));
            self.push(if index == 0 { "" } else { " " });
            for name in &field.embedded[shared..] {
                write!(self.text, "{name}:(v1.{name}){{").ok()?;
            }
            embedded = &field.embedded;
            write!(self.text, "{}:", go_name(struct_type.name, field.name)).ok()?;
            self.typed(&field.type_, values.get(field.name))?;
        }
        embedded.iter().for_each(|_| self.push("}"));
        self.push("}");
        Some(())
    }

    fn list(&mut self, entry: &Type, items: &[Value]) -> Option<()> {
        self.push("[");
        for (index, item) in items.iter().enumerate() {
            self.push(if index == 0 { "" } else { " " });
            self.untyped(entry, Some(item))?;
        }
        self.push("]");
        Some(())
    }

    fn map(&mut self, entry: &Type, entries: &Map<String, Value>) -> Option<()> {
        let mut entries: Vec<(&String, &Value)> = entries.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        self.push("map[");
        for (index, (key, value)) in entries.into_iter().enumerate() {
            self.push(if index == 0 { "" } else { " " });
            write!(self.text, "{key}:").ok()?;
            self.untyped(entry, Some(value))?;
        }
        self.push("]");
        Some(())
    }
}

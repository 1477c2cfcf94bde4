//! SimKube's stable pod spec, the fields that pods of one template share, and its hash.
//!
//! SimKube parses a spec into the types of Kubernetes 1.30 before hashing it, so the hash depends on the fields of
//! those types and on which of them are serialized when empty. `podspec-1.30.json` lists the fields of each type; a `?`
//! marks a field that is omitted when absent.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::hash::hash;

/// A pod's spec without the fields that differ between pods of one template: the node, the service account, its token's
/// volume; and without the ports, which SimKube does not simulate.
///
/// The error names a field of the wrong type; SimKube cannot read such a pod at all.
pub(super) fn stable_spec(spec: &Value) -> Result<Value, String> {
    let mut spec = typed_spec(spec)?;
    for differing in ["nodeName", "serviceAccount", "serviceAccountName"] {
        spec.remove(differing);
    }
    drop_token_volumes(&mut spec, "volumes");
    for (list, ports_stay) in [("initContainers", true), ("containers", false)] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            drop_token_volumes(container, "volumeMounts");
            if !ports_stay {
                container.remove("ports");
            }
        }
    }
    Ok(Value::Object(spec))
}

/// The hash under which SimKube stores a pod's lifecycle.
pub(super) fn stable_hash(spec: &Value) -> Result<u64, String> {
    stable_spec(spec).map(|spec| hash(&spec))
}

/// Removes the service account token's entries; the list is added if missing.
fn drop_token_volumes(object: &mut Map<String, Value>, list: &str) {
    let entries = object.entry(list).or_insert_with(|| json!([]));
    if let Some(entries) = entries.as_array_mut() {
        entries
            .retain(|entry| !entry["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access")));
    }
}

/// The types of a pod's spec, by index.
struct TypeTable {
    types: Vec<Vec<TypeField>>,
    pod_spec: usize,
}

struct TypeField {
    name: String,
    field_type: FieldType,
    optional: bool,
}

/// The type of a field.
enum FieldType {
    Bool,
    I32,
    I64,
    Text,
    /// A text, or an integer that is converted to one.
    Quantity,
    IntOrString,
    /// Serialized in UTC with whole seconds.
    Time,
    Anything,
    List(Box<FieldType>),
    Map(Box<FieldType>),
    Struct(usize),
}

static TYPES: LazyLock<TypeTable> = LazyLock::new(|| {
    TypeTable::read(include_str!("podspec-1.30.json"))
        .expect("the table refers only to types that it defines")
});

/// The spec as SimKube's types serialize it.
fn typed_spec(spec: &Value) -> Result<Map<String, Value>, String> {
    TYPES.convert_struct(TYPES.pod_spec, spec).map_err(|why| format!("spec{why}"))
}

// === impl TypeTable ===

impl TypeTable {
    fn read(table: &str) -> Option<TypeTable> {
        let table: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(table).ok()?;
        let names: Vec<&str> = table.keys().map(String::as_str).collect();
        let field = |(name, type_name): (&String, &String)| {
            let optional = type_name.ends_with('?');
            Some(TypeField {
                name: name.clone(),
                field_type: FieldType::read(type_name.trim_end_matches('?'), &names)?,
                optional,
            })
        };
        let types = table.values().map(|fields| fields.iter().map(field).collect()).collect::<Option<_>>()?;
        Some(TypeTable { types, pod_spec: names.binary_search(&"PodSpec").ok()? })
    }

    /// The fields of a struct that its type has. An error begins with the path of the wrong field.
    fn convert_struct(&self, of: usize, value: &Value) -> Result<Map<String, Value>, String> {
        let Value::Object(given) = value else { return Err(type_error("a map", value)) };
        let mut fields = Map::new();
        for field in &self.types[of] {
            let value = match given.get(&field.name).filter(|value| !value.is_null()) {
                Some(value) => {
                    self.convert(&field.field_type, value).map_err(|why| format!(".{}{why}", field.name))?
                }
                None if field.optional => continue,
                None => self.default_value(&field.field_type),
            };
            fields.insert(field.name.clone(), value);
        }
        Ok(fields)
    }

    fn convert(&self, field_type: &FieldType, value: &Value) -> Result<Value, String> {
        match (field_type, value) {
            (FieldType::Anything, _)
            | (FieldType::Bool, Value::Bool(_))
            | (FieldType::Text | FieldType::Quantity | FieldType::IntOrString, Value::String(_)) => {
                Ok(value.clone())
            }
            (FieldType::I32 | FieldType::IntOrString, Value::Number(number)) => {
                let fits_i32 = number.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
                if fits_i32 { Ok(value.clone()) } else { Err(type_error("a 32-bit integer", value)) }
            }
            (FieldType::I64, Value::Number(number)) if number.is_i64() => Ok(value.clone()),
            (FieldType::Quantity, Value::Number(number)) if !number.is_f64() => Ok(json!(number.to_string())),
            (FieldType::Time, Value::String(text)) => {
                to_the_second(text).ok_or_else(|| type_error("a time", value))
            }
            (FieldType::List(field_type), Value::Array(entries)) => {
                let typed = |(n, entry)| self.convert(field_type, entry).map_err(|why| format!("[{n}]{why}"));
                entries.iter().enumerate().map(typed).collect()
            }
            (FieldType::Map(field_type), Value::Object(entries)) => {
                let typed = |(name, entry): (&String, &Value)| {
                    let typed = self.convert(field_type, entry).map_err(|why| format!(".{name}{why}"))?;
                    Ok((name.clone(), typed))
                };
                entries.iter().map(typed).collect::<Result<Map<_, _>, String>>().map(Value::Object)
            }
            (FieldType::Struct(field_type), _) => self.convert_struct(*field_type, value).map(Value::Object),
            (field_type, _) => Err(type_error(field_type.description(), value)),
        }
    }

    /// The value of a missing field that is always serialized.
    fn default_value(&self, field_type: &FieldType) -> Value {
        match field_type {
            FieldType::Bool => json!(false),
            FieldType::I32 | FieldType::I64 | FieldType::IntOrString => json!(0),
            FieldType::Text | FieldType::Quantity => json!(""),
            FieldType::Time => json!("1970-01-01T00:00:00Z"),
            FieldType::Anything => Value::Null,
            FieldType::List(_) => json!([]),
            FieldType::Map(_) => json!({}),
            FieldType::Struct(field_type) => {
                let written = self.types[*field_type].iter().filter(|field| !field.optional);
                Value::Object(
                    written
                        .map(|field| (field.name.clone(), self.default_value(&field.field_type)))
                        .collect(),
                )
            }
        }
    }
}

// === impl FieldType ===

impl FieldType {
    /// A type by its name in the table; `None` if the table does not have it.
    fn read(name: &str, structs: &[&str]) -> Option<FieldType> {
        if let Some(type_name) = name.strip_prefix("Vec<").and_then(|rest| rest.strip_suffix('>')) {
            return Some(FieldType::List(Box::new(FieldType::read(type_name, structs)?)));
        }
        if let Some(type_name) =
            name.strip_prefix("BTreeMap<String, ").and_then(|rest| rest.strip_suffix('>'))
        {
            return Some(FieldType::Map(Box::new(FieldType::read(type_name, structs)?)));
        }
        Some(match name {
            "bool" => FieldType::Bool,
            "i32" => FieldType::I32,
            "i64" => FieldType::I64,
            "String" => FieldType::Text,
            "Quantity" => FieldType::Quantity,
            "IntOrString" => FieldType::IntOrString,
            "Time" => FieldType::Time,
            "FieldsV1" => FieldType::Anything,
            _ => FieldType::Struct(structs.binary_search(&name).ok()?),
        })
    }

    fn description(&self) -> &'static str {
        match self {
            FieldType::Bool => "true or false",
            FieldType::I32 => "a 32-bit integer",
            FieldType::I64 => "a 64-bit integer",
            FieldType::Text => "a string",
            FieldType::Quantity => "a quantity",
            FieldType::IntOrString => "a string or a 32-bit integer",
            FieldType::Time => "a time",
            FieldType::Anything => "anything",
            FieldType::List(_) => "a list",
            FieldType::Map(_) | FieldType::Struct(_) => "a map",
        }
    }
}

fn type_error(expected: &str, found: &Value) -> String {
    let mut found = found.to_string();
    if let Some((cut, _)) = found.char_indices().nth(80) {
        found.replace_range(cut.., "…");
    }
    format!(" is {found}, expected {expected}")
}

fn to_the_second(text: &str) -> Option<Value> {
    let nanos = text.parse::<Timestamp>().ok()?.as_nanosecond();
    let seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).ok()?;
    Timestamp::from_second(seconds).ok().map(|time| json!(time.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_have_simkubes_hashes() {
        for line in include_str!("../../../../testdata/formats/sktrace_hashes.jsonl").lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let found = stable_hash(&case["spec"]);
            match case["hash"].as_str() {
                Some(hash) => assert_eq!(found, Ok(hash.parse().unwrap()), "{line}"),
                None => assert!(found.is_err(), "{line}"),
            }
        }
    }

    /// Hashes printed by SimKube 2.7.0, as are all hashes here.
    #[test]
    fn ports_of_init_containers_count() {
        assert_eq!(stable_hash(&json!({})), Ok(17506812802394981455));
        let container = json!({"name": "c", "ports": [{"containerPort": 1}]});
        let init = json!({"name": "i", "ports": [{"containerPort": 2}]});
        let spec = json!({"containers": [container], "initContainers": [init]});
        assert_eq!(stable_hash(&spec), Ok(5827652236605926290));
    }

    #[test]
    fn fields_that_differ_between_pods_of_one_template_are_left_out() {
        let container = |token: &str| {
            json!({"name": "c", "ports": [{"containerPort": 80}],
                   "volumeMounts": [{"name": token, "mountPath": "/token"}, {"name": "data", "mountPath": "/data"}]})
        };
        let pod = |node: &str, token: &str| {
            json!({"nodeName": node, "serviceAccount": node, "serviceAccountName": node, "newInLaterVersions": 1,
                   "volumes": [{"name": token}, {"name": "data"}], "containers": [container(token)],
                   "hostNetwork": null, "tolerations": []})
        };
        let expected = json!({
            "volumes": [{"name": "data"}], "tolerations": [],
            "containers": [{"name": "c", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        });
        assert_eq!(stable_spec(&pod("n1", "kube-api-access-1")), Ok(expected.clone()));
        assert_eq!(stable_spec(&pod("n2", "kube-api-access-2")), Ok(expected));
    }

    #[test]
    fn a_field_of_another_type_is_named() {
        let error = |spec: Value| stable_spec(&spec).unwrap_err();
        assert_eq!(error(json!([])), "spec is [], expected a map");
        assert_eq!(
            error(json!({"containers": [{}, {"image": 7}]})),
            "spec.containers[1].image is 7, expected a string"
        );
        assert_eq!(error(json!({"overhead": {"cpu": 1.5}})), "spec.overhead.cpu is 1.5, expected a quantity");
        assert_eq!(
            error(json!({"priority": 1_u64 << 31})),
            "spec.priority is 2147483648, expected a 32-bit integer"
        );
        let long = error(json!({"hostname": ["é".repeat(200)]}));
        assert!(long.ends_with("é…, expected a string"), "{long}");
    }
}

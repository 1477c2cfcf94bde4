//! What of a pod's spec SimKube recognises the pods of one template by, and its hash.
//!
//! SimKube holds a spec in the types of Kubernetes 1.30 before it hashes it, so the hash depends on which fields those
//! have and which of them are written although they are empty. `podspec-1.30.json` names the fields of each type; a `?`
//! marks one that is left out when it is absent.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::hash::hash;

/// A pod's spec without what differs between the pods of one template: the node, the service account, its token's
/// volume, and the ports, which SimKube leaves out of its simulations.
///
/// An error says what is not of its type; SimKube cannot read such a pod at all.
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

/// The hash that SimKube keeps a pod's lifetimes under.
pub(super) fn stable_hash(spec: &Value) -> Result<u64, String> {
    stable_spec(spec).map(|spec| hash(&spec))
}

/// Drops what belongs to the token of the service account; the list is there afterwards even if it was not.
fn drop_token_volumes(of: &mut Map<String, Value>, list: &str) {
    let entries = of.entry(list).or_insert_with(|| json!([]));
    if let Some(entries) = entries.as_array_mut() {
        entries
            .retain(|entry| !entry["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access")));
    }
}

/// The types of a pod's spec, by their place in this list.
struct Types {
    types: Vec<Vec<Field>>,
    pod_spec: usize,
}

struct Field {
    name: String,
    of: Type,
    optional: bool,
}

/// What a field may hold.
enum Type {
    Bool,
    I32,
    I64,
    Text,
    /// A text, or a whole number that becomes one.
    Quantity,
    IntOrString,
    /// Written in UTC and to the second.
    Time,
    Anything,
    List(Box<Type>),
    Map(Box<Type>),
    Struct(usize),
}

static TYPES: LazyLock<Types> = LazyLock::new(|| {
    Types::read(include_str!("podspec-1.30.json")).expect("the table names only what it has")
});

/// The spec as SimKube's types write it.
fn typed_spec(spec: &Value) -> Result<Map<String, Value>, String> {
    TYPES.fields(TYPES.pod_spec, spec).map_err(|why| format!("spec{why}"))
}

// === impl Types ===

impl Types {
    fn read(table: &str) -> Option<Types> {
        let table: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(table).ok()?;
        let names: Vec<&str> = table.keys().map(String::as_str).collect();
        let field = |(name, of): (&String, &String)| {
            let optional = of.ends_with('?');
            Some(Field { name: name.clone(), of: Type::read(of.trim_end_matches('?'), &names)?, optional })
        };
        let types = table.values().map(|fields| fields.iter().map(field).collect()).collect::<Option<_>>()?;
        Some(Types { types, pod_spec: names.binary_search(&"PodSpec").ok()? })
    }

    /// The fields of a struct that its type knows. An error begins with the place of what is wrong.
    fn fields(&self, of: usize, value: &Value) -> Result<Map<String, Value>, String> {
        let Value::Object(given) = value else { return Err(wrong("a map", value)) };
        let mut fields = Map::new();
        for field in &self.types[of] {
            let value = match given.get(&field.name).filter(|value| !value.is_null()) {
                Some(value) => self.typed(&field.of, value).map_err(|why| format!(".{}{why}", field.name))?,
                None if field.optional => continue,
                None => self.empty(&field.of),
            };
            fields.insert(field.name.clone(), value);
        }
        Ok(fields)
    }

    fn typed(&self, of: &Type, value: &Value) -> Result<Value, String> {
        match (of, value) {
            (Type::Anything, _)
            | (Type::Bool, Value::Bool(_))
            | (Type::Text | Type::Quantity | Type::IntOrString, Value::String(_)) => Ok(value.clone()),
            (Type::I32 | Type::IntOrString, Value::Number(number)) => {
                let fits = number.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
                if fits { Ok(value.clone()) } else { Err(wrong("a whole number of 32 bits", value)) }
            }
            (Type::I64, Value::Number(number)) if number.is_i64() => Ok(value.clone()),
            (Type::Quantity, Value::Number(number)) if !number.is_f64() => Ok(json!(number.to_string())),
            (Type::Time, Value::String(text)) => to_the_second(text).ok_or_else(|| wrong("a time", value)),
            (Type::List(of), Value::Array(entries)) => {
                let typed = |(n, entry)| self.typed(of, entry).map_err(|why| format!("[{n}]{why}"));
                entries.iter().enumerate().map(typed).collect()
            }
            (Type::Map(of), Value::Object(entries)) => {
                let typed = |(name, entry): (&String, &Value)| {
                    let typed = self.typed(of, entry).map_err(|why| format!(".{name}{why}"))?;
                    Ok((name.clone(), typed))
                };
                entries.iter().map(typed).collect::<Result<Map<_, _>, String>>().map(Value::Object)
            }
            (Type::Struct(of), _) => self.fields(*of, value).map(Value::Object),
            (of, _) => Err(wrong(of.word(), value)),
        }
    }

    /// What stands for a field that is always written but was not given.
    fn empty(&self, of: &Type) -> Value {
        match of {
            Type::Bool => json!(false),
            Type::I32 | Type::I64 | Type::IntOrString => json!(0),
            Type::Text | Type::Quantity => json!(""),
            Type::Time => json!("1970-01-01T00:00:00Z"),
            Type::Anything => Value::Null,
            Type::List(_) => json!([]),
            Type::Map(_) => json!({}),
            Type::Struct(of) => {
                let written = self.types[*of].iter().filter(|field| !field.optional);
                Value::Object(written.map(|field| (field.name.clone(), self.empty(&field.of))).collect())
            }
        }
    }
}

// === impl Type ===

impl Type {
    /// A type by its name in the table; `None` for one that is not there.
    fn read(name: &str, structs: &[&str]) -> Option<Type> {
        if let Some(of) = name.strip_prefix("Vec<").and_then(|rest| rest.strip_suffix('>')) {
            return Some(Type::List(Box::new(Type::read(of, structs)?)));
        }
        if let Some(of) = name.strip_prefix("BTreeMap<String, ").and_then(|rest| rest.strip_suffix('>')) {
            return Some(Type::Map(Box::new(Type::read(of, structs)?)));
        }
        Some(match name {
            "bool" => Type::Bool,
            "i32" => Type::I32,
            "i64" => Type::I64,
            "String" => Type::Text,
            "Quantity" => Type::Quantity,
            "IntOrString" => Type::IntOrString,
            "Time" => Type::Time,
            "FieldsV1" => Type::Anything,
            _ => Type::Struct(structs.binary_search(&name).ok()?),
        })
    }

    fn word(&self) -> &'static str {
        match self {
            Type::Bool => "true or false",
            Type::I32 => "a whole number of 32 bits",
            Type::I64 => "a whole number of 64 bits",
            Type::Text => "a text",
            Type::Quantity => "a quantity",
            Type::IntOrString => "a text or a whole number of 32 bits",
            Type::Time => "a time",
            Type::Anything => "anything",
            Type::List(_) => "a list",
            Type::Map(_) | Type::Struct(_) => "a map",
        }
    }
}

fn wrong(expected: &str, found: &Value) -> String {
    let mut found = found.to_string();
    if let Some((cut, _)) = found.char_indices().nth(80) {
        found.replace_range(cut.., "…");
    }
    format!(" is {found} and not {expected}")
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

    /// Printed by SimKube 2.7.0, as all hashes here.
    #[test]
    fn ports_of_init_containers_count() {
        assert_eq!(stable_hash(&json!({})), Ok(17506812802394981455));
        let container = json!({"name": "c", "ports": [{"containerPort": 1}]});
        let init = json!({"name": "i", "ports": [{"containerPort": 2}]});
        let spec = json!({"containers": [container], "initContainers": [init]});
        assert_eq!(stable_hash(&spec), Ok(5827652236605926290));
    }

    #[test]
    fn what_differs_between_pods_of_one_template_is_left_out() {
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
    fn what_is_of_another_type_is_named() {
        let error = |spec: Value| stable_spec(&spec).unwrap_err();
        assert_eq!(error(json!([])), "spec is [] and not a map");
        assert_eq!(
            error(json!({"containers": [{}, {"image": 7}]})),
            "spec.containers[1].image is 7 and not a text"
        );
        assert_eq!(error(json!({"overhead": {"cpu": 1.5}})), "spec.overhead.cpu is 1.5 and not a quantity");
        assert_eq!(
            error(json!({"priority": 1_u64 << 31})),
            "spec.priority is 2147483648 and not a whole number of 32 bits"
        );
        let long = error(json!({"hostname": ["é".repeat(200)]}));
        assert!(long.ends_with("é… and not a text"), "{long}");
    }
}

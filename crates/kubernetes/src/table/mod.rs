//! Tables of objects: an API server's columns and cells, and kubectl's printing of them.
//!
//! Cells are those of Kubernetes 1.36; a field that an API server would have defaulted is shown with its default.

mod age;
mod batch;
mod config;
mod custom;
mod devices;
mod events;
mod field;
mod generic;
mod json_path;
mod nodes;
mod pods;
mod policy;
mod render;
mod selectors;
mod services;
mod storage;
mod workloads;

use std::borrow::Cow;
use std::fmt;

use model::{Kind, Moment, Object};
use serde_json::{Value, json};

pub use self::age::human_duration;
pub use self::render::{PrintOptions, render};

use self::custom::CustomColumn;
use self::field::JsonField;

/// Objects of one kind as a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The kind of the rows.
    pub kind: Kind,
    /// Whether the objects of the kind are in namespaces.
    pub namespaced: bool,
    /// All columns, also those of `-o wide` only.
    pub columns: Vec<Column>,
    /// One row per object.
    pub rows: Vec<TableRow>,
}

/// A column as the Table API describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// `Nominated Node`; kubectl prints it in capitals.
    pub name: Cow<'static, str>,
    /// The type of its values.
    pub column_type: ColumnType,
    /// `name` for the column of the object's name.
    pub format: Cow<'static, str>,
    /// Above zero: shown only with `-o wide`.
    pub priority: i32,
}

/// The type of a column's values, by its OpenAPI name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// `string`
    Text,
    /// `integer`
    Integer,
    /// `number`
    Number,
    /// `boolean`
    Boolean,
    /// `date`: a time, shown as an age.
    Date,
}

/// One object's row.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's labels, sorted by name.
    pub labels: Vec<(String, String)>,
    /// One cell per column.
    pub cells: Vec<Cell>,
}

/// The value of one cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A string.
    Text(String),
    /// An integer.
    Integer(i64),
    /// Any number.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// Null, for a custom resource without that field.
    Null,
}

/// Converts objects of one kind to rows, like an API server's `TableConvertor`.
#[derive(Clone, Debug)]
pub struct TableConvertor {
    columns: Cow<'static, [Column]>,
    source: CellSource,
}

#[derive(Clone, Debug)]
enum CellSource {
    BuiltIn(fn(JsonField<'_>, Moment) -> Vec<Cell>),
    Custom(Vec<CustomColumn>),
}

/// Columns and cell function of a built-in kind.
struct BuiltInPrinter {
    columns: &'static [Column],
    cells: fn(JsonField<'_>, Moment) -> Vec<Cell>,
}

// === impl Table ===

impl Table {
    /// The table of these objects of one kind, with ages as of `now`.
    pub fn of<'a>(
        kind: &Kind,
        layout: &TableConvertor,
        objects: impl IntoIterator<Item = &'a Object>,
        now: Moment,
    ) -> Table {
        let rows: Vec<TableRow> = objects.into_iter().map(|object| layout.row(object, now)).collect();
        Table {
            kind: kind.clone(),
            namespaced: rows.iter().any(|row| !row.namespace.is_empty()),
            columns: layout.columns().to_vec(),
            rows,
        }
    }
}

// === impl Column ===

const NAME: Column = Column::new("Name", ColumnType::Text, "name", 0);
const AGE: Column = Column::text("Age");

impl Column {
    const fn new(name: &'static str, column_type: ColumnType, format: &'static str, priority: i32) -> Column {
        Column { name: Cow::Borrowed(name), column_type, format: Cow::Borrowed(format), priority }
    }

    const fn text(name: &'static str) -> Column {
        Column::new(name, ColumnType::Text, "", 0)
    }

    const fn integer(name: &'static str) -> Column {
        Column::new(name, ColumnType::Integer, "", 0)
    }

    const fn boolean(name: &'static str) -> Column {
        Column::new(name, ColumnType::Boolean, "", 0)
    }

    const fn wide(name: &'static str) -> Column {
        Column::new(name, ColumnType::Text, "", 1)
    }
}

// === impl ColumnType ===

impl ColumnType {
    /// The name in the Table API.
    pub fn name(self) -> &'static str {
        match self {
            ColumnType::Text => "string",
            ColumnType::Integer => "integer",
            ColumnType::Number => "number",
            ColumnType::Boolean => "boolean",
            ColumnType::Date => "date",
        }
    }

    fn from_name(type_name: &str) -> Option<ColumnType> {
        [ColumnType::Text, ColumnType::Integer, ColumnType::Number, ColumnType::Boolean, ColumnType::Date]
            .into_iter()
            .find(|holds| holds.name() == type_name)
    }
}

// === impl Cell ===

impl Cell {
    /// The value in the Table API.
    pub fn json(&self) -> Value {
        match self {
            Cell::Text(text) => Value::from(text.as_str()),
            Cell::Integer(number) => Value::from(*number),
            Cell::Number(number) => Value::from(*number),
            Cell::Boolean(truth) => Value::from(*truth),
            Cell::Null => Value::Null,
        }
    }
}

impl fmt::Display for Cell {
    /// As kubectl prints it, without the truncation and escaping of [`render()`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Text(text) => f.write_str(text),
            Cell::Integer(number) => write!(f, "{number}"),
            // A whole number loses its decimal point on the way through JSON.
            Cell::Number(number) if number.fract() == 0.0 && number.abs() < 9e18 => {
                write!(f, "{}", *number as i64)
            }
            Cell::Number(number) => f.write_str(&custom::number_text(*number)),
            Cell::Boolean(truth) => write!(f, "{truth}"),
            Cell::Null => Ok(()),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Cell {
        Cell::Integer(number)
    }
}

impl From<bool> for Cell {
    fn from(truth: bool) -> Cell {
        Cell::Boolean(truth)
    }
}

// === impl TableConvertor ===

impl TableConvertor {
    /// The convertor of an API server for a built-in kind; name and age for all others.
    pub fn of_kind(kind: &Kind) -> TableConvertor {
        let built_in = match (&*kind.group, &*kind.kind) {
            ("", "Pod") => &pods::POD,
            ("", "Node") => &nodes::NODE,
            ("", "Namespace") => &nodes::NAMESPACE,
            ("node.k8s.io", "RuntimeClass") => &nodes::RUNTIME_CLASS,
            ("coordination.k8s.io", "Lease") => &nodes::LEASE,
            ("apps", "Deployment") => &workloads::DEPLOYMENT,
            ("apps", "ReplicaSet") => &workloads::REPLICA_SET,
            ("", "ReplicationController") => &workloads::REPLICATION_CONTROLLER,
            ("apps", "StatefulSet") => &workloads::STATEFUL_SET,
            ("apps", "DaemonSet") => &workloads::DAEMON_SET,
            ("apps", "ControllerRevision") => &workloads::CONTROLLER_REVISION,
            ("autoscaling", "HorizontalPodAutoscaler") => &workloads::HORIZONTAL_POD_AUTOSCALER,
            ("autoscaling", "Scale") => &workloads::SCALE,
            ("batch", "Job") => &batch::JOB,
            ("batch", "CronJob") => &batch::CRON_JOB,
            ("", "Service") => &services::SERVICE,
            ("", "Endpoints") => &services::ENDPOINTS,
            ("discovery.k8s.io", "EndpointSlice") => &services::ENDPOINT_SLICE,
            ("networking.k8s.io", "Ingress") => &services::INGRESS,
            ("networking.k8s.io", "IngressClass") => &services::INGRESS_CLASS,
            ("networking.k8s.io", "NetworkPolicy") => &services::NETWORK_POLICY,
            ("", "PersistentVolume") => &storage::PERSISTENT_VOLUME,
            ("", "PersistentVolumeClaim") => &storage::PERSISTENT_VOLUME_CLAIM,
            ("storage.k8s.io", "StorageClass") => &storage::STORAGE_CLASS,
            ("storage.k8s.io", "CSINode") => &storage::CSI_NODE,
            ("storage.k8s.io", "CSIDriver") => &storage::CSI_DRIVER,
            ("storage.k8s.io", "CSIStorageCapacity") => &storage::CSI_STORAGE_CAPACITY,
            ("storage.k8s.io", "VolumeAttachment") => &storage::VOLUME_ATTACHMENT,
            ("storage.k8s.io", "VolumeAttributesClass") => &storage::VOLUME_ATTRIBUTES_CLASS,
            ("policy", "PodDisruptionBudget") => &policy::POD_DISRUPTION_BUDGET,
            ("scheduling.k8s.io", "PriorityClass") => &policy::PRIORITY_CLASS,
            ("", "ResourceQuota") => &policy::RESOURCE_QUOTA,
            ("", "ConfigMap") => &config::CONFIG_MAP,
            ("", "ComponentStatus") => &config::COMPONENT_STATUS,
            ("", "Secret") => &config::SECRET,
            ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => &config::ROLE_BINDING,
            (
                "admissionregistration.k8s.io",
                "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
            ) => &config::WEBHOOKS,
            ("apiregistration.k8s.io", "APIService") => &config::API_SERVICE,
            ("resource.k8s.io", "ResourceClaim") => &devices::RESOURCE_CLAIM,
            ("resource.k8s.io", "ResourceSlice") => &devices::RESOURCE_SLICE,
            ("", "Event") => &events::CORE_EVENT,
            ("events.k8s.io", "Event") => &events::EVENT,
            ("", "LimitRange")
            | ("rbac.authorization.k8s.io", "Role" | "ClusterRole")
            | ("apiextensions.k8s.io", "CustomResourceDefinition") => &generic::NAME_AND_CREATION,
            _ => &generic::NAME_AND_AGE,
        };
        TableConvertor {
            columns: Cow::Borrowed(built_in.columns),
            source: CellSource::BuiltIn(built_in.cells),
        }
    }

    /// The convertor of a recorded CustomResourceDefinition for one version of its kind; `None` if it has no such
    /// version.
    pub fn of_crd(crd: &Object, version: &str) -> Option<TableConvertor> {
        custom::layout(JsonField::of(&object_value(crd)), version)
    }

    /// All columns, also those of `-o wide` only.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The row of one object, with ages as of `now`. Absent fields are shown as in Kubernetes.
    pub fn row(&self, object: &Object, now: Moment) -> TableRow {
        self.row_of_value(&object_value(object), now)
    }

    /// The row of an object that has been parsed.
    pub fn row_of_value(&self, value: &Value, now: Moment) -> TableRow {
        let field = JsonField::of(value);
        let labels = field.at("metadata.labels").entries();
        TableRow {
            namespace: field.at("metadata.namespace").text().to_owned(),
            labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            cells: match &self.source {
                CellSource::BuiltIn(cells) => cells(field, now),
                CellSource::Custom(columns) => custom::cells(columns, value, now),
            },
        }
    }
}

/// The object as a JSON value; only its name if the stored text cannot be parsed as one.
fn object_value(object: &Object) -> Value {
    object.value().unwrap_or_else(|_| {
        let meta = object.meta();
        json!({"metadata": {"name": meta.name, "namespace": meta.namespace}})
    })
}

fn name(object: JsonField<'_>) -> Cell {
    object.at("metadata.name").text().into()
}

fn object_age(object: JsonField<'_>, now: Moment) -> Cell {
    age::age_since(object.at("metadata.creationTimestamp").time(), now).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testobjects::object;

    use super::*;

    fn lines(text: &str) -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn moment(value: &Value) -> Moment {
        value.as_str().unwrap().parse().unwrap()
    }

    fn kind_of(object: &Object) -> Kind {
        let meta = object.meta();
        Kind::of(&meta.api_version, &meta.kind)
    }

    /// Numbers compare by value: JSON writers of other languages omit `.0`.
    fn same(found: &Value, expected: &Value) -> bool {
        found == expected || found.is_f64() && found.as_f64() == expected.as_f64()
    }

    #[track_caller]
    fn check(layout: &TableConvertor, case: &Value) {
        let columns: Vec<Value> = layout
            .columns()
            .iter()
            .map(|c| json!({"name": c.name, "type": c.column_type.name(), "format": c.format, "priority": c.priority}))
            .collect();
        assert_eq!(Value::from(columns), case["columns"], "{}", case["kind"]);
        for row in case["rows"].as_array().unwrap() {
            let found: Vec<Value> = layout
                .row(&object(&row["object"]), moment(&row["now"]))
                .cells
                .iter()
                .map(Cell::json)
                .collect();
            let expected = row["cells"].as_array().unwrap();
            let alike = found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| same(a, b));
            assert!(alike, "{}\nshows  {found:?}\nshould {expected:?}", row["object"]);
        }
    }

    #[test]
    fn built_in_kinds_show_what_an_api_server_shows() {
        for case in lines(include_str!("../../../../testdata/kubernetes/tables.jsonl")) {
            let kind = Kind::new(case["group"].as_str().unwrap(), case["kind"].as_str().unwrap());
            check(&TableConvertor::of_kind(&kind), &case);
        }
    }

    #[test]
    fn custom_resources_show_what_their_definition_says() {
        for case in lines(include_str!("../../../../testdata/kubernetes/tables_crd.jsonl")) {
            let layout =
                TableConvertor::of_crd(&object(&case["crd"]), case["version"].as_str().unwrap()).unwrap();
            check(&layout, &case);
        }
    }

    #[test]
    fn a_definition_without_the_version_shows_nothing() {
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "x"}, "spec": {"versions": [{"name": "v1"}, 7, null]}});
        assert!(TableConvertor::of_crd(&object(&crd), "v2").is_none());
    }

    #[test]
    fn tables_print_as_kubectl_prints_them() {
        for case in lines(include_str!("../../../../testdata/kubernetes/tables_text.jsonl")) {
            let crd = case["crd"].is_object().then(|| object(&case["crd"]));
            let objects: Vec<Object> = case["objects"].as_array().unwrap().iter().map(object).collect();
            let layout = |object: &Object| match &crd {
                Some(crd) => TableConvertor::of_crd(crd, "v1").unwrap(),
                None => TableConvertor::of_kind(&kind_of(object)),
            };
            let tables: Vec<Table> = objects
                .chunk_by(|a, b| kind_of(a) == kind_of(b))
                .map(|some| Table::of(&kind_of(&some[0]), &layout(&some[0]), some, moment(&case["now"])))
                .collect();
            let option = |name: &str| case["options"][name] == true;
            let labels = case["options"]["columnLabels"].as_array();
            let style = PrintOptions {
                wide: option("wide"),
                with_namespace: option("namespaces"),
                with_kind: option("kinds"),
                no_headers: option("noHeaders"),
                show_labels: option("showLabels"),
                column_labels: labels.into_iter().flatten().map(|l| l.as_str().unwrap().to_owned()).collect(),
            };
            let text = render(&tables, &style);
            let expected = case["text"].as_str().unwrap();
            assert!(text == expected, "{style:?}\n{text}\nshould be\n{expected}");
        }
    }

    #[test]
    fn a_table_without_rows_prints_nothing() {
        let pod = Kind::new("", "Pod");
        let table = Table::of(&pod, &TableConvertor::of_kind(&pod), [], Moment::default());
        assert_eq!(render(&[table], &PrintOptions::default()), "");
    }

    /// Any JSON, with the names of real fields among its keys.
    fn odd_value() -> impl Strategy<Value = Value> {
        let names =
            "containerStatuses|initContainers|state|terminated|conditions|type|status|spec|metadata|x";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[\\PC\n\t]{0,8}".prop_map(Value::from),
            Just(Value::from("9999-12-31T23:59:59Z")),
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(names, inner, 0..6).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn odd_objects_still_have_a_row(which: prop::sample::Index, spec in odd_value(), status in odd_value()) {
            let info = which.get(crate::kinds::all());
            let mut pod = json!({"apiVersion": format!("{}/v1", info.group), "kind": info.kind,
                "metadata": {"name": "odd", "creationTimestamp": spec.clone(), "labels": status.clone()}});
            pod["spec"] = spec;
            pod["status"] = status;
            let kind = Kind::new(info.group, info.kind);
            let layout = TableConvertor::of_kind(&kind);
            let table = Table::of(&kind, &layout, &[object(&pod)], Moment::MAX);
            prop_assert_eq!(table.rows[0].cells.len(), layout.columns().len());
            render(&[table], &PrintOptions { wide: true, with_kind: true, ..PrintOptions::default() });
        }

        #[test]
        fn odd_paths_never_break(path in "[.$@a-c0-2\\[\\]?()'\"=<! *:,\\\\-]{0,14}", value in odd_value()) {
            let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "x"}, "spec": {"versions": [{"name": "v1", "additionalPrinterColumns":
                    [{"name": "A", "type": "string", "jsonPath": path}]}]}});
            let layout = TableConvertor::of_crd(&object(&crd), "v1").unwrap();
            let widget = json!({"apiVersion": "x/v1", "kind": "W", "metadata": {"name": "w"}, "a": value});
            layout.row(&object(&widget), Moment::default());
        }
    }
}

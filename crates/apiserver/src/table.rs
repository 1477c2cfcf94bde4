//! `meta.k8s.io/v1` Tables of objects.

use kubernetes::table::Column;
use model::{Moment, Object, json_members};
use serde_json::{Value, json};

use crate::list_options::IncludeObject;
use crate::resource::Resource;

/// The column definitions of a resource.
pub(crate) fn column_definitions(resource: &Resource) -> Value {
    let definition = |column: &Column| {
        json!({
            "name": column.name, "type": column.column_type.name(), "format": column.format,
            "description": "", "priority": column.priority,
        })
    };
    resource.convertor.columns().iter().map(definition).collect()
}

/// The row of an object, as JSON text, with ages as of `now`.
pub(crate) fn row(resource: &Resource, object: &Object, now: Moment, include: IncludeObject) -> String {
    let cells: Value = resource.convertor.row(object, now).cells.iter().map(|cell| cell.json()).collect();
    let included = match include {
        IncludeObject::None => "null".to_owned(),
        IncludeObject::Metadata => partial_object_metadata(object),
        IncludeObject::Object => object.as_str().to_owned(),
    };
    format!(r#"{{"cells":{cells},"object":{included}}}"#)
}

/// The metadata of an object as a PartialObjectMetadata.
pub(crate) fn partial_object_metadata(object: &Object) -> String {
    let metadata =
        json_members(object.as_str(), ["metadata"]).and_then(|[metadata]| metadata).unwrap_or("{}");
    format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{metadata}}}"#)
}

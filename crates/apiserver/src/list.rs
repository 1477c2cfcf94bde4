//! Lists and single objects in the form that a client requests.

use std::sync::Arc;

use kubernetes::selector::{FieldSelector, matches_labels};
use model::{NamespacedName, Object};
use serde_json::{Value, json};

use crate::list_options::{IncludeObject, ListOptions, encode_continue};
use crate::media_type::ObjectForm;
use crate::object_map::name_of;
use crate::resource::Resource;
use crate::store::{ObjectList, Store};
use crate::table;

/// How objects of a resource are rendered.
#[derive(Clone)]
pub(crate) struct ObjectRenderer {
    pub(crate) resource: Resource,
    pub(crate) form: ObjectForm,
    pub(crate) include: IncludeObject,
    /// The store, for the moment from which ages are counted.
    pub(crate) store: Arc<dyn Store>,
}

/// One page of a list.
struct ListPage<'a> {
    objects: Vec<&'a Object>,
    /// The token of the next page, and the number of objects behind this one if that is known.
    next: Option<(String, Option<usize>)>,
}

// === impl ObjectRenderer ===

impl ObjectRenderer {
    /// A list of objects in a namespace, or in all.
    pub(crate) fn list(&self, list: &ObjectList, namespace: Option<&str>, options: &ListOptions) -> String {
        let page = ListPage::select(&self.resource, list, namespace, options);
        let mut metadata = json!({"resourceVersion": list.resource_version.to_string()});
        if let Some((token, remaining)) = &page.next {
            metadata["continue"] = token.as_str().into();
            if let Some(remaining) = remaining {
                metadata["remainingItemCount"] = (*remaining).into();
            }
        }
        let (kind, api_version) = match self.form {
            ObjectForm::Object => (format!("{}List", self.resource.kind.kind), self.resource.api_version()),
            ObjectForm::PartialObjectMetadata => {
                ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned())
            }
            ObjectForm::Table => return self.table(&metadata, &page.objects),
        };
        let (kind, api_version) = (Value::from(kind), Value::from(api_version));
        let items: Vec<String> = page.objects.iter().map(|object| self.object(object)).collect();
        let items = items.join(",");
        format!(r#"{{"kind":{kind},"apiVersion":{api_version},"metadata":{metadata},"items":[{items}]}}"#)
    }

    /// One object.
    pub(crate) fn object(&self, object: &Object) -> String {
        match self.form {
            ObjectForm::Object => self.resource.converted(object).as_str().to_owned(),
            ObjectForm::PartialObjectMetadata => table::partial_object_metadata(object),
            ObjectForm::Table => {
                let version = object.meta().resource_version.unwrap_or_default().into_owned();
                self.table(&json!({"resourceVersion": version}), &[object])
            }
        }
    }

    fn table(&self, metadata: &Value, objects: &[&Object]) -> String {
        let now = self.store.now();
        let row = |object: &&Object| {
            table::row(&self.resource, &self.resource.converted(object), now, self.include)
        };
        let rows: Vec<String> = objects.iter().map(row).collect();
        format!(
            r#"{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{metadata},"columnDefinitions":{},"rows":[{}]}}"#,
            table::column_definitions(&self.resource),
            rows.join(",")
        )
    }
}

// === impl ListPage ===

impl<'a> ListPage<'a> {
    fn select(
        resource: &Resource,
        list: &'a ObjectList,
        namespace: Option<&'a str>,
        options: &'a ListOptions,
    ) -> ListPage<'a> {
        let mut candidates = list.objects.range(namespace, options.after.as_ref());
        let limit = options.limit.unwrap_or(usize::MAX);
        let mut objects = Vec::new();
        while let Some(object) = candidates.next() {
            if !is_selected(resource, object, options) {
                continue;
            }
            if objects.len() == limit {
                let last: NamespacedName = objects.last().copied().map(name_of).unwrap_or_default();
                let has_selector = options.labels.is_some() || options.fields.is_some();
                let remaining = (!has_selector).then(|| candidates.count() + 1);
                return ListPage {
                    objects,
                    next: Some((encode_continue(&last, list.resource_version), remaining)),
                };
            }
            objects.push(object);
        }
        ListPage { objects, next: None }
    }
}

/// Whether the selectors of a request select an object.
pub(crate) fn is_selected(resource: &Resource, object: &Object, options: &ListOptions) -> bool {
    options.labels.as_ref().is_none_or(|labels| matches_labels(object, labels))
        && options.fields.as_ref().is_none_or(|fields| has_fields(&resource.converted(object), fields))
}

fn has_fields(object: &Object, selector: &FieldSelector) -> bool {
    object.value().is_ok_and(|value| selector.matches(&value))
}

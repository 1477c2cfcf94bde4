//! Lists and single objects in the form that a client requests.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use kubernetes::selector::{FieldSelector, matches_labels};
use model::{Moment, NamespacedName, Object};
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
    pub(crate) resource: Arc<Resource>,
    pub(crate) form: ObjectForm,
    pub(crate) include: IncludeObject,
    /// The store, for the moment from which ages are counted.
    pub(crate) store: Arc<dyn Store>,
}

/// A list in JSON, rendered piece by piece: a client that reads slowly holds one piece, not the whole text.
pub(crate) struct RenderedList {
    /// The text so far.
    first: String,
    rest: ListItems,
}

/// The objects of a list that are not rendered yet.
struct ListItems {
    renderer: ObjectRenderer,
    objects: std::vec::IntoIter<Object>,
    /// The moment from which ages in tables are counted.
    now: Moment,
    is_first: bool,
    /// Whether the end of the list was rendered.
    has_ended: bool,
}

/// One page of a list.
struct ListPage {
    objects: Vec<Object>,
    /// The token of the next page, and the number of objects behind this one if that is known.
    next: Option<(String, Option<usize>)>,
}

/// A piece of a list is complete when it is longer than this.
const PIECE_BYTES: usize = 64 << 10;

// === impl ObjectRenderer ===

impl ObjectRenderer {
    /// A list of objects in a namespace, or in all.
    pub(crate) fn list(
        &self,
        list: &ObjectList,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> RenderedList {
        let ListPage { objects, next } = ListPage::select(&self.resource, list, namespace, options);
        let mut metadata = json!({"resourceVersion": list.resource_version.to_string()});
        // Lists of custom resources have the field in any case.
        if self.form == ObjectForm::Object && self.resource.custom.is_some() {
            metadata["continue"] = "".into();
        }
        if let Some((token, remaining)) = next {
            metadata["continue"] = token.into();
            if let Some(remaining) = remaining {
                metadata["remainingItemCount"] = remaining.into();
            }
        }
        let mut rest = ListItems {
            renderer: self.clone(),
            objects: objects.into_iter(),
            now: self.store.now(),
            is_first: true,
            has_ended: false,
        };
        let first = rest.next_piece(self.list_head(&metadata));
        RenderedList { first, rest }
    }

    /// One object.
    pub(crate) fn object(&self, object: &Object) -> String {
        self.object_at(object, self.store.now())
    }

    /// One object, with ages in tables as of `now`.
    pub(crate) fn object_at(&self, object: &Object, now: Moment) -> String {
        match self.form {
            ObjectForm::Object => self.resource.converted(object).as_str().to_owned(),
            ObjectForm::PartialObjectMetadata => table::partial_object_metadata(object),
            ObjectForm::Table => {
                let version = object.meta().resource_version.unwrap_or_default().into_owned();
                let head = self.list_head(&json!({"resourceVersion": version}));
                format!("{head}{}]}}", self.row(object, now))
            }
        }
    }

    /// A list up to its first item.
    fn list_head(&self, metadata: &Value) -> String {
        let (kind, api_version) = match self.form {
            ObjectForm::Object => (self.resource.list_kind.clone(), self.resource.api_version()),
            ObjectForm::PartialObjectMetadata => {
                ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned())
            }
            ObjectForm::Table => {
                return format!(
                    r#"{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{metadata},"columnDefinitions":{},"rows":["#,
                    table::column_definitions(&self.resource),
                );
            }
        };
        let (kind, api_version) = (Value::from(kind), Value::from(api_version));
        format!(r#"{{"kind":{kind},"apiVersion":{api_version},"metadata":{metadata},"items":["#)
    }

    /// The row of an object in a table.
    fn row(&self, object: &Object, now: Moment) -> String {
        table::row(&self.resource, &self.resource.converted(object), now, self.include)
    }
}

// === impl RenderedList ===

impl From<RenderedList> for Body {
    fn from(RenderedList { first, rest }: RenderedList) -> Body {
        if rest.has_ended {
            return first.into();
        }
        let pieces = std::iter::once(first).chain(rest).map(Ok::<String, Infallible>);
        Body::from_stream(tokio_stream::iter(pieces))
    }
}

// === impl ListItems ===

impl ListItems {
    /// Appends objects to a piece until it is complete or the list has ended.
    fn next_piece(&mut self, mut piece: String) -> String {
        while piece.len() <= PIECE_BYTES {
            let Some(object) = self.objects.next() else {
                self.has_ended = true;
                return piece + "]}";
            };
            if !std::mem::take(&mut self.is_first) {
                piece.push(',');
            }
            match self.renderer.form {
                ObjectForm::Object => piece.push_str(self.renderer.resource.converted(&object).as_str()),
                ObjectForm::PartialObjectMetadata => piece.push_str(&table::partial_object_metadata(&object)),
                ObjectForm::Table => piece.push_str(&self.renderer.row(&object, self.now)),
            }
        }
        piece
    }
}

impl Iterator for ListItems {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        (!self.has_ended).then(|| self.next_piece(String::new()))
    }
}

// === impl ListPage ===

impl ListPage {
    fn select(
        resource: &Resource,
        list: &ObjectList,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> ListPage {
        let mut candidates = list.objects.range(namespace, options.after.as_ref());
        let limit = options.limit.unwrap_or(usize::MAX);
        let mut objects = Vec::new();
        while let Some(object) = candidates.next() {
            if !is_selected(resource, object, options) {
                continue;
            }
            if objects.len() == limit {
                let last: NamespacedName = objects.last().map(name_of).unwrap_or_default();
                let has_selector = options.labels.is_some() || options.fields.is_some();
                let remaining = (!has_selector).then(|| candidates.count() + 1);
                return ListPage {
                    objects,
                    next: Some((encode_continue(&last, list.resource_version), remaining)),
                };
            }
            objects.push(object.clone());
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

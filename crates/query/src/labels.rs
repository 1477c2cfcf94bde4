//! The labels of an object.

use std::borrow::Cow;
use std::collections::HashMap;

use kubernetes::selector::Selector;
use model::Object;
use serde::Deserialize;

/// Whether an object has the labels asked for.
pub fn has_labels(object: &Object, wanted: &Selector) -> bool {
    #[derive(Deserialize)]
    struct View<'a> {
        #[serde(borrow)]
        metadata: Labelled<'a>,
    }
    #[derive(Deserialize)]
    struct Labelled<'a> {
        #[serde(borrow, default)]
        labels: Option<HashMap<Cow<'a, str>, Cow<'a, str>>>,
    }
    // Labels of a wrong type are no labels.
    let labels = object.view::<View<'_>>().ok().and_then(|view| view.metadata.labels).unwrap_or_default();
    wanted.matches(|name| labels.get(name).map(|value| &**value))
}

//! Label selection of objects.

use std::borrow::Cow;
use std::collections::HashMap;

use kubernetes::selector::Selector;
use model::Object;
use serde::Deserialize;

/// Whether an object's labels match a selector.
pub fn matches_labels(object: &Object, selector: &Selector) -> bool {
    #[derive(Deserialize)]
    struct ObjectView<'a> {
        #[serde(borrow)]
        metadata: LabelsView<'a>,
    }
    #[derive(Deserialize)]
    struct LabelsView<'a> {
        #[serde(borrow, default)]
        labels: Option<HashMap<Cow<'a, str>, Cow<'a, str>>>,
    }
    // Labels of a wrong type are ignored.
    let labels =
        object.view::<ObjectView<'_>>().ok().and_then(|view| view.metadata.labels).unwrap_or_default();
    selector.matches(|name| labels.get(name).map(|value| &**value))
}

//! Tables of disruption budgets, priority classes and resource quotas.

use model::Moment;

use super::field::JsonField;
use super::{AGE, BuiltInPrinter, Cell, Column, NAME, name, object_age};

pub(super) static POD_DISRUPTION_BUDGET: BuiltInPrinter = BuiltInPrinter {
    columns: &[
        NAME,
        Column::text("Min Available"),
        Column::text("Max Unavailable"),
        Column::integer("Allowed Disruptions"),
        AGE,
    ],
    cells: |object, now| {
        vec![
            name(object),
            number_or_percentage(object.at("spec.minAvailable")).into(),
            number_or_percentage(object.at("spec.maxUnavailable")).into(),
            object.at("status.disruptionsAllowed").int().into(),
            object_age(object, now),
        ]
    },
};

pub(super) static PRIORITY_CLASS: BuiltInPrinter = BuiltInPrinter {
    columns: &[
        NAME,
        Column::integer("Value"),
        Column::boolean("Global-Default"),
        AGE,
        Column::text("PreemptionPolicy"),
    ],
    cells: |object, now| {
        vec![
            name(object),
            object.at("value").int().into(),
            object.at("globalDefault").is_true().into(),
            object_age(object, now),
            object.at("preemptionPolicy").maybe_text().unwrap_or("PreemptLowerPriority").into(),
        ]
    },
};

pub(super) static RESOURCE_QUOTA: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("Request"), Column::text("Limit"), AGE],
    cells: resource_quota,
};

fn number_or_percentage(field: JsonField<'_>) -> String {
    let number = field.maybe_int().map(|number| number.to_string());
    number.or_else(|| field.maybe_text().map(str::to_owned)).unwrap_or_else(|| "N/A".to_owned())
}

fn resource_quota(object: JsonField<'_>, now: Moment) -> Vec<Cell> {
    let (hard, used) = (object.at("status.hard"), object.at("status.used"));
    let amount = |field: JsonField<'_>| field.quantity().unwrap_or_else(|| "0".to_owned());
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, _) in hard.entries() {
        let list = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        list.push(format!("{resource}: {}/{}", amount(used.key(resource)), amount(hard.key(resource))));
    }
    vec![name(object), requests.join(", ").into(), limits.join(", ").into(), object_age(object, now)]
}

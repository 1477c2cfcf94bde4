//! What limits pods: disruption budgets, priorities and quotas.

use model::Moment;

use super::field::Field;
use super::{AGE, BuiltIn, Cell, Column, NAME, name, object_age};

pub(super) static POD_DISRUPTION_BUDGET: BuiltIn = BuiltIn {
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

pub(super) static PRIORITY_CLASS: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        Column::integer("Value"),
        Column::truth("Global-Default"),
        AGE,
        Column::text("PreemptionPolicy"),
    ],
    cells: |object, now| {
        vec![
            name(object),
            object.at("value").int().into(),
            object.at("globalDefault").truth().into(),
            object_age(object, now),
            object.at("preemptionPolicy").maybe_text().unwrap_or("PreemptLowerPriority").into(),
        ]
    },
};

pub(super) static RESOURCE_QUOTA: BuiltIn =
    BuiltIn { columns: &[NAME, Column::text("Request"), Column::text("Limit"), AGE], cells: resource_quota };

fn number_or_percentage(field: Field<'_>) -> String {
    let number = field.maybe_int().map(|number| number.to_string());
    number.or_else(|| field.maybe_text().map(str::to_owned)).unwrap_or_else(|| "N/A".to_owned())
}

fn resource_quota(object: Field<'_>, now: Moment) -> Vec<Cell> {
    let (hard, used) = (object.at("status.hard"), object.at("status.used"));
    let amount = |field: Field<'_>| field.amount().unwrap_or_else(|| "0".to_owned());
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, _) in hard.entries() {
        let list = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        list.push(format!("{resource}: {}/{}", amount(used.key(resource)), amount(hard.key(resource))));
    }
    vec![name(object), requests.join(", ").into(), limits.join(", ").into(), object_age(object, now)]
}

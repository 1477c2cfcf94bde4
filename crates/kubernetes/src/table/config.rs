//! Tables of configuration objects: data, access, and extensions of the API.

use model::Moment;

use super::field::JsonField;
use super::{AGE, BuiltInPrinter, Cell, Column, NAME, name, object_age};

pub(super) static CONFIG_MAP: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("Data"), AGE],
    cells: |object, now| {
        let count = object.at("data").count() + object.at("binaryData").count();
        vec![name(object), count.into(), object_age(object, now)]
    },
};

pub(super) static COMPONENT_STATUS: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("Status"), Column::text("Message"), Column::text("Error")],
    cells: |object, _| {
        let healthy = object.at("conditions").items().find(|one| one.at("type").text() == "Healthy");
        let Some(healthy) = healthy else {
            return vec![name(object), "Unknown".into(), "".into(), "".into()];
        };
        let status = if healthy.at("status").text() == "True" { "Healthy" } else { "Unhealthy" };
        vec![
            name(object),
            status.into(),
            healthy.at("message").text().into(),
            healthy.at("error").text().into(),
        ]
    },
};

pub(super) static SECRET: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("Type"), Column::text("Data"), AGE],
    cells: |object, now| {
        vec![
            name(object),
            object.at("type").text_or("Opaque").into(),
            object.at("data").count().into(),
            object_age(object, now),
        ]
    },
};

pub(super) static ROLE_BINDING: BuiltInPrinter = BuiltInPrinter {
    columns: &[
        NAME,
        Column::text("Role"),
        AGE,
        Column::wide("Users"),
        Column::wide("Groups"),
        Column::wide("ServiceAccounts"),
    ],
    cells: role_binding,
};

pub(super) static WEBHOOKS: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::integer("Webhooks"), AGE],
    cells: |object, now| vec![name(object), object.at("webhooks").count().into(), object_age(object, now)],
};

pub(super) static API_SERVICE: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("Service"), Column::text("Available"), AGE],
    cells: api_service,
};

fn role_binding(object: JsonField<'_>, now: Moment) -> Vec<Cell> {
    let role = object.at("roleRef");
    let subjects = |kind: &str, show: fn(JsonField<'_>) -> String| -> Cell {
        let subjects = object.at("subjects").items().filter(|subject| subject.at("kind").text() == kind);
        subjects.map(show).collect::<Vec<_>>().join(", ").into()
    };
    let plain = |subject: JsonField<'_>| subject.at("name").text().to_owned();
    let qualified =
        |subject: JsonField<'_>| format!("{}/{}", subject.at("namespace").text(), subject.at("name").text());
    vec![
        name(object),
        format!("{}/{}", role.at("kind").text(), role.at("name").text()).into(),
        object_age(object, now),
        subjects("User", plain),
        subjects("Group", plain),
        subjects("ServiceAccount", qualified),
    ]
}

fn api_service(object: JsonField<'_>, now: Moment) -> Vec<Cell> {
    let service = object.at("spec.service");
    let service = if service.is_set() {
        format!("{}/{}", service.at("namespace").text(), service.at("name").text())
    } else {
        "Local".to_owned()
    };
    let mut conditions = object.at("status.conditions").items();
    let available = match conditions.find(|condition| condition.at("type").text() == "Available") {
        None => "Unknown".to_owned(),
        Some(condition) => match (condition.at("status").text(), condition.at("reason").text()) {
            (status @ "True", _) | (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    };
    vec![name(object), service.into(), available.into(), object_age(object, now)]
}

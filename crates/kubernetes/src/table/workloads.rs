//! What keeps pods running: deployments, sets, controllers and autoscalers.

use model::Moment;

use super::field::Field;
use super::selectors;
use super::{AGE, BuiltIn, Cell, Column, NAME, name, object_age};

pub(super) static DEPLOYMENT: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        Column::text("Ready"),
        Column::text("Up-to-date"),
        Column::text("Available"),
        AGE,
        Column::wide("Containers"),
        Column::wide("Images"),
        Column::wide("Selector"),
    ],
    cells: deployment,
};

pub(super) static REPLICA_SET: BuiltIn = BuiltIn {
    columns: REPLICAS,
    cells: |object, now| replicas(object, now, selectors::shown(object.at("spec.selector"))),
};

pub(super) static REPLICATION_CONTROLLER: BuiltIn = BuiltIn {
    columns: REPLICAS,
    cells: |object, now| {
        let selector = object.at("spec.selector");
        let template = object.at("spec.template.metadata.labels");
        replicas(
            object,
            now,
            selectors::labels(if selector.count() > 0 { selector } else { template }.entries()),
        )
    },
};

pub(super) static STATEFUL_SET: BuiltIn = BuiltIn {
    columns: &[NAME, Column::text("Ready"), AGE, Column::wide("Containers"), Column::wide("Images")],
    cells: |object, now| {
        let [names, images] = containers(object.at("spec.template"));
        vec![name(object), ready(object).into(), object_age(object, now), names, images]
    },
};

pub(super) static DAEMON_SET: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        Column::integer("Desired"),
        Column::integer("Current"),
        Column::integer("Ready"),
        Column::integer("Up-to-date"),
        Column::integer("Available"),
        Column::text("Node Selector"),
        AGE,
        Column::wide("Containers"),
        Column::wide("Images"),
        Column::wide("Selector"),
    ],
    cells: daemon_set,
};

pub(super) static CONTROLLER_REVISION: BuiltIn = BuiltIn {
    columns: &[NAME, Column::text("Controller"), Column::text("Revision"), AGE],
    cells: |object, now| {
        vec![
            name(object),
            controller(object).into(),
            object.at("revision").int().into(),
            object_age(object, now),
        ]
    },
};

pub(super) static HORIZONTAL_POD_AUTOSCALER: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        Column::text("Reference"),
        Column::text("Targets"),
        Column::text("MinPods"),
        Column::text("MaxPods"),
        Column::text("Replicas"),
        AGE,
    ],
    cells: horizontal_pod_autoscaler,
};

static REPLICAS: &[Column] = &[
    NAME,
    Column::integer("Desired"),
    Column::integer("Current"),
    Column::integer("Ready"),
    AGE,
    Column::wide("Containers"),
    Column::wide("Images"),
    Column::wide("Selector"),
];

/// Names and images of a pod template's containers.
pub(super) fn containers(template: Field<'_>) -> [Cell; 2] {
    ["name", "image"].map(|field| {
        let texts: Vec<&str> =
            template.at("spec.containers").items().map(|container| container.at(field).text()).collect();
        texts.join(",").into()
    })
}

fn deployment(object: Field<'_>, now: Moment) -> Vec<Cell> {
    let [names, images] = containers(object.at("spec.template"));
    let selector = selectors::selector(object.at("spec.selector"));
    vec![
        name(object),
        ready(object).into(),
        object.at("status.updatedReplicas").int().into(),
        object.at("status.availableReplicas").int().into(),
        object_age(object, now),
        names,
        images,
        selector.unwrap_or_else(|| "<invalid>".to_owned()).into(),
    ]
}

fn replicas(object: Field<'_>, now: Moment, selector: String) -> Vec<Cell> {
    let [names, images] = containers(object.at("spec.template"));
    vec![
        name(object),
        desired(object).into(),
        object.at("status.replicas").int().into(),
        object.at("status.readyReplicas").int().into(),
        object_age(object, now),
        names,
        images,
        selector.into(),
    ]
}

fn daemon_set(object: Field<'_>, now: Moment) -> Vec<Cell> {
    let [names, images] = containers(object.at("spec.template"));
    let status = object.at("status");
    vec![
        name(object),
        status.at("desiredNumberScheduled").int().into(),
        status.at("currentNumberScheduled").int().into(),
        status.at("numberReady").int().into(),
        status.at("updatedNumberScheduled").int().into(),
        status.at("numberAvailable").int().into(),
        selectors::labels(object.at("spec.template.spec.nodeSelector").entries()).into(),
        object_age(object, now),
        names,
        images,
        selectors::shown(object.at("spec.selector")).into(),
    ]
}

/// One replica is asked for by who says nothing.
fn desired(object: Field<'_>) -> i64 {
    object.at("spec.replicas").maybe_int().unwrap_or(1)
}

fn ready(object: Field<'_>) -> String {
    format!("{}/{}", object.at("status.readyReplicas").int(), desired(object))
}

/// `statefulset.apps/db`.
fn controller(object: Field<'_>) -> String {
    let mut owners = object.at("metadata.ownerReferences").items();
    let Some(owner) = owners.find(|owner| owner.at("controller").truth()) else {
        return "<none>".to_owned();
    };
    let kind = model::Kind::of(owner.at("apiVersion").text(), owner.at("kind").text());
    format!("{}/{}", kind.to_string().to_lowercase(), owner.at("name").text())
}

fn horizontal_pod_autoscaler(object: Field<'_>, now: Moment) -> Vec<Cell> {
    let (spec, target) = (object.at("spec"), object.at("spec.scaleTargetRef"));
    vec![
        name(object),
        format!("{}/{}", target.at("kind").text(), target.at("name").text()).into(),
        metrics(object).into(),
        spec.at("minReplicas").maybe_int().unwrap_or(1).to_string().into(),
        spec.at("maxReplicas").int().into(),
        object.at("status.currentReplicas").int().into(),
        object_age(object, now),
    ]
}

/// The first two metrics, each as current and wanted value, and how many more there are.
fn metrics(object: Field<'_>) -> String {
    let specs = object.at("spec.metrics").items();
    let mut statuses = object.at("status.currentMetrics").items();
    let count = specs.len();
    if count == 0 {
        return cpu_percentage(object, statuses.next());
    }
    let shown: Vec<String> = specs.take(2).map(|spec| metric(spec, statuses.next())).collect();
    let more = if count > 2 { format!(" + {} more...", count - 2) } else { String::new() };
    shown.join(", ") + &more
}

/// `autoscaling/v1` knows nothing but the use of CPU; and that of 80 % is what an API server fills in.
fn cpu_percentage(object: Field<'_>, status: Option<Field<'_>>) -> String {
    let target = object.at("spec.targetCPUUtilizationPercentage").maybe_int().unwrap_or(80);
    let old = object.at("status.currentCPUUtilizationPercentage").maybe_int();
    let new = || status?.at("resource.current.averageUtilization").maybe_int();
    format!("cpu: {}/{target}%", percent(old.or_else(new), "<unknown>"))
}

fn metric(spec: Field<'_>, status: Option<Field<'_>>) -> String {
    let field = match spec.at("type").text() {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (spec, status) =
        (spec.at(field), status.map(|status| status.at(field)).filter(|status| status.is_set()));
    let target = spec.at("target");
    let current =
        |name: &str| status.map_or("<unknown>".to_owned(), |status| amount(status.at("current").at(name)));
    let average = target.at("averageValue");
    match field {
        "resource" | "containerResource" => {
            let resource = spec.at("name").text();
            if average.is_set() {
                return format!("{resource}: {}/{}", current("averageValue"), amount(average));
            }
            let used = status.and_then(|status| status.at("current.averageUtilization").maybe_int());
            let wanted = target.at("averageUtilization").maybe_int();
            format!("{resource}: {}/{}", percent(used, "<unknown>"), percent(wanted, "<auto>"))
        }
        "pods" => format!("{}/{}", current("averageValue"), amount(average)),
        _ if average.is_set() => {
            let known = status.is_some_and(|status| status.at("current.averageValue").is_set());
            let current = if known { current("averageValue") } else { "<unknown>".to_owned() };
            format!("{current}/{} (avg)", amount(average))
        }
        _ => format!("{}/{}", current("value"), amount(target.at("value"))),
    }
}

fn amount(field: Field<'_>) -> String {
    field.amount().unwrap_or_else(|| "<nil>".to_owned())
}

fn percent(number: Option<i64>, otherwise: &str) -> String {
    number.map_or_else(|| otherwise.to_owned(), |number| format!("{number}%"))
}

//! Tables of workloads: Deployments, sets, controllers and autoscalers.

use model::Moment;

use super::field::JsonField;
use super::selectors;
use super::{AGE, BuiltInPrinter, Cell, Column, NAME, name, object_age};

pub(super) static DEPLOYMENT: BuiltInPrinter = BuiltInPrinter {
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

pub(super) static REPLICA_SET: BuiltInPrinter = BuiltInPrinter {
    columns: REPLICAS,
    cells: |object, now| replicas(object, now, selectors::shown(object.at("spec.selector"))),
};

pub(super) static REPLICATION_CONTROLLER: BuiltInPrinter = BuiltInPrinter {
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

pub(super) static STATEFUL_SET: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("Ready"), AGE, Column::wide("Containers"), Column::wide("Images")],
    cells: |object, now| {
        let [names, images] = containers(object.at("spec.template"));
        vec![name(object), ready(object).into(), object_age(object, now), names, images]
    },
};

pub(super) static DAEMON_SET: BuiltInPrinter = BuiltInPrinter {
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

pub(super) static CONTROLLER_REVISION: BuiltInPrinter = BuiltInPrinter {
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

/// The name is not marked as such.
pub(super) static SCALE: BuiltInPrinter = BuiltInPrinter {
    columns: &[Column::text("Name"), Column::integer("Desired"), Column::integer("Available"), AGE],
    cells: |object, now| {
        vec![
            name(object),
            object.at("spec.replicas").int().into(),
            object.at("status.replicas").int().into(),
            object_age(object, now),
        ]
    },
};

pub(super) static HORIZONTAL_POD_AUTOSCALER: BuiltInPrinter = BuiltInPrinter {
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
pub(super) fn containers(template: JsonField<'_>) -> [Cell; 2] {
    ["name", "image"].map(|field| {
        let texts: Vec<&str> =
            template.at("spec.containers").items().map(|container| container.at(field).text()).collect();
        texts.join(",").into()
    })
}

fn deployment(object: JsonField<'_>, now: Moment) -> Vec<Cell> {
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

fn replicas(object: JsonField<'_>, now: Moment, selector: String) -> Vec<Cell> {
    let [names, images] = containers(object.at("spec.template"));
    vec![
        name(object),
        desired_replicas(object).into(),
        object.at("status.replicas").int().into(),
        object.at("status.readyReplicas").int().into(),
        object_age(object, now),
        names,
        images,
        selector.into(),
    ]
}

fn daemon_set(object: JsonField<'_>, now: Moment) -> Vec<Cell> {
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

/// `spec.replicas`, which defaults to one.
fn desired_replicas(object: JsonField<'_>) -> i64 {
    object.at("spec.replicas").maybe_int().unwrap_or(1)
}

fn ready(object: JsonField<'_>) -> String {
    format!("{}/{}", object.at("status.readyReplicas").int(), desired_replicas(object))
}

/// `statefulset.apps/db`.
fn controller(object: JsonField<'_>) -> String {
    let mut owners = object.at("metadata.ownerReferences").items();
    let Some(owner) = owners.find(|owner| owner.at("controller").is_true()) else {
        return "<none>".to_owned();
    };
    let kind = model::Kind::of(owner.at("apiVersion").text(), owner.at("kind").text());
    format!("{}/{}", kind.to_string().to_lowercase(), owner.at("name").text())
}

fn horizontal_pod_autoscaler(object: JsonField<'_>, now: Moment) -> Vec<Cell> {
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

/// The first two metrics, each with its current and target value, and the number of further ones.
fn metrics(object: JsonField<'_>) -> String {
    let specs = object.at("spec.metrics").items();
    let mut statuses = object.at("status.currentMetrics").items();
    let count = specs.len();
    if count == 0 {
        return cpu_percentage(object, statuses.next());
    }
    let metric_texts: Vec<String> = specs.take(2).map(|spec| metric(spec, statuses.next())).collect();
    let more = if count > 2 { format!(" + {} more...", count - 2) } else { String::new() };
    metric_texts.join(", ") + &more
}

/// `autoscaling/v1` supports only CPU utilization; an API server defaults its target to 80 %.
fn cpu_percentage(object: JsonField<'_>, status: Option<JsonField<'_>>) -> String {
    let target = object.at("spec.targetCPUUtilizationPercentage").maybe_int().unwrap_or(80);
    let old = object.at("status.currentCPUUtilizationPercentage").maybe_int();
    let new = || status?.at("resource.current.averageUtilization").maybe_int();
    format!("cpu: {}/{target}%", percent(old.or_else(new), "<unknown>"))
}

fn metric(spec: JsonField<'_>, status: Option<JsonField<'_>>) -> String {
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
    let current = |name: &str| {
        status.map_or("<unknown>".to_owned(), |status| quantity_text(status.at("current").at(name)))
    };
    let average = target.at("averageValue");
    match field {
        "resource" | "containerResource" => {
            let resource = spec.at("name").text();
            if average.is_set() {
                return format!("{resource}: {}/{}", current("averageValue"), quantity_text(average));
            }
            let used = status.and_then(|status| status.at("current.averageUtilization").maybe_int());
            let target_utilization = target.at("averageUtilization").maybe_int();
            format!("{resource}: {}/{}", percent(used, "<unknown>"), percent(target_utilization, "<auto>"))
        }
        "pods" => format!("{}/{}", current("averageValue"), quantity_text(average)),
        _ if average.is_set() => {
            let has_average = status.is_some_and(|status| status.at("current.averageValue").is_set());
            let current = if has_average { current("averageValue") } else { "<unknown>".to_owned() };
            format!("{current}/{} (avg)", quantity_text(average))
        }
        _ => format!("{}/{}", current("value"), quantity_text(target.at("value"))),
    }
}

fn quantity_text(field: JsonField<'_>) -> String {
    field.quantity().unwrap_or_else(|| "<nil>".to_owned())
}

fn percent(number: Option<i64>, otherwise: &str) -> String {
    number.map_or_else(|| otherwise.to_owned(), |number| format!("{number}%"))
}

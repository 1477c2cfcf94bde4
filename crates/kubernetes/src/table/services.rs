//! Tables of Services, endpoints, Ingresses and network policies.

use std::collections::BTreeSet;

use model::Moment;

use super::field::JsonField;
use super::selectors;
use super::{AGE, BuiltInPrinter, Cell, Column, NAME, name, object_age};

pub(super) static SERVICE: BuiltInPrinter = BuiltInPrinter {
    columns: &[
        NAME,
        Column::text("Type"),
        Column::text("Cluster-IP"),
        Column::text("External-IP"),
        Column::text("Port(s)"),
        AGE,
        Column::wide("Selector"),
    ],
    cells: service,
};

pub(super) static ENDPOINTS: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("Endpoints"), AGE],
    cells: |object, now| vec![name(object), endpoints(object).into(), object_age(object, now)],
};

pub(super) static ENDPOINT_SLICE: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("AddressType"), Column::text("Ports"), Column::text("Endpoints"), AGE],
    cells: endpoint_slice,
};

pub(super) static INGRESS: BuiltInPrinter = BuiltInPrinter {
    columns: &[
        NAME,
        Column::text("Class"),
        Column::text("Hosts"),
        Column::text("Address"),
        Column::text("Ports"),
        AGE,
    ],
    cells: ingress,
};

pub(super) static INGRESS_CLASS: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("Controller"), Column::text("Parameters"), AGE],
    cells: ingress_class,
};

pub(super) static NETWORK_POLICY: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("Pod-Selector"), AGE],
    cells: |object, now| {
        vec![name(object), selectors::shown(object.at("spec.podSelector")).into(), object_age(object, now)]
    },
};

fn service(object: JsonField<'_>, now: Moment) -> Vec<Cell> {
    let spec = object.at("spec");
    let kind = spec.at("type").text_or("ClusterIP");
    let cluster_ip = spec.at("clusterIPs").texts().next().unwrap_or(spec.at("clusterIP").text_or("<none>"));
    vec![
        name(object),
        kind.into(),
        cluster_ip.into(),
        external_ip(object, kind).into(),
        service_ports(spec).into(),
        object_age(object, now),
        selectors::labels(spec.at("selector").entries()).into(),
    ]
}

fn external_ip(service: JsonField<'_>, kind: &str) -> String {
    let external: Vec<&str> = service.at("spec.externalIPs").texts().collect();
    match kind {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external.join(","),
        "LoadBalancer" => {
            let mut all: Vec<&str> = load_balancer(service).into_iter().collect();
            all.extend(external);
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => service.at("spec.externalName").text().to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The ingress addresses of a load balancer, sorted.
fn load_balancer(object: JsonField<'_>) -> BTreeSet<&str> {
    let points = object.at("status.loadBalancer.ingress").items();
    points
        .map(|point| point.at("ip").text_or(point.at("hostname").text()))
        .filter(|at| !at.is_empty())
        .collect()
}

fn service_ports(spec: JsonField<'_>) -> String {
    let port = |port: JsonField<'_>| {
        let (number, protocol) = (port.at("port").int(), port.at("protocol").text_or("TCP"));
        match port.at("nodePort").int() {
            node @ 1.. => format!("{number}:{node}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    };
    let ports: Vec<String> = spec.at("ports").items().map(port).collect();
    if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }
}

fn endpoints(object: JsonField<'_>) -> String {
    if object.at("subsets").count() == 0 {
        return "<none>".to_owned();
    }
    let mut list = FirstThree::default();
    for subset in object.at("subsets").items() {
        let addresses = || subset.at("addresses").items().map(|address| address.at("ip").text());
        if subset.at("ports").count() == 0 {
            addresses().for_each(|ip| list.add(|| ip.to_owned()));
        }
        for port in subset.at("ports").items() {
            let port = port.at("port").int();
            let with_port =
                |ip: &str| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
            addresses().for_each(|ip| list.add(|| with_port(ip)));
        }
    }
    list.text()
}

fn endpoint_slice(object: JsonField<'_>, now: Moment) -> Vec<Cell> {
    let (mut ports, mut addresses) = (FirstThree::default(), FirstThree::default());
    for port in object.at("ports").items() {
        ports.add(|| match (port.at("port").maybe_int(), port.at("name").maybe_text()) {
            (Some(number), _) => number.to_string(),
            (None, name) => name.unwrap_or_default().to_owned(),
        });
    }
    for endpoint in object.at("endpoints").items() {
        endpoint.at("addresses").texts().for_each(|address| addresses.add(|| address.to_owned()));
    }
    let list_text = |list: FirstThree| match list.text() {
        text if text.is_empty() => "<unset>".to_owned(),
        text => text,
    };
    vec![
        name(object),
        object.at("addressType").text().into(),
        list_text(ports).into(),
        list_text(addresses).into(),
        object_age(object, now),
    ]
}

fn ingress(object: JsonField<'_>, now: Moment) -> Vec<Cell> {
    let spec = object.at("spec");
    let addresses: Vec<&str> = load_balancer(object).into_iter().collect();
    vec![
        name(object),
        spec.at("ingressClassName").maybe_text().unwrap_or("<none>").into(),
        hosts(spec.at("rules")).into(),
        addresses.join(",").into(),
        if spec.at("tls").count() > 0 { "80, 443" } else { "80" }.into(),
        object_age(object, now),
    ]
}

/// The first three hosts. The count of further ones counts the rules, not the hosts, as in Kubernetes.
fn hosts(rules: JsonField<'_>) -> String {
    let mut first_hosts: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules.items() {
        more |= first_hosts.len() == 3;
        let host = rule.at("host").text();
        if !more && !host.is_empty() {
            first_hosts.push(host);
        }
    }
    match first_hosts.join(",") {
        text if text.is_empty() => "*".to_owned(),
        text if more => format!("{text} + {} more...", rules.count() - 3),
        text => text,
    }
}

fn ingress_class(object: JsonField<'_>, now: Moment) -> Vec<Cell> {
    let annotation = object.at("metadata.annotations").key("ingressclass.kubernetes.io/is-default-class");
    let default = if annotation.text() == "true" { " (default)" } else { "" };
    let parameters = object.at("spec.parameters");
    let parameters = if parameters.is_set() {
        let group = parameters.at("apiGroup").maybe_text().map_or(String::new(), |group| format!(".{group}"));
        format!("{}{group}/{}", parameters.at("kind").text(), parameters.at("name").text())
    } else {
        "<none>".to_owned()
    };
    vec![
        format!("{}{default}", object.at("metadata.name").text()).into(),
        object.at("spec.controller").text().into(),
        parameters.into(),
        object_age(object, now),
    ]
}

/// A list of which three entries are shown and the rest counted.
#[derive(Default)]
struct FirstThree {
    shown: Vec<String>,
    more: usize,
}

impl FirstThree {
    fn add(&mut self, entry: impl FnOnce() -> String) {
        if self.shown.len() < 3 {
            self.shown.push(entry());
        } else {
            self.more += 1;
        }
    }

    fn text(&self) -> String {
        let shown = self.shown.join(",");
        if self.more > 0 { format!("{shown} + {} more...", self.more) } else { shown }
    }
}

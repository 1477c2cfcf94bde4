//! What the shop runs.

use std::sync::Arc;

use model::What;

use crate::objects::SECOND;
use crate::objects::fixed::Fixed;
use crate::objects::node::Taint;
use crate::objects::policy::{Budget, Scaler};
use crate::objects::template::{
    BACKGROUND, CLUSTER_CRITICAL, CUSTOMER, Class, NODE_CRITICAL, Outline, STANDARD, Shape, Template,
};
use crate::objects::workloads::{CronJob, DaemonSet, SetStatus, StatefulSet};

use super::cluster::{Cluster, Due};
use super::nodes::ZONES;

/// The shop has been there since the spring.
const FOUNDED: i64 = 200 * 86_400 * SECOND;

/// A Deployment: namespace, name, version, thousandths of a processor, MiB, replicas, class, seconds that a lost
/// node is tolerated.
type Service = (&'static str, &'static str, &'static str, i64, i64, i64, Class, i64);

const SERVICES: [Service; 11] = [
    ("kube-system", "coredns", "1.13.1", 100, 170, 2, CLUSTER_CRITICAL, 300),
    ("kube-system", "metrics-server", "0.8.0", 100, 200, 1, CLUSTER_CRITICAL, 300),
    ("kube-system", "cluster-autoscaler", "1.36.1", 100, 600, 1, CLUSTER_CRITICAL, 300),
    ("web", "checkout", "2.13.4", 500, 768, 6, CUSTOMER, 30),
    ("web", "payments", "1.9.0", 300, 512, 2, CUSTOMER, 300),
    ("web", "storefront", "5.40.2", 400, 512, 4, STANDARD, 30),
    ("web", "search", "3.2.1", 500, 1_536, 2, STANDARD, 300),
    ("web", "catalog", "4.4.0", 300, 640, 3, STANDARD, 300),
    ("web", "recommendations", "0.27.3", 600, 2_048, 2, STANDARD, 300),
    ("web", "notifications", "1.3.7", 200, 256, 1, STANDARD, 300),
    ("data", "cache", "8.2.2", 500, 3_072, 2, STANDARD, 300),
];

impl Cluster {
    /// Sets everything up, as if it had always been there. Pods start at once.
    pub(super) fn stock(&mut self) {
        for name in ["batch", "data", "default", "kube-node-lease", "kube-public", "kube-system", "web"] {
            let meta = self.log.meta("", "Namespace", "", name);
            self.add_fixed(Fixed::namespace(meta));
        }
        for (class, is_default, description) in [
            (BACKGROUND, false, "May wait, and makes room for everything else."),
            (CUSTOMER, false, "Without it nobody can pay."),
            (STANDARD, true, "The rest of the shop."),
            (
                CLUSTER_CRITICAL,
                false,
                "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
            ),
            (
                NODE_CRITICAL,
                false,
                "Used for system critical pods that must not be moved from their current node.",
            ),
        ] {
            let meta = self.log.meta("scheduling.k8s.io", "PriorityClass", "", class.name);
            self.add_fixed(Fixed::priority_class(meta, class, is_default, description));
        }
        let meta = self.log.meta("storage.k8s.io", "StorageClass", "", "ssd");
        self.add_fixed(Fixed::storage_class(meta));
        self.add_databases();
        for (number, (namespace, app, ..)) in SERVICES.iter().enumerate() {
            let meta = self.log.meta("", "Service", namespace, app);
            self.add_fixed(Fixed::service(meta, app, 80, &format!("10.96.12.{}", 20 + number)));
        }
        for zone in [0, 0, 1, 1, 2, 2] {
            let last = self.nodes.len() == 5;
            let taint =
                Taint { key: "dedicated", value: "data".to_owned(), effect: "NoSchedule", added: None };
            let taints = if last { vec![taint] } else { Vec::new() };
            let node = self.add_node(zone, taints, false);
            self.nodes[node].it.node.meta.created = self.log.now.plus_nanos(-FOUNDED / 4);
            let nanos = self.log.millis(1_000, 2_000);
            self.after(nanos, Due::NodeReady(node));
        }
        for app in ["kube-proxy", "node-exporter"] {
            self.add_daemon(app);
        }
        for (namespace, app, version, milli_cpu, mebibytes, replicas, class, patience) in SERVICES {
            let mut outline =
                self.outline(namespace, app, version, (milli_cpu, mebibytes), class, Shape::Serving);
            outline.patience = patience;
            outline.tolerates = (namespace == "data").then_some("data");
            let deployment = self.create_deployment(Template::new(outline), replicas);
            self.deployments[deployment].it.meta.created = self.log.now.plus_nanos(-FOUNDED);
        }
        for (app, min_available) in [("checkout", 4), ("orders-db", 2), ("payments", 1)] {
            self.add_budget(app, min_available);
        }
        self.add_scaler("search", (2, 5, 60));
        self.add_scaler("storefront", (4, 24, 70));
        // Every ten minutes, and at two in the night.
        self.add_cron("stock-sync", "*/10 * * * *", (250, 256), 600);
        self.add_cron("nightly-report", "0 2 * * *", (1_000, 2_048), 20 * 3_600);
    }

    /// A template's outline with what all of the shop's images have in common.
    pub(super) fn outline(
        &mut self,
        namespace: &str,
        app: &str,
        version: &str,
        (milli_cpu, mebibytes): (i64, i64),
        class: Class,
        shape: Shape,
    ) -> Outline {
        let registry =
            if namespace == "kube-system" { "registry.example/system" } else { "registry.example/shop" };
        let env = if namespace == "kube-system" {
            Vec::new()
        } else {
            vec![
                ("LOG_LEVEL", "info".to_owned()),
                ("SERVICE", app.to_owned()),
                ("TRACES", "http://collector.kube-system:4318".to_owned()),
            ]
        };
        Outline {
            app: app.to_owned(),
            namespace: namespace.to_owned(),
            image: format!("{registry}/{app}:{version}"),
            digest: self.log.chance.hex(64),
            env,
            milli_cpu,
            mebibytes,
            class,
            shape,
            tolerates: None,
            patience: 300,
        }
    }

    /// The database: three pods, each with a disk in a zone of its own.
    fn add_databases(&mut self) {
        let app = "orders-db";
        for (number, zone) in ZONES.iter().enumerate() {
            let claim = self.log.meta("", "PersistentVolumeClaim", "data", &format!("data-{app}-{number}"));
            let volume = self.log.meta("", "PersistentVolume", "", &format!("pvc-{}", claim.uid));
            self.add_fixed(Fixed::claim(claim.clone(), app, &volume));
            self.add_fixed(Fixed::volume(volume, &claim, zone));
        }
        let meta = self.log.meta("", "Service", "data", app);
        self.add_fixed(Fixed::service(meta, app, 5432, "None"));
        let mut outline = self.outline("data", app, "17.6", (1_000, 4_096), CUSTOMER, Shape::WithDisk);
        outline.tolerates = Some("data");
        let template = Arc::new(Template::new(outline));
        let mut meta = self.log.meta("apps", "StatefulSet", "data", app);
        meta.created = self.log.now.plus_nanos(-FOUNDED);
        let hash = self.log.chance.suffix(10);
        let mut set = StatefulSet { meta, template, hash, replicas: 3, status: SetStatus::default() };
        self.log.publish(What::Added, &mut set);
        self.stateful.push(set);
        self.soon(Due::Stateful(self.stateful.len() - 1));
    }

    fn add_fixed(&mut self, mut object: Fixed) {
        object.meta.created = object.meta.created.plus_nanos(-FOUNDED);
        self.log.publish(What::Added, &mut object);
        self.fixed.push(object);
    }

    fn add_daemon(&mut self, app: &str) {
        let outline =
            self.outline("kube-system", app, "1.36.4", (100, 128), NODE_CRITICAL, Shape::OnEveryNode);
        let template = Arc::new(Template::new(outline));
        let mut meta = self.log.meta("apps", "DaemonSet", "kube-system", app);
        meta.created = self.log.now.plus_nanos(-FOUNDED);
        let hash = self.log.chance.suffix(10);
        let mut daemon = DaemonSet { meta, template, hash, status: (0, 0, 0) };
        self.log.publish(What::Added, &mut daemon);
        self.daemons.push(daemon);
        self.soon(Due::Daemon(self.daemons.len() - 1));
    }

    fn add_budget(&mut self, app: &'static str, min_available: i64) {
        let namespace = if app == "orders-db" { "data" } else { "web" };
        let mut meta = self.log.meta("policy", "PodDisruptionBudget", namespace, app);
        meta.created = self.log.now.plus_nanos(-FOUNDED);
        let mut budget = Budget { meta, app, min_available, healthy: 0, expected: 0, since: self.log.now };
        self.log.publish(What::Added, &mut budget);
        self.budgets.push(budget);
    }

    fn add_scaler(&mut self, target: &'static str, (min, max, aim): (i64, i64, i64)) {
        let mut meta = self.log.meta("autoscaling", "HorizontalPodAutoscaler", "web", target);
        meta.created = self.log.now.plus_nanos(-FOUNDED);
        meta.generation = 0;
        let now = self.log.now;
        let mut scaler = Scaler {
            meta,
            target,
            min,
            max,
            aim,
            current: min,
            desired: min,
            seen: (0, 0),
            last_scale: None,
            able: ("ReadyForNewScale", "recommended size matches current size".to_owned(), now),
            limited: (false, "DesiredWithinRange", "the desired count is within the acceptable range", now),
        };
        self.log.publish(What::Added, &mut scaler);
        self.scalers.push((scaler, Vec::new()));
        self.after(90 * SECOND, Due::Scaler(self.scalers.len() - 1));
    }

    fn add_cron(&mut self, app: &str, schedule: &'static str, size: (i64, i64), first: i64) {
        let outline = self.outline("batch", app, "1.1.0", size, BACKGROUND, Shape::ToTheEnd);
        let template = Arc::new(Template::new(outline));
        let mut meta = self.log.meta("batch", "CronJob", "batch", app);
        meta.created = self.log.now.plus_nanos(-FOUNDED);
        let (active, last_schedule, last_success) = (Vec::new(), None, None);
        let mut cron = CronJob { meta, template, schedule, active, last_schedule, last_success };
        self.log.publish(What::Added, &mut cron);
        self.crons.push(cron);
        self.after(first * SECOND + SECOND / 3, Due::Cron(self.crons.len() - 1));
    }
}

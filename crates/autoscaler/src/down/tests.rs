//! A small cluster with a cloud to try things in.

mod removals;

use model::{Object, What};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use super::super::cloud::{Cloud, CloudError, Instance, InstanceState, Pricing, Registered};
use super::super::cluster::Cluster;
use super::super::decision::Action;
use super::super::groups::{Membership, NodeGroup, Provisioning};
use super::super::registry::Registry;
use super::super::standing::Standing;
use super::super::templates::Templates;
use super::*;

pub(super) const START: Moment = Moment::from_nanos(1_767_225_600_000_000_000);

/// A cloud that does as it is told.
pub(super) struct TestCloud {
    pub groups: Vec<NodeGroup>,
    pub targets: Vec<i64>,
    pub instances: Vec<Vec<Arc<str>>>,
    pub deleted: Vec<Arc<str>>,
    pub refuses: bool,
}

/// A cluster to try things in.
pub(super) struct Fixture {
    pub settings: Settings,
    pub cloud: TestCloud,
    pub cluster: Cluster,
    pub registry: Registry,
    pub now: Moment,
    pub events: Vec<Event>,
    pub actions: Vec<Action>,
    dice: Pcg64,
    revision: u64,
}

// === impl TestCloud ===

impl Cloud for TestCloud {
    fn groups(&self) -> &[NodeGroup] {
        &self.groups
    }

    fn group_of(&self, node: &Registered<'_>) -> Option<GroupId> {
        let (group, _) = node.provider_id().strip_prefix("fake://")?.split_once('/')?;
        Some(GroupId(self.groups.iter().position(|other| &*other.name == group)? as u32))
    }

    fn target(&self, group: GroupId) -> i64 {
        self.targets[group.index()]
    }

    fn instances(&self, group: GroupId) -> Arc<[Instance]> {
        let of = |id: &Arc<str>| Instance { id: id.clone(), state: InstanceState::Running };
        self.instances[group.index()].iter().map(of).collect()
    }

    fn has_instance(&self, _node: &Registered<'_>) -> Option<bool> {
        None
    }

    fn increase(&mut self, _now: Moment, _group: GroupId, _by: i64) -> Result<(), CloudError> {
        Err(CloudError(String::from("no more")))
    }

    fn delete(&mut self, _now: Moment, group: GroupId, instances: &[Arc<str>]) -> Result<(), CloudError> {
        if self.refuses {
            return Err(CloudError(String::from("not today")));
        }
        self.targets[group.index()] -= instances.len() as i64;
        self.instances[group.index()].retain(|id| !instances.contains(id));
        self.deleted.extend(instances.iter().cloned());
        Ok(())
    }

    fn decrease(&mut self, _now: Moment, _group: GroupId, _by: i64) -> Result<(), CloudError> {
        Err(CloudError(String::from("no less")))
    }

    fn pricing(&self) -> Option<&Pricing> {
        None
    }

    fn gpu_label(&self) -> &str {
        "gpu"
    }
}

// === impl Fixture ===

impl Fixture {
    /// With groups by name and least size.
    pub(super) fn new(settings: Settings, groups: &[(&str, i64)]) -> Fixture {
        let group = |(name, min): &(&str, i64)| NodeGroup {
            name: (*name).into(),
            min: *min,
            max: 1000,
            target: None,
            members: Membership::Named(Default::default()),
            template: object(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "template"}})),
            pods: Vec::new(),
            believed: Vec::new(),
            price: None,
            options: None,
            provisioning: Provisioning::default(),
            failures: Vec::new(),
        };
        Fixture {
            cluster: Cluster::new(&settings),
            registry: Registry::new(&settings, Moment::default()),
            settings,
            cloud: TestCloud {
                groups: groups.iter().map(group).collect(),
                targets: vec![0; groups.len()],
                instances: vec![Vec::new(); groups.len()],
                deleted: Vec::new(),
                refuses: false,
            },
            now: START,
            events: Vec::new(),
            actions: Vec::new(),
            revision: 0,
            dice: Pcg64::seed_from_u64(0),
        }
    }

    pub(super) fn apply(&mut self, value: Value) {
        self.cluster.apply(&What::Added(object(value)));
    }

    pub(super) fn forget(&mut self, value: Value) {
        self.cluster.apply(&What::Deleted(object(value)));
    }

    /// A ready node of a group, changed as wanted.
    pub(super) fn node(&mut self, group: &str, name: &str, change: impl FnOnce(&mut Value)) -> NodeId {
        let mut value = node(group, name);
        change(&mut value);
        self.apply(value);
        let place = self.cloud.groups.iter().position(|other| &*other.name == group);
        if let Some(place) = place {
            self.cloud.targets[place] += 1;
            self.cloud.instances[place].push(format!("fake://{group}/{name}").into());
        }
        self.cluster.snapshot.find(name).expect("it was just added")
    }

    pub(super) fn with<R>(&mut self, run: impl FnOnce(&mut Context<'_>) -> R) -> R {
        let mut standing: Vec<Option<Standing>> = Vec::new();
        self.revision += 1;
        for id in self.cluster.nodes() {
            standing.resize(standing.len().max(id.index() + 1), None);
            let node = self.cluster.snapshot.node(id);
            standing[id.index()] = Some(Standing::of(node, &self.settings, &self.cloud));
        }
        run(&mut Context {
            clock: &Clock::at(self.now),
            settings: &self.settings,
            cloud: &mut self.cloud,
            cluster: &mut self.cluster,
            registry: &mut self.registry,
            templates: &Templates::default(),
            standing: &standing,
            revision: self.revision,
            marked: standing.iter().flatten().filter(|standing| standing.is_marked()).count(),
            dice: &mut self.dice,
            events: &mut self.events,
            actions: &mut self.actions,
        })
    }

    /// One loop's scale-down.
    pub(super) fn scale_down(&mut self, down: &mut Down, in_cooldown: bool) -> ScaleDown {
        let nodes: Vec<NodeId> = self.cluster.nodes().collect();
        self.with(|context| {
            context.cluster.snapshot.begin(nodes.clone());
            let in_progress = down.status();
            let (result, removed) = down.scale_down(context, &nodes, &in_progress, in_cooldown);
            context.cluster.snapshot.end();
            down.report(result, removed)
        })
    }

    pub(super) fn wait(&mut self, seconds: i64) {
        self.now = self.now.plus_nanos(kubernetes::time::seconds(seconds));
    }
}

pub(super) fn object(value: Value) -> Object {
    Object::parse(&value.to_string()).expect("tests write objects")
}

/// A ready node with 2 cores, 2 MB and room for 110 pods.
pub(super) fn node(group: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": {}},
        "spec": {"providerID": format!("fake://{group}/{name}"), "taints": []},
        "status": {
            "capacity": {"cpu": "2", "memory": "2M", "pods": "110"},
            "allocatable": {"cpu": "2", "memory": "2M", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T00:00:00Z"}]
        }
    })
}

/// A running pod of a ReplicaSet on a node.
pub(super) fn pod(name: &str, node: &str, cpu: &str, memory: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "creationTimestamp": "2025-12-31T00:00:00Z",
            "labels": {"app": "web"}, "annotations": {},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true
            }]
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
        },
        "status": {"phase": "Running"}
    })
}

pub(super) fn replica_set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 3}, "status": {"replicas": 3}
    })
}

//! Tests of the storage cache: incremental updates equal a rebuild, and unreadable fields are named.

use std::collections::BTreeMap;

use kubernetes::labels::Labels;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::*;
use crate::VolumeChange;
use crate::plugins::node_volume_limits;
use crate::plugins::volume_context::{PodChanges, VolumeNode, VolumePod};

impl StorageCache {
    /// A cache of these objects.
    pub(crate) fn of(objects: &[Value]) -> StorageCache {
        let mut storage = StorageCache::default();
        for object in objects {
            // Some tests use unreadable objects.
            let _ = storage.apply_value(object);
        }
        storage
    }

    pub(crate) fn apply_value(&mut self, object: &Value) -> Result<(), Arc<UnreadableObject>> {
        let object = testobjects::object(object);
        let meta = object.meta();
        self.apply(StorageKind::of(&Kind::of(&meta.api_version, &meta.kind)).unwrap(), &object)
    }
}

impl PodVolumes {
    /// The volumes of a pod `p` whose uid is `u`.
    pub(crate) fn of(volumes: Value) -> Arc<PodVolumes> {
        let volumes: Vec<kubernetes::objects::Volume> = serde_json::from_value(volumes).unwrap();
        PodVolumes::new(&volumes, &"p".into(), &"u".into()).unwrap()
    }
}

#[derive(Clone, Debug)]
enum CacheOperation {
    Apply(Value),
    Remove(usize),
    AddPod(u32, &'static str, &'static str, Value),
    RemovePod(u32),
}

const NAMESPACES: [&str; 2] = ["a", "b"];
const NODES: [&str; 2] = ["n0", "n1"];

fn claim() -> impl Strategy<Value = Value> {
    let owner = json!([{"uid": "u", "controller": true}]);
    let owners = select(vec![owner.clone(), owner, json!([]), json!(null)]);
    let name = select(vec!["c0", "c1", "p-e"]);
    let volume = select(vec!["", "v0", "v1", "v2"]);
    let size = select(vec!["1Gi", "2Gi", "3Gi", "1x"]);
    (select(NAMESPACES.to_vec()), name, owners, volume, select(vec!["", "s0", "s1"]), size).prop_map(
        |(namespace, name, owners, volume, class, size)| {
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"namespace": namespace, "name": name, "ownerReferences": owners},
                "spec": {"volumeName": volume, "storageClassName": class,
                    "resources": {"requests": {"storage": size}}}})
        },
    )
}

fn volume() -> impl Strategy<Value = Value> {
    let source = select(vec![
        json!({"csi": {"driver": "d0", "volumeHandle": "h0"}}),
        json!({"csi": {"driver": "d0", "volumeHandle": "h1"}}),
        json!({"csi": {"driver": "d1", "volumeHandle": "h0"}}),
        json!({"awsElasticBlockStore": {"volumeID": "vol-1"}}),
        json!({"awsElasticBlockStore": {"volumeID": "aws://z/x"}}),
        json!({"nfs": {}}),
        json!({"csi": 5}),
    ]);
    let class = select(vec![json!("s0"), json!("s1"), json!(7)]);
    let claim = select(vec![json!(null), json!({"namespace": "a", "name": "c0"}), json!({"name": "c1"})]);
    (select(vec!["v0", "v1", "v2"]), source, class, claim).prop_map(|(name, mut spec, class, claim)| {
        spec["storageClassName"] = class;
        spec["claimRef"] = claim;
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
    })
}

fn class() -> impl Strategy<Value = Value> {
    let provisioners = ["d0", "kubernetes.io/aws-ebs", "kubernetes.io/azure-file"].map(Value::from);
    let provisioner = select([&provisioners[..], &[json!({})]].concat());
    (select(vec!["s0", "s1"]), provisioner).prop_map(|(name, provisioner)| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": provisioner})
    })
}

fn attachment() -> impl Strategy<Value = Value> {
    let node = select(vec![json!("n0"), json!("n1"), json!("n0"), json!(1)]);
    let name = select(vec!["t0", "t1", "t2"]);
    let volume = select(vec!["v0", "v1", "v2", "v3"]);
    (name, node, volume, select(vec![json!("d0"), json!("d1"), json!(1)])).prop_map(
        |(name, node, volume, attacher)| {
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
                "spec": {"nodeName": node, "attacher": attacher, "source": {"persistentVolumeName": volume}}})
        },
    )
}

fn csi_node() -> impl Strategy<Value = Value> {
    let count = select(vec![json!(0), json!(1), json!(2), json!(3), json!("many")]);
    (select(NODES.to_vec()), count).prop_map(|(name, count)| {
        let drivers = json!([{"name": "d0", "allocatable": {"count": count}}, {"name": "d1"},
            {"name": "ebs.csi.aws.com", "allocatable": {"count": 1}}]);
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
            "spec": {"drivers": drivers}})
    })
}

fn capacity() -> impl Strategy<Value = Value> {
    let class = select(vec![json!("s0"), json!("s1"), json!(1)]);
    (select(vec!["k0", "k1"]), class).prop_map(|(name, class)| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"namespace": "a", "name": name}, "storageClassName": class, "capacity": "1Gi"})
    })
}

fn pod_volumes() -> impl Strategy<Value = Value> {
    let one = select(vec![
        json!({"persistentVolumeClaim": {"claimName": "c0"}}),
        json!({"persistentVolumeClaim": {"claimName": "c1"}}),
        json!({"name": "e", "ephemeral": {}}),
        json!({"awsElasticBlockStore": {"volumeID": "vol-1"}}),
        json!({"rbd": {"monitors": ["m"]}}),
    ]);
    proptest::collection::vec(one, 1..4).prop_map(Value::from)
}

fn step() -> impl Strategy<Value = CacheOperation> {
    let place = (0..4u32, select(NODES.to_vec()), select(NAMESPACES.to_vec()), pod_volumes())
        .prop_map(|(pod, node, namespace, volumes)| CacheOperation::AddPod(pod, node, namespace, volumes));
    prop_oneof![
        3 => claim().prop_map(CacheOperation::Apply),
        3 => volume().prop_map(CacheOperation::Apply),
        1 => class().prop_map(CacheOperation::Apply),
        2 => attachment().prop_map(CacheOperation::Apply),
        2 => csi_node().prop_map(CacheOperation::Apply),
        1 => capacity().prop_map(CacheOperation::Apply),
        2 => any::<usize>().prop_map(CacheOperation::Remove),
        3 => place,
        1 => (0..4u32).prop_map(CacheOperation::RemovePod),
    ]
}

/// The identity of an object.
type ObjectId = (StorageKind, Arc<str>, Arc<str>);

fn object_id(object: &Value) -> ObjectId {
    let object = testobjects::object(object);
    let meta = object.meta();
    let kind = StorageKind::of(&Kind::of(&meta.api_version, &meta.kind)).unwrap();
    (kind, (*meta.namespace).into(), (*meta.name).into())
}

/// The node, namespace and volumes of a pod.
type PodPlacement = (Arc<str>, Arc<str>, Arc<PodVolumes>);

/// The latest version of each object, and the assigned pods.
#[derive(Default)]
struct ReferenceStorage {
    objects: BTreeMap<ObjectId, Value>,
    pods: BTreeMap<PodId, PodPlacement>,
}

impl ReferenceStorage {
    fn run(steps: &[CacheOperation]) -> (StorageCache, ReferenceStorage) {
        let (mut storage, mut plain) = (StorageCache::default(), ReferenceStorage::default());
        for step in steps {
            match step {
                CacheOperation::Apply(object) => {
                    let _ = storage.apply_value(object);
                    plain.objects.insert(object_id(object), object.clone());
                }
                CacheOperation::Remove(index) => {
                    let titles: Vec<ObjectId> = plain.objects.keys().cloned().collect();
                    let Some(title) = titles.get(index % titles.len().max(1)) else { continue };
                    storage.remove(title.0, &title.1, &title.2);
                    plain.objects.remove(title);
                }
                CacheOperation::AddPod(pod, node, namespace, volumes) => {
                    let volumes = PodVolumes::of(volumes.clone());
                    storage.add_pod(PodId(*pod), &(*node).into(), &(*namespace).into(), &volumes);
                    plain.pods.insert(PodId(*pod), ((*node).into(), (*namespace).into(), volumes));
                }
                CacheOperation::RemovePod(pod) => {
                    storage.remove_pod(PodId(*pod));
                    plain.pods.remove(&PodId(*pod));
                }
            }
        }
        (storage, plain)
    }

    fn rebuilt(&self, pods_first: bool) -> StorageCache {
        let mut storage = StorageCache::default();
        let place = |storage: &mut StorageCache| {
            for (pod, (node, namespace, volumes)) in &self.pods {
                storage.add_pod(*pod, node, namespace, volumes);
            }
        };
        if pods_first {
            place(&mut storage);
        }
        for object in self.objects.values() {
            let _ = storage.apply_value(object);
        }
        if !pods_first {
            place(&mut storage);
        }
        storage
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn incremental_state_equals_rebuilt_state(steps in proptest::collection::vec(step(), 0..40)) {
        let (mut storage, plain) = ReferenceStorage::run(&steps);
        prop_assert_eq!(&storage, &plain.rebuilt(false));
        prop_assert_eq!(&storage, &plain.rebuilt(true));
        plain.objects.keys().for_each(|(kind, namespace, name)| storage.remove(*kind, namespace, name));
        plain.pods.keys().for_each(|pod| storage.remove_pod(*pod));
        prop_assert_eq!(storage, StorageCache::default());
    }

    #[test]
    fn pod_changes_are_filtered_as_if_applied(
        steps in proptest::collection::vec(step(), 10..40),
        without in proptest::sample::subsequence(vec![0u32, 1, 2, 3], 0..4),
        with in proptest::collection::vec(pod_volumes(), 0..3),
        asking in pod_volumes(),
    ) {
        let (mut storage, plain) = ReferenceStorage::run(&steps);
        let (node, namespace): (Arc<str>, Arc<str>) = ("n0".into(), "a".into());
        let labels = Labels::default();
        let asking = PodVolumes::of(asking);
        let pod = VolumePod { namespace: &namespace, volumes: &asking };
        let without: Vec<PodId> = without.into_iter().map(PodId).collect();
        let without: Vec<PodId> = without
            .into_iter()
            .filter(|pod| plain.pods.get(pod).is_some_and(|(place, _, _)| *place == node))
            .collect();
        let with: Vec<Arc<PodVolumes>> = with.into_iter().map(PodVolumes::of).collect();
        let added_pods: Vec<VolumePod<'_>> =
            with.iter().map(|volumes| VolumePod { namespace: &namespace, volumes }).collect();
        let Some(state) = node_volume_limits::pre_filter(pod, &storage) else { return Ok(()) };
        let pod_changes = PodChanges { removed: &without, added: &added_pods };
        let with_changes = {
            let view = VolumeNode::named(&node, &labels, &storage);
            node_volume_limits::filter(&state, &view, &pod_changes, &storage)
        };
        without.iter().for_each(|pod| storage.remove_pod(*pod));
        for (index, volumes) in with.iter().enumerate() {
            storage.add_pod(PodId(10 + index as u32), &node, &namespace, volumes);
        }
        let done = {
            let view = VolumeNode::named(&node, &labels, &storage);
            node_volume_limits::filter(&state, &view, &PodChanges::default(), &storage)
        };
        // Of several errors the reported one may differ.
        let code = |answer: &Result<(), Status>| answer.as_ref().err().map(|status| status.code);
        prop_assert_eq!(code(&with_changes).is_some(), code(&done).is_some(), "{:?} {:?}", with_changes, done);
    }
}

#[track_caller]
fn check_unreadable(object: Value, expected: &str) {
    let error = StorageCache::default().apply_value(&object).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error:?} should begin with {expected:?}");
}

#[test]
fn unreadable_fields_are_named() {
    check_unreadable(
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "a", "name": "c"},
            "spec": {"resources": {"requests": {"storage": "1x"}}}}),
        "PersistentVolumeClaim a/c: spec.resources.requests.storage: invalid quantity \"1x\"",
    );
    check_unreadable(
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
            "spec": {"capacity": {"storage": []}}}),
        "PersistentVolume v: spec.capacity.storage: invalid type: sequence",
    );
    check_unreadable(
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
            "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": ["x"]}}, "gcePersistentDisk": {}}}),
        "PersistentVolume v: spec.nodeAffinity.required: invalid type: string",
    );
    check_unreadable(
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"},
            "spec": {"drivers": [{}, {"allocatable": {"count": 4294967296i64}}]}}),
        "CSINode n: spec.drivers[1].allocatable.count: 4294967296 is not a 32-bit integer",
    );
    check_unreadable(
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"},
            "allowedTopologies": {}}),
        "StorageClass s: allowedTopologies: {} is not a list",
    );
    check_unreadable(
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"namespace": "a", "name": "k"}, "maximumVolumeSize": "big"}),
        "CSIStorageCapacity a/k: maximumVolumeSize: invalid quantity \"big\"",
    );
}

/// A claim and a volume, and the reservation that binds them.
fn with_reservation(version: &str) -> (StorageCache, VolumeReservation, Value) {
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "v", "resourceVersion": version}, "spec": {"capacity": {"storage": "1Gi"}}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "a", "name": "c", "uid": "7", "resourceVersion": "3"}, "spec": {}});
    let storage = StorageCache::of(&[volume.clone(), claim]);
    let claim = storage.latest_claim(&"a".into(), &"c".into()).unwrap().unwrap().clone();
    let mut reservation = VolumeReservation::default();
    reservation.bind(&claim, storage.latest_volume("v").unwrap().unwrap());
    reservation.provision(&claim, &"n".into());
    (storage, reservation, volume)
}

fn is_assumed(storage: &StorageCache) -> bool {
    storage.latest_volume("v").is_some_and(|volume| volume.unwrap().claim.is_some())
}

#[test]
fn an_assumed_object_holds_until_it_is_forgotten() {
    let (mut storage, reservation, _) = with_reservation("1");
    storage.assume(&reservation);
    assert!(is_assumed(&storage));
    assert!(
        storage.volume("v").unwrap().as_ref().unwrap().claim.is_none(),
        "nothing changes for other plugins"
    );
    let claim = storage.latest_claim(&"a".into(), &"c".into()).unwrap().unwrap();
    assert_eq!(claim.selected_node.as_deref(), Some("n"));
    storage.forget(&reservation);
    assert!(!is_assumed(&storage));
    assert_eq!(storage.latest_claim(&"a".into(), &"c".into()).unwrap().unwrap().selected_node, None);
    assert_eq!(
        reservation.changes(),
        [
            VolumeChange::Bind { claim: "c".into(), volume: "v".into() },
            VolumeChange::Provision { claim: "c".into(), node: "n".into() },
        ]
    );
}

#[test]
fn another_resource_version_ends_an_assumption() {
    let (mut storage, reservation, mut volume) = with_reservation("1");
    storage.assume(&reservation);
    storage.apply_value(&volume).unwrap();
    assert!(is_assumed(&storage), "the same version changes nothing");
    volume["metadata"]["resourceVersion"] = "2".into();
    storage.apply_value(&volume).unwrap();
    assert!(!is_assumed(&storage));
    storage.assume(&reservation);
    assert!(!is_assumed(&storage), "an older version is not assumed");
    volume["metadata"]["resourceVersion"] = "1".into();
    storage.apply_value(&volume).unwrap();
    storage.assume(&reservation);
    storage.remove(StorageKind::PersistentVolume, &"".into(), &"v".into());
    assert!(!is_assumed(&storage));
}

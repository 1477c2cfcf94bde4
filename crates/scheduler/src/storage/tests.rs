//! What is kept up to date is what would be derived anew, and what makes no sense is said so.

use std::collections::BTreeMap;

use kubernetes::labels::Labels;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::*;
use crate::VolumeChange;
use crate::plugins::node_volume_limits;
use crate::plugins::volume_view::{VolumeHypothesis, VolumeNode, VolumePod};

impl Storage {
    /// A world of these objects.
    pub(crate) fn of(objects: &[Value]) -> Storage {
        let mut storage = Storage::default();
        for object in objects {
            // What cannot be understood is part of some worlds.
            let _ = storage.apply_value(object);
        }
        storage
    }

    pub(crate) fn apply_value(&mut self, object: &Value) -> Result<(), Arc<Unreadable>> {
        let object = testobjects::object(object);
        let meta = object.meta();
        self.apply(StorageKind::of(&Kind::of(&meta.api_version, &meta.kind)).unwrap(), &object)
    }
}

impl PodVolumes {
    /// The volumes of a pod `p` whose uid is `u`.
    pub(crate) fn of(volumes: Value) -> Arc<PodVolumes> {
        let volumes: Vec<VolumeJson> = serde_json::from_value(volumes).unwrap();
        PodVolumes::read(&volumes, &"p".into(), &"u".into()).unwrap()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Apply(Value),
    Remove(usize),
    Place(u32, &'static str, &'static str, Value),
    Displace(u32),
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

fn step() -> impl Strategy<Value = Step> {
    let place = (0..4u32, select(NODES.to_vec()), select(NAMESPACES.to_vec()), pod_volumes())
        .prop_map(|(pod, node, namespace, volumes)| Step::Place(pod, node, namespace, volumes));
    prop_oneof![
        3 => claim().prop_map(Step::Apply),
        3 => volume().prop_map(Step::Apply),
        1 => class().prop_map(Step::Apply),
        2 => attachment().prop_map(Step::Apply),
        2 => csi_node().prop_map(Step::Apply),
        1 => capacity().prop_map(Step::Apply),
        2 => any::<usize>().prop_map(Step::Remove),
        3 => place,
        1 => (0..4u32).prop_map(Step::Displace),
    ]
}

/// What names an object.
type Title = (StorageKind, Arc<str>, Arc<str>);

fn title(object: &Value) -> Title {
    let object = testobjects::object(object);
    let meta = object.meta();
    let kind = StorageKind::of(&Kind::of(&meta.api_version, &meta.kind)).unwrap();
    (kind, (*meta.namespace).into(), (*meta.name).into())
}

/// The node, namespace and volumes of a pod.
type Place = (Arc<str>, Arc<str>, Arc<PodVolumes>);

/// The last of each object, and the pods that are placed.
#[derive(Default)]
struct Plain {
    objects: BTreeMap<Title, Value>,
    pods: BTreeMap<PodId, Place>,
}

impl Plain {
    fn run(steps: &[Step]) -> (Storage, Plain) {
        let (mut storage, mut plain) = (Storage::default(), Plain::default());
        for step in steps {
            match step {
                Step::Apply(object) => {
                    let _ = storage.apply_value(object);
                    plain.objects.insert(title(object), object.clone());
                }
                Step::Remove(index) => {
                    let titles: Vec<Title> = plain.objects.keys().cloned().collect();
                    let Some(title) = titles.get(index % titles.len().max(1)) else { continue };
                    storage.remove(title.0, &title.1, &title.2);
                    plain.objects.remove(title);
                }
                Step::Place(pod, node, namespace, volumes) => {
                    let volumes = PodVolumes::of(volumes.clone());
                    storage.place(PodId(*pod), &(*node).into(), &(*namespace).into(), &volumes);
                    plain.pods.insert(PodId(*pod), ((*node).into(), (*namespace).into(), volumes));
                }
                Step::Displace(pod) => {
                    storage.displace(PodId(*pod));
                    plain.pods.remove(&PodId(*pod));
                }
            }
        }
        (storage, plain)
    }

    fn rebuilt(&self, pods_first: bool) -> Storage {
        let mut storage = Storage::default();
        let place = |storage: &mut Storage| {
            for (pod, (node, namespace, volumes)) in &self.pods {
                storage.place(*pod, node, namespace, volumes);
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
    fn what_is_kept_is_what_would_be_derived_anew(steps in proptest::collection::vec(step(), 0..40)) {
        let (mut storage, plain) = Plain::run(&steps);
        prop_assert_eq!(&storage, &plain.rebuilt(false));
        prop_assert_eq!(&storage, &plain.rebuilt(true));
        plain.objects.keys().for_each(|(kind, namespace, name)| storage.remove(*kind, namespace, name));
        plain.pods.keys().for_each(|pod| storage.displace(*pod));
        prop_assert_eq!(storage, Storage::default());
    }

    #[test]
    fn a_hypothesis_is_answered_as_if_it_were_so(
        steps in proptest::collection::vec(step(), 10..40),
        without in proptest::sample::subsequence(vec![0u32, 1, 2, 3], 0..4),
        with in proptest::collection::vec(pod_volumes(), 0..3),
        asking in pod_volumes(),
    ) {
        let (mut storage, plain) = Plain::run(&steps);
        let (node, namespace): (Arc<str>, Arc<str>) = ("n0".into(), "a".into());
        let view = VolumeNode { name: &node, labels: &Labels::default() };
        let asking = PodVolumes::of(asking);
        let pod = VolumePod { namespace: &namespace, volumes: &asking };
        let without: Vec<PodId> = without.into_iter().map(PodId).collect();
        let without: Vec<PodId> = without
            .into_iter()
            .filter(|pod| plain.pods.get(pod).is_some_and(|(place, _, _)| *place == node))
            .collect();
        let with: Vec<Arc<PodVolumes>> = with.into_iter().map(PodVolumes::of).collect();
        let guests: Vec<VolumePod<'_>> =
            with.iter().map(|volumes| VolumePod { namespace: &namespace, volumes }).collect();
        let Some(state) = node_volume_limits::pre_filter(pod, &storage) else { return Ok(()) };
        let hypothesis = VolumeHypothesis { without: &without, with: &guests };
        let thought = node_volume_limits::filter(&state, &view, &hypothesis, &storage);
        without.iter().for_each(|pod| storage.displace(*pod));
        for (index, volumes) in with.iter().enumerate() {
            storage.place(PodId(10 + index as u32), &node, &namespace, volumes);
        }
        let done = node_volume_limits::filter(&state, &view, &VolumeHypothesis::default(), &storage);
        // Of several troubles the one named may differ.
        let code = |answer: &Result<(), Refusal>| answer.as_ref().err().map(|refusal| refusal.code);
        prop_assert_eq!(code(&thought).is_some(), code(&done).is_some(), "{:?} {:?}", thought, done);
    }
}

#[track_caller]
fn refused(object: Value, expected: &str) {
    let error = Storage::default().apply_value(&object).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error:?} should begin with {expected:?}");
}

#[test]
fn what_makes_no_sense_is_named() {
    refused(
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "a", "name": "c"},
            "spec": {"resources": {"requests": {"storage": "1x"}}}}),
        "PersistentVolumeClaim a/c: spec.resources.requests.storage: \"1x\" is not a quantity",
    );
    refused(
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
            "spec": {"capacity": {"storage": []}}}),
        "PersistentVolume v: spec.capacity.storage: invalid type: sequence",
    );
    refused(
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
            "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": ["x"]}}, "gcePersistentDisk": {}}}),
        "PersistentVolume v: spec.nodeAffinity.required: invalid type: string",
    );
    refused(
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"},
            "spec": {"drivers": [{}, {"allocatable": {"count": 4294967296i64}}]}}),
        "CSINode n: spec.drivers[1].allocatable.count: 4294967296 is not a 32-bit integer",
    );
    refused(
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"},
            "allowedTopologies": {}}),
        "StorageClass s: allowedTopologies: {} is not a list",
    );
    refused(
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"namespace": "a", "name": "k"}, "maximumVolumeSize": "big"}),
        "CSIStorageCapacity a/k: maximumVolumeSize: \"big\" is not a quantity",
    );
}

/// A claim and a volume, and what binding one to the other comes to.
fn reserved(version: &str) -> (Storage, Reservation, Value) {
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "v", "resourceVersion": version}, "spec": {"capacity": {"storage": "1Gi"}}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "a", "name": "c", "uid": "7", "resourceVersion": "3"}, "spec": {}});
    let storage = Storage::of(&[volume.clone(), claim]);
    let claim = storage.latest_claim(&"a".into(), &"c".into()).unwrap().unwrap().clone();
    let mut reservation = Reservation::default();
    reservation.bind(&claim, storage.latest_volume("v").unwrap().unwrap());
    reservation.provision(&claim, &"n".into());
    (storage, reservation, volume)
}

fn is_assumed(storage: &Storage) -> bool {
    storage.latest_volume("v").is_some_and(|volume| volume.unwrap().claim.is_some())
}

#[test]
fn what_is_assumed_holds_until_it_is_forgotten() {
    let (mut storage, reservation, _) = reserved("1");
    storage.assume(&reservation);
    assert!(is_assumed(&storage));
    assert!(
        storage.volume("v").unwrap().as_ref().unwrap().claim.is_none(),
        "to other plugins nothing changes"
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
fn another_version_ends_what_was_assumed() {
    let (mut storage, reservation, mut volume) = reserved("1");
    storage.assume(&reservation);
    storage.apply_value(&volume).unwrap();
    assert!(is_assumed(&storage), "the same version is no news");
    volume["metadata"]["resourceVersion"] = "2".into();
    storage.apply_value(&volume).unwrap();
    assert!(!is_assumed(&storage));
    storage.assume(&reservation);
    assert!(!is_assumed(&storage), "what was reserved of an older version is not assumed");
    volume["metadata"]["resourceVersion"] = "1".into();
    storage.apply_value(&volume).unwrap();
    storage.assume(&reservation);
    storage.remove(StorageKind::PersistentVolume, &"".into(), &"v".into());
    assert!(!is_assumed(&storage));
}

use autoscaler::{Membership, Provisioning, ProvisioningFailure};

use super::*;

fn second(second: i64) -> Moment {
    Moment::from_nanos(second * 1_000_000_000)
}

fn group(name: &str, max: i64, failures: &[(i64, i64, ProvisioningFailureKind)]) -> NodeGroup {
    NodeGroup {
        name: name.into(),
        min: 0,
        max,
        target: None,
        members: Membership::ProviderIdPrefix(format!("fake://{name}/").into()),
        template: testobjects::node("t").object(),
        pods: Vec::new(),
        template_pods: Vec::new(),
        price: None,
        options: None,
        provisioning: Provisioning::default(),
        failures: failures
            .iter()
            .map(|(from, to, kind)| ProvisioningFailure { from: second(*from), to: second(*to), kind: *kind })
            .collect(),
    }
}

fn view(name: &str, id: &str) -> NodeView {
    NodeView::parse(&testobjects::node(name).provider_id(id).object())
}

fn descriptions(changes: Vec<CloudChange>) -> Vec<String> {
    let describe = |change: CloudChange| match change {
        CloudChange::Registered { node, .. } => format!("{} registers", node.meta().name),
        CloudChange::Ready { node, .. } => format!("{node} is ready"),
        CloudChange::Deleted { node } => format!("{node} is gone"),
    };
    changes.into_iter().map(describe).collect()
}

const A: GroupId = GroupId(0);
const B: GroupId = GroupId(1);

#[test]
fn nodes_register_after_their_delay_and_are_deleted_at_once() {
    let mut slow = group("b", 9, &[]);
    slow.provisioning.ready_after = Delay::Constant(Duration::from_secs(5));
    let mut cloud = SimulatedCloud::new(vec![group("a", 9, &[]), slow], 0);
    assert_eq!(cloud.adopt(&view("a-1", "fake://a/a-1")), Some(A));
    assert_eq!(cloud.adopt(&view("c-1", "")), None);
    cloud.increase_size(second(0), B, 1).unwrap();
    cloud.increase_size(second(0), A, 2).unwrap();
    assert_eq!((cloud.target_size(A), cloud.target_size(B)), (3, 1));
    assert_eq!(cloud.next_wake(), Some(second(60)));
    assert!(cloud.advance(second(59)).is_empty());
    assert_eq!(
        descriptions(cloud.advance(second(60))),
        ["a-new-001 registers", "a-new-002 registers", "b-new-001 registers"]
    );
    assert_eq!(descriptions(cloud.advance(second(70))), ["b-new-001 is ready"]);
    cloud.delete_nodes(second(71), A, &["fake://a/a-1".into()]).unwrap();
    assert_eq!(cloud.next_wake(), Some(second(71)));
    assert_eq!(descriptions(cloud.advance(second(71))), ["a-1 is gone"]);
    cloud.increase_size(second(80), A, 1).unwrap();
    assert_eq!(descriptions(cloud.advance(second(140))), ["a-new-003 registers"], "no number is reused");
    assert_eq!(cloud.next_wake(), None);
}

#[test]
fn nodes_of_an_earlier_cloud_are_adopted_and_their_names_are_not_reused() {
    let mut unlabeled = group("a", 9, &[]);
    unlabeled.members = Membership::Named(BTreeSet::new());
    let mut cloud = SimulatedCloud::new(vec![unlabeled], 0);
    assert_eq!(cloud.adopt(&view("a-new-001", "kinescope://a/a-new-001")), Some(A));
    cloud.increase_size(second(0), A, 1).unwrap();
    assert_eq!(descriptions(cloud.advance(second(60))), ["a-new-002 registers"]);
}

#[test]
fn rejected_requests_have_the_error_messages_of_real_providers() {
    let mut cloud =
        SimulatedCloud::new(vec![group("pool-a", 2, &[(0, 10, ProvisioningFailureKind::IncreaseError)])], 0);
    let refused = |outcome: Result<(), CloudProviderError>| outcome.unwrap_err().to_string();
    assert_eq!(refused(cloud.increase_size(second(9), A, 1)), "no capacity in pool-a");
    assert_eq!(cloud.increase_size(second(10), A, 1), Ok(()));
    assert_eq!(refused(cloud.increase_size(second(10), A, 2)), "size increase too large, desired: 3 max: 2");
    assert_eq!(
        refused(cloud.decrease_target_size(second(10), A, 2)),
        "attempt to delete existing nodes, targetSize: 1 delta: -2 existingNodes: 1"
    );
    assert_eq!(cloud.delete_nodes(second(10), A, &["fake://pool-a/pool-a-new-001".into()]), Ok(()));
    assert_eq!(
        refused(cloud.delete_nodes(second(10), A, &["fake://pool-a/pool-a-new-001".into()])),
        "min size reached, nodes will not be deleted"
    );
}

#[test]
fn failed_machines_never_register() {
    let failures = [
        (0, 10, ProvisioningFailureKind::NoInstance),
        (10, 20, ProvisioningFailureKind::NeverRegister),
        (20, 30, ProvisioningFailureKind::CreateError),
    ];
    let mut cloud = SimulatedCloud::new(vec![group("a", 9, &failures), group("b", 9, &[])], 0).with_quota(3);
    for at in [0, 10, 20] {
        cloud.increase_size(second(at), A, 1).unwrap();
    }
    cloud.increase_size(second(30), B, 3).unwrap();
    assert_eq!((cloud.target_size(A), cloud.target_size(B)), (3, 3));
    let codes = |group| {
        let code = |instance: &Instance| match &instance.state {
            InstanceState::Failed(error) => error.code.to_string(),
            state => format!("{state:?}"),
        };
        cloud.instances(group).iter().map(code).collect::<Vec<_>>()
    };
    assert_eq!(codes(A), ["Creating", "STOCKOUT"]);
    assert_eq!(codes(B), ["Creating", "Creating", "QUOTA_EXCEEDED"], "one that never comes counts");
    assert_eq!(descriptions(cloud.advance(second(999))), ["b-new-001 registers", "b-new-002 registers"]);
}

#[test]
fn measured_delays_depend_on_the_seed_alone() {
    let wakes = |seed| {
        let mut measured = group("a", 99, &[]);
        measured.provisioning.registers_after = Delay::Samples((1..=50).map(Duration::from_secs).collect());
        let mut cloud = SimulatedCloud::new(vec![measured], seed);
        let wake = |cloud: &mut SimulatedCloud| {
            cloud.increase_size(second(0), A, 1).unwrap();
            let wake = cloud.next_wake();
            cloud.advance(second(999));
            wake
        };
        (0..9).map(|_| wake(&mut cloud)).collect::<Vec<_>>()
    };
    assert_eq!(wakes(1), wakes(1));
    assert_ne!(wakes(1), wakes(2));
}

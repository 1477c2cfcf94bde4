//! VolumeRestrictions: disks that a node must not have twice, and claims that one pod alone may use.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::registration::{Filter, Registration};
use super::volume_view::{VolumeHypothesis, VolumeNode, VolumePod, unreadable};
use crate::events::{About, Hint, Sort, ThingKind};
use crate::plugin::{ExtensionPoint, Plugin};
use crate::storage::{PodVolumes, Storage, Trouble};
use crate::verdict::Refusal;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "VolumeRestrictions",
    points: |_| &[ExtensionPoint::PreFilter, ExtensionPoint::Filter],
    filter: Some(
        Filter::BEYOND_AND_PODS.unprepared(r#"cannot read "PreFilterVolumeRestrictions" from cycleState"#),
    ),
    events: &[Sort::NodeAdded, Sort::PodDeleted, Sort::Added(ThingKind::Claim)],
    queueing_hint,
    ..Registration::EMPTY
};

const PLUGIN: Plugin = Plugin::VolumeRestrictions;

/// What is known of a pod that there is something to check for.
#[derive(Clone, Debug)]
pub(crate) struct State {
    volumes: Arc<PodVolumes>,
    /// The claims that the pod must have for itself.
    own_claims: BTreeSet<Arc<str>>,
    /// How many of them a pod on some node uses.
    taken: usize,
}

/// Looks at the pod.
pub(crate) fn pre_filter(pod: VolumePod<'_>, storage: &Storage) -> Result<Option<State>, Refusal> {
    let mut own_claims = BTreeSet::new();
    for name in pod.volumes.named_claims() {
        let Some(claim) = storage.claim(pod.namespace, name) else {
            return Err(Refusal::unresolvable(PLUGIN, Trouble::no_claim(name)));
        };
        let claim = claim.as_ref().map_err(|why| unreadable(PLUGIN, why))?;
        if claim.is_for_one_pod() {
            own_claims.insert(name.clone());
        }
    }
    let taken = own_claims.iter().filter(|claim| storage.is_mounted(pod.namespace, claim)).count();
    let needed = pod.volumes.has_disks() || taken > 0;
    Ok(needed.then(|| State { volumes: pod.volumes.clone(), own_claims, taken }))
}

/// Looks at a node.
pub(crate) fn filter(
    state: &State,
    node: &VolumeNode<'_>,
    hypothesis: &VolumeHypothesis<'_>,
    storage: &Storage,
) -> Result<(), Refusal> {
    if state.volumes.has_disks() && state.has_conflict(node, hypothesis, storage) {
        return Err(Refusal::unschedulable(PLUGIN, "node(s) had no available disk"));
    }
    if state.is_taken(hypothesis, storage) {
        return Err(Refusal::unschedulable(
            PLUGIN,
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
        ));
    }
    Ok(())
}

// === impl State ===

impl State {
    fn has_conflict(
        &self,
        node: &VolumeNode<'_>,
        hypothesis: &VolumeHypothesis<'_>,
        storage: &Storage,
    ) -> bool {
        let there = storage.node(node.name).into_iter().flat_map(|node| &node.disks);
        let there = there.filter(|(pod, _)| !hypothesis.without.contains(pod)).map(|(_, volumes)| volumes);
        let mut others = there.chain(hypothesis.with.iter().map(|pod| pod.volumes));
        others.any(|other| self.volumes.disks().any(|disk| other.disks().any(|other| disk.conflicts(other))))
    }

    /// As in kube-scheduler a hypothesis counts uses by the claims' names alone, in whatever namespace, and a claim
    /// as often as a pod names it.
    fn is_taken(&self, hypothesis: &VolumeHypothesis<'_>, storage: &Storage) -> bool {
        if hypothesis.is_empty() || self.own_claims.is_empty() {
            return self.taken > 0;
        }
        let uses = |volumes: &PodVolumes| {
            volumes.named_claims().filter(|claim| self.own_claims.contains(*claim)).count()
        };
        let gone = hypothesis.without.iter().filter_map(|pod| storage.placed(*pod));
        let gone: usize = gone.map(|(_, volumes, _)| uses(volumes)).sum();
        let come: usize = hypothesis.with.iter().map(|pod| uses(pod.volumes)).sum();
        self.taken + come > gone
    }
}

/// A pod left that had a disk or a claim that the pod wants for itself, or a claim of its own came.
fn queueing_hint(hint: &Hint<'_>) -> bool {
    let Some(own) = hint.volumes else { return true };
    match hint.event.about {
        About::Node { .. } => true,
        About::Pod { old, volumes, .. } => {
            let Some(others) = volumes else { return true };
            if old.is_some_and(|gone| gone.name.namespace != hint.pod.name.namespace) {
                return false;
            }
            let disk = own.disks().any(|own| others.disks().any(|other| own.conflicts(other)));
            disk || own.named_claims().any(|own| others.named_claims().any(|other| own == other))
        }
        About::Thing { old, new } => new.or(old).is_none_or(|claim| hint.names_claim(own, claim)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PodId;
    use crate::plugins::volume_view::said;
    use kubernetes::labels::Labels;
    use serde_json::{Value, json};

    const TAKEN: &str = "VolumeRestrictions Unschedulable: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
    const CONFLICT: &str = "VolumeRestrictions Unschedulable: node(s) had no available disk";

    fn claim(namespace: &str, name: &str, mode: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": namespace, "name": name}, "spec": {"accessModes": [mode]}})
    }

    fn uses(claim: &str) -> Value {
        json!({"persistentVolumeClaim": {"claimName": claim}})
    }

    /// Asks for a pod in namespace `a` on node `n`, with other pods (by place: 0, 1, …) where they are.
    #[track_caller]
    fn check(
        objects: &[Value],
        placed: &[(&str, &str, Value)],
        pod: Value,
        (without, with): (&[u32], &[Value]),
        expected: &str,
    ) {
        let mut storage = Storage::of(objects);
        for (id, (node, namespace, volumes)) in placed.iter().enumerate() {
            let volumes = PodVolumes::of(json!([volumes]));
            storage.place(PodId(id as u32), &(*node).into(), &(*namespace).into(), &volumes);
        }
        let (namespace, volumes) = ("a".into(), PodVolumes::of(json!([pod])));
        let without: Vec<PodId> = without.iter().map(|id| PodId(*id)).collect();
        let with: Vec<Arc<PodVolumes>> = with.iter().map(|volume| PodVolumes::of(json!([volume]))).collect();
        let guests: Vec<VolumePod<'_>> =
            with.iter().map(|volumes| VolumePod { namespace: &namespace, volumes }).collect();
        let found = pre_filter(VolumePod { namespace: &namespace, volumes: &volumes }, &storage);
        let found = match found {
            Ok(None) => "skipped".to_owned(),
            Ok(Some(state)) => {
                let hypothesis = VolumeHypothesis { without: &without, with: &guests };
                let node = VolumeNode { name: &"n".into(), labels: &Labels::default() };
                match filter(&state, &node, &hypothesis, &storage) {
                    Ok(()) => "fits".to_owned(),
                    Err(refusal) => said(&refusal),
                }
            }
            Err(refusal) => said(&refusal),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_claim_for_one_pod_is_taken_wherever_that_pod_is() {
        let objects = [claim("a", "c", "ReadWriteOncePod")];
        check(&objects, &[], uses("c"), (&[], &[]), "skipped");
        check(&objects, &[("far", "a", uses("c"))], uses("c"), (&[], &[]), TAKEN);
        check(&objects, &[("far", "b", uses("c"))], uses("c"), (&[], &[]), "skipped");
        let objects = [claim("a", "c", "ReadWriteOnce")];
        check(&objects, &[("far", "a", uses("c"))], uses("c"), (&[], &[]), "skipped");
    }

    #[test]
    fn a_hypothesis_counts_by_the_name_of_the_claim_alone() {
        let objects = [claim("a", "c", "ReadWriteOncePod")];
        let placed = [("n", "a", uses("c")), ("n", "b", uses("c"))];
        check(&objects, &placed, uses("c"), (&[0], &[]), "fits");
        check(&objects, &placed, uses("c"), (&[1], &[]), "fits");
        check(&objects, &placed, uses("c"), (&[0], &[uses("c")]), TAKEN);
        check(&objects, &placed, uses("c"), (&[], &[uses("d")]), TAKEN);
    }

    #[test]
    fn a_disk_is_in_the_way_only_on_its_node() {
        let disk = || json!({"awsElasticBlockStore": {"volumeID": "v"}});
        check(&[], &[("n", "b", disk())], disk(), (&[], &[]), CONFLICT);
        check(&[], &[("far", "b", disk())], disk(), (&[], &[]), "fits");
        check(&[], &[("n", "b", disk())], disk(), (&[0], &[]), "fits");
        check(&[], &[], disk(), (&[], &[disk()]), CONFLICT);
    }

    #[test]
    fn a_claim_must_be_there_and_make_sense() {
        let missing =
            "VolumeRestrictions UnschedulableAndUnresolvable: persistentvolumeclaim \"c\" not found";
        check(&[], &[], uses("c"), (&[], &[]), missing);
        let bad = "VolumeRestrictions UnschedulableAndUnresolvable: PersistentVolumeClaim a/c: spec.accessModes: invalid type: integer `1`, expected a sequence";
        let mut claim = claim("a", "c", "");
        claim["spec"]["accessModes"] = 1.into();
        check(&[claim], &[], uses("c"), (&[], &[]), bad);
    }
}

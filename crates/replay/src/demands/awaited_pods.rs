//! The pods that one owner is expected to create.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Moment;
use simulation::{DemandAnnotation, DemandId};

use super::encoding::{Field, fields};

/// A pod that its owner is expected to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AwaitedPod {
    pub(super) demand: DemandId,
    /// It recreates an evicted pod; otherwise it follows one that ended.
    pub(super) is_replacement: bool,
    /// Since when it is expected.
    pub(super) since: Moment,
    /// When the previous pod of the same name was deleted, where names are reused.
    pub(super) predecessor_deleted: Option<Moment>,
    /// The name of the evicted pod; `None` if it follows one that ended. Only StatefulSets reuse it.
    pub(super) pod_name: Option<Arc<str>>,
    /// The revision hash of the pod's template, where the owner has several.
    pub(super) revision: Option<Arc<str>>,
    /// The demand that the previous pod's annotation names.
    pub(super) demand_annotation: Option<DemandAnnotation>,
}

fields!(AwaitedPod {
    demand,
    is_replacement,
    since,
    predecessor_deleted,
    pod_name,
    revision,
    demand_annotation
});

/// The awaited pods of an owner, in the order in which they were added. Where several match, the first is meant.
#[derive(Debug, Default)]
pub(super) struct AwaitedPods {
    /// By number.
    pods: BTreeMap<u64, AwaitedPod>,
    /// The numbers of pods by their keys. An owner may await thousands of pods at once.
    numbers: BTreeSet<(AwaitedKey, u64)>,
    /// The number of pods ever added.
    added: u64,
}

/// A property by which awaited pods are found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AwaitedKey {
    Replacement,
    Demand(DemandId),
    /// The demand that the previous pod's annotation names, of a replacement or of another pod.
    Annotation {
        is_replacement: bool,
        demand: DemandId,
    },
    Name(Arc<str>),
}

// === impl AwaitedPod ===

impl AwaitedPod {
    fn keys(&self) -> impl Iterator<Item = AwaitedKey> {
        let is_replacement = self.is_replacement;
        let annotation = self.demand_annotation;
        [
            is_replacement.then_some(AwaitedKey::Replacement),
            Some(AwaitedKey::Demand(self.demand)),
            annotation.map(|annotation| AwaitedKey::Annotation { is_replacement, demand: annotation.demand }),
            self.pod_name.clone().map(AwaitedKey::Name),
        ]
        .into_iter()
        .flatten()
    }
}

// === impl AwaitedPods ===

impl AwaitedPods {
    pub(super) fn push(&mut self, pod: AwaitedPod) {
        self.added += 1;
        self.numbers.extend(pod.keys().map(|key| (key, self.added)));
        self.pods.insert(self.added, pod);
    }

    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &AwaitedPod> {
        self.pods.values()
    }

    /// Whether one of them recreates an evicted pod.
    pub(super) fn has_replacement(&self) -> bool {
        self.find(AwaitedKey::Replacement).is_some()
    }

    /// Whether one of them is annotated.
    pub(super) fn has_annotation(&self) -> bool {
        let least = AwaitedKey::Annotation { is_replacement: false, demand: DemandId(0) };
        let next = self.numbers.range((least, 0)..).next();
        next.is_some_and(|(key, _)| matches!(key, AwaitedKey::Annotation { .. }))
    }

    pub(super) fn take_first(&mut self) -> Option<AwaitedPod> {
        let number = *self.pods.first_key_value()?.0;
        self.remove(number)
    }

    /// Takes the first replacement, or else the first pod.
    pub(super) fn take_next(&mut self) -> Option<AwaitedPod> {
        match self.find(AwaitedKey::Replacement) {
            Some(number) => self.remove(number),
            None => self.take_first(),
        }
    }

    /// Takes the pod with this name.
    pub(super) fn take_named(&mut self, name: &str) -> Option<AwaitedPod> {
        let number = self.find(AwaitedKey::Name(name.into()))?;
        self.remove(number)
    }

    /// Takes the first pod that this annotation names: a replacement by `demand`, another pod by `after`.
    pub(super) fn take_annotated(&mut self, annotation: DemandAnnotation) -> Option<AwaitedPod> {
        let find = |is_replacement, demand| self.find(AwaitedKey::Annotation { is_replacement, demand });
        let replacement = find(true, annotation.demand);
        let follower = annotation.after.and_then(|after| find(false, after));
        let number = replacement.into_iter().chain(follower).min()?;
        self.remove(number)
    }

    /// Notes when the previous pod of this name was deleted.
    pub(super) fn set_predecessor_deleted(&mut self, name: &str, at: Moment) {
        let number = self.find(AwaitedKey::Name(name.into()));
        if let Some(pod) = number.and_then(|number| self.pods.get_mut(&number)) {
            pod.predecessor_deleted = Some(at);
        }
    }

    /// Removes the pods of a demand.
    pub(super) fn remove_demand(&mut self, demand: DemandId) {
        while let Some(number) = self.find(AwaitedKey::Demand(demand)) {
            self.remove(number);
        }
    }

    /// The number of the first pod with a key.
    fn find(&self, key: AwaitedKey) -> Option<u64> {
        let least = (key, 0);
        let (key, number) = self.numbers.range(&least..).next()?;
        (*key == least.0).then_some(*number)
    }

    fn remove(&mut self, number: u64) -> Option<AwaitedPod> {
        let pod = self.pods.remove(&number)?;
        for key in pod.keys() {
            self.numbers.remove(&(key, number));
        }
        Some(pod)
    }
}

impl Field for AwaitedPods {
    fn write(&self, to: &mut Vec<u8>) {
        (self.pods.len() as u64).write(to);
        self.iter().for_each(|pod| pod.write(to));
    }

    fn read(from: &mut &[u8]) -> Option<AwaitedPods> {
        let mut awaited = AwaitedPods::default();
        Vec::read(from)?.into_iter().for_each(|pod| awaited.push(pod));
        Some(awaited)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Operation {
        Push(AwaitedPod),
        TakeFirst,
        TakeNext,
        TakeNamed(Arc<str>),
        TakeAnnotated(DemandAnnotation),
        SetPredecessorDeleted(Arc<str>),
        RemoveDemand(DemandId),
        Store,
    }

    /// Few different values, so that many pods match.
    fn demand() -> impl Strategy<Value = DemandId> {
        (0..4_u64).prop_map(DemandId)
    }

    fn name() -> impl Strategy<Value = Arc<str>> {
        (0..4_u64).prop_map(|number| format!("pod-{number}").into())
    }

    fn annotation() -> impl Strategy<Value = DemandAnnotation> {
        (demand(), option::of(demand())).prop_map(|(demand, after)| DemandAnnotation { demand, after })
    }

    fn awaited_pod() -> impl Strategy<Value = AwaitedPod> {
        let fields = (demand(), any::<bool>(), any::<i64>(), option::of(name()), option::of(annotation()));
        fields.prop_map(|(demand, is_replacement, since, pod_name, demand_annotation)| AwaitedPod {
            demand,
            is_replacement,
            since: Moment::from_nanos(since),
            predecessor_deleted: None,
            pod_name,
            revision: None,
            demand_annotation,
        })
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            4 => awaited_pod().prop_map(Operation::Push),
            1 => Just(Operation::TakeFirst),
            1 => Just(Operation::TakeNext),
            1 => name().prop_map(Operation::TakeNamed),
            1 => annotation().prop_map(Operation::TakeAnnotated),
            1 => name().prop_map(Operation::SetPredecessorDeleted),
            1 => demand().prop_map(Operation::RemoveDemand),
            1 => Just(Operation::Store),
        ]
    }

    fn take(pods: &mut Vec<AwaitedPod>, matches: impl Fn(&AwaitedPod) -> bool) -> Option<AwaitedPod> {
        let position = pods.iter().position(matches)?;
        Some(pods.remove(position))
    }

    proptest! {
        #[test]
        fn the_first_match_is_found(operations in vec(operation(), 0..80)) {
            let mut awaited = AwaitedPods::default();
            let mut list: Vec<AwaitedPod> = Vec::new();
            for operation in operations {
                match operation {
                    Operation::Push(pod) => {
                        awaited.push(pod.clone());
                        list.push(pod);
                    }
                    Operation::TakeFirst => prop_assert_eq!(awaited.take_first(), take(&mut list, |_| true)),
                    Operation::TakeNext => {
                        let next = take(&mut list, |pod| pod.is_replacement).or_else(|| take(&mut list, |_| true));
                        prop_assert_eq!(awaited.take_next(), next);
                    }
                    Operation::TakeNamed(name) => {
                        let named = take(&mut list, |pod| pod.pod_name.as_ref() == Some(&name));
                        prop_assert_eq!(awaited.take_named(&name), named);
                    }
                    Operation::TakeAnnotated(annotation) => {
                        let annotated = take(&mut list, |pod| {
                            let wanted = if pod.is_replacement { Some(annotation.demand) } else { annotation.after };
                            pod.demand_annotation.is_some_and(|found| Some(found.demand) == wanted)
                        });
                        prop_assert_eq!(awaited.take_annotated(annotation), annotated);
                    }
                    Operation::SetPredecessorDeleted(name) => {
                        let at = Moment::from_nanos(1);
                        awaited.set_predecessor_deleted(&name, at);
                        if let Some(pod) = list.iter_mut().find(|pod| pod.pod_name.as_ref() == Some(&name)) {
                            pod.predecessor_deleted = Some(at);
                        }
                    }
                    Operation::RemoveDemand(demand) => {
                        awaited.remove_demand(demand);
                        list.retain(|pod| pod.demand != demand);
                    }
                    Operation::Store => {
                        let mut stored = Vec::new();
                        awaited.write(&mut stored);
                        awaited = AwaitedPods::read(&mut &stored[..]).unwrap();
                    }
                }
                prop_assert!(awaited.iter().eq(&list) && awaited.len() == list.len());
                prop_assert_eq!(awaited.has_replacement(), list.iter().any(|pod| pod.is_replacement));
                prop_assert_eq!(awaited.has_annotation(), list.iter().any(|pod| pod.demand_annotation.is_some()));
            }
            list.iter().for_each(|_| drop(awaited.take_first()));
            prop_assert!(awaited.pods.is_empty() && awaited.numbers.is_empty());
        }
    }
}

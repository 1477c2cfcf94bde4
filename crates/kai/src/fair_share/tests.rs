//! The division, compared with a transcription of its published description that keeps nothing in mind but the text.

use std::sync::Arc;

use model::Moment;
use proptest::prelude::*;

use super::{DividedQueue, Quantities, QueueShare, divide};
use crate::cluster::queue::QueueResource;

/// A queue as the description has it, for one resource.
#[derive(Clone, Debug)]
struct PlainQueue {
    name: String,
    created: i64,
    priority: i64,
    quota: f64,
    limit: f64,
    weight: f64,
    request: f64,
    usage: f64,
    fair_share: f64,
}

impl PlainQueue {
    fn requestable(&self) -> f64 {
        if self.limit == -1.0 { self.request } else { self.limit.min(self.request) }
    }

    fn is_unsatisfied(&self) -> bool {
        self.request > self.fair_share && (self.limit == -1.0 || self.limit > self.fair_share)
    }
}

/// Shares a total among queues, as described.
fn share(total: f64, k: f64, queues: &mut [PlainQueue]) {
    let mut rest = total;
    for q in queues.iter_mut() {
        let d = if q.quota == -1.0 { total } else { q.quota };
        let g = d.min(q.requestable());
        q.fair_share += g;
        rest -= g;
    }
    if rest <= 0.0 {
        return;
    }
    let mut priorities: Vec<i64> = queues.iter().map(|q| q.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    priorities.reverse();
    let mut remainder: Vec<Option<f64>> = vec![None; queues.len()];
    for &priority in &priorities {
        let members: Vec<usize> = (0..queues.len()).filter(|i| queues[*i].priority == priority).collect();
        loop {
            let amount = rest;
            let mut w = 0.0;
            for &i in &members {
                if queues[i].requestable() - queues[i].fair_share > 0.0 {
                    w += queues[i].weight;
                }
            }
            if w == 0.0 {
                break;
            }
            let mut s = vec![0.0; queues.len()];
            let mut sum = 0.0;
            for &i in &members {
                if queues[i].is_unsatisfied() {
                    let own = queues[i].weight / w;
                    s[i] = f64::max(0.0, own + k * (own - queues[i].usage));
                    sum += s[i];
                }
            }
            if sum == 0.0 {
                break;
            }
            let mut again = false;
            for &i in &members {
                if rest == 0.0 {
                    break;
                }
                if !queues[i].is_unsatisfied() || queues[i].weight <= 0.0 {
                    continue;
                }
                let need = f64::max(0.0, queues[i].requestable() - queues[i].fair_share);
                let part = amount * (s[i] / sum);
                let give = if need <= part {
                    remainder[i] = None;
                    need
                } else {
                    let give = part.floor();
                    if part - give > 0.0 {
                        remainder[i] = Some(part - give);
                    }
                    give
                };
                if give == 0.0 {
                    continue;
                }
                queues[i].fair_share += give;
                rest -= give;
                again |= need < part;
            }
            if !again || rest == 0.0 {
                break;
            }
        }
    }
    for &priority in &priorities {
        let mut members: Vec<usize> = (0..queues.len())
            .filter(|i| queues[*i].priority == priority && remainder[*i].is_some())
            .collect();
        members.sort_by(|a, b| {
            let by_amount = remainder[*b].unwrap().total_cmp(&remainder[*a].unwrap());
            let by_age = queues[*a].created.cmp(&queues[*b].created);
            by_amount.then(by_age).then_with(|| queues[*a].name.cmp(&queues[*b].name))
        });
        for i in members {
            if rest <= 0.0 {
                break;
            }
            let g = f64::min(1.0, rest);
            queues[i].fair_share += g;
            rest -= g;
        }
    }
}

fn amount() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(-1.0),
        (0..40_i32).prop_map(f64::from),
        (0..400_i32).prop_map(|n| f64::from(n) / 10.0)
    ]
}

fn queue() -> impl Strategy<Value = PlainQueue> {
    let request =
        prop_oneof![(0..60_i32).prop_map(f64::from), (0..600_i32).prop_map(|n| f64::from(n) / 10.0)];
    let usage = prop_oneof![3 => Just(0.0), 1 => (0..100_i32).prop_map(|n| f64::from(n) / 100.0)];
    let weight = prop_oneof![1 => Just(0.0), 4 => (1..6_i32).prop_map(f64::from)];
    (amount(), amount(), weight, request, usage, 0..3_i64, 0..4_i64).prop_map(
        |(quota, limit, weight, request, usage, priority, created)| PlainQueue {
            name: String::new(),
            created,
            priority,
            quota,
            limit,
            weight,
            request,
            usage,
            fair_share: 0.0,
        },
    )
}

/// Divides with our code.
fn divided(total: f64, k: f64, queues: &[PlainQueue]) -> Vec<f64> {
    let names: Vec<Arc<str>> = queues.iter().map(|queue| queue.name.as_str().into()).collect();
    let mut shares: Vec<QueueShare> = queues
        .iter()
        .map(|queue| {
            let resource =
                QueueResource { quota: queue.quota, limit: queue.limit, over_quota_weight: queue.weight };
            let mut share = QueueShare::new(&[resource; 3]);
            for resource in &mut share.resources {
                (resource.request, resource.usage) = (queue.request, queue.usage);
            }
            share
        })
        .collect();
    let mut divided: Vec<DividedQueue<'_>> = queues
        .iter()
        .zip(&names)
        .zip(&mut shares)
        .map(|((queue, name), share)| {
            let created = Some(Moment::from_nanos(queue.created));
            DividedQueue { name, priority: queue.priority, created, share }
        })
        .collect();
    divide(&Quantities([total; 3]), k, &mut divided);
    for share in &shares {
        let [cpu, memory, gpu] = share.fair_share().0;
        assert_eq!((cpu, memory), (gpu, gpu), "resources are divided in the same way");
    }
    shares.iter().map(|share| share.fair_share().0[0]).collect()
}

/// Divides a total, then what each queue gets among its children, level by level, and compares both divisions.
fn check_tree(total: f64, k: f64, levels: &[Vec<PlainQueue>]) {
    let Some((first, below)) = levels.split_first() else { return };
    let mut queues = first.clone();
    for (index, queue) in queues.iter_mut().enumerate() {
        queue.name = format!("q-{index}");
    }
    let ours = divided(total, k, &queues);
    share(total, k, &mut queues);
    let theirs: Vec<f64> = queues.iter().map(|queue| queue.fair_share).collect();
    assert_eq!(ours, theirs, "{total} divided among {queues:#?}");
    for fair_share in ours {
        check_tree(fair_share, k, below);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn trees_of_queues_are_divided_as_described(
        total in prop_oneof![(0..100_i32).prop_map(f64::from), (0..1000_i32).prop_map(|n| f64::from(n) / 10.0)],
        k in prop_oneof![Just(0.0), Just(0.5), Just(1.0), Just(2.0)],
        levels in prop::collection::vec(prop::collection::vec(queue(), 1..5), 1..4),
    ) {
        check_tree(total, k, &levels);
    }

    /// Quotas are given even if there is less; nothing else is.
    #[test]
    fn no_more_is_given_than_there_is_or_quotas_demand(
        total in (0..100_i32).prop_map(f64::from),
        queues in prop::collection::vec(queue(), 1..6),
    ) {
        let quotas: f64 = queues
            .iter()
            .map(|queue| if queue.quota == -1.0 { total } else { queue.quota }.min(queue.requestable()))
            .sum();
        let given: f64 = divided(total, 1.0, &queues).iter().sum();
        prop_assert!(given <= total.max(quotas) + 1e-6, "{given} of {total}, quotas {quotas}");
    }
}

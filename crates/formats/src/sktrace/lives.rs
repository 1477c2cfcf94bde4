//! When pods' lives begin and end, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kubernetes::pod_lives::Ran;
use model::Moment;

use super::outline::Life;

pub(super) struct Lives {
    /// By when they begin.
    lives: Vec<Life>,
    /// How many have begun.
    begun: usize,
    /// When those that have begun end.
    ends: BinaryHeap<Reverse<(Moment, usize)>>,
}

/// Something in the life of a pod.
pub(super) struct Turn {
    pub(super) at: Moment,
    /// The life's place in the list.
    pub(super) life: usize,
    /// What is known of it from now on.
    pub(super) ran: Ran,
}

// === impl Lives ===

impl Lives {
    pub(super) fn new(mut lives: Vec<Life>) -> Lives {
        // Those with the same beginning stay in the order of the trace.
        lives.sort_by_key(|life| start(life.ran));
        Lives { lives, begun: 0, ends: BinaryHeap::new() }
    }

    pub(super) fn get(&self, life: usize) -> &Life {
        &self.lives[life]
    }

    /// The next turn, if it comes before or at `until`.
    pub(super) fn next(&mut self, until: Moment) -> Option<Turn> {
        let begins = self.lives.get(self.begun).map(|life| start(life.ran));
        let ends = self.ends.peek().map(|Reverse((at, _))| *at);
        let at = begins.into_iter().chain(ends).min().filter(|at| *at <= until)?;
        if ends == Some(at) {
            let Reverse((_, life)) = self.ends.pop().expect("it was there a line ago");
            return Some(Turn { at, life, ran: self.lives[life].ran });
        }
        let life = self.begun;
        self.begun += 1;
        let ran = match self.lives[life].ran {
            Ran::Between(start, end) => {
                // Clocks that disagree let a pod end before it begins.
                self.ends.push(Reverse((end.max(start), life)));
                Ran::Since(start)
            }
            ran => ran,
        };
        Some(Turn { at, life, ran })
    }
}

/// When a pod started; before everything if it never did.
pub(super) fn start(ran: Ran) -> Moment {
    match ran {
        Ran::Not => Moment::MIN,
        Ran::Since(start) | Ran::Between(start, _) => start,
    }
}

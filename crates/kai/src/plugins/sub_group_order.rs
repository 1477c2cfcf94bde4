//! Plugin subgrouporder: subgroups that have fewer members than they need first, then by the part that they have.

use std::cmp::Ordering;

use crate::cluster::sub_group::{Member, SubGroupTree};

pub(crate) fn compare_members(tree: &SubGroupTree, left: Member, right: Member) -> Ordering {
    compare_allocations(tree.allocation(left), tree.allocation(right))
}

/// Compares the numbers of members that subgroups have and need.
fn compare_allocations((left, left_needed): (i64, i64), (right, right_needed): (i64, i64)) -> Ordering {
    match (left >= left_needed, right >= right_needed) {
        (false, false) => return Ordering::Equal,
        (false, true) => return Ordering::Less,
        (true, false) => return Ordering::Greater,
        (true, true) => {}
    }
    match (left_needed, right_needed) {
        (0, 0) => left.cmp(&right),
        (0, needed) if needed > 0 => Ordering::Greater,
        (needed, 0) if needed > 0 => Ordering::Less,
        _ => {
            let (left, right) = (left as f64 / left_needed as f64, right as f64 / right_needed as f64);
            left.partial_cmp(&right).unwrap_or(Ordering::Equal)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_neediest_comes_first() {
        assert_eq!(compare_allocations((0, 1), (1, 1)), Ordering::Less);
        assert_eq!(compare_allocations((0, 2), (1, 2)), Ordering::Equal);
        assert_eq!(compare_allocations((2, 2), (3, 2)), Ordering::Less);
        assert_eq!(compare_allocations((0, 0), (1, 1)), Ordering::Greater);
        assert_eq!(compare_allocations((1, 0), (2, 0)), Ordering::Less);
    }
}

//! The assignment of demands to what can hold them, the largest to the first that is large enough.

/// Whether all demands, the largest first, find a holder. Holders are looked at in their order as long as their whole
/// capacity is enough.
pub(super) fn all_match(demands: &[f64], capacities: &[f64]) -> bool {
    let mut taken = vec![0.0; capacities.len()];
    for &demand in demands {
        if demand == 0.0 {
            return true;
        }
        let large_enough = capacities.iter().zip(&mut taken).take_while(|(capacity, _)| **capacity >= demand);
        let mut with_room = large_enough.filter(|(capacity, taken)| **capacity - **taken >= demand);
        match with_room.next() {
            Some((_, taken)) => *taken += demand,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_takes_as_much_as_it_has() {
        assert!(all_match(&[2.0, 2.0, 1.0], &[4.0, 1.0]));
        assert!(!all_match(&[2.0, 2.0, 1.0], &[4.0]));
        assert!(!all_match(&[3.0], &[2.0, 2.0]));
        assert!(all_match(&[0.0], &[]));
    }
}

//! The assignment of demands to what can hold them, the largest to the first that is large enough.

/// Whether all demands, the largest first, find a holder. Holders are looked at in their order as long as their whole
/// capacity is enough.
pub(super) fn all_match(demands: &[f64], capacities: &[f64]) -> bool {
    let mut taken = vec![0.0; capacities.len()];
    // Holders before this one have no room for the present demand.
    let (mut first, mut last_demand) = (0, f64::NAN);
    for &demand in demands {
        if demand == 0.0 {
            return true;
        }
        if demand != last_demand {
            (first, last_demand) = (0, demand);
        }
        let has_room = |index: &usize| capacities[*index] - taken[*index] >= demand;
        let mut large_enough = (first..capacities.len()).take_while(|index| capacities[*index] >= demand);
        match large_enough.find(has_room) {
            Some(index) => {
                taken[index] += demand;
                first = index;
            }
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

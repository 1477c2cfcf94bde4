//! Functions of Go's standard library on which kube-scheduler's decisions depend (which of several equally scored
//! nodes is chosen, the last bit of a logarithm, the order of equal pods), and on which messages do.

pub mod base64;
pub mod duration;
pub mod json;
mod sort;
pub mod text;
pub mod timestamp;

pub use sort::sort;

/// The index of the highest score, as `container/heap` puts it on top. Among equal scores that is neither the first
/// nor the last; it depends on the heap's structure.
///
/// `heap` is a scratch buffer; its contents are overwritten.
pub fn heap_top(scores: &[i64], heap: &mut Vec<u32>) -> Option<usize> {
    let count = scores.len();
    heap.clear();
    heap.extend(0..count as u32);
    let higher = |a: u32, b: u32| scores[a as usize] > scores[b as usize];
    for start in (0..count / 2).rev() {
        let mut parent = start;
        loop {
            let mut child = 2 * parent + 1;
            if child >= count {
                break;
            }
            if child + 1 < count && higher(heap[child + 1], heap[child]) {
                child += 1;
            }
            if !higher(heap[child], heap[parent]) {
                break;
            }
            heap.swap(parent, child);
            parent = child;
        }
    }
    heap.first().map(|&first| first as usize)
}

/// The natural logarithm of a positive number. Go's differs from the C library's in the last bit for some inputs, and
/// a sum of such bits can decide between two nodes.
pub fn ln(x: f64) -> f64 {
    const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
    const LN2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
    const L1: f64 = f64::from_bits(0x3fe5_5555_5555_5593);
    const L2: f64 = f64::from_bits(0x3fd9_9999_9997_fa04);
    const L3: f64 = f64::from_bits(0x3fd2_4924_9422_9359);
    const L4: f64 = f64::from_bits(0x3fcc_71c5_1d8e_78af);
    const L5: f64 = f64::from_bits(0x3fc7_4664_96cb_03de);
    const L6: f64 = f64::from_bits(0x3fc3_9a09_d078_c69f);
    const L7: f64 = f64::from_bits(0x3fc2_f112_df3e_5244);
    debug_assert!(x.is_normal() && x > 0.0, "the argument is a positive count");

    // x = fraction × 2^exponent, with the fraction between √2/2 and √2.
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1022;
    let mut fraction = f64::from_bits((bits & !(0x7ff << 52)) | (1022 << 52));
    if fraction < std::f64::consts::FRAC_1_SQRT_2 {
        fraction *= 2.0;
        exponent -= 1;
    }
    let (f, k) = (fraction - 1.0, exponent as f64);
    let s = f / (2.0 + f);
    let s2 = s * s;
    let s4 = s2 * s2;
    let t1 = s2 * (L1 + s4 * (L3 + s4 * (L5 + s4 * L7)));
    let t2 = s4 * (L2 + s4 * (L4 + s4 * L6));
    let r = t1 + t2;
    let half = 0.5 * f * f;
    k * LN2_HIGH - ((half - (s * (half + r) + k * LN2_LOW)) - f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_first(scores: &[i64], first: usize) {
        assert_eq!(heap_top(scores, &mut Vec::new()), Some(first), "{scores:?}");
    }

    #[test]
    fn the_top_is_the_one_that_go_would_pop() {
        check_first(&[5, 5, 5, 5, 5], 0);
        check_first(&[1, 3, 3, 2, 3], 1);
        check_first(&[1, 2, 3, 3, 3, 3], 3);
        check_first(&[2, 2, 2, 3, 3, 3, 3], 3);
        check_first(&[1, 1, 1, 1, 1, 1, 9, 9, 9, 9], 7);
        check_first(&[1, 9, 9], 1);
        check_first(&[1, 1, 9, 9, 9, 1, 9], 3);
        assert_eq!(heap_top(&[], &mut Vec::new()), None);
    }

    #[test]
    fn logarithms_are_go_s_to_the_last_bit() {
        assert_eq!(ln(3.0).to_bits(), 0x3ff1_93ea_7aad_030a);
        assert_eq!(ln(12.0).to_bits(), 0x4003_e116_bcd3_9e7d);
        assert_eq!(ln(5002.0).to_bits(), 0x4021_0901_f6dc_84b9);
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(ln(2.0), std::f64::consts::LN_2);
    }
}

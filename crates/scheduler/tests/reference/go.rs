//! Go's heap and logarithm, whose results differ from other implementations.

/// The index of the total at the top of Go's heap over the list.
pub(crate) fn top(totals: &[i64]) -> usize {
    let mut heap: Vec<usize> = (0..totals.len()).collect();
    for start in (0..heap.len() / 2).rev() {
        sink(&mut heap, totals, start);
    }
    heap[0]
}

fn sink(heap: &mut [usize], totals: &[i64], at: usize) {
    let (left, right) = (2 * at + 1, 2 * at + 2);
    if left >= heap.len() {
        return;
    }
    let better = |a: usize, b: usize| totals[heap[a]] > totals[heap[b]];
    let child = if right < heap.len() && better(right, left) { right } else { left };
    if better(child, at) {
        heap.swap(at, child);
        sink(heap, totals, child);
    }
}

/// The natural logarithm of an integer.
pub(crate) fn ln(x: f64) -> f64 {
    let (mut fraction, mut k) = (x, 0.0);
    while fraction >= 1.0 {
        fraction /= 2.0;
        k += 1.0;
    }
    if fraction < std::f64::consts::FRAC_1_SQRT_2 {
        fraction *= 2.0;
        k -= 1.0;
    }
    let l = [
        0x3FE5_5555_5555_5593,
        0x3FD9_9999_9997_FA04,
        0x3FD2_4924_9422_9359,
        0x3FCC_71C5_1D8E_78AF,
        0x3FC7_4664_96CB_03DE,
        0x3FC3_9A09_D078_C69F,
        0x3FC2_F112_DF3E_5244,
    ]
    .map(f64::from_bits);
    let (high, low) = (f64::from_bits(0x3fe6_2e42_fee0_0000), f64::from_bits(0x3dea_39ef_3579_3c76));
    let f = fraction - 1.0;
    let s = f / (2.0 + f);
    let (s2, s4) = (s * s, (s * s) * (s * s));
    let t1 = s2 * (l[0] + s4 * (l[2] + s4 * (l[4] + s4 * l[6])));
    let t2 = s4 * (l[1] + s4 * (l[3] + s4 * l[5]));
    let h = 0.5 * f * f;
    k * high - ((h - (s * (h + (t1 + t2)) + k * low)) - f)
}

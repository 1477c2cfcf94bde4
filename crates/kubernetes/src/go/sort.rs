//! Go's `sort.Slice`: a pattern-defeating quicksort. It is not stable, so the order of equal items depends on the
//! algorithm; and kube-scheduler's comparison calls each of two equal pods the lesser, so every comparison counts.

/// Sorts as Go's `sort.Slice` does, step by step; `less` need not be a consistent order.
pub fn sort<T>(items: &mut [T], less: impl Fn(&T, &T) -> bool) {
    let (end, bad_pivots_allowed) = (items.len(), usize::BITS - items.len().leading_zeros());
    Sorter { items, less }.pdqsort(0, end, bad_pivots_allowed);
}

const MAX_INSERTION: usize = 12;
const SHORTEST_NINTHER: usize = 50;
const SHORTEST_SHIFTING: usize = 50;
const MAX_STEPS: usize = 5;

struct Sorter<'a, T, F> {
    items: &'a mut [T],
    less: F,
}

#[derive(PartialEq)]
enum SortedHint {
    Increasing,
    Decreasing,
    Unknown,
}

impl<T, F: Fn(&T, &T) -> bool> Sorter<'_, T, F> {
    fn less(&self, a: usize, b: usize) -> bool {
        (self.less)(&self.items[a], &self.items[b])
    }

    fn pdqsort(&mut self, mut start: usize, mut end: usize, mut bad_pivots_allowed: u32) {
        let (mut balanced, mut partitioned) = (true, true);
        loop {
            let length = end - start;
            if length <= MAX_INSERTION {
                return self.insertion_sort(start, end);
            }
            if bad_pivots_allowed == 0 {
                return self.heap_sort(start, end);
            }
            if !balanced {
                self.break_patterns(start, end);
                bad_pivots_allowed -= 1;
            }
            let (mut pivot, mut hint) = self.choose_pivot(start, end);
            if hint == SortedHint::Decreasing {
                self.items[start..end].reverse();
                pivot = (end - 1) - (pivot - start);
                hint = SortedHint::Increasing;
            }
            if balanced
                && partitioned
                && hint == SortedHint::Increasing
                && self.partial_insertion_sort(start, end)
            {
                return;
            }
            // The item before is a pivot of an earlier round: nothing here is less than it.
            if start > 0 && !self.less(start - 1, pivot) {
                start = self.partition_equal(start, end, pivot);
                continue;
            }
            let middle;
            (middle, partitioned) = self.partition(start, end, pivot);
            let (left, right) = (middle - start, end - middle);
            balanced = left.min(right) >= length / 8;
            if left < right {
                self.pdqsort(start, middle, bad_pivots_allowed);
                start = middle + 1;
            } else {
                self.pdqsort(middle + 1, end, bad_pivots_allowed);
                end = middle;
            }
        }
    }

    fn insertion_sort(&mut self, start: usize, end: usize) {
        for next in start + 1..end {
            let mut position = next;
            while position > start && self.less(position, position - 1) {
                self.items.swap(position, position - 1);
                position -= 1;
            }
        }
    }

    fn heap_sort(&mut self, start: usize, end: usize) {
        let length = end - start;
        for root in (0..=(length - 1) / 2).rev() {
            self.sift_down(root, length, start);
        }
        for last in (0..length).rev() {
            self.items.swap(start, start + last);
            self.sift_down(0, last, start);
        }
    }

    fn sift_down(&mut self, mut root: usize, length: usize, start: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= length {
                return;
            }
            if child + 1 < length && self.less(start + child, start + child + 1) {
                child += 1;
            }
            if !self.less(start + root, start + child) {
                return;
            }
            self.items.swap(start + root, start + child);
            root = child;
        }
    }

    /// Moves items less than the pivot before it; returns the pivot's index, and whether the range was already
    /// partitioned.
    fn partition(&mut self, start: usize, end: usize, pivot: usize) -> (usize, bool) {
        self.items.swap(start, pivot);
        let (mut low, mut high) = (start + 1, end - 1);
        let mut swapped = false;
        loop {
            while low <= high && self.less(low, start) {
                low += 1;
            }
            while low <= high && !self.less(high, start) {
                high -= 1;
            }
            if low > high {
                self.items.swap(high, start);
                return (high, !swapped);
            }
            self.items.swap(low, high);
            swapped = true;
            low += 1;
            high -= 1;
        }
    }

    /// Moves items equal to the pivot before greater ones; returns the index of the first greater one.
    fn partition_equal(&mut self, start: usize, end: usize, pivot: usize) -> usize {
        self.items.swap(start, pivot);
        let (mut low, mut high) = (start + 1, end - 1);
        loop {
            while low <= high && !self.less(start, low) {
                low += 1;
            }
            while low <= high && self.less(start, high) {
                high -= 1;
            }
            if low > high {
                return low;
            }
            self.items.swap(low, high);
            low += 1;
            high -= 1;
        }
    }

    /// Shifts up to [`MAX_STEPS`] items; returns whether the range is sorted then.
    fn partial_insertion_sort(&mut self, start: usize, end: usize) -> bool {
        let mut at = start + 1;
        for _ in 0..MAX_STEPS {
            while at < end && !self.less(at, at - 1) {
                at += 1;
            }
            if at == end {
                return true;
            }
            if end - start < SHORTEST_SHIFTING {
                return false;
            }
            self.items.swap(at, at - 1);
            if at - start >= 2 {
                // Down to the first item of the slice, wherever this range begins.
                let mut position = at - 1;
                while position >= 1 && self.less(position, position - 1) {
                    self.items.swap(position, position - 1);
                    position -= 1;
                }
            }
            if end - at >= 2 {
                let mut position = at + 1;
                while position < end && self.less(position, position - 1) {
                    self.items.swap(position, position - 1);
                    position += 1;
                }
            }
        }
        false
    }

    /// Scatters three items, deterministically.
    fn break_patterns(&mut self, start: usize, end: usize) {
        let length = end - start;
        let mut random = length as u64;
        let mask = (1_usize << (usize::BITS - length.leading_zeros())) - 1;
        let middle = start + (length / 4) * 2;
        for position in middle - 1..=middle + 1 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let other = random as usize & mask;
            let other = if other >= length { other - length } else { other };
            self.items.swap(position, start + other);
        }
    }

    fn choose_pivot(&mut self, start: usize, end: usize) -> (usize, SortedHint) {
        let (quarter, mut swaps) = ((end - start) / 4, 0);
        let mut candidates = [start + quarter, start + quarter * 2, start + quarter * 3];
        if end - start >= SHORTEST_NINTHER {
            for position in &mut candidates {
                *position = self.median([*position - 1, *position, *position + 1], &mut swaps);
            }
        }
        let pivot = self.median(candidates, &mut swaps);
        let hint = match swaps {
            0 => SortedHint::Increasing,
            12 => SortedHint::Decreasing,
            _ => SortedHint::Unknown,
        };
        (pivot, hint)
    }

    fn median(&self, [mut a, mut b, mut c]: [usize; 3], swaps: &mut u32) -> usize {
        let order = |a: &mut usize, b: &mut usize, swaps: &mut u32| {
            if self.less(*b, *a) {
                *swaps += 1;
                std::mem::swap(a, b);
            }
        };
        order(&mut a, &mut b, swaps);
        order(&mut b, &mut c, swaps);
        order(&mut a, &mut b, swaps);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Length, pattern, and the hash of the result of Go's `sort.Slice`.
    const PRINTED_BY_GO: [(u32, u32, u64); 14] = [
        (5, 0, 0x3a29_8c78_3292_5147),
        (13, 0, 0x3492_8e5f_2e50_ebb7),
        (13, 3, 0x6837_e58f_b5ac_1dbf),
        (20, 3, 0x2835_9c10_271c_8449),
        (49, 0, 0xaf7e_eca5_0719_cc1b),
        (51, 1, 0xeb28_889f_09b1_7db4),
        (51, 3, 0xd3b5_9070_345f_8528),
        (100, 0, 0x2c99_2930_ec09_3839),
        (300, 2, 0xe658_b3a2_3354_3a99),
        (300, 3, 0xfe2c_6235_a08b_041d),
        (1000, 0, 0xfca0_2ada_6c31_7c25),
        (1000, 1, 0xf866_e263_3b63_feb5),
        (1000, 2, 0x3d45_87be_9552_65dd),
        (1000, 3, 0x4a0d_75a3_713a_a58f),
    ];

    #[test]
    fn equals_end_up_where_go_puts_them() {
        for (count, pattern, expected) in PRINTED_BY_GO {
            let mut x = count * 7 + pattern;
            let mut items: Vec<u32> = (0..count)
                .map(|index| {
                    x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let key = match pattern {
                        1 => count - index,
                        2 => index / 3,
                        _ => (x >> 16) % (1 + count / 3),
                    };
                    key << 16 | index
                })
                .collect();
            // The last pattern calls each of two equal items the lesser.
            sort(&mut items, |a, b| if pattern == 3 { a >> 16 <= b >> 16 } else { a >> 16 < b >> 16 });
            let hash = items.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &item| {
                (hash ^ u64::from(item)).wrapping_mul(0x100_0000_01b3)
            });
            assert_eq!(hash, expected, "{count} items, pattern {pattern}");
        }
    }
}

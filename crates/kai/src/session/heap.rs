//! A heap as Go's `container/heap`: which of several equal elements comes first depends on its exact steps.

/// Adds an element.
pub(crate) fn push<T>(heap: &mut Vec<T>, element: T, mut less: impl FnMut(&T, &T) -> bool) {
    heap.push(element);
    let last = heap.len() - 1;
    up(heap, last, &mut less);
}

/// Removes the first element.
pub(crate) fn pop<T>(heap: &mut Vec<T>, mut less: impl FnMut(&T, &T) -> bool) -> Option<T> {
    let last = heap.len().checked_sub(1)?;
    heap.swap(0, last);
    down(heap, 0, last, &mut less);
    heap.pop()
}

/// Removes the element at an index.
pub(crate) fn remove<T>(heap: &mut Vec<T>, index: usize, mut less: impl FnMut(&T, &T) -> bool) -> Option<T> {
    let last = heap.len().checked_sub(1).filter(|last| index <= *last)?;
    if index != last {
        heap.swap(index, last);
        if !down(heap, index, last, &mut less) {
            up(heap, index, &mut less);
        }
    }
    heap.pop()
}

/// Moves the element at an index to its place after it changed.
pub(crate) fn fix<T>(heap: &mut [T], index: usize, mut less: impl FnMut(&T, &T) -> bool) {
    if !down(heap, index, heap.len(), &mut less) {
        up(heap, index, &mut less);
    }
}

fn up<T>(heap: &mut [T], mut child: usize, less: &mut impl FnMut(&T, &T) -> bool) {
    while child > 0 {
        let parent = (child - 1) / 2;
        if !less(&heap[child], &heap[parent]) {
            break;
        }
        heap.swap(parent, child);
        child = parent;
    }
}

/// Returns whether the element moved.
fn down<T>(heap: &mut [T], start: usize, end: usize, less: &mut impl FnMut(&T, &T) -> bool) -> bool {
    let mut parent = start;
    loop {
        let left = 2 * parent + 1;
        if left >= end {
            break;
        }
        let right = left + 1;
        let child = if right < end && less(&heap[right], &heap[left]) { right } else { left };
        if !less(&heap[child], &heap[parent]) {
            break;
        }
        heap.swap(parent, child);
        parent = child;
    }
    parent > start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_in_order() {
        let less = |a: &u32, b: &u32| a < b;
        let mut heap = Vec::new();
        for element in [5, 3, 8, 1, 9, 2, 7] {
            push(&mut heap, element, less);
        }
        assert_eq!(remove(&mut heap, 1, less), Some(3));
        heap[0] = 6;
        fix(&mut heap, 0, less);
        let mut popped = Vec::new();
        while let Some(element) = pop(&mut heap, less) {
            popped.push(element);
        }
        assert_eq!(popped, [2, 5, 6, 7, 8, 9]);
        assert_eq!(remove(&mut heap, 0, less), None);
    }

    /// Where nothing is less than anything, the last element takes the place of a removed one.
    #[test]
    fn equal_elements_come_as_they_come_in_go() {
        let less = |_: &u32, _: &u32| false;
        let mut heap: Vec<u32> = (0..5).collect();
        assert_eq!(pop(&mut heap, less), Some(0));
        assert_eq!(heap, [4, 1, 2, 3]);
    }
}

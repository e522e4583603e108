//! Adjacency lists that need no further check, because a builder has written them or because they
//! are known to ascend.

use crate::adjacency::Adjacency;

/// Returns true if all lists ascend without repeats. The function [`super::from_lists`] then uses
/// them unchanged.
pub fn are_lists(offsets: &[u64], neighbours: &[u32]) -> bool {
    let mut lists = offsets.windows(2).map(|w| &neighbours[w[0] as usize..w[1] as usize]);
    lists.all(|list| list.is_sorted_by(|a, b| a < b))
}

/// Creates an adjacency from lists that a builder of this crate has written. They are not checked.
#[allow(unsafe_code)]
pub(crate) fn trusted(offsets: Vec<u64>, neighbours: Vec<u32>) -> Adjacency {
    // SAFETY: builders write ascending lists of existing vertices, and offsets that they have
    // counted.
    unsafe { Adjacency::from_parts_unchecked(offsets, neighbours) }
}

//! Vertex order by degree, in which vertices with many neighbours (hubs) come first.

use crate::adjacency::Graph;
use crate::links::Links;

/// Returns the vertices in the order of descending numbers of neighbours. Ties are in the order of
/// ids.
pub(super) fn order(graph: &Graph) -> Vec<u32> {
    let degrees = Links::new(graph).degrees();
    let most = degrees.iter().copied().max().unwrap_or(0);
    counting_sort(&degrees, most, |degree| most - degree)
}

/// Returns the vertices in the order of ascending numbers of neighbours. Ties are in the order of
/// ids.
pub(super) fn ascending(degrees: &[u32]) -> Vec<u32> {
    let most = degrees.iter().copied().max().unwrap_or(0);
    counting_sort(degrees, most, |degree| degree)
}

/// Returns the indices of `values`, sorted by `key`. Ties are in the order of indices. Neither the
/// values nor the keys exceed `most`. Degrees are below the number of vertices, and so is the
/// length of the count array.
fn counting_sort(values: &[u32], most: u32, key: impl Fn(u32) -> u32) -> Vec<u32> {
    let mut next = vec![0u32; most as usize + 2];
    for &value in values {
        next[key(value) as usize + 1] += 1;
    }
    for k in 0..=most as usize {
        next[k + 1] += next[k];
    }
    let mut sorted = vec![0u32; values.len()];
    for (at, &value) in values.iter().enumerate() {
        let slot = &mut next[key(value) as usize];
        sorted[*slot as usize] = at as u32;
        *slot += 1;
    }
    sorted
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::adjacency::Options;

    #[test]
    fn hubs_first_and_ties_by_id() {
        let edges = [(4, 0), (4, 1), (4, 2), (1, 2), (2, 5)];
        let graph = Graph::from_edges(7, edges.into_iter(), Options::default()).unwrap();
        assert_eq!(order(&graph), [2, 4, 1, 0, 5, 3, 6]);
        assert_eq!(ascending(&[2, 0, 1, 0, 2]), [1, 3, 2, 0, 4]);
        assert_eq!(ascending(&[0]), [0]);
    }
}

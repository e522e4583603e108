//! Numbers of the links of a graph.

use super::{Links, Pair};
use crate::adjacency::Graph;
use eciton_input::threads::{on_threads, shares, threads_for};

/// Numbering of the links of a graph. They are numbered from 0 by their smaller vertex, and then by
/// their larger vertex. The numbering takes 8 bytes per vertex, and nothing per link.
#[derive(Debug)]
pub struct Numbered {
    /// Number of the first link of each smaller vertex, followed by the number of all links.
    firsts: Vec<u64>,
}

impl Numbered {
    /// Numbers the links of `graph`.
    pub fn new(graph: &Graph) -> Self {
        let links = Links::new(graph);
        let own = |v| links.partners(v).filter(|&u| u > v).count() as u64;
        let work = shares(graph.vertices() as usize, threads_for(graph.edges()));
        let counts =
            on_threads(work, |range| (range.start as u32..range.end as u32).map(own).collect::<Vec<_>>());
        let mut firsts = Vec::with_capacity(graph.vertices() as usize + 1);
        firsts.push(0);
        firsts.extend(counts.into_iter().flatten().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }));
        Self { firsts }
    }

    /// Returns the number of links.
    pub fn count(&self) -> u64 {
        self.firsts.last().copied().unwrap_or(0)
    }

    /// Returns the link with a number, or `None` if there are not so many links. `graph` is the graph
    /// whose links were numbered.
    pub fn link(&self, graph: &Graph, number: u64) -> Option<Pair> {
        let vertex = self.firsts.partition_point(|&first| first <= number).checked_sub(1)?;
        let (first, next) = (*self.firsts.get(vertex)?, *self.firsts.get(vertex + 1)?);
        let (v, at) = (vertex as u32, (number - first) as usize);
        let list = graph.in_neighbours(v);
        let larger = &list[list.partition_point(|&u| u <= v)..];
        // Without parallel edges, the lists of a graph with both directions have each link once.
        let other = match graph.symmetric() && larger.len() as u64 == next - first {
            true => larger.get(at).copied(),
            false => Links::new(graph).partners(v).filter(|&u| u > v).nth(at),
        };
        other.map(|other| (v, other))
    }

    /// Returns the size in bytes of the numbering for a graph with so many vertices.
    pub fn bytes(vertices: u64) -> u64 {
        vertices.saturating_add(1).saturating_mul(8)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::{all_links, random_graph};
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn numbers_follow_the_sorted_list_of_links() {
        let seed = 37;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for case in 0..80 {
            let (vertices, edges) = (1 + random.below(30), random.below(200));
            let graph = random_graph(&mut random, vertices, edges, case & 1 == 0, case & 2 == 0);
            let (numbered, expected) = (Numbered::new(&graph), all_links(&graph));
            assert_eq!(numbered.count(), expected.len() as u64, "case {case}");
            let found: Vec<Pair> = (0..).map_while(|number| numbered.link(&graph, number)).collect();
            assert!(found.iter().eq(&expected), "case {case}");
            assert_eq!(Numbered::bytes(vertices), 8 * numbered.firsts.len() as u64);
        }
    }
}

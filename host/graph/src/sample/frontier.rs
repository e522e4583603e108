//! Dashboard of the frontier sampler, which draws vertices by weight (Zeng et al., IPDPS 2019,
//! algorithm 3).

use crate::adjacency::Graph;
use crate::random::SplitMix64;

/// Maximum number of dashboard slots per vertex. A vertex with a higher in-degree is drawn as often
/// as one with this in-degree.
pub const DEGREE_CLIP: u32 = 3_000;

/// Returns the number of dashboard slots of a vertex. It is the in-degree, but at least 1 and at
/// most [`DEGREE_CLIP`].
pub(super) fn slots_of(graph: &Graph, vertex: u32) -> u32 {
    graph.in_degree(vertex).clamp(1, DEGREE_CLIP)
}

/// Vertex that is or was in the frontier, with the number of its slots.
#[derive(Debug, Clone, Copy)]
struct Entry {
    vertex: u32,
    /// Number of the vertex's slots. It becomes 0 when the vertex is drawn.
    slots: u32,
}

/// Dashboard of the frontier's vertices. Each vertex has a number of slots proportional to its
/// weight, so that a slot drawn uniformly gives a vertex by weight. The slots of drawn vertices
/// remain as void slots until there are as many as valid ones.
#[derive(Debug, Default)]
pub(super) struct Dashboard {
    /// Index of the entry to which each slot belongs. It takes 4 bytes per slot.
    slots: Vec<u32>,
    entries: Vec<Entry>,
    /// Number of slots that are not void.
    valid: usize,
}

impl Dashboard {
    fn clear(&mut self) {
        self.slots.clear();
        self.entries.clear();
        self.valid = 0;
    }

    fn push(&mut self, vertex: u32, slots: u32) {
        self.valid += slots as usize;
        // At least half of the slots are valid, so that a draw takes at most two attempts on
        // average.
        if self.slots.len() + slots as usize > 2 * self.valid {
            self.compact();
        }
        let entry = self.entries.len() as u32;
        self.slots.resize(self.slots.len() + slots as usize, entry);
        self.entries.push(Entry { vertex, slots });
    }

    /// Removes the void slots. The cost is proportional to the number of slots that were written
    /// since the last call.
    fn compact(&mut self) {
        self.entries.retain(|entry| entry.slots > 0);
        self.slots.clear();
        for (entry, number) in self.entries.iter().zip(0..) {
            self.slots.resize(self.slots.len() + entry.slots as usize, number);
        }
    }

    /// Draws a vertex with probability proportional to its slots, and removes it from the frontier.
    /// Returns `None` if the frontier is empty.
    fn pop(&mut self, random: &mut SplitMix64) -> Option<u32> {
        if self.valid == 0 {
            return None;
        }
        loop {
            let slot = random.below(self.slots.len() as u64) as usize;
            let entry = &mut self.entries[self.slots[slot] as usize];
            if entry.slots > 0 {
                self.valid -= entry.slots as usize;
                entry.slots = 0;
                return Some(entry.vertex);
            }
        }
    }

    /// Draws a frontier of `size` roots, and then replaces one of its vertices in each of `steps`
    /// steps. `slots` returns the number of slots of a vertex, at least 1. `seen` is called with
    /// the vertex that a step draws and the vertex that replaces it. For the first frontier, there
    /// is no drawn vertex.
    pub(super) fn run(
        &mut self,
        graph: &Graph,
        (roots, size, steps): (&[u32], u32, u32),
        random: &mut SplitMix64,
        slots: impl Fn(u32) -> u32,
        mut seen: impl FnMut(Option<u32>, u32),
    ) {
        self.clear();
        let root = |random: &mut SplitMix64| roots[random.below(roots.len() as u64) as usize];
        for _ in 0..size {
            let vertex = root(random);
            self.push(vertex, slots(vertex));
            seen(None, vertex);
        }
        for _ in 0..steps {
            let Some(drawn) = self.pop(random) else { return };
            let list = graph.in_neighbours(drawn);
            let entering = match list.is_empty() {
                true => root(random),
                false => list[random.below(list.len() as u64) as usize],
            };
            self.push(entering, slots(entering));
            seen(Some(drawn), entering);
        }
    }
}

//! Dashboard of the frontier sampler (Zeng et al., IPDPS 2019, algorithm 3).

use crate::adjacency::Graph;
use crate::random::SplitMix64;

/// Maximum number of dashboard slots of a vertex. A vertex of a higher degree is drawn as often as
/// one of this degree.
pub const DEGREE_CLIP: u32 = 3_000;

/// Returns the number of slots of a vertex: its in-degree, limited to 1 to [`DEGREE_CLIP`].
pub(super) fn slots_of(graph: &Graph, vertex: u32) -> u32 {
    graph.in_degree(vertex).clamp(1, DEGREE_CLIP)
}

/// Vertex that is or was in the frontier, with its slots.
#[derive(Debug, Clone, Copy)]
struct Entry {
    vertex: u32,
    /// Number of the vertex's slots. It is 0 after the vertex was drawn.
    slots: u32,
}

/// Slots of the frontier's vertices. Each vertex has a number of slots proportional to its weight,
/// so that a uniform slot gives a vertex by weight. Slots of drawn vertices stay as void slots
/// until they are as many as the valid ones.
#[derive(Debug, Default)]
pub(super) struct Dashboard {
    /// Index of the entry of each slot, 4 bytes per slot.
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

    /// Removes void slots. The cost is proportional to the number of slots written since the last
    /// call.
    fn compact(&mut self) {
        self.entries.retain(|entry| entry.slots > 0);
        self.slots.clear();
        for (entry, number) in self.entries.iter().zip(0..) {
            self.slots.resize(self.slots.len() + entry.slots as usize, number);
        }
    }

    /// Removes a vertex, drawn with probability proportional to its slots, and returns it. Returns
    /// `None` if the frontier is empty.
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

    /// Draws a frontier of `size` roots and moves it `steps` times. `slots` returns a vertex's
    /// number of slots, at least 1. `seen` is called with the vertex that a step draws (`None` for
    /// the first frontier) and the vertex that enters.
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

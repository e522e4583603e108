//! Degree-corrected block model (Karrer and Newman 2011, the model of equation 14) with power-law
//! degrees.
//!
//! The first end of each pair is drawn by weight from all vertices. With probability `p_in` the
//! second end is drawn by weight from the same class, else from all vertices. The expected degree
//! of a vertex is proportional to its weight, whatever its class. Weights are the quantiles of a
//! Pareto distribution of density exponent `exponent`, w(u) = min(u^(-1 / (exponent - 1)), cap) for
//! u = (block + 1/2) / blocks. Compared with random draws, quantiles have the same distribution
//! with less noise, and every class has the same weights. Weights are grouped into at most 1,024
//! levels (less than 0.5 % wide for a cap of 60). A draw is then an alias table of 8 KiB and a
//! uniform rank within a level. It takes constant time and no memory access outside the first-level
//! cache, for any number of vertices.

use super::alias::Alias;
use super::keyed::below;
use super::layout::Layout;
use super::planted::Planted;
use super::{Generated, Law, Shape, real};
use crate::error::Result;
use crate::random::SplitMix64;

/// Maximum number of levels into which vertex weights are grouped.
const LEVELS: u32 = 1024;
/// Number of low bits of a random word that an alias table leaves unused.
const SPARE_BITS: u32 = 20;

/// Specification of a degree-corrected block model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockModel {
    /// Size of the graph and its planted task.
    pub shape: Shape,
    /// Exponent of the degree distribution's density, above 1 and at most 100. The default is 2.2.
    pub exponent: f64,
    /// Ratio of the highest to the lowest vertex weight, at least 1. The default is 60.
    pub cap: f64,
}

impl Default for BlockModel {
    fn default() -> Self {
        Self { shape: Shape::default(), exponent: 2.2, cap: 60.0 }
    }
}

impl BlockModel {
    /// Generates the graph, whose pairs are drawn only when they are read.
    ///
    /// # Errors
    /// Returns [`crate::error::Error::EmptyGraph`], [`crate::error::Error::Limit`] or
    /// [`crate::error::Error::Parameter`] with the parameter that is outside its limits.
    pub fn generate(&self) -> Result<Generated> {
        real("exponent", self.exponent, 1.01, 100.0)?;
        real("cap", self.cap, 1.0, 1e12)?;
        let planted = Planted::new(&self.shape)?;
        let law = BlockLaw::new(planted.layout.blocks(), self.exponent, self.cap);
        Ok(Generated::new(Law::Block(law), planted, &self.shape))
    }
}

/// Level of vertex weights, which consists of consecutive blocks of ranks with nearly the same
/// weight.
#[derive(Debug, Clone, Copy)]
struct Level {
    first: u32,
    blocks: u32,
    weight: f64,
}

/// Groups the weights of `blocks` quantiles into at most [`LEVELS`] levels. The heaviest level
/// comes first.
fn levels(blocks: u32, exponent: f64, cap: f64) -> Vec<Level> {
    let weight = |at: f64| ((at / f64::from(blocks)).powf(-1.0 / (exponent - 1.0))).min(cap);
    let level = |first: u32, end: u32| Level {
        first,
        blocks: end - first,
        weight: weight((f64::from(first) + f64::from(end)) / 2.0),
    };
    if blocks <= LEVELS {
        return (0..blocks).map(|block| level(block, block + 1)).collect();
    }
    // The bounds between levels have equal ratios of weight, from the heaviest down to 1.
    let heaviest = weight(0.5);
    let mut levels = Vec::with_capacity(LEVELS as usize);
    let mut first = 0;
    for step in 0..LEVELS {
        let lightest = heaviest.powf(1.0 - f64::from(step) / f64::from(LEVELS - 1));
        let share = lightest.powf(1.0 - exponent);
        let end = if step + 1 == LEVELS { blocks } else { (share * f64::from(blocks)).round() as u32 };
        if end > first {
            levels.push(level(first, end.min(blocks)));
            first = end;
        }
    }
    levels
}

/// Probability distribution of the two vertices of a drawn pair, in a block model.
#[derive(Debug, Clone)]
pub(super) struct BlockLaw {
    pub(super) exponent: f64,
    pub(super) cap: f64,
    /// Alias table that draws a level according to the total weight of its blocks.
    alias: Alias,
    /// First block and number of blocks of each level. The list is padded to the number of outcomes
    /// of the alias table.
    ranges: Vec<(u32, u32)>,
    levels: Vec<Level>,
    /// Total weight of the blocks of all levels.
    total: f64,
}

impl BlockLaw {
    fn new(blocks: u32, exponent: f64, cap: f64) -> Self {
        let levels = levels(blocks, exponent, cap);
        let weights: Vec<f64> = levels.iter().map(|l| l.weight * f64::from(l.blocks)).collect();
        let mut ranges: Vec<(u32, u32)> = levels.iter().map(|l| (l.first, l.blocks)).collect();
        // The outcomes that pad the table have weight 0 and are never drawn.
        ranges.resize(ranges.len().next_power_of_two(), (0, 1));
        Self { exponent, cap, alias: Alias::new(&weights), ranges, levels, total: weights.iter().sum() }
    }

    #[inline(always)]
    fn block(&self, level: u64, within: u64) -> u32 {
        let (first, blocks) = self.ranges[self.alias.draw(level) as usize];
        first + below((within >> 32) as u32, blocks)
    }

    /// Draws `count` pairs from a random stream, and appends them to `edges`. Each pair takes four
    /// random words.
    pub(super) fn draw(
        &self,
        layout: &Layout,
        p_in: f64,
        mut random: SplitMix64,
        count: usize,
        edges: &mut Vec<(u32, u32)>,
    ) {
        let width = layout.width();
        let alike = (p_in * f64::from(1 << SPARE_BITS)).round() as u64;
        edges.extend((0..count).map(|_| {
            let words: [u64; 4] = std::array::from_fn(|_| random.next_u64());
            let class = below(words[1] as u32, width);
            let same = words[0] & ((1 << SPARE_BITS) - 1) < alike;
            let other = if same { class } else { below(words[3] as u32, width) };
            let source = layout.rank_of(self.block(words[0], words[1]), class);
            let target = layout.rank_of(self.block(words[2], words[3]), other);
            (layout.id(source), layout.id(target))
        }));
    }

    /// Returns the probability that a draw gives the vertices with the ranks `one` and `two`, in
    /// either order.
    pub(super) fn chance(&self, layout: &Layout, p_in: f64, one: u32, two: u32) -> f64 {
        let classes = f64::from(layout.width());
        let same = layout.class(one) == layout.class(two);
        let within = if same { p_in } else { 0.0 };
        2.0 * self.share(layout, one) * self.share(layout, two) / classes * ((1.0 - p_in) / classes + within)
    }

    /// Returns the probability of the rank `rank` among all ranks of its class.
    fn share(&self, layout: &Layout, rank: u32) -> f64 {
        let weight = |block: u32| {
            let next = self.levels.partition_point(|level| level.first <= block);
            self.levels.get(next.saturating_sub(1)).map_or(0.0, |level| level.weight)
        };
        let block = layout.block(rank);
        // For classes that the last block lacks, its weight is added to the block before it.
        let further = if layout.stands_in(rank) { weight(block + 1) } else { 0.0 };
        (weight(block) + further) / self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_cover_all_blocks_and_keep_the_weight() {
        for (blocks, exponent, cap) in
            [(1, 2.2, 60.0), (1024, 2.2, 60.0), (1025, 2.2, 60.0), (100_000, 3.0, 1e12), (50_000, 2.2, 1.0)]
        {
            let levels = levels(blocks, exponent, cap);
            assert!(levels.len() <= LEVELS as usize);
            let mut next = 0;
            for level in &levels {
                assert_eq!(level.first, next);
                next += level.blocks;
            }
            assert_eq!(next, blocks);
            let grouped: f64 = levels.iter().map(|l| l.weight * f64::from(l.blocks)).sum();
            let weight = |block: u32| {
                ((f64::from(block) + 0.5) / f64::from(blocks)).powf(-1.0 / (exponent - 1.0)).min(cap)
            };
            let each: f64 = (0..blocks).map(weight).sum();
            assert!((grouped / each - 1.0).abs() < 2e-3, "{blocks} {exponent} {cap}: {grouped} for {each}");
        }
    }

    #[test]
    fn chances_of_all_pairs_add_up() {
        for (vertices, classes) in [(16, 4), (13, 4), (30, 7), (5, 5), (3, 9)] {
            for p_in in [0.0, 0.6, 1.0] {
                let layout = Layout::new(vertices, classes, false, 2);
                let law = BlockLaw::new(layout.blocks(), 2.2, 60.0);
                let mut sum = 0.0;
                for one in 0..vertices {
                    // A vertex with itself is counted from both sides.
                    sum += law.chance(&layout, p_in, one, one) / 2.0;
                    sum += (0..one).map(|two| law.chance(&layout, p_in, one, two)).sum::<f64>();
                }
                assert!((sum - 1.0).abs() < 1e-9, "{vertices} {classes} {p_in}: {sum}");
            }
        }
    }
}

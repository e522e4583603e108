//! R-MAT graphs (Chakrabarti, Zhan and Faloutsos 2004) with planted classes.
//!
//! A pair descends a square adjacency matrix level by level, each time into one of four quadrants
//! with probabilities a, b, c and d. Its ends are the row and the column that it reaches. Five
//! levels are drawn at once from an alias table of 4^5 outcomes (Hübschle-Schneider and Sanders
//! 2020). The table takes 8 KiB, and a pair takes five draws for 16 million vertices. If the number
//! of vertices is not a power of two, a pair with an end beyond the last vertex is drawn again.
//!
//! With probability `p_in` the second end moves, within its block of C successive ranks, to the
//! vertex of the first end's class. The leading bits, which determine the skew and the community
//! structure, do not change. Only within a block of C ranks are the moved ends evenly distributed.
use super::alias::Alias;
use super::layout::Layout;
use super::planted::Planted;
use super::{Generated, Law, Shape, real};
use crate::error::{Error, Result};
use crate::random::SplitMix64;

/// Number of levels of the adjacency matrix that one draw descends.
const LEVELS: u32 = 5;
/// Maximum number of times that a pair is drawn again. After them, the rank of an end beyond the
/// last vertex is halved, so that the vertex exists.
const MAX_REDRAWS: u32 = 256;

/// Specification of an R-MAT graph.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rmat {
    /// Size of the graph and its planted task.
    pub shape: Shape,
    /// Probabilities of the quadrants a (both ends in the lower half of ids), b, c and d, which add
    /// up to 1. The defaults are those of Graph500, which are 0.57, 0.19, 0.19 and 0.05.
    pub quadrants: [f64; 4],
}

impl Default for Rmat {
    fn default() -> Self {
        Self { shape: Shape::default(), quadrants: [0.57, 0.19, 0.19, 0.05] }
    }
}

impl Rmat {
    /// Generates the graph, whose pairs are drawn only when they are read.
    ///
    /// # Errors
    /// Returns the errors of [`super::BlockModel::generate`], and [`Error::Parameter`] if the
    /// quadrants do not add up to 1 within 1e-6.
    pub fn generate(&self) -> Result<Generated> {
        for (name, chance) in ["a", "b", "c", "d"].into_iter().zip(self.quadrants) {
            real(name, chance, 0.0, 1.0)?;
        }
        let total: f64 = self.quadrants.iter().sum();
        if (total - 1.0).abs() > 1e-6 {
            return Err(Error::Parameter {
                name: "quadrants",
                found: format!("{:?}, together {total}", self.quadrants),
                allowed: "chances that add up to 1".to_owned(),
            });
        }
        let planted = Planted::new(&self.shape)?;
        let law = RmatLaw::new(planted.layout.vertices(), self.quadrants.map(|chance| chance / total));
        Ok(Generated::new(Law::Rmat(law), planted, &self.shape))
    }
}

/// Probability distribution of the two vertices of a drawn pair, in an R-MAT graph.
#[derive(Debug, Clone)]
pub(super) struct RmatLaw {
    pub(super) quadrants: [f64; 4],
    /// Number of bits of the largest rank.
    bits: u32,
    /// Alias table that draws [`LEVELS`] bits of the row together with [`LEVELS`] bits of the
    /// column.
    alias: Alias,
    /// Probability that both ends of a drawn pair are existing vertices.
    exists: f64,
}

impl RmatLaw {
    fn new(vertices: u32, quadrants: [f64; 4]) -> Self {
        let chance = |outcome: usize| -> f64 {
            let quadrant =
                |level: usize| (outcome >> (level + LEVELS as usize) & 1) << 1 | outcome >> level & 1;
            (0..LEVELS as usize).map(|level| quadrants[quadrant(level)]).product()
        };
        let weights: Vec<f64> = (0..1 << (2 * LEVELS)).map(chance).collect();
        let bits = (vertices - 1).checked_ilog2().map_or(0, |top| top + 1);
        let exists = exists(u64::from(vertices), bits, quadrants);
        Self { quadrants, bits, alias: Alias::new(&weights), exists }
    }

    #[inline(always)]
    fn ends(&self, random: &mut SplitMix64) -> (u64, u64) {
        let draws = self.bits.div_ceil(LEVELS);
        let (mut source, mut target) = (0u64, 0u64);
        for _ in 0..draws {
            let outcome = u64::from(self.alias.draw(random.next_u64()));
            source = source << LEVELS | outcome >> LEVELS;
            target = target << LEVELS | outcome & ((1 << LEVELS) - 1);
        }
        let beyond = draws * LEVELS - self.bits;
        (source >> beyond, target >> beyond)
    }

    #[inline(always)]
    fn ranks(&self, vertices: u32, random: &mut SplitMix64) -> (u32, u32) {
        let vertices = u64::from(vertices);
        let (mut source, mut target) = self.ends(random);
        let mut redraws = 0;
        while source >= vertices || target >= vertices {
            redraws += 1;
            if redraws > MAX_REDRAWS {
                // More than half of the ids below the next power of two exist, so a halved id
                // exists.
                let exists = |rank: u64| if rank >= vertices { rank >> 1 } else { rank };
                return (exists(source) as u32, exists(target) as u32);
            }
            (source, target) = self.ends(random);
        }
        (source as u32, target as u32)
    }

    /// Draws `count` pairs from a random stream, and appends them to `edges`.
    pub(super) fn draw(
        &self,
        layout: &Layout,
        p_in: f64,
        mut random: SplitMix64,
        count: usize,
        edges: &mut Vec<(u32, u32)>,
    ) {
        // Probability times 2^32.
        let alike = (p_in * 4_294_967_296.0).round() as u64;
        edges.extend((0..count).map(|_| {
            let (source, target) = self.ranks(layout.vertices(), &mut random);
            let moved = layout.rank_of(layout.block(target), layout.class(source));
            let target = if random.next_u64() >> 32 < alike { moved } else { target };
            (layout.id(source), layout.id(target))
        }));
    }

    /// Returns the probability that a draw gives the vertices with the ranks `one` and `two`, in
    /// either order.
    pub(super) fn chance(&self, layout: &Layout, p_in: f64, one: u32, two: u32) -> f64 {
        let end = u64::from(layout.vertices());
        let cell = |source, target: u32| {
            self.below(source, u64::from(target) + 1) - self.below(source, target.into())
        };
        let mut chance = (1.0 - p_in) * (cell(one, two) + cell(two, one));
        if layout.class(one) == layout.class(two) {
            // Moved pairs may have reached any rank of the block, or of the last block for classes
            // that it lacks.
            let width = u64::from(layout.width());
            let block = |source, target: u32| {
                let first = u64::from(layout.block(target)) * width;
                let past = if layout.stands_in(target) { end } else { (first + width).min(end) };
                self.below(source, past) - self.below(source, first)
            };
            chance += p_in * (block(one, two) + block(two, one));
        }
        chance / self.exists
    }

    /// Returns the probability that a pair reaches the row `source` and a column below `end`. Such
    /// a column has the same high bits as `end`, then a 0 where `end` has a 1. Its remaining bits
    /// are arbitrary.
    fn below(&self, source: u32, end: u64) -> f64 {
        let [a, b, c, d] = self.quadrants;
        // Probability of the remaining bits of the row, for each level.
        let mut free = [1.0; 33];
        for level in 0..self.bits as usize {
            free[level + 1] = free[level] * if source >> level & 1 == 1 { c + d } else { a + b };
        }
        if end >> self.bits > 0 {
            return free[self.bits as usize];
        }
        let (mut sum, mut prefix) = (0.0, 1.0);
        for level in (0..self.bits as usize).rev() {
            let [zero, one] = if source >> level & 1 == 1 { [c, d] } else { [a, b] };
            if end >> level & 1 == 1 {
                sum += prefix * zero * free[level];
                prefix *= one;
            } else {
                prefix *= zero;
            }
        }
        sum
    }
}

/// Returns the probability that both ends of a pair are below `end`, which has at most `bits` bits.
/// It is computed level by level. At each level, an end is either equal to the high bits of `end`
/// or below them.
fn exists(end: u64, bits: u32, quadrants: [f64; 4]) -> f64 {
    if end >> bits > 0 {
        return 1.0;
    }
    // Probabilities: both equal; the first equal and the second below; the reverse; both below.
    let mut chances = [1.0, 0.0, 0.0, 0.0];
    for level in (0..bits).rev() {
        let [a, b, c, d] = quadrants;
        let [both, first, second, neither] = chances;
        chances = if end >> level & 1 == 1 {
            [
                both * d,
                both * c + first * (c + d),
                both * b + second * (b + d),
                both * a + first * (a + b) + second * (a + c) + neither,
            ]
        } else {
            [both * a, first * (a + b), second * (a + c), neither]
        };
    }
    chances[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the probability of a cell by its definition.
    fn cell(bits: u32, quadrants: [f64; 4], source: u32, target: u32) -> f64 {
        (0..bits)
            .map(|level| quadrants[((source >> level & 1) << 1 | target >> level & 1) as usize])
            .product()
    }

    #[test]
    fn sums_of_cells_are_right() {
        let quadrants = [0.5, 0.25, 0.15, 0.1];
        for vertices in [2, 16, 13, 9] {
            let law = RmatLaw::new(vertices, quadrants);
            let mut inside = 0.0;
            for source in 0..vertices {
                let mut sum = 0.0;
                for end in 0..=vertices {
                    let found = law.below(source, u64::from(end));
                    assert!((found - sum).abs() < 1e-12, "{source} {end}: {found} for {sum}");
                    sum += cell(law.bits, quadrants, source, end);
                }
                inside += law.below(source, u64::from(vertices));
            }
            assert!((law.exists - inside).abs() < 1e-12, "{vertices}: {} for {inside}", law.exists);
        }
        assert_eq!(RmatLaw::new(1, quadrants).exists, 1.0);
    }

    #[test]
    fn chances_of_all_pairs_add_up() {
        for (vertices, classes) in [(16, 4), (13, 4), (30, 7), (5, 5), (3, 9)] {
            for p_in in [0.0, 0.6, 1.0] {
                let layout = Layout::new(vertices, classes, false, 2);
                let law = RmatLaw::new(vertices, [0.5, 0.25, 0.15, 0.1]);
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

    #[test]
    fn the_table_is_the_product_of_its_levels() {
        // Counted quadrants of the first and of the last of five levels.
        let quadrants = [0.5, 0.2, 0.2, 0.1];
        let law = RmatLaw::new(32, quadrants);
        let seed = 4;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let mut found = [[0u32; 4]; 2];
        let draws = 100_000;
        for _ in 0..draws {
            let (source, target) = law.ranks(32, &mut random);
            found[0][(source >> 4 << 1 | target >> 4) as usize] += 1;
            found[1][((source & 1) << 1 | target & 1) as usize] += 1;
        }
        for counts in found {
            for (count, chance) in counts.into_iter().zip(quadrants) {
                let (share, deviation) = (f64::from(count) / 1e5, (chance * (1.0 - chance) / 1e5).sqrt());
                assert!((share - chance).abs() < 5.0 * deviation, "{share} for {chance}");
            }
        }
    }
}

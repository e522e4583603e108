//! Links that are held out of the training graph, for validation and test.

use eciton_tensor::random::{Key, Purpose, bits32};

use super::negatives::{ATTEMPTS, unlinked, vertex};
use super::{Links, Pair, count, linked};
use crate::adjacency::{Adjacency, Graph};
use crate::dataset::{Dataset, EdgeFeatures};
use crate::error::{Error, Place, Result};
use crate::random::SplitMix64;
use eciton_input::threads::{on_threads, threads_for};

/// Maximum number of pairs without a link in the validation or the test set. They take 32 GiB.
pub const MAX_OTHERS: u64 = 1 << 32;

/// Sizes of the validation and test sets of links, and the pairs without a link to compare them
/// with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Fraction of the links for validation, by which models are compared. It is at least 0, and
    /// below 1 together with `test`.
    pub validation: f64,
    /// Fraction of the links for test, on which final metrics are reported.
    pub test: f64,
    /// Random seed by which the links and the pairs without a link are drawn.
    pub seed: u64,
    /// Number of pairs without a link that are drawn for each held-out link.
    pub each: u32,
    /// Method by which the pairs without a link are drawn.
    pub draw: Draw,
}

/// Method by which pairs without a link are drawn, for comparison with a held-out link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draw {
    /// Any two vertices (Kipf and Welling 2016, "Variational graph auto-encoders").
    Pairs,
    /// One end of the held-out link, drawn once per link, and any other vertex (Hu et al. 2020,
    /// ogbl-citation2).
    Ends,
}

/// Held-out links for validation or test, with pairs without a link. The pairs for link i are
/// `others[i * each..(i + 1) * each]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Held-out links in ascending order. The smaller vertex of each link comes first.
    pub links: Vec<Pair>,
    /// Pairs without a link, whose vertices have any order. With [`Draw::Ends`], the end of the
    /// held-out link comes first.
    pub others: Vec<Pair>,
    /// Number of pairs without a link for each held-out link.
    pub each: usize,
}

/// Links that [`hold_out`] has removed from a graph, with pairs without a link for comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldOut {
    /// Links for validation, by which models are compared.
    pub validation: Candidates,
    /// Links for test, on which final metrics are reported.
    pub test: Candidates,
}

/// Removes random links from the graph of a data set. All edges of each link are removed, in both
/// directions, together with their features. The number of links is rounded down. Self-loops and
/// all other parts of the data set do not change. Pairs without a link have none in the original
/// graph, which includes the held-out links. The result depends only on the data set and `shares`.
///
/// Links are chosen in one pass over the graph (Knuth, "The art of computer programming", volume 2,
/// section 3.4.2, algorithm S). Peak memory besides the result is the original graph with its edge
/// features, and 16 bytes per held-out link.
///
/// # Errors
/// In case of an error the data set does not change. Returns [`Error::Parameter`] for a fraction
/// that is negative or at least 1, or that leaves no link for training. Returns [`Error::NoLinks`]
/// for a graph without links, [`Error::Limit`] for more than [`MAX_OTHERS`] pairs, and
/// [`Error::NoPair`] if nearly all pairs are linked. Returns [`Error::Mismatch`] or
/// [`Error::NotFinite`] for edge features that do not fit the graph.
pub fn hold_out(dataset: &mut Dataset, shares: &Shares) -> Result<HeldOut> {
    let place = || format!("{} links", dataset.name);
    let graph = &dataset.graph;
    for (name, share) in [("the validation share", shares.validation), ("the test share", shares.test)] {
        if !(0.0..1.0).contains(&share) {
            let (found, allowed) = (share.to_string(), "at least 0 and below 1".to_owned());
            return Err(Error::Parameter { name, found, allowed });
        }
    }
    if let Some(rows) = &dataset.edge_features {
        rows.validate(graph.edges(), &format!("{} edge features", dataset.name))?;
    }
    let links = count(graph);
    if links == 0 {
        return Err(Error::NoLinks { place: Place::whole(place()) });
    }
    let [validation, test] = [shares.validation, shares.test].map(|share| (share * links as f64) as u64);
    if shares.validation + shares.test >= 1.0 || validation + test >= links {
        return Err(Error::Parameter {
            name: "the sum of the validation and the test share",
            found: (shares.validation + shares.test).to_string(),
            allowed: "below 1, so that links remain for training".to_owned(),
        });
    }
    let [validation, test] = choose(graph, links, [validation, test], shares.seed);
    let of = Others { graph, links, shares, place: place() };
    let threads = |links: &[Pair]| threads_for((links.len() as u64).saturating_mul(shares.each.into()));
    let (few, many) = (threads(&validation), threads(&test));
    let held =
        HeldOut { validation: of.candidates(validation, 0, few)?, test: of.candidates(test, 1, many)? };
    let all = held.validation.links.iter().chain(&held.test.links);
    let mut gone: Vec<Pair> = all.flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
    if !gone.is_empty() {
        gone.sort_unstable();
        (dataset.graph, dataset.edge_features) = without(graph, dataset.edge_features.as_ref(), &gone)?;
    }
    Ok(held)
}

/// Draws two random sets of links, of the sizes `first` and `second`. Each set is returned in
/// ascending order.
fn choose(graph: &Graph, links: u64, [mut first, mut second]: [u64; 2], seed: u64) -> [Vec<Pair>; 2] {
    let mut chosen = [first, second].map(|needed| Vec::with_capacity(needed as usize));
    let mut random = SplitMix64::new(seed);
    let view = Links::new(graph);
    let all =
        (0..graph.vertices()).flat_map(|a| view.partners(a).filter(move |&b| b > a).map(move |b| (a, b)));
    for (at, link) in (0..links).zip(all) {
        let drawn = random.below(links - at);
        if drawn < first {
            chosen[0].push(link);
            first -= 1;
        } else if drawn < first + second {
            chosen[1].push(link);
            second -= 1;
        }
    }
    chosen
}

/// Parameters by which pairs without a link are drawn.
struct Others<'a> {
    graph: &'a Graph,
    /// Number of links of the graph, for error messages.
    links: u64,
    shares: &'a Shares,
    place: String,
}

impl Others<'_> {
    fn candidates(&self, links: Vec<Pair>, stream: u32, threads: usize) -> Result<Candidates> {
        let (each, found) = (self.shares.each, (links.len() as u64).saturating_mul(self.shares.each.into()));
        if found > MAX_OTHERS {
            return Err(Error::Limit {
                place: Place::whole(&self.place),
                limit: "MAX_OTHERS",
                unit: "pairs without a link",
                allowed: MAX_OTHERS,
                found,
                remedy: "hold out fewer links, or draw fewer pairs for each",
            });
        }
        let key = Key::new(self.shares.seed, Purpose::Negatives, u32::MAX, 0, stream);
        let mut others = vec![(0, 0); found as usize];
        let share = others.len().div_ceil(threads.max(1)).max(1);
        let work = (0u64..).step_by(share).zip(others.chunks_mut(share)).collect();
        let drawn = on_threads(work, |(first, others)| -> Result<()> {
            for (n, other) in (first..).zip(others) {
                *other = match self.shares.draw {
                    Draw::Pairs => self.pair(key, n)?,
                    Draw::Ends => self.end(key, n, links[(n / u64::from(each)) as usize])?,
                };
            }
            Ok(())
        });
        drawn.into_iter().collect::<Result<()>>()?;
        Ok(Candidates { links, others, each: each as usize })
    }

    /// Draws the pair `n` without a link from all pairs of vertices.
    fn pair(&self, key: Key, n: u64) -> Result<Pair> {
        unlinked(self.graph, key.row(n), |v| v).ok_or_else(|| {
            let vertices = u64::from(self.graph.vertices());
            let possible = vertices * (vertices - 1) / 2;
            self.none(n, None, (self.links, possible), "use a graph with fewer links")
        })
    }

    /// Draws the pair `n` without a link, which contains an end of the held-out link `link`.
    fn end(&self, key: Key, n: u64, link: Pair) -> Result<Pair> {
        let first = n - n % u64::from(self.shares.each);
        let kept = if bits32(key.row(first), 0) & 1 == 0 { link.0 } else { link.1 };
        let row = key.row(n);
        let mut drawn = (1..=ATTEMPTS).map(|column| vertex(bits32(row, column), self.graph.vertices()));
        let fine = |&other: &u32| other != kept && !linked(self.graph, kept, other);
        drawn.find(fine).map(|other| (kept, other)).ok_or_else(|| {
            let links = Links::new(self.graph).partners(kept).count() as u64;
            let possible = u64::from(self.graph.vertices()) - 1;
            self.none(n, Some(kept), (links, possible), "draw any two vertices, or use another seed")
        })
    }

    fn none(
        &self,
        n: u64,
        vertex: Option<u32>,
        (links, possible): (u64, u64),
        remedy: &'static str,
    ) -> Error {
        let place = Place::row(format!("{}, pairs without a link", self.place), n);
        Error::NoPair { place, vertex, attempts: ATTEMPTS, links, possible, remedy }
    }
}

/// Returns the graph and its edge features without the edges `gone`. These are pairs of a vertex
/// and its in-neighbour in ascending order.
fn without(
    graph: &Graph,
    rows: Option<&EdgeFeatures>,
    gone: &[Pair],
) -> Result<(Graph, Option<EdgeFeatures>)> {
    let mut kept = Vec::with_capacity(rows.map_or(0, |rows| rows.values().len()));
    let incoming = lists_without(graph.incoming(), gone, |at| {
        if let Some(rows) = rows {
            let width = rows.columns() as usize;
            kept.extend_from_slice(&rows.values()[at * width..(at + 1) * width]);
        }
    });
    kept.shrink_to_fit();
    let outgoing = graph.transpose().map(|lists| lists_without(lists, gone, |_| {}));
    let rows = rows.map(|rows| EdgeFeatures::new(rows.columns(), kept)).transpose()?;
    Ok((Graph::from_parts(incoming, outgoing)?, rows))
}

/// Returns the lists without the entries `gone`, which are pairs (vertex, neighbour) in ascending
/// order. Calls `kept` with the old index of each remaining entry, in order.
fn lists_without(lists: &Adjacency, mut gone: &[Pair], mut kept: impl FnMut(usize)) -> Adjacency {
    let mut offsets = Vec::with_capacity(lists.offsets().len());
    let mut neighbours = Vec::with_capacity(lists.neighbours().len());
    offsets.push(0);
    for v in 0..lists.vertices() {
        let from = lists.offsets()[v as usize] as usize;
        for (at, &u) in (from..).zip(lists.neighbours_of(v)) {
            while let Some((_, rest)) = gone.split_first().filter(|(first, _)| **first < (v, u)) {
                gone = rest;
            }
            if gone.first() != Some(&(v, u)) {
                neighbours.push(u);
                kept(at);
            }
        }
        offsets.push(neighbours.len() as u64);
    }
    neighbours.shrink_to_fit();
    crate::build::trusted(offsets, neighbours)
}

#[cfg(test)]
mod tests;

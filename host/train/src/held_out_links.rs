//! Links of a run with link prediction: the held-out links, and the negative pairs of each epoch.
//!
//! Held-out links are removed from the data set before its rows are ordered, and are then stored as
//! pairs of rows. Negative pairs are pairs of rows without a link. Those of an epoch are drawn
//! once, when the first interval needs them. In batches, each micro-batch draws those of its links.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use eciton_graph::adjacency::Graph;
use eciton_graph::dataset::{Dataset, Labels, NO_LABEL, Split};
use eciton_graph::links::{
    self, Candidates, Draw, Ends, HeldOut, Negatives, Numbered, Pair, Shares, metrics,
};
use eciton_graph::order::Permutation;
use eciton_recipe::{Links, Metric, NegativeSampler};
use eciton_runs::report::{Metrics, Quality};
use eciton_tensor::View;
use eciton_tensor::random::{Key, Purpose};

use crate::error::Result;

/// Maximum number of epochs whose negative pairs are cached, even if more epochs are in flight.
const MOST_KEPT: u32 = 4;

/// Negative pairs (pairs of rows without a link) of one epoch, drawn on first use.
type Drawn = Arc<OnceLock<Negatives>>;

/// The links that a run trains on and predicts, as pairs of rows.
#[derive(Debug)]
pub(crate) struct PredictedLinks {
    validation: Candidates,
    test: Candidates,
    /// Number of training links.
    pub trained: u64,
    /// Number of negative pairs in the loss of an epoch.
    pub negatives: u64,
    /// Number of negative pairs per link, and the distribution of their vertices.
    each: u32,
    sampler: NegativeSampler,
    /// Numbers of the training links, made on first use.
    numbered: OnceLock<Numbered>,
    order: Option<Arc<Permutation>>,
    /// Maximum number of epochs whose negative pairs are cached. More than one epoch may be in
    /// flight. Pairs that are no longer cached are drawn again.
    kept: usize,
    drawn: Mutex<VecDeque<((u64, u32), Drawn)>>,
}

/// Removes held-out links from a data set whose vertices are in the user's order, and returns them.
/// Labels, splits and the assignment to graphs are removed too, because link prediction does not
/// use them.
pub(crate) fn hold_out(dataset: &mut Dataset, settings: &Links, metric: Metric) -> Result<HeldOut> {
    let draw = if metric == Metric::MeanReciprocalRank { Draw::Ends } else { Draw::Pairs };
    let Links { validation, test, seed, .. } = *settings;
    let each = settings.compared_with(metric);
    let held = links::hold_out(dataset, &Shares { validation, test, seed, each, draw })?;
    dataset.set_labels(Labels::classes(vec![NO_LABEL; dataset.vertices() as usize], 0));
    (dataset.split, dataset.graphs) = (Split::default(), None);
    Ok(held)
}

/// Returns the key of the random numbers for the negative pairs of an epoch.
fn key(seed: u64, epoch: u32) -> Key {
    Key::new(seed, Purpose::Negatives, epoch, 0, 0)
}

impl PredictedLinks {
    /// Creates the links of a run. `dataset` no longer contains the links `held`, and its rows have
    /// been reordered by `order` since. At most `epochs` epochs are in flight.
    pub(crate) fn new(
        dataset: &Dataset,
        held: HeldOut,
        (settings, epochs): (&Links, u32),
        order: Option<Arc<Permutation>>,
    ) -> Self {
        let row = |vertex: u32| {
            order
                .as_ref()
                .and_then(|order| order.new_of_old().get(vertex as usize).copied())
                .unwrap_or(vertex)
        };
        let rows = |pairs: Vec<Pair>| pairs.into_iter().map(|(a, b)| (row(a), row(b))).collect();
        let by_row = |candidates: Candidates| Candidates {
            links: rows(candidates.links),
            others: rows(candidates.others),
            each: candidates.each,
        };
        let (validation, test) = (by_row(held.validation), by_row(held.test));
        let trained = links::count(&dataset.graph);
        let negatives = trained * u64::from(settings.negatives);
        let kept = epochs.clamp(1, MOST_KEPT) as usize;
        Self {
            validation,
            test,
            trained,
            negatives,
            each: settings.negatives,
            sampler: settings.negative_sampler,
            numbered: OnceLock::new(),
            order,
            kept,
            drawn: Mutex::default(),
        }
    }

    /// Returns an upper bound on the number of different vertices of so many links and their negative
    /// pairs.
    pub(crate) fn ends(&self, links: u32) -> u32 {
        let other = match self.sampler {
            NegativeSampler::Uniform => self.each.saturating_mul(2),
            NegativeSampler::Degree => self.each,
            NegativeSampler::InBatch => 0,
        };
        links.saturating_mul(other.saturating_add(2))
    }

    /// Returns the training links with the given numbers, and the negative pairs of these links in the
    /// given epoch.
    pub(crate) fn of_batch(
        &self,
        dataset: &Dataset,
        (seed, epoch): (u64, u32),
        numbers: &[u32],
    ) -> (Vec<Pair>, Vec<Pair>) {
        let graph = &dataset.graph;
        let numbered = self.numbered.get_or_init(|| Numbered::new(graph));
        let links = numbers.iter().filter_map(|&number| numbered.link(graph, number.into())).collect();
        let among = Some(numbers).filter(|_| self.sampler == NegativeSampler::InBatch);
        let negatives = self.distribution(graph, among).of_links(graph, key(seed, epoch), numbers, self.each);
        (links, negatives)
    }

    /// Returns the distribution of the negative pairs. `among` has the numbers of the links of a batch.
    fn distribution<'a>(&'a self, graph: &Graph, among: Option<&'a [u32]>) -> Ends<'a> {
        match self.sampler {
            NegativeSampler::Uniform => Ends::Uniform(self.order.as_ref().map(|order| order.new_of_old())),
            NegativeSampler::Degree | NegativeSampler::InBatch => {
                let links = self.numbered.get_or_init(|| Numbered::new(graph));
                Ends::OfLinks { links, each: self.each, among }
            }
        }
    }

    /// Returns the number of validation links and the number of test links.
    pub(crate) fn held_out(&self) -> [usize; 2] {
        [&self.validation, &self.test].map(|candidates| candidates.links.len())
    }

    /// Returns the size in bytes of the held-out pairs, their scores and ranks, the numbers of links,
    /// and the cached negative pairs. A run in batches (`is_batched`) caches none. `vertices` is the
    /// number of vertices.
    pub(crate) fn bytes(&self, vertices: u64, is_batched: bool) -> u64 {
        let [validation, test] = [&self.validation, &self.test]
            .map(|candidates| (candidates.links.len() + candidates.others.len()) as u64);
        let numbers = match is_batched || self.sampler != NegativeSampler::Uniform {
            true => Numbered::bytes(vertices),
            false => 0,
        };
        let drawn = if is_batched { 0 } else { Negatives::bytes(vertices, self.negatives) };
        (validation + test) * 8 + validation.max(test) * (4 + 16) + numbers + drawn * self.kept as u64
    }

    /// Returns the cell for the negative pairs of an epoch, counted from 0.
    /// [`PredictedLinks::draw`] fills it.
    pub(crate) fn of_epoch(&self, seed: u64, epoch: u32) -> Drawn {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = drawn.iter().find(|(of, _)| *of == (seed, epoch)) {
            return found.clone();
        }
        if drawn.len() >= self.kept {
            drawn.pop_front();
        }
        let new = Drawn::default();
        drawn.push_back(((seed, epoch), new.clone()));
        new
    }

    /// Returns the negative pairs of `epoch`. They are drawn if `drawn` does not contain them yet.
    pub(crate) fn draw<'a>(
        &self,
        drawn: &'a OnceLock<Negatives>,
        dataset: &Dataset,
        (seed, epoch): (u64, u32),
    ) -> &'a Negatives {
        drawn.get_or_init(|| {
            let ends = self.distribution(&dataset.graph, None);
            Negatives::draw(&dataset.graph, self.negatives, key(seed, epoch), ends)
        })
    }

    /// Computes the quality on the test links, or on the validation links if there are no test
    /// links. `embedding` has the embeddings of all rows. Returns `None` if no link is held out.
    pub(crate) fn quality(&self, embedding: View<'_>) -> Option<Quality> {
        let parts = [("test", &self.test), ("validation", &self.validation)];
        let (part, of) = parts.into_iter().find(|(_, of)| !of.links.is_empty())?;
        let [held, others] = [&of.links, &of.others].map(|pairs| metrics::pair_scores(embedding, pairs));
        let (area, precision) = (metrics::pair_area(&held, &others), metrics::pair_precision(&held, &others));
        Some(Quality::of_links(part, of.links.len() as u64, area, precision))
    }

    /// Computes the metric on the held-out links. `embedding` has the embeddings of all rows.
    pub(crate) fn measured(&self, embedding: View<'_>, metric: Metric) -> Metrics {
        let of = |candidates: &Candidates| {
            let [held, others] =
                [&candidates.links, &candidates.others].map(|pairs| metrics::pair_scores(embedding, pairs));
            match metric {
                Metric::Hits10 => metrics::hits_at(10, &held, &others),
                Metric::Hits20 => metrics::hits_at(20, &held, &others),
                Metric::Hits50 => metrics::hits_at(50, &held, &others),
                Metric::Hits100 => metrics::hits_at(100, &held, &others),
                Metric::AveragePrecision => metrics::pair_precision(&held, &others),
                Metric::MeanReciprocalRank => metrics::mean_reciprocal_rank(&held, &others, candidates.each),
                // Link prediction has no other metric.
                _ => metrics::pair_area(&held, &others),
            }
        };
        Metrics { metric, train: None, validation: of(&self.validation), test: of(&self.test) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_graph::order::{self, Order, Reordered};

    #[test]
    fn pairs_are_those_of_vertices_in_any_order() {
        let mut cora = eciton_formats::builtin("cora").unwrap();
        let settings = Links::default();
        let held = hold_out(&mut cora, &settings, Metric::RocAuc).unwrap();
        assert_eq!((cora.labels.width(), cora.split.train.len()), (0, 0));
        let natural = PredictedLinks::new(&cora, held.clone(), (&settings, 1), None);
        assert_eq!((natural.trained, natural.negatives, natural.held_out()), (4488, 4488, [263, 527]));
        let permutation = Permutation::compute(&cora.graph, Order::Degree);
        let Reordered { dataset, permutation } = order::permute_dataset(cora.clone(), permutation).unwrap();
        let permutation = Arc::new(permutation);
        let ordered = PredictedLinks::new(&dataset, held, (&settings, 1), Some(permutation.clone()));
        let (columns, vertices) = (5, cora.vertices() as usize);
        let row = |v: usize| (0..columns).map(move |k| ((v * 31 + k * 17) % 101) as f32 - 50.0);
        let by_vertex: Vec<f32> = (0..vertices).flat_map(row).collect();
        let old = permutation.old_of_new();
        let by_row: Vec<f32> = old.iter().flat_map(|&v| row(v as usize)).collect();
        let [one, other] = [(&natural, &by_vertex), (&ordered, &by_row)]
            .map(|(links, rows)| links.measured(View::new(rows, vertices, columns), Metric::RocAuc));
        assert_eq!((one, one.train), (other, None));
        assert!(one.validation.is_some() && one.test.is_some());
        let (drawn, again) = (natural.of_epoch(3, 7), ordered.of_epoch(3, 7));
        let (drawn, again) = (natural.draw(&drawn, &cora, (3, 7)), ordered.draw(&again, &dataset, (3, 7)));
        assert_eq!(drawn.pairs(), 4488);
        for (new, &vertex) in (0..).zip(old) {
            let of_row: Vec<u32> = again.partners(new).iter().map(|&row| old[row as usize]).collect();
            assert_eq!(drawn.partners(vertex), of_row, "vertex {vertex}");
        }
    }

    #[test]
    fn so_many_epochs_are_kept_as_are_under_way() {
        let mut cora = eciton_formats::builtin("cora").unwrap();
        let settings = Links::default();
        let held = hold_out(&mut cora, &settings, Metric::RocAuc).unwrap();
        for (epochs, kept) in [(0, 1), (1, 1), (3, 3), (64, MOST_KEPT as usize)] {
            let links = PredictedLinks::new(&cora, held.clone(), (&settings, epochs), None);
            let all: Vec<Drawn> = (0..kept as u32).map(|epoch| links.of_epoch(1, epoch)).collect();
            assert!(Arc::ptr_eq(&links.of_epoch(1, 0), &all[0]), "{epochs}");
            // The oldest epoch is removed from the cache.
            let _ = links.of_epoch(1, kept as u32);
            assert!(!Arc::ptr_eq(&links.of_epoch(1, 0), &all[0]), "{epochs}");
            assert_eq!(links.drawn.lock().unwrap().len(), kept);
        }
    }
}

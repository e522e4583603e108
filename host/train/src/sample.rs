//! Micro-batches without a training, for other programs and for inspection. They are those that a
//! training with the same settings reads, if it sums no features before it begins.

use std::ops::Range;

use eciton_graph::dataset::Dataset;
use eciton_graph::links::Pair;
use eciton_graph::sample::Room;
use eciton_input::threads::on_threads;
use eciton_kernel::RowNumbers;
use eciton_program::{Domain, Hops, Over};
use eciton_recipe::{Config, GatherFeatures};
use eciton_runs::report::Batches;
use eciton_types::{IntervalId, Round};

use crate::batch::{Part, Source};
use crate::data::checked;
use crate::defaults;
use crate::error::{Error, Result};
use crate::evaluation::Asked;
use crate::options::Options;
use crate::session::Draft;

/// A micro-batch: rows of the data set, and the edges between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Number of the update, counted from 1.
    pub round: u32,
    /// Number of the micro-batch within the update, counted from 0.
    pub micro: u32,
    /// Vertex number in the data set of each row.
    pub vertices: Vec<u32>,
    /// Number of rows within h hops of the targets, for each h. There is only one number if every layer
    /// computes all rows.
    pub hops: Vec<u32>,
    /// Rows that count in the loss. They are empty in a data set of many graphs, and in link prediction.
    pub targets: Vec<u32>,
    /// Loss weight of each target. `None` if all weights are equal.
    pub loss_weights: Option<Vec<f32>>,
    /// Row of the source of each edge.
    pub sources: Vec<u32>,
    /// Row of the target of each edge, in ascending order.
    pub ends: Vec<u32>,
    /// Weight of each edge in sums over neighbours. `None` if all weights are 1.
    pub edge_weights: Option<Vec<f32>>,
    /// Number of the graph of each row within the micro-batch. `None` for a data set of one graph.
    pub graphs: Option<Vec<u32>>,
    /// Pairs of rows in the loss of link prediction: training links, and pairs without a link. For labels
    /// of edges, the ends of the edges, and no other pairs. `None` for other tasks.
    pub pairs: Option<[Vec<Pair>; 2]>,
    /// Numbers of the labelled edges, in the order of `pairs`. `None` for other tasks.
    pub labelled_edges: Option<Vec<u32>>,
}

impl Sample {
    fn new((round, micro): (Round, IntervalId), part: &Part) -> Self {
        let readout = part.read_out.as_ref().map(|read_out| &read_out.readout);
        let lists = part.levels.first().map(|level| &level.lists);
        let interval = part.levels.first().map(|level| &level.interval);
        let targets = interval.map_or_else(Vec::new, |interval| interval.training.to_vec());
        let weights = interval.and_then(|interval| interval.row_weights.as_ref());
        // The first level has the lists of the targets, and each further one those of another hop.
        let deepest = part.levels.iter().rev().find(|level| level.lists.graph.edges() > 0);
        let lists = deepest.map(|level| &level.lists).or(lists);
        let (mut sources, mut ends) = (Vec::new(), Vec::new());
        let rows = part.vertices.len() as u32;
        for row in lists.map_or(0..0, |lists| 0..lists.graph.vertices().min(rows)) {
            let list = lists.map_or(&[][..], |lists| lists.graph.in_neighbours(row));
            sources.extend(list);
            ends.resize(sources.len(), row);
        }
        Self {
            round: round.0,
            micro: micro.0,
            vertices: part.vertices.to_vec(),
            hops: part.levels.iter().map(|level| level.interval.rows.len() as u32).collect(),
            loss_weights: weights.map(|all| targets.iter().map(|&row| all[row as usize]).collect()),
            targets,
            edge_weights: lists.and_then(|lists| lists.weights(false, false)).map(|all| all.to_vec()),
            graphs: readout.and_then(|readout| {
                let numbers = readout.lists(Over::Graphs)?.outgoing().neighbours();
                Some(numbers.iter().copied().take(part.rows(Domain::VERTICES, 0)).collect())
            }),
            pairs: match part.pairs.as_ref() {
                Some(pairs) => Some(pairs.listed()),
                None => readout.filter(|readout| readout.is_of_edges()).map(|readout| {
                    let edges = 0..readout.standing.len() as u32;
                    [edges.filter_map(|edge| readout.ends(edge)).collect(), Vec::new()]
                }),
            },
            labelled_edges: part.read_out.as_ref().filter(|of| of.readout.is_of_edges()).map(|of| match &of
                .interval
                .numbers
            {
                RowNumbers::List(numbers) => numbers.iter().map(|&number| number as u32).collect(),
                RowNumbers::From(first) => (*first as u32..).take(of.interval.rows.len()).collect(),
            }),
            sources,
            ends,
        }
    }
}

/// Sampler of micro-batches with the settings of a run.
#[derive(Debug)]
pub struct Samples {
    source: Source,
    facts: Batches,
    seed: u64,
    threads: u32,
}

impl Samples {
    /// Creates the sampler, and counts samples if it needs them. If `dataset` is `None`, the data set of
    /// `config` is read. Features are not summed over neighbours in advance, so that samples have all
    /// hops of the model.
    ///
    /// # Errors
    /// Returns [`Error::NoBatches`] if `config` sets no batches, and the errors of a training that
    /// begins.
    pub fn new(config: &Config, dataset: Option<Dataset>, options: &Options) -> Result<Self> {
        let (mut config, dataset) = defaults::settled(config, dataset, None)?;
        let dataset = dataset.map(|dataset| checked(&config, dataset)).transpose()?;
        config.run.gather_features = GatherFeatures::EachEpoch;
        let draft = Draft::new(&config, options, dataset, Asked::Nothing)?;
        let (program, threads) = (draft.planned.program, draft.threads);
        let chooser = draft.planned.chooser.ok_or(Error::NoBatches)?;
        let hops = Hops::from_program(&program).most() as u32;
        let micro = program.apart.unwrap_or(1);
        let inputs = draft.inputs.complete(&program, threads)?;
        let source = Source::new(&config.batch, &inputs, (chooser, threads))?.without_features();
        let facts = source.facts((config.batch.rounds(source.training()), micro, hops));
        Ok(Self { source, facts, seed: config.run.seed, threads })
    }

    /// Returns the facts about the micro-batches, such as their number per epoch.
    #[must_use]
    pub fn facts(&self) -> &Batches {
        &self.facts
    }

    /// Returns the number of threads that draw samples.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Draws all micro-batches of the given updates on all threads, and returns them in order. Updates
    /// are counted from 1. The result does not depend on the number of threads.
    ///
    /// # Errors
    /// Returns [`Error::Tensor`] if the features of the micro-batches do not fit in memory.
    pub fn draw(&self, rounds: Range<u32>) -> Result<Vec<Sample>> {
        let micro = self.source.parts() as u32;
        let all: Vec<(Round, IntervalId)> =
            rounds.flat_map(|round| (0..micro).map(move |micro| (Round(round), IntervalId(micro)))).collect();
        let shares = all.chunks(all.len().div_ceil(self.threads.max(1) as usize).max(1)).collect();
        let drawn = on_threads(shares, |share: &[(Round, IntervalId)]| {
            let mut room = Room::default();
            let one = |&of: &(Round, IntervalId)| {
                Ok(Sample::new(of, &*self.source.part(self.seed, of.0, of.1, &mut room)?))
            };
            share.iter().map(one).collect::<Result<Vec<_>>>()
        });
        drawn.into_iter().try_fold(Vec::new(), |mut all, drawn| {
            all.extend(drawn?);
            Ok(all)
        })
    }
}

//! Settings of mini-batches. A batch has the rows that one weight update reads, either all training
//! rows or a sample of them.
//!
//! An epoch is a pass over the training rows and has one round (optimiser step) per batch. A round
//! has [`Batch::micro`] micro-batches, which the engine schedules like intervals. Each micro-batch
//! has its own rows and edge lists, and never reads rows of another micro-batch. The gradients of
//! all micro-batches are added up before the round's single weight update.
//!
//! | sampler | micro-batch | source |
//! | --- | --- | --- |
//! | [`Sampler::None`] | training rows, without lists | – |
//! | [`Sampler::Vertex`], [`Sampler::Edge`], [`Sampler::Walk`] | the graph between sampled vertices | Zeng et al., ICLR 2020 |
//! | [`Sampler::Frontier`] | the same, sampled by a frontier | Zeng et al., IPDPS 2019 |
//! | [`Sampler::Neighbours`] | training rows, and sampled neighbours hop by hop | Hamilton et al. 2017 |
//! | [`Sampler::ShadowKhop`] | a sampled neighbourhood of each training row | Zeng et al., NeurIPS 2021 |
//! | [`Sampler::Parts`] | a fixed part of a vertex cut | Cao et al. 2023 (CoFree-GNN) |

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Maximum number of micro-batches per round (optimiser step).
pub const MAX_MICRO: u32 = 4096;
/// Maximum number of rounds (optimiser steps) whose batches are sampled in advance.
pub const MAX_PREFETCH: u32 = 64;
/// Average number of training rows of a micro-batch from which [`Correction::Auto`] corrects the bias
/// of sampling.
pub const MANY_ROWS: u32 = 1000;
/// Maximum number of neighbours that a sampler draws per row and hop.
pub const MAX_FAN_OUT: u32 = 65_536;

/// Sampler that chooses the rows and edges of each micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampler {
    /// Training rows in shuffled order, without neighbours. Only models that gather no neighbours
    /// use this sampler.
    #[default]
    None,
    /// Random vertices and the edges between them. The probability of a vertex is proportional to
    /// [`Batch::vertex_weight`].
    Vertex,
    /// End vertices of random edges. The probability of an edge depends on the degrees of its two
    /// end vertices.
    Edge,
    /// Vertices visited by random walks that start at training rows.
    Walk,
    /// Vertices visited by a frontier, which is a set of vertices that moves along random edges
    /// (Zeng et al., IPDPS 2019).
    Frontier,
    /// Training rows in shuffled order, together with up to [`Batch::fan_out`] sampled neighbours
    /// per row and hop.
    Neighbours,
    /// Training rows in shuffled order, each with a separate sampled neighbourhood.
    ShadowKhop,
    /// Fixed parts of the graph from a vertex cut. Each edge belongs to exactly one part, and a
    /// vertex may belong to several.
    Parts,
}

impl Sampler {
    /// All samplers, with their names in recipes, for instance `neighbours`.
    pub const ALL: [(&'static str, Self); 8] = [
        ("none", Self::None),
        ("vertex", Self::Vertex),
        ("edge", Self::Edge),
        ("walk", Self::Walk),
        ("frontier", Self::Frontier),
        ("neighbours", Self::Neighbours),
        ("shadow-khop", Self::ShadowKhop),
        ("parts", Self::Parts),
    ];

    /// Returns the name of the sampler in recipes, for instance `shadow-khop`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("none", |(name, _)| name)
    }

    /// Returns true if a micro-batch is the subgraph induced by the vertices that the sampler
    /// draws.
    #[must_use]
    pub const fn is_induced(self) -> bool {
        matches!(self, Self::Vertex | Self::Edge | Self::Walk | Self::Frontier)
    }

    /// Returns true if a micro-batch consists of shuffled training rows and possibly of other rows
    /// sampled for them.
    #[must_use]
    pub const fn has_targets(self) -> bool {
        matches!(self, Self::None | Self::Neighbours | Self::ShadowKhop)
    }
}

/// Correction of the bias of samplers that draw vertices (Zeng et al., ICLR 2020, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Correction {
    /// [`Correction::Unbiased`] if a micro-batch has [`MANY_ROWS`] training rows on average, or else
    /// [`Correction::None`]. With fewer rows, the weights of rare rows and edges cost more accuracy than
    /// the bias does.
    #[default]
    Auto,
    /// Sums over neighbours and losses are divided by the sampling probabilities of edges and
    /// vertices, so that their estimates are unbiased.
    Unbiased,
    /// No correction. The loss is the plain mean over the training rows of a batch.
    None,
}

impl Correction {
    /// All corrections, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("unbiased", Self::Unbiased), ("none", Self::None)];
}

/// Weight to which [`Sampler::Vertex`] draws vertices in proportion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VertexWeight {
    /// Squared norm of the vertex's column in the normalised adjacency matrix (Zeng et al., ICLR 2020,
    /// section 3.3).
    #[default]
    ColumnNorm,
    /// In-degree + 1.
    Degree,
    /// 1 for each vertex.
    Uniform,
}

impl VertexWeight {
    /// All weights, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] =
        [("column-norm", Self::ColumnNorm), ("degree", Self::Degree), ("uniform", Self::Uniform)];
}

/// Number of neighbours in [`Batch::fan_out`] that stands for all neighbours. Recipes have -1.
pub const ALL_NEIGHBOURS: i32 = -1;

/// Section `[batch]` of a recipe, with the size of a mini-batch and the sampler that draws its
/// rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Batch {
    /// Number of rows per update. They are training rows, or arbitrary vertices if the sampler
    /// draws vertices. If `None`, each update reads all rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u32>,
    /// Number of micro-batches per update, which are processed concurrently. With
    /// [`Sampler::Parts`], it is the number of parts.
    pub micro: u32,
    /// Sampler that chooses the rows and edges of each micro-batch.
    pub sampler: Sampler,
    /// Maximum number of sampled neighbours per row, with one value for each hop, starting at the
    /// training rows. A single value applies to all hops. [`ALL_NEIGHBOURS`] has no maximum.
    pub fan_out: Vec<i32>,
    /// True if neighbours are drawn with replacement, so that a list may contain a neighbour several
    /// times. It affects only [`Sampler::Neighbours`].
    pub replace: bool,
    /// True if neighbours are drawn in proportion to the edge weights of the model. It affects only
    /// [`Sampler::Neighbours`].
    pub by_weight: bool,
    /// True if the last batch of an epoch is left out if it has fewer rows than the others. It affects
    /// only samplers of training rows.
    pub drop_last: bool,
    /// Weight to which [`Sampler::Vertex`] draws vertices in proportion.
    pub vertex_weight: VertexWeight,
    /// Number of vertices in the frontier of [`Sampler::Frontier`]. If `None`, it is a third of the
    /// rows of a micro-batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frontier: Option<u32>,
    /// Number of steps per random walk, for [`Sampler::Walk`].
    pub walk_length: u32,
    /// Correction of the bias of sampling. It affects only samplers that draw vertices.
    pub normalise: Correction,
    /// Average number of times that each vertex is sampled before training. These samples estimate
    /// the probabilities for `normalise`.
    pub coverage: u32,
    /// Share of its edges that a part drops in each round, in [0, 1). It affects only
    /// [`Sampler::Parts`].
    pub drop_edges: f64,
    /// Number of precomputed masks of dropped edges per part. In each round, a part uses one of its
    /// masks at random.
    pub masks: u32,
    /// Number of rounds (optimiser steps) for which batches are sampled in advance. It does not
    /// affect results.
    pub prefetch: u32,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            rows: None,
            micro: 1,
            sampler: Sampler::None,
            fan_out: vec![10],
            replace: false,
            by_weight: false,
            drop_last: false,
            vertex_weight: VertexWeight::ColumnNorm,
            frontier: None,
            walk_length: 4,
            normalise: Correction::Auto,
            coverage: 10,
            drop_edges: 0.0,
            masks: 10,
            prefetch: 2,
        }
    }
}

impl Batch {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if a round consists of micro-batches. Otherwise it reads all rows, divided into
    /// the intervals of the run.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.rows.is_some() || self.sampler != Sampler::None
    }

    /// Returns the number of rounds (optimiser steps) per epoch over `training` rows.
    #[must_use]
    pub fn rounds(&self, training: u32) -> u32 {
        match self.rows {
            Some(rows) if self.sampler != Sampler::Parts => {
                let rows = rows.max(1);
                if self.drop_last { training / rows } else { training.div_ceil(rows) }.max(1)
            }
            _ => 1,
        }
    }

    /// Returns the settings for predictions, which draw no samples. A sampler is replaced by one that needs
    /// no training rows and little memory.
    #[must_use]
    pub fn for_predictions(&self) -> Self {
        match self.sampler {
            Sampler::None => self.clone(),
            _ => Self {
                rows: Some(self.micro),
                micro: self.micro,
                sampler: Sampler::Neighbours,
                fan_out: vec![1],
                ..Self::default()
            },
        }
    }

    /// Returns the average number of training rows of a micro-batch if its rows are drawn uniformly.
    /// `vertices` and `training` are the numbers of all vertices and of training rows.
    #[must_use]
    pub fn training_rows(&self, vertices: u32, training: u32) -> f64 {
        let rows = f64::from(self.rows.unwrap_or(0)) / f64::from(self.micro.max(1));
        rows * f64::from(training) / f64::from(vertices.max(1))
    }

    /// Returns true if sampled sums and losses are corrected. `vertices` and `training` are the numbers
    /// of all vertices and of training rows.
    #[must_use]
    pub fn is_corrected(&self, vertices: u32, training: u32) -> bool {
        self.sampler.is_induced()
            && match self.normalise {
                Correction::Auto => self.training_rows(vertices, training) >= f64::from(MANY_ROWS),
                Correction::Unbiased => true,
                Correction::None => false,
            }
    }

    /// Returns the fan-out (maximum number of sampled neighbours per row) of each of `hops` hops.
    /// `u32::MAX` stands for all neighbours.
    /// `saved` is the number of gathers that run once before training. They may have fan-outs at
    /// the end of the list, which are ignored.
    ///
    /// # Errors
    /// Returns [`Error::Together`] if the list has several fan-outs, but not one per gather.
    pub fn fan_outs(&self, hops: usize, saved: usize) -> Result<Vec<u32>> {
        let most = |&fan_out: &i32| u32::try_from(fan_out).unwrap_or(u32::MAX);
        match &self.fan_out[..] {
            [one] => Ok(vec![most(one); hops]),
            many if many.len() == hops || many.len() == hops + saved => {
                Ok(many.iter().map(most).take(hops).collect())
            }
            many => Err(Error::Together {
                key: "batch.fan_out",
                found: format!("{many:?}"),
                other: "model",
                other_found: format!("{} consecutive gathers", hops + saved),
                remedy: "give one number for all gathers, or a list with one number for each, starting at the output layer",
            }),
        }
    }

    /// Checks that the settings of the section are compatible with each other.
    ///
    /// # Errors
    /// Returns [`Error::Together`] if a setting has no effect with this sampler, or if two settings
    /// exclude each other.
    pub(crate) fn check(&self) -> Result<()> {
        let (usual, sampler) = (Self::default(), self.sampler);
        let unread = |key, found: String, remedy| {
            let other_found = format!("\"{}\"", sampler.name());
            Err(Error::Together { key, found, other: "batch.sampler", other_found, remedy })
        };
        if self.micro != usual.micro && !self.is_on() {
            return unread(
                "batch.micro",
                self.micro.to_string(),
                "set batch.rows to the number of rows of an update",
            );
        }
        if let Some(rows) = self.rows.filter(|&rows| rows < self.micro) {
            return Err(Error::Together {
                key: "batch.micro",
                found: self.micro.to_string(),
                other: "batch.rows",
                other_found: rows.to_string(),
                remedy: "set batch.rows to at least one row for each micro-batch",
            });
        }
        if sampler == Sampler::Parts && self.rows.is_some() {
            let remedy = "remove batch.rows: each update reads all batch.micro parts";
            return unread("batch.rows", self.rows.unwrap_or(0).to_string(), remedy);
        }
        if sampler.is_induced() && self.rows.is_none() {
            let remedy = "set the number of vertices of an update, for instance batch.rows = 9000";
            return unread("batch.rows", "left out".to_owned(), remedy);
        }
        let hops = matches!(sampler, Sampler::Neighbours | Sampler::ShadowKhop);
        if self.fan_out != usual.fan_out && !hops {
            let remedy = "remove batch.fan_out, or set batch.sampler = \"neighbours\" or \"shadow-khop\"";
            return unread("batch.fan_out", format!("{:?}", self.fan_out), remedy);
        }
        for (key, is_set, remedy) in [
            ("batch.replace", self.replace, "remove batch.replace, or set batch.sampler = \"neighbours\""),
            (
                "batch.by_weight",
                self.by_weight,
                "remove batch.by_weight, or set batch.sampler = \"neighbours\"",
            ),
        ] {
            if is_set && sampler != Sampler::Neighbours {
                return unread(key, "true".to_owned(), remedy);
            }
        }
        if self.replace && self.fan_out.contains(&ALL_NEIGHBOURS) {
            return Err(Error::Together {
                key: "batch.replace",
                found: "true".to_owned(),
                other: "batch.fan_out",
                other_found: format!("{:?}", self.fan_out),
                remedy: "give each hop a number of neighbours, or remove batch.replace",
            });
        }
        if self.drop_last && (self.rows.is_none() || !sampler.has_targets()) {
            let remedy = "remove batch.drop_last, or set batch.rows and a sampler of training rows, for instance batch.sampler = \"neighbours\"";
            return unread("batch.drop_last", "true".to_owned(), remedy);
        }
        if self.vertex_weight != usual.vertex_weight && sampler != Sampler::Vertex {
            let names = VertexWeight::ALL.iter().find(|(_, known)| *known == self.vertex_weight);
            let found = names.map_or(String::new(), |(name, _)| format!("{name:?}"));
            let remedy = "remove batch.vertex_weight, or set batch.sampler = \"vertex\"";
            return unread("batch.vertex_weight", found, remedy);
        }
        if let Some(frontier) = self.frontier.filter(|_| sampler != Sampler::Frontier) {
            let remedy = "remove batch.frontier, or set batch.sampler = \"frontier\"";
            return unread("batch.frontier", frontier.to_string(), remedy);
        }
        if self.walk_length != usual.walk_length && sampler != Sampler::Walk {
            let remedy = "remove batch.walk_length, or set batch.sampler = \"walk\"";
            return unread("batch.walk_length", self.walk_length.to_string(), remedy);
        }
        // Older recipes have `normalise = true` with every sampler.
        let is_usual = matches!(self.normalise, Correction::Auto | Correction::Unbiased);
        if !(is_usual && self.coverage == usual.coverage || sampler.is_induced()) {
            let names = Correction::ALL.iter().find(|(_, known)| *known == self.normalise);
            let name = names.map_or("", |(name, _)| name);
            let found = format!("\"{name}\", batch.coverage {}", self.coverage);
            let remedy = "remove both keys, or set a sampler that draws vertices, for instance batch.sampler = \"walk\"";
            return unread("batch.normalise", found, remedy);
        }
        if self.masks != usual.masks && self.drop_edges == 0.0 {
            let remedy = "remove batch.masks, or set batch.drop_edges and batch.sampler = \"parts\"";
            return unread("batch.masks", self.masks.to_string(), remedy);
        }
        if self.drop_edges != usual.drop_edges && sampler != Sampler::Parts {
            let remedy = "remove batch.drop_edges, or set batch.sampler = \"parts\"";
            return unread("batch.drop_edges", self.drop_edges.to_string(), remedy);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Config;

    fn checked(recipe: &str) -> Result<Batch, String> {
        let config = Config::parse(recipe, "recipe.toml").map_err(|error| error.to_string())?;
        config.check().map_err(|error| error.to_string())?;
        Ok(config.batch)
    }

    #[test]
    fn an_epoch_has_as_many_rounds_as_batches() {
        let batch = checked("[batch]\nrows = 512\nmicro = 2\n").unwrap();
        assert!(batch.is_on() && !Batch::default().is_on());
        assert_eq!([batch.rounds(512), batch.rounds(513), batch.rounds(1), batch.rounds(0)], [1, 2, 1, 1]);
        assert_eq!(Batch::default().rounds(1000), 1);
        let parts = checked("[batch]\nsampler = \"parts\"\nmicro = 4\n").unwrap();
        assert_eq!(parts.rounds(1000), 1);
    }

    #[test]
    fn one_fan_out_counts_for_all_hops() {
        let batch = checked("[batch]\nsampler = \"neighbours\"\nrows = 8\nfan_out = [25, 10]\n").unwrap();
        assert_eq!(batch.fan_outs(2, 0).unwrap(), [25, 10]);
        assert_eq!(batch.fan_outs(1, 1).unwrap(), [25]);
        assert!(batch.fan_outs(3, 1).unwrap_err().to_string().contains("4 consecutive gathers"));
        assert_eq!(Batch::default().fan_outs(3, 0).unwrap(), [10; 3]);
        let all = checked("[batch]\nsampler = \"neighbours\"\nrows = 8\nfan_out = [5, -1]\n").unwrap();
        assert_eq!(all.fan_outs(2, 0).unwrap(), [5, u32::MAX]);
    }

    #[test]
    fn the_last_batch_may_be_left_out() {
        let batch = checked("[batch]\nsampler = \"neighbours\"\nrows = 8\ndrop_last = true\n").unwrap();
        assert_eq!([batch.rounds(17), batch.rounds(16), batch.rounds(5)], [2, 2, 1]);
    }

    #[test]
    fn few_training_rows_are_not_corrected() {
        let batch = |more: &str| {
            checked(&format!("[batch]\nsampler = \"walk\"\nrows = 4000\nmicro = 2\n{more}")).unwrap()
        };
        let of = |more: &str| [5000, 4999].map(|training| batch(more).is_corrected(10_000, training));
        assert_eq!(of(""), [true, false]);
        assert_eq!(of("normalise = \"unbiased\""), [true; 2]);
        assert_eq!(of("normalise = \"none\""), [false; 2]);
        assert!(!Batch::default().is_corrected(10, 10));
    }

    #[test]
    fn a_correction_may_be_a_flag_as_in_older_recipes() {
        let of = |value: &str| {
            checked(&format!("[batch]\nsampler = \"walk\"\nrows = 9\nnormalise = {value}\n"))
                .unwrap()
                .normalise
        };
        assert_eq!(of("true"), Correction::Unbiased);
        assert_eq!(of("false"), Correction::None);
        assert_eq!(of("\"auto\""), Correction::Auto);
        assert!(checked("[batch]\nnormalise = true\n").is_ok(), "older recipes have it without a sampler");
    }

    #[test]
    fn what_nothing_reads_is_refused() {
        for (recipe, word) in [
            ("[batch]\nmicro = 2\n", "batch.rows"),
            ("[batch]\nrows = 1\nmicro = 2\n", "one row for each micro-batch"),
            ("[batch]\nsampler = \"parts\"\nrows = 9\n", "batch.micro parts"),
            ("[batch]\nsampler = \"walk\"\n", "the number of vertices"),
            ("[batch]\nrows = 9\nfan_out = [3]\n", "neighbours"),
            ("[batch]\nrows = 9\nsampler = \"neighbours\"\nfan_out = [3, 0]\n", "-1"),
            ("[batch]\nrows = 9\nsampler = \"neighbours\"\nfan_out = -2\n", "-1"),
            ("[batch]\nrows = 9\nsampler = \"shadow-khop\"\nreplace = true\n", "neighbours"),
            ("[batch]\nrows = 9\nsampler = \"neighbours\"\nfan_out = -1\nreplace = true\n", "each hop"),
            ("[batch]\nrows = 9\nsampler = \"walk\"\ndrop_last = true\n", "training rows"),
            ("[batch]\nsampler = \"neighbours\"\ndrop_last = true\n", "batch.rows"),
            ("[batch]\nrows = 9\nvertex_weight = \"degree\"\n", "vertex"),
            ("[batch]\nrows = 9\nfrontier = 3\n", "frontier"),
            ("[batch]\nrows = 9\nwalk_length = 3\n", "walk"),
            ("[batch]\nrows = 9\ndrop_edges = 0.5\n", "parts"),
            ("[batch]\nrows = 9\ncoverage = 5\n", "draws vertices"),
            ("[batch]\nsampler = \"parts\"\nnormalise = false\n", "draws vertices"),
            ("[batch]\nrows = 9\nnormalise = \"none\"\n", "draws vertices"),
            ("[batch]\nsampler = \"parts\"\nmasks = 5\n", "drop_edges"),
            ("[batch]\nrows = 0\n", "rows"),
            ("[batch]\nsampler = \"neighbour\"\n", "neighbours"),
        ] {
            let error = checked(recipe).unwrap_err();
            assert!(error.contains(word), "{recipe}: {error}");
        }
    }
}

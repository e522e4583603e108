//! What an update of the weights is made from: all rows, or a part of them.
//!
//! An epoch is a pass over the training rows, of as many rounds as there are batches. A round has
//! [`Batch::micro`] parts, which stand where intervals stand without batches: a part has rows and
//! lists of its own, and reads no row of another. Gradients of all parts are added before the one
//! update.
//!
//! | sampler | a part | source |
//! | --- | --- | --- |
//! | [`Sampler::None`] | training rows, without lists | – |
//! | [`Sampler::Vertex`], [`Sampler::Edge`], [`Sampler::Walk`] | the graph between sampled vertices | Zeng et al., ICLR 2020 |
//! | [`Sampler::Frontier`] | the same, sampled by a frontier | Zeng et al., IPDPS 2019 |
//! | [`Sampler::Neighbours`] | training rows, and sampled neighbours hop by hop | Hamilton et al. 2017 |
//! | [`Sampler::Shadow`] | a sampled neighbourhood of each training row | Zeng et al., NeurIPS 2021 |
//! | [`Sampler::Parts`] | a fixed part of a vertex cut; no row of another | Cao et al. 2023 (CoFree-GNN) |

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most parts of a round.
pub const MAX_MICRO: u32 = 4096;
/// Most rounds that are sampled ahead of need.
pub const MAX_PREFETCH: u32 = 64;
/// Most neighbours a row may be given.
pub const MAX_FAN_OUT: u32 = 65_536;

/// How the rows of a part are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampler {
    /// Training rows alone, in a shuffled order: for models without a gather.
    #[default]
    None,
    /// Vertices, by the weight of their columns.
    Vertex,
    /// Both ends of edges, by their degrees.
    Edge,
    /// Random walks from training rows.
    Walk,
    /// A frontier that moves along edges.
    Frontier,
    /// Training rows in a shuffled order, and so many neighbours a row, hop by hop.
    Neighbours,
    /// Training rows in a shuffled order, each with a neighbourhood of its own.
    Shadow,
    /// Fixed parts of a vertex cut.
    Parts,
}

impl Sampler {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 8] = [
        ("none", Self::None),
        ("vertex", Self::Vertex),
        ("edge", Self::Edge),
        ("walk", Self::Walk),
        ("frontier", Self::Frontier),
        ("neighbours", Self::Neighbours),
        ("shadow", Self::Shadow),
        ("parts", Self::Parts),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("none", |(name, _)| name)
    }

    /// Returns whether a part is the graph between vertices that the sampler draws itself.
    #[must_use]
    pub const fn is_induced(self) -> bool {
        matches!(self, Self::Vertex | Self::Edge | Self::Walk | Self::Frontier)
    }

    /// Returns whether a part is made for training rows that come in a shuffled order.
    #[must_use]
    pub const fn has_targets(self) -> bool {
        matches!(self, Self::None | Self::Neighbours | Self::Shadow)
    }
}

/// `[batch]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Batch {
    /// Rows of an update: training rows, or, of a sampler that draws vertices itself, vertices;
    /// `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u32>,
    /// Parts of an update, which are worked on side by side. With [`Sampler::Parts`] all parts
    /// there are.
    pub micro: u32,
    /// How rows are chosen.
    pub sampler: Sampler,
    /// Most neighbours of a row, hop by hop from the training row; one number counts for every hop.
    pub fan_out: Vec<u32>,
    /// Vertices of a frontier; `None`: a third of a part's rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frontier: Option<u32>,
    /// Steps of a walk.
    pub walk_length: u32,
    /// True if gathers and losses are weighed by how often edges and vertices are sampled, so that
    /// both are unbiased (Zeng et al., ICLR 2020, section 3.2); of samplers that draw vertices
    /// themselves.
    pub normalise: bool,
    /// How often a vertex is sampled, on average, before these counts are taken.
    pub coverage: u32,
    /// The share of edges that a part leaves out in a round, in [0, 1); of [`Sampler::Parts`].
    pub drop_edges: f64,
    /// How many such choices of edges there are, one of which is drawn each round.
    pub masks: u32,
    /// Rounds that are sampled ahead of need. Never changes a result.
    pub prefetch: u32,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            rows: None,
            micro: 1,
            sampler: Sampler::None,
            fan_out: vec![10],
            frontier: None,
            walk_length: 4,
            normalise: true,
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

    /// Returns whether a round has parts of its own. With neither rows nor a sampler a round is all
    /// rows, in the run's intervals.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.rows.is_some() || self.sampler != Sampler::None
    }

    /// Rounds of an epoch for `training` rows.
    #[must_use]
    pub fn rounds(&self, training: u32) -> u32 {
        match self.rows {
            Some(rows) if self.sampler != Sampler::Parts => training.div_ceil(rows.max(1)).max(1),
            _ => 1,
        }
    }

    /// How many neighbours a row gets at each of `hops` hops. Of a model with `saved` further
    /// gathers, which are done once before training, the last fan-outs are not needed.
    ///
    /// # Errors
    /// [`Error::Together`] for another number of fan-outs than one or as many as gathers.
    pub fn fan_outs(&self, hops: usize, saved: usize) -> Result<Vec<u32>> {
        match &self.fan_out[..] {
            [one] => Ok(vec![*one; hops]),
            many if many.len() == hops || many.len() == hops + saved => {
                Ok(many.iter().copied().take(hops).collect())
            }
            many => Err(Error::Together {
                key: "batch.fan_out",
                found: format!("{many:?}"),
                other: "model",
                other_found: format!("{} gathers one behind the other", hops + saved),
                remedy: "give one number for every gather, from the loss on, or one for all",
            }),
        }
    }

    /// What no key by itself can tell.
    ///
    /// # Errors
    /// [`Error::Together`] for settings that nothing reads.
    pub(crate) fn check(&self) -> Result<()> {
        let (usual, sampler) = (Self::default(), self.sampler);
        let unread = |key, found: String, remedy| {
            let other_found = format!("\"{}\"", sampler.name());
            Err(Error::Together { key, found, other: "batch.sampler", other_found, remedy })
        };
        if self.micro != usual.micro && !self.is_on() {
            return unread("batch.micro", self.micro.to_string(), "say batch.rows, the rows of an update");
        }
        if let Some(rows) = self.rows.filter(|&rows| rows < self.micro) {
            return Err(Error::Together {
                key: "batch.micro",
                found: self.micro.to_string(),
                other: "batch.rows",
                other_found: rows.to_string(),
                remedy: "have at least one row for each part",
            });
        }
        if sampler == Sampler::Parts && self.rows.is_some() {
            let remedy = "leave batch.rows out: each update takes all parts, batch.micro of them";
            return unread("batch.rows", self.rows.unwrap_or(0).to_string(), remedy);
        }
        if sampler.is_induced() && self.rows.is_none() {
            let remedy = "say how many vertices an update has, for instance batch.rows = 9000";
            return unread("batch.rows", "left out".to_owned(), remedy);
        }
        let hops = matches!(sampler, Sampler::Neighbours | Sampler::Shadow);
        if self.fan_out != usual.fan_out && !hops {
            let remedy = "leave it out, or say batch.sampler = \"neighbours\" or \"shadow\"";
            return unread("batch.fan_out", format!("{:?}", self.fan_out), remedy);
        }
        if let Some(frontier) = self.frontier.filter(|_| sampler != Sampler::Frontier) {
            let remedy = "leave it out, or say batch.sampler = \"frontier\"";
            return unread("batch.frontier", frontier.to_string(), remedy);
        }
        if self.walk_length != usual.walk_length && sampler != Sampler::Walk {
            let remedy = "leave it out, or say batch.sampler = \"walk\"";
            return unread("batch.walk_length", self.walk_length.to_string(), remedy);
        }
        if (self.normalise, self.coverage) != (usual.normalise, usual.coverage) && !sampler.is_induced() {
            let found = format!("{}, batch.coverage {}", self.normalise, self.coverage);
            let remedy = "leave both out, or say a sampler that draws vertices, for instance \"walk\"";
            return unread("batch.normalise", found, remedy);
        }
        if self.masks != usual.masks && self.drop_edges == 0.0 {
            let remedy = "leave it out, or say batch.drop_edges with sampler \"parts\"";
            return unread("batch.masks", self.masks.to_string(), remedy);
        }
        if self.drop_edges != usual.drop_edges && sampler != Sampler::Parts {
            let remedy = "leave it out, or say batch.sampler = \"parts\"";
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
        assert!(batch.fan_outs(3, 1).unwrap_err().to_string().contains("4 gathers"));
        assert_eq!(Batch::default().fan_outs(3, 0).unwrap(), [10; 3]);
    }

    #[test]
    fn what_nothing_reads_is_refused() {
        for (recipe, word) in [
            ("[batch]\nmicro = 2\n", "batch.rows"),
            ("[batch]\nrows = 1\nmicro = 2\n", "one row for each part"),
            ("[batch]\nsampler = \"parts\"\nrows = 9\n", "all parts"),
            ("[batch]\nsampler = \"walk\"\n", "how many vertices"),
            ("[batch]\nrows = 9\nfan_out = [3]\n", "neighbours"),
            ("[batch]\nrows = 9\nfrontier = 3\n", "frontier"),
            ("[batch]\nrows = 9\nwalk_length = 3\n", "walk"),
            ("[batch]\nrows = 9\ndrop_edges = 0.5\n", "parts"),
            ("[batch]\nrows = 9\ncoverage = 5\n", "draws vertices"),
            ("[batch]\nsampler = \"parts\"\nnormalise = false\n", "draws vertices"),
            ("[batch]\nsampler = \"parts\"\nmasks = 5\n", "drop_edges"),
            ("[batch]\nrows = 0\n", "rows"),
            ("[batch]\nsampler = \"neighbour\"\n", "neighbours"),
        ] {
            let error = checked(recipe).unwrap_err();
            assert!(error.contains(word), "{recipe}: {error}");
        }
    }
}

//! Pipelines in a simulated world: lanes of a real [`Engine`], links between them, places that are preempted.
//!
//! A step of a lane takes its stage's seconds over its place's pace, at most a share longer at random, and
//! begins when the rows that it reads have come: a boundary takes its bytes over the link. Places are lost one
//! by one (exponential times) and in bursts of a zone, and are there again after a while. The engine does
//! what it does in a run: lanes move to the place before, rows that went are computed once more, shadows
//! hold a neighbour's.
//!
//! Beside it, the same trace by checkpoints: each loss costs a restart and all rounds since the last one.

mod planned;
mod program;
mod trace;
mod world;

use eciton_engine::Residence;
use eciton_recipe::{Lanes, Order, WeightVersions};

use crate::error::Error;

pub use trace::{Preemption, checkpointed};

/// A stage of a pipeline, on one micro-batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Seconds forward.
    pub forward: f64,
    /// Seconds back.
    pub backward: f64,
    /// The stages that it reads, each before it, and bytes of their rows; as many go back.
    pub reads: Vec<(u16, f64)>,
    /// Bytes of its weights; as many are its gradient.
    pub weights: f64,
}

/// A pipeline and how it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// In topological order; stage k is on lane k mod the number of lanes of a replica.
    pub stages: Vec<Stage>,
    /// Stages of a lane.
    pub chunks: u32,
    /// Replicas.
    pub width: u32,
    /// Micro-batches of an update, of all replicas together.
    pub micro: u32,
    /// Rows of an update.
    pub rows: u32,
    /// Order in which a lane runs its steps.
    pub order: Order,
    /// Versions of the weights that rounds read.
    pub weights: WeightVersions,
    /// Seconds of an update of the weights, in which no lane waits but of the next round.
    pub update: f64,
    /// Holder of the stashes of forward steps.
    pub residence: Residence,
}

/// Owner of boundary rows and weights, which decides on the links that they use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Owner {
    /// The places: a boundary goes from place to place, and a stage's weights, moments and versions stay
    /// where the stage runs.
    Worker,
    /// The host: boundaries go up to it and down to their readers, gradients go up and weights down once an
    /// update, all over one link of so many bytes a second each way, one after the other.
    Host(f64),
}

/// Places and what they cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    /// Bytes a second of a place's own link.
    pub link: f64,
    /// Owner of the weights and boundary rows.
    pub owner: Owner,
    /// Relative speed of each worker, repeated cyclically. If empty, all are 1.
    pub paces: Vec<f64>,
    /// Dollars of a place an hour that it is there.
    pub usd_hour: f64,
    /// The largest share that a step takes longer.
    pub jitter: f64,
    /// Preemption of workers.
    pub preemption: Preemption,
    /// Losses that are known: seconds from the start, and the place. Such a place is back as others are.
    pub trace: Vec<(f64, u32)>,
}

/// Result of a simulated pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct PipelineReport {
    /// Simulated seconds.
    pub seconds: f64,
    /// Rounds that were over.
    pub rounds: u32,
    /// Rows a second.
    pub rows_per_s: f64,
    /// Dollars of all places while they were there.
    pub usd: f64,
    /// Places lost.
    pub losses: u64,
    /// Places that were there, on average.
    pub places: f64,
    /// The share of that time in which a place did nothing.
    pub idle: f64,
    /// Steps that were in flight at a worker when it failed.
    pub retries: u64,
    /// Steps that were done again for the rows that a failed worker had kept.
    pub again: u64,
}

impl Pipeline {
    /// Runs it for so many simulated seconds.
    ///
    /// # Errors
    /// [`Error::Setting`] for no stage, no micro-batch, a figure out of range; those of the engine;
    /// [`Error::Failed`] for a step that was lost more often than attempts are counted.
    pub fn run(&self, places: &Places, seconds: f64, seed: u64) -> Result<PipelineReport, Error> {
        self.check(places, seconds)?;
        world::World::new(self, places, seed)?.run(seconds)
    }

    /// Its lanes.
    fn lanes(&self) -> Lanes {
        let (width, order) = (self.width, self.order);
        let depth = self.stages.len() as u32 / self.chunks.max(1);
        Lanes {
            count: depth * width,
            width,
            order,
            cap: None,
            chunks: Some(self.chunks).filter(|&of| of > 1),
        }
    }

    fn check(&self, places: &Places, seconds: f64) -> Result<(), Error> {
        let refuse = |what, found: String, allowed: &str| {
            Err(Error::Setting { what, found, allowed: allowed.to_owned() })
        };
        let (count, width) = (u64::from(self.lanes().depth()), u64::from(self.width));
        if !(self.stages.len() as u32).is_multiple_of(self.chunks.max(1)) {
            let found = format!("{} with {} per lane", self.stages.len(), self.chunks);
            return refuse("stages", found, "a multiple of the stages per lane");
        }
        if count == 0 || width == 0 || count * width > u64::from(eciton_recipe::lanes::MAX_LANES) {
            let found = format!("{count} stages in {width} replicas");
            return refuse("lanes", found, "1 to 4,096, stages times replicas");
        }
        if self.micro == 0 || !self.micro.is_multiple_of(self.width) {
            let found = self.micro.to_string();
            return refuse("micro-batches", found, "a multiple of the replicas, at least one each");
        }
        for (at, stage) in self.stages.iter().enumerate() {
            let figures = [stage.forward, stage.backward];
            let figures =
                figures.into_iter().chain([stage.weights]).chain(stage.reads.iter().map(|(_, bytes)| *bytes));
            if let Some(figure) = figures.into_iter().find(|f| !(f.is_finite() && *f >= 0.0)) {
                return refuse("a stage's seconds or bytes", figure.to_string(), "at least 0");
            }
            if let Some((read, _)) = stage.reads.iter().find(|(read, _)| usize::from(*read) >= at) {
                return refuse("a stage's reads", format!("stage {read} by stage {at}"), "earlier stages");
            }
        }
        let preemption = &places.preemption;
        let host = match places.owner {
            Owner::Worker => places.link,
            Owner::Host(link) => link,
        };
        let positive = [("link", places.link), ("host's link", host), ("seconds", seconds)];
        let paces = places.paces.iter().map(|&pace| ("pace", pace));
        if let Some((what, f)) = positive.into_iter().chain(paces).find(|(_, f)| !(f.is_finite() && *f > 0.0))
        {
            return refuse(what, f.to_string(), "above 0");
        }
        let shares = [
            ("update seconds", self.update),
            ("dollars per hour", places.usd_hour),
            ("jitter", places.jitter),
            ("failures per hour", preemption.per_hour),
            ("bursts per hour", preemption.bursts_per_hour),
            ("seconds until a worker is replaced", preemption.back),
        ];
        if let Some((what, figure)) = shares.into_iter().find(|(_, f)| !(f.is_finite() && *f >= 0.0)) {
            return refuse(what, figure.to_string(), "at least 0");
        }
        let known =
            |&&(at, place): &&(f64, u32)| at.is_finite() && at >= 0.0 && u64::from(place) < count * width;
        match places.trace.iter().find(|lost| !known(lost)) {
            Some((at, place)) => {
                let allowed = format!("at least 0 s, and workers 0 to {}", count * width - 1);
                refuse("a failure in a trace", format!("worker {place} after {at} s"), &allowed)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;

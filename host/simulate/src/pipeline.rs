//! Simulated pipelines: lanes of a real [`Engine`], network links between workers, and workers that
//! are preempted.
//!
//! A lane is a worker's share of the pipeline. A step of a lane takes its stage's time divided by
//! its worker's pace, with random jitter. It begins when the rows that it reads have arrived: rows
//! between stages take their bytes over the link. Workers fail one by one (at exponentially
//! distributed times) and in bursts of a zone, and are replaced after some time. The engine behaves
//! like in a real run. Lanes of a failed worker move to the worker before it, lost rows are
//! recomputed, and with redundant computation a worker also has rows of the next one.
//!
//! For comparison, the same trace of failures is evaluated for training with checkpoints: each
//! failure costs a restart and all rounds since the last checkpoint.

mod planned;
mod program;
mod trace;
mod world;

use eciton_engine::Residence;
use eciton_recipe::{Lanes, Order, WeightVersions};

use crate::error::Error;

pub use trace::{Preemption, checkpointed};

/// Stage of a simulated pipeline, with its costs for one micro-batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Forward time of a micro-batch, in seconds.
    pub forward: f64,
    /// Backward time of a micro-batch, in seconds.
    pub backward: f64,
    /// Stages that the stage reads, each earlier in the list, with the bytes of their rows. The
    /// gradients that return have the same size.
    pub reads: Vec<(u16, f64)>,
    /// Size of the stage's weights, in bytes. Their gradient has the same size.
    pub weights: f64,
}

/// Simulated pipeline: its stages, lanes, micro-batches and schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// Stages in topological order. Stage k is on lane k mod the number of lanes of a replica.
    pub stages: Vec<Stage>,
    /// Number of stages on each lane.
    pub chunks: u32,
    /// Number of replicas of the pipeline.
    pub width: u32,
    /// Number of micro-batches per update, over all replicas.
    pub micro: u32,
    /// Number of rows per update.
    pub rows: u32,
    /// Order in which a lane runs its steps.
    pub order: Order,
    /// Versions of the weights that rounds read.
    pub weights: WeightVersions,
    /// Time of an update of the weights, in seconds. Only lanes of the next round wait for it.
    pub update: f64,
    /// Location of the rows that forward steps stash for backward steps.
    pub residence: Residence,
}

/// Owner of the weights and of the rows between stages, which determines the links that they use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Owner {
    /// The workers own them. Rows between stages are sent from worker to worker. A stage's weights,
    /// moments and versions stay on the worker that runs the stage.
    Worker,
    /// The host owns them. Rows are sent to the host and from there to their readers. Gradients are
    /// sent to the host, and weights from the host, once per update. All of these use one link with
    /// this number of bytes per second in each direction, one transfer after another.
    Host(f64),
}

/// Workers of a simulated pipeline, with their network, speed, price and failures.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    /// Network bandwidth of each worker, in bytes per second.
    pub link: f64,
    /// Owner of the weights and of the rows between stages.
    pub owner: Owner,
    /// Relative speed of each worker. If the list is shorter than the number of workers, it is
    /// repeated. If empty, all speeds are 1.
    pub paces: Vec<f64>,
    /// Price of a worker per hour in which it is available, in USD.
    pub usd_hour: f64,
    /// Maximum share by which a step takes longer, at random.
    pub jitter: f64,
    /// Rates of preemption and failure of workers.
    pub preemption: Preemption,
    /// Failures at known times, as pairs of seconds from the start and worker. Such a worker is
    /// replaced like others.
    pub trace: Vec<(f64, u32)>,
}

/// Result of a simulated pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct PipelineReport {
    /// Simulated time, in seconds.
    pub seconds: f64,
    /// Number of rounds (updates) that have finished.
    pub rounds: u32,
    /// Number of rows processed per second.
    pub rows_per_s: f64,
    /// Price of all workers for the time in which they were available, in USD.
    pub usd: f64,
    /// Number of failures of workers.
    pub losses: u64,
    /// Average number of available workers.
    pub places: f64,
    /// Share of the workers' available time in which they were idle.
    pub idle: f64,
    /// Steps that were in flight at a worker when it failed.
    pub retries: u64,
    /// Number of steps that were run again because the worker with their rows failed.
    pub again: u64,
}

impl Pipeline {
    /// Runs the pipeline for a number of simulated seconds.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] if there is no stage or no micro-batch, or if a value is out of
    /// range. Returns [`Error::Failed`] if workers failed during a step more often than the maximum
    /// number of attempts. Also returns the errors of the engine.
    pub fn run(&self, places: &Places, seconds: f64, seed: u64) -> Result<PipelineReport, Error> {
        self.check(places, seconds)?;
        world::World::new(self, places, seed)?.run(seconds)
    }

    /// Returns the lanes of the pipeline.
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

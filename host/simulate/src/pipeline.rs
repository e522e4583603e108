//! Simulated pipelines of a real [`Engine`], with network links between workers and preemption of
//! workers.
//!
//! A lane is a worker's share of the pipeline. A step begins when the rows that it reads have
//! arrived, and rows between stages are sent over the link. A step takes the time of its stage
//! divided by the speed of its worker, with random jitter.
//!
//! Workers fail individually, at exponentially distributed times, and in bursts within a zone. They
//! are replaced after some time. The engine behaves as in a real run. The predecessor of a failed
//! worker or its peers in other replicas take over its lanes ([`Takeover`]), and lost rows are
//! recomputed. With redundant computation, each worker also computes the rows of its successor.
//!
//! If workers own the weights ([`Places::snapshot_every`]), a failure also costs the round in
//! flight and, without another worker that has the same weights, all rounds since the last
//! snapshot. Other workers have the same weights in a pipeline with several replicas, and with
//! replicated weights ([`Places::replicas`]).
//!
//! For comparison, [`checkpointed`] evaluates the same failure trace for training that restarts
//! from checkpoints. Each failure then costs a restart and all rounds since the last checkpoint.

mod planned;
mod program;
mod trace;
mod world;

use eciton_engine::{Residence, Takeover};
use eciton_recipe::{Lanes, Order, WeightVersions};

use crate::error::Error;

pub use trace::{Preemption, checkpointed};

/// Stage of a simulated pipeline, with its cost for one micro-batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Time of the forward step for one micro-batch, in seconds.
    pub forward: f64,
    /// Time of the backward step for one micro-batch, in seconds.
    pub backward: f64,
    /// Earlier stages whose output this stage reads, with the number of bytes per micro-batch. The
    /// gradient that is sent back has the same size.
    pub reads: Vec<(u16, f64)>,
    /// Size of the stage's weights, in bytes. The gradient of the weights has the same size.
    pub weights: f64,
}

/// Simulated pipeline, with its stages, replicas, micro-batches and schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// Stages in topological order. Stage `k` runs on lane `k mod n` of a replica with `n` lanes.
    pub stages: Vec<Stage>,
    /// Number of stages per lane.
    pub chunks: u32,
    /// Number of replicas of the pipeline.
    pub width: u32,
    /// Number of micro-batches per update, summed over all replicas.
    pub micro: u32,
    /// Number of rows (samples) per update.
    pub rows: u32,
    /// Schedule, which is the order in which a lane runs its steps.
    pub order: Order,
    /// Weight versions that the steps of a round read.
    pub weights: WeightVersions,
    /// Time of a weight update, in seconds. Only steps of the next round wait for it.
    pub update: f64,
    /// Location of the rows that forward steps stash for their backward steps.
    pub residence: Residence,
    /// Rule that selects the workers that run the lanes of a failed worker. If `None`, the engine
    /// selects the rule ([`eciton_engine::Settings::takeover`]).
    pub takeover: Option<Takeover>,
}

/// Owner of the weights and of the rows between stages. It determines the links over which they are
/// sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Owner {
    /// The workers. Rows between stages are sent directly from worker to worker. The worker that
    /// runs a stage stores its weights, optimiser moments and weight versions.
    Worker,
    /// The host. Rows are sent through the host, and weights and gradients are exchanged with it
    /// once per update. All transfers use one link with the given bandwidth in bytes per second per
    /// direction, one after another.
    Host(f64),
}

/// Workers of a simulated pipeline, with their network, speeds, price and failures.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    /// Network bandwidth of each worker, in bytes per second.
    pub link: f64,
    /// Owner of the weights and of the rows between stages.
    pub owner: Owner,
    /// Relative speed of each worker. A list that is shorter than the number of workers is
    /// repeated. If it is empty, all speeds are 1.
    pub paces: Vec<f64>,
    /// Price per worker and hour of availability, in USD.
    pub usd_hour: f64,
    /// Maximum share by which a step randomly takes longer, for instance 0.05 for 5 %.
    pub jitter: f64,
    /// Rates of random failures and preemptions.
    pub preemption: Preemption,
    /// Additional failures and returns at known times. If the trace has a return, workers return only
    /// then. Otherwise they are replaced as after other failures.
    pub trace: Vec<Known>,
    /// Number of updates from one snapshot of the weights to the next, if workers own the weights.
    /// As in a real run, each failure then repeats the round in flight. If no other worker has the
    /// same weights, the run rolls back to the last snapshot. `None` is possible only if no worker
    /// fails, or if the host owns the weights.
    pub snapshot_every: Option<u32>,
    /// Time for which the pipeline waits while a snapshot is written, in seconds.
    pub snapshot_seconds: f64,
    /// Number of other workers that replicate the weights of a worker, if workers own the weights.
    /// They are the workers before it. After each update they receive its gradients.
    pub replicas: u32,
}

/// Failure or return of a worker at a known time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// Time since the start, in seconds.
    pub seconds: f64,
    /// Index of the worker.
    pub worker: u32,
    /// True if the worker returns, or another one replaces it. False if it fails.
    pub returns: bool,
}

/// Result of a simulated pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct PipelineReport {
    /// Simulated duration of the run, in seconds.
    pub seconds: f64,
    /// Number of finished rounds (weight updates).
    pub rounds: u32,
    /// Number of rows (samples) processed per second.
    pub rows_per_s: f64,
    /// Cost of all workers for the time in which they were available, in USD.
    pub usd: f64,
    /// Number of worker failures.
    pub losses: u64,
    /// Mean number of available workers.
    pub places: f64,
    /// Share of the available worker time that was idle.
    pub idle: f64,
    /// Number of steps that were retried because their worker failed while they were in flight.
    pub retries: u64,
    /// Number of finished steps that were recomputed because the worker that stored their rows
    /// failed.
    pub again: u64,
    /// Number of rounds that were repeated because their weights were lost.
    pub rolled_back: u64,
    /// Number of bytes of rows, weights and gradients that were sent, over all links.
    pub sent_bytes: f64,
}

impl Pipeline {
    /// Simulates the pipeline for `seconds` seconds of simulated time.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] if there is no stage or no micro-batch, or if a value is out of
    /// range. Returns [`Error::Failed`] if worker failures interrupt a step at every allowed
    /// attempt. Also returns the errors of the engine.
    pub fn run(&self, places: &Places, seconds: f64, seed: u64) -> Result<PipelineReport, Error> {
        self.check(places, seconds)?;
        world::World::new(self, places, seed)?.run(seconds)
    }

    /// Returns the lane settings of the pipeline for the engine.
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
        if places.snapshot_every == Some(0) {
            return refuse("updates between snapshots", "0".to_owned(), "at least 1");
        }
        let fails = preemption.per_hour > 0.0 || preemption.bursts_per_hour > 0.0 || !places.trace.is_empty();
        if fails && places.owner == Owner::Worker {
            // A real run refuses the same combinations.
            if self.residence != Residence::Workers {
                let found = format!("{:?}, and workers own the weights", self.residence);
                return refuse(
                    "the location of stashed rows",
                    found,
                    "the workers, or weights that the host owns",
                );
            }
            if places.snapshot_every.is_none() {
                let found = "none, and workers that fail own the weights".to_owned();
                return refuse(
                    "updates between snapshots",
                    found,
                    "at least 1, or weights that the host owns",
                );
            }
        }
        let shares = [
            ("update seconds", self.update),
            ("seconds of a snapshot", places.snapshot_seconds),
            ("dollars per hour", places.usd_hour),
            ("jitter", places.jitter),
            ("failures per hour", preemption.per_hour),
            ("bursts per hour", preemption.bursts_per_hour),
            ("seconds until a worker is replaced", preemption.back),
        ];
        if let Some((what, figure)) = shares.into_iter().find(|(_, f)| !(f.is_finite() && *f >= 0.0)) {
            return refuse(what, figure.to_string(), "at least 0");
        }
        let allowed = |&&Known { seconds, worker, .. }: &&Known| {
            seconds.is_finite() && seconds >= 0.0 && u64::from(worker) < count * width
        };
        match places.trace.iter().find(|known| !allowed(known)) {
            Some(Known { seconds, worker, .. }) => {
                let allowed = format!("at least 0 s, and workers 0 to {}", count * width - 1);
                refuse("a failure in a trace", format!("worker {worker} after {seconds} s"), &allowed)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
